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
    """All of them, each with the tasks that it is a part of, outermost first."""
    for task in tasks:
        yield task, above
        yield from placed(task.subtasks, (*above, task))


def unknown(tasks: Sequence[Task], known: Collection[str]) -> list[Task]:
    """Those of them whose id or words are not known, and below the others likewise."""
    found = []
    for task in tasks:
        below = unknown(task.subtasks, known)
        found += below if task.id in known or task.text in known else [replace(task, subtasks=below)]
    return found


def select(tasks: Sequence[Task]) -> Task | None:
    """What to do next: pending, nothing it comes after is open; by priority, then fewest tries, then order."""
    ready: list[tuple[bool, list[int], int, int, Task]] = []
    for task, above, waits_for in _to_do(tasks):
        if task.mark != " " or waits_for:
            continue
        said = [one.priority for one in (task, *reversed(above)) if one.priority is not None]
        ready.append((not said, said[:1], task.tries, len(ready), task))
    return min(ready)[-1] if ready else None


def _to_do(tasks: Sequence[Task]) -> Iterator[tuple[Task, tuple[Task, ...], Sequence[str]]]:
    """What is worked on itself, as its parts are done and nothing above is blocked; with what it still waits for."""
    done = {task.id for task in flat(tasks) if task.done}
    for task, above in placed(tasks):
        if not task.done and all(part.done for part in task.subtasks) and all(one.mark != "!" for one in above):
            names = [name for one in (*above, task) for name in one.after if name not in done]
            yield task, above, list(dict.fromkeys(names))


def chain(tasks: Sequence[Task], task_id: str) -> tuple[Task, ...]:
    """The task, then those above it that are done once it is, innermost first."""
    found: list[Task] = []
    for task, above in placed(tasks):
        if task.id != task_id:
            continue
        found = [task]
        for one in reversed(above):
            if not all(part.done or part is found[-1] for part in one.subtasks):
                break
            found.append(one)
        break
    return tuple(found)


def stuck(tasks: Sequence[Task]) -> str:
    """For a person: what is blocked and what waits for what; empty when all is done."""
    said = []
    for task in flat(tasks):
        if task.mark == "!" and not task.done:
            said.append(f"{_name(task)} is blocked" + (f": {task.blocked}" if task.blocked else ""))
        if task.mark == "~" and not task.done:
            said.append(f"{_name(task)} is in progress")
    known = {task.id for task in flat(tasks)}
    for task, _, waits_for in _to_do(tasks):
        if task.mark == " " and waits_for:
            others = [one if one in known else f"{one}, which is no task" for one in waits_for]
            said.append(f"{_name(task)} waits for {', '.join(others)}")
    more = len(said) - _MOST_NAMED
    return "; ".join(said[:_MOST_NAMED] + ([f"and {more} more"] if more > 0 else []))


def _name(task: Task) -> str:
    """What to call it: its id, or its words while it has none."""
    return task.id or f'"{task.text}"'


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
        unknown = [name for name in task.after if name not in same]
        wrong += [f"line {task.number}: {_name(task)} comes after {name}, which is no task" for name in unknown]
        odd = [note for note in task.notes if note.name == "priority" and not WHOLE.fullmatch(note.value)]
        wrong += [f'line {note.number}: priority: "{note.value}" is no whole number' for note in odd]
    return wrong + _ring(tasks)


def _lines(tasks: Sequence[Task]) -> str:
    numbers = list(dict.fromkeys(str(task.number) for task in tasks))
    return f"{'line' if len(numbers) == 1 else 'lines'} {named(numbers, _MOST_NAMED)}"


def _ring(tasks: Sequence[Task]) -> list[str]:
    """The first that wait for each other: for its parts a task, and for what a task comes after all its parts."""
    listed = list(placed(tasks))
    places = {id(task): place for place, (task, _) in enumerate(listed)}
    by_id = {task.id: places[id(task)] for task, _ in reversed(listed) if task.id}
    order = TopologicalSorter[int]()
    for task, above in listed:
        after = [by_id[name] for one in (*above, task) for name in one.after if name in by_id]
        order.add(places[id(task)], *after, *(places[id(part)] for part in task.subtasks))
    try:
        order.prepare()
    except CycleError as error:
        around = [listed[place][0] for place in sorted(set(error.args[1]))]
        names = named([_name(task) for task in around], _MOST_NAMED)
        return [f"{_lines(around)}: {names} {'waits for itself' if len(around) == 1 else 'wait for each other'}"]
    return []
