"""Today's tasks as a file of another form, with everything that the original knows besides."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ralph import tasks
from ralph.imports.jsontext import Object
from ralph.imports.making import Maker, Named, free, names_of, state_of
from ralph.imports.matching import Match, as_listed, match
from ralph.imports.model import Imported, ImportedTask, Kind, flat
from ralph.imports.rendering import Fields, Raw, Style, Value, render
from ralph.tasks import Task

_LISTS = {Kind.REQUIREMENTS: "requirements", Kind.PLAN: "tasks", Kind.PRD: "tasks"}


def convert(imported: Imported | None, today: Sequence[Task], kind: Kind, name: str) -> str:
    """The text; `name` is the plan's. What is only in the original comes behind what is in the Task List."""
    originals = imported.tasks if imported else ()
    text = imported.text if imported else ""
    matched = match(originals, today)
    original = {one.id: one for one in flat(originals)}
    listed = _whole(_with_unlisted(originals, matched), original)
    priorities = [task.priority for task in tasks.flat(listed) if task.priority is not None]
    maker = Maker(
        kind=kind,
        text=text,
        original=original,
        last=None if kind is Kind.REQUIREMENTS else max(priorities, default=0) + 1,
        names=names_of(kind),
    )
    made: list[Value] = [maker.task(task) for task in listed]
    members = [*_around(imported, kind, name), (_LISTS[kind], made)]
    style = Style(newline="\r\n" if "\r\n" in text else "\n")
    return render(Fields(members), style) + style.newline


def _around(imported: Imported | None, kind: Kind, name: str) -> Iterator[Named]:
    """What stands beside the list."""
    members = imported.root.members if imported and isinstance(imported.root, Object) else ()
    known = {member.key.value for member in members}
    if kind is Kind.PRD:
        yield from ((key, value) for key, value in (("project", name), ("description", name)) if key not in known)
    for member in members:
        if imported and member.value is not imported.items:
            yield free(member.key.value, [_LISTS[kind]]), Raw(member.value, imported.text)


def _whole(listed: Sequence[Task], original: Mapping[str, ImportedTask]) -> list[Task]:
    """The same with what the original says of a task and the list says nothing of; no order that cannot be."""
    filled = [_filled(task, original, order=True) for task in listed]
    return [_filled(task, original, order=False) for task in listed] if tasks.problems(filled) else filled


def _filled(task: Task, original: Mapping[str, ImportedTask], *, order: bool) -> Task:
    subtasks = tuple(_filled(part, original, order=order) for part in task.subtasks)
    one = original.get(task.id)
    if one is None:
        return replace(task, subtasks=subtasks)
    return replace(
        task,
        after=task.after or one.after * order,
        priority=one.priority if task.priority is None else task.priority,
        criteria=task.criteria or one.criteria,
        subtasks=subtasks,
    )


def _with_unlisted(originals: Sequence[ImportedTask], matched: Match) -> list[Task]:
    """Today's tasks, then those of the original that are not among them, each below the task it belongs to."""
    below: defaultdict[str, list[Task]] = defaultdict(list)
    for parent, task in _unlisted(originals, matched, {task.id: task for task in tasks.flat(as_listed(originals))}, ""):
        below[parent].append(task)
    return [_grown(task, below) for task in [*matched.listed, *below[""]]]


def _unlisted(
    originals: Sequence[ImportedTask], matched: Match, named: Mapping[str, Task], parent: str
) -> Iterator[tuple[str, Task]]:
    for one in originals:
        if one.path not in matched.today:
            yield parent, replace(named[one.id], mark=state_of(named[one.id]), subtasks=())
        yield from _unlisted(one.subtasks, matched, named, one.id)


def _grown(task: Task, below: Mapping[str, list[Task]]) -> Task:
    parts = [*task.subtasks, *below.get(task.id, [])]
    return replace(task, mark=state_of(task), subtasks=tuple(_grown(part, below) for part in parts))
