"""Which task is next, what the others wait for, and what makes a list impossible to work on."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from ralph.tasks.reading import WHOLE, Task, flat
from ralph.words import named

_MOST_NAMED = 6


def find(tasks: Sequence[Task], task_id: str) -> Task | None:
    """The task of this id."""
    return next((task for task in flat(tasks) if task.id == task_id), None)


def placed(tasks: Sequence[Task], above: tuple[Task, ...] = ()) -> Iterator[tuple[Task, tuple[Task, ...]]]:
    """All of them, each with the tasks that it is a part of, innermost first."""
    for task in tasks:
        yield task, above
        yield from placed(task.subtasks, (task, *above))


def unknown(tasks: Sequence[Task], known: Collection[str]) -> list[Task]:
    """Those of them whose id or words are not known, and below the others likewise."""
    found = []
    for task in tasks:
        below = unknown(task.subtasks, known)
        found += below if task.id in known or task.text in known else [replace(task, subtasks=below)]
    return found


def select(tasks: Sequence[Task], alone: str | None = None) -> Task | None:
    """What to do next: pending, nothing it comes after is open; by priority, then fewest tries, then order.

    Of all, or of this one alone.
    """
    ready: list[tuple[bool, list[int], int, int, Task]] = []
    for task, above, waits_for in _to_do(tasks):
        if task.mark != " " or waits_for or alone not in (None, task.id):
            continue
        said = [one.priority for one in (task, *above) if one.priority is not None]
        ready.append((not said, said[:1], task.tries, len(ready), task))
    return min(ready)[-1] if ready else None


def _to_do(tasks: Sequence[Task]) -> Iterator[tuple[Task, tuple[Task, ...], Sequence[str]]]:
    """What is worked on itself, as its parts are done and nothing above is blocked; with what it still waits for."""
    done = {task.id for task in flat(tasks) if task.done}
    for task, above in placed(tasks):
        if not task.done and all(part.done for part in task.subtasks) and all(one.mark != "!" for one in above):
            yield task, above, [name for one in (task, *above) for name in one.after if name not in done]


def chain(tasks: Sequence[Task], task_id: str) -> tuple[Task, ...]:
    """The task, then those above it that are done once it is, innermost first."""
    task, above = next(one for one in placed(tasks) if one[0].id == task_id)
    found = [task]
    for one in above:
        if not all(part.done or part is found[-1] for part in one.subtasks):
            break
        found.append(one)
    return tuple(found)


def stuck(tasks: Sequence[Task]) -> str:
    """For a person: what is blocked and what waits for what; empty when all is done."""
    left = [task for task in flat(tasks) if not task.done]
    said = [f"{task.id} is blocked{task.blocked and ': '}{task.blocked}" for task in left if task.mark == "!"]
    said += [f"{task.id} is in progress" for task in left if task.mark == "~"]
    for task, _, waits_for in _to_do(tasks):
        if task.mark == " " and waits_for:
            said.append(f"{task.id} waits for {', '.join(dict.fromkeys(waits_for))}")
    more = len(said) - _MOST_NAMED
    return "; ".join(said[:_MOST_NAMED] + ([f"and {more} more"] if more > 0 else []))


def problems(tasks: Sequence[Task]) -> list[str]:
    """Why it cannot be worked on: one message each, with its lines; none when every task can be reached."""
    same: dict[str, list[Task]] = {}
    for task in flat(tasks):
        same.setdefault(task.id, []).append(task)
    wrong = []
    for task_id, each in same.items():
        if task_id and len(each) > 1:
            wrong.append(f"{_lines(each)}: {task_id} is the id of {len(each)} tasks; each needs one of its own")
    for task in flat(tasks):
        gone = [name for name in task.after if name not in same]
        wrong += [f"line {task.number}: {task.id} comes after {name}, which is no task" for name in gone]
        odd = [note for note in task.notes if note.name == "priority" and not WHOLE.fullmatch(note.value)]
        wrong += [f'line {note.number}: priority: "{note.value}" is no whole number' for note in odd]
    return wrong or _ring(tasks)


def _lines(tasks: Sequence[Task]) -> str:
    numbers = sorted({task.number for task in tasks})
    return f"{'line' if len(numbers) == 1 else 'lines'} {named([str(one) for one in numbers], _MOST_NAMED)}"


def _ring(tasks: Sequence[Task]) -> list[str]:
    """The first tasks that wait for each other: a task waits for its parts, and a part for what its task comes after.

    Each has an id of its own.
    """
    order = TopologicalSorter[str]()
    for task, above in placed(tasks):
        after = [name for one in (task, *above) for name in one.after]
        order.add(task.id, *after, *(part.id for part in task.subtasks))
    try:
        order.prepare()
    except CycleError as error:
        around = [task for task in flat(tasks) if task.id in error.args[1]]
        names = named([task.id for task in around], _MOST_NAMED)
        return [f"{_lines(around)}: {names} {'waits for itself' if len(around) == 1 else 'wait for each other'}"]
    return []
