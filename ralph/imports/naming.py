"""Ids for the tasks of a list that has none."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ralph.imports.listing import text_of
from ralph.imports.model import ImportedTask, flat
from ralph.tasks.naming import new_ids


def with_names(tasks: Sequence[ImportedTask]) -> tuple[ImportedTask, ...]:
    """The same with an id for each, made of its own words; the same file always gives the same ids."""
    texts = [task.title or text_of(task) for task in flat(tasks) if not task.id]
    given = iter(new_ids(texts, [task.id for task in flat(tasks) if task.id]))
    return tuple(_named(task, given) for task in tasks)


def _named(task: ImportedTask, given: Iterator[str]) -> ImportedTask:
    name = task.id or next(given)
    return replace(task, id=name, subtasks=tuple(_named(part, given) for part in task.subtasks))
