"""The lines that a list in JSON becomes in the Task List."""

from collections.abc import Iterator, Sequence

from ralph.imports.cleaning import joined
from ralph.imports.model import ImportedTask
from ralph.progress.edits import encoded

_LONGEST = 300
"""Characters of a task in the list; the whole text is in the plan, which the agent reads."""


def lines(tasks: Sequence[ImportedTask]) -> list[bytes]:
    """A line for each task, with what belongs to it nested below."""
    return [encoded(line) for line in _lines(tasks, "")]


def text_of(task: ImportedTask) -> str:
    """What the task is, in one line."""
    return joined(task.title, task.description, _LONGEST)


def _lines(tasks: Sequence[ImportedTask], indent: str) -> Iterator[str]:
    for task in tasks:
        yield f"{indent}- [{task.mark}] {task.id}: {text_of(task)}"
        within = f"{indent}  "
        if task.after:
            yield f"{within}- after: {', '.join(task.after)}"
        if task.priority is not None:
            yield f"{within}- priority: {task.priority}"
        yield from (f"{within}- verify: {criterion}" for criterion in task.criteria)
        if task.mark == "!" and task.blocked:
            yield f"{within}- blocked: {task.blocked}"
        yield from _lines(task.subtasks, within)
