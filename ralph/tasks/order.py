"""Which task is next, what the others wait for, and what makes a list impossible to work on."""

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from ralph.tasks.reading import Task, flat
from ralph.words import named

_MOST_NAMED = 6


class _Leaf(NamedTuple):
    """A task without subtasks, and what it has from those above it."""

    task: Task
    waits_for: Sequence[str]
    """What is not done yet of what it and those above it come after."""
    priority: int | None
    held: bool
    """Whether one above it is blocked."""


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

    def below(task: Task, outer: Sequence[str], priority: int | None, held: bool) -> Iterator[_Leaf]:
        waits = [*outer, *(name for name in task.after if name not in done and name not in outer)]
        priority = priority if task.priority is None else task.priority
        if task.subtasks and (task.done or not all(part.done for part in task.subtasks)):
            for part in task.subtasks:
                yield from below(part, waits, priority, held or task.mark == "!")
        else:
            yield _Leaf(task, waits, priority, held)

    for task in tasks:
        yield from below(task, (), None, held=False)


def chain(tasks: Sequence[Task], task_id: str) -> tuple[Task, ...]:
    """The task, then those above it that are done once it is, innermost first."""
    above = {part.line: task for task in flat(tasks) for part in task.subtasks}
    found = [task for task in flat(tasks) if task.id == task_id][:1]
    while found and (task := above.get(found[-1].line)):
        if not all(part.done or part is found[-1] for part in task.subtasks):
            break
        found.append(task)
    return tuple(found)


def stuck(tasks: Sequence[Task]) -> str:
    """For a person: what waits for what, where nothing can be selected; empty when all is done."""
    known = {task.id for task in flat(tasks)}
    waiting, held = [], []
    for leaf in _leaves(tasks):
        if leaf.waits_for and leaf.task.mark in " ~" and not leaf.held:
            others = (one if one in known else f"{one}, which is no task" for one in leaf.waits_for)
            waiting.append(f"{_name(leaf.task)} waits for {', '.join(others)}")
    for task in flat(tasks):
        if not task.done and task.mark in "~!":
            why = f": {task.blocked}" if task.mark == "!" and task.blocked else ""
            held.append(f"{_name(task)} is {'in progress' if task.mark == '~' else 'blocked'}{why}")
    return "; ".join(_cut(waiting) + _cut(held))


def _cut(said: list[str]) -> list[str]:
    return said if len(said) <= _MOST_NAMED else [*said[:_MOST_NAMED], f"and {len(said) - _MOST_NAMED} more"]


def _name(task: Task) -> str:
    """What to call it: its id, or its words while it has none."""
    return task.id or f'"{task.text}"'


def problems(tasks: Sequence[Task]) -> list[str]:
    """Why it cannot be worked on: one message each, with its lines; none when every task can be reached."""
    listed = flat(tasks)
    same: dict[str, list[Task]] = {}
    for task in listed:
        same.setdefault(task.id, []).append(task)
    wrong = [
        f"lines {_lines(each)}: {task_id} is the id of {len(each)} tasks; each needs one of its own"
        for task_id, each in same.items()
        if task_id and len(each) > 1
    ]
    for task in listed:
        unknown = [other for other in task.after if not same.get(other)]
        wrong += [f"line {task.line}: {_name(task)} comes after {other}, which is no task" for other in unknown]
    return [*wrong, *(odd for task in listed for odd in task.odd), *_ring(listed)]


def _lines(tasks: Sequence[Task]) -> str:
    return named(list(dict.fromkeys(str(task.line) for task in tasks)), _MOST_NAMED)


def _ring(listed: Sequence[Task]) -> Iterator[str]:
    """The first that wait for each other: to be done a task must have begun, which all it comes after must let it."""
    begins = {id(task): (place, "begin") for place, task in enumerate(listed)}
    ends = {id(task): (place, "end") for place, task in enumerate(listed)}
    first = {task.id: task for task in reversed(listed) if task.id}
    order = TopologicalSorter[tuple[int, str]]()
    for task in listed:
        order.add(begins[id(task)], *(ends[id(first[other])] for other in task.after if other in first))
        order.add(ends[id(task)], begins[id(task)], *(ends[id(part)] for part in task.subtasks))
        for part in task.subtasks:
            order.add(begins[id(part)], begins[id(task)])
    try:
        order.prepare()
    except CycleError as error:
        around = [listed[place] for place in sorted({place for place, _ in error.args[1]})]
        names = named([_name(task) for task in around], _MOST_NAMED)
        where = f"{'line' if len({task.line for task in around}) == 1 else 'lines'} {_lines(around)}"
        yield f"{where}: {names} {'waits for itself' if len(around) == 1 else 'wait for each other'}"
