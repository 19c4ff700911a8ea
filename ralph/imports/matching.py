"""Which task of today's Task List is which of the file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ralph import tasks
from ralph.imports.listing import lines, text_of
from ralph.imports.model import ImportedTask, flat
from ralph.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Both sides, brought together."""

    listed: tuple[Task, ...]
    """Today's tasks, under the ids of the file."""
    today: dict[str, Task]
    """By the path of the task in the file; what is only in the file is not there."""
    original: dict[str, ImportedTask]
    """By id; what is only in the list is not there."""


def as_listed(imported: Sequence[ImportedTask]) -> tuple[Task, ...]:
    """The tasks of the file as the Task List says them."""
    return tasks.read(b"\n".join([b"# Tasks", b"", *lines(imported), b""]))


def match(imported: Sequence[ImportedTask], today: Sequence[Task]) -> Match:
    """By id; where somebody took that away, by the words. No two of today's have the same id."""
    left = {task.id: task for task in tasks.flat(today)}
    same = [one for one in flat(imported) if left.pop(one.id, None)]
    known = {one.id for one in same}
    said = {task.text: task.id for task in reversed(left.values())}
    others = [(one, said.pop(text_of(one), "")) for one in flat(imported) if one.id not in known]
    names = {task_id: one.id for one, task_id in others if task_id}
    listed = tuple(_renamed(task, names) for task in today)
    by_id = {task.id: task for task in tasks.flat(listed)}
    return Match(
        listed=listed,
        today={one.path: by_id[one.id] for one in flat(imported) if one.id in by_id},
        original={one.id: one for one in flat(imported) if one.id in by_id},
    )


def _renamed(task: Task, names: Mapping[str, str]) -> Task:
    return replace(
        task,
        id=names.get(task.id, task.id),
        after=tuple(names.get(name, name) for name in task.after),
        subtasks=tuple(_renamed(part, names) for part in task.subtasks),
    )
