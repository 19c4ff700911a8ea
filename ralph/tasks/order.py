"""Which task is next, and what the others wait for."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ralph.tasks.reading import Task

_MOST_SAID = 6


class _Leaf(NamedTuple):
    """A task without subtasks, and what it has from those above it."""

    task: Task
    waits_for: tuple[str, ...]
    """What is not done yet of what it and those above it come after."""
    priority: int | None
    held: bool
    """Whether one above it is blocked."""


def flat(tasks: Sequence[Task]) -> list[Task]:
    """All of them, subtasks behind their task."""
    found, left = [], list(reversed(tasks))
    while left:
        found.append(left.pop())
        left += reversed(found[-1].subtasks)
    return found


def find(tasks: Sequence[Task], task_id: str) -> Task | None:
    """The task of this id."""
    return next((task for task in flat(tasks) if task.id == task_id), None)


def select(tasks: Sequence[Task]) -> Task | None:
    """What to do next: pending, nothing it comes after is open; by priority, then fewest tries, then order."""
    ready = [leaf for leaf in _leaves(tasks) if leaf.task.mark == " " and not leaf.waits_for and not leaf.held]
    return min(ready, key=_urgency).task if ready else None


def _urgency(leaf: _Leaf) -> tuple[bool, int, int]:
    return leaf.priority is None, leaf.priority or 0, leaf.task.tries


def _leaves(tasks: Sequence[Task]) -> Iterator[_Leaf]:
    """The tasks that are worked on themselves, in order."""
    done = {task.id for task in flat(tasks) if task.done}
    left = [_Leaf(task, (), None, held=False) for task in reversed(tasks)]
    while left:
        task, outer, priority, held = left.pop()
        own = tuple(name for name in task.after if name not in done and name not in outer)
        priority = priority if task.priority is None else task.priority
        if task.subtasks and (task.done or not all(below.done for below in task.subtasks)):
            held = held or task.mark == "!"
            left += [_Leaf(below, outer + own, priority, held) for below in reversed(task.subtasks)]
        else:
            yield _Leaf(task, outer + own, priority, held)


def chain(tasks: Sequence[Task], task_id: str) -> tuple[Task, ...]:
    """The task, then those above it that are done once it is, innermost first."""
    above = {id(below): task for task in flat(tasks) for below in task.subtasks}
    found = [task for task in flat(tasks) if task.id == task_id][:1]
    while found and (task := above.get(id(found[-1]))):
        if not all(below.done or below is found[-1] for below in task.subtasks):
            break
        found.append(task)
    return tuple(found)


def stuck(tasks: Sequence[Task]) -> str:
    """For a person: what waits for what, where nothing can be selected; empty when all is done."""
    known = {task.id for task in flat(tasks)}
    waiting = [
        f"{name(leaf.task)} waits for {', '.join(_known(other, known) for other in leaf.waits_for)}"
        for leaf in _leaves(tasks)
        if leaf.waits_for and leaf.task.mark in " ~" and not leaf.held
    ]
    held = [_held(task) for task in flat(tasks) if not task.done and task.mark in "~!"]
    return "; ".join([*_cut(waiting), *_cut(held)])


def _known(task_id: str, known: set[str]) -> str:
    return task_id if task_id in known else f"{task_id}, which is no task"


def _held(task: Task) -> str:
    if task.mark == "~":
        return f"{name(task)} is in progress"
    return f"{name(task)} is blocked" + (f": {task.blocked}" if task.blocked else "")


def _cut(said: list[str]) -> list[str]:
    return said if len(said) <= _MOST_SAID else [*said[:_MOST_SAID], f"and {len(said) - _MOST_SAID} more"]


def name(task: Task) -> str:
    """What to call it: its id, or its words while it has none."""
    return task.id or f'"{task.text}"'
