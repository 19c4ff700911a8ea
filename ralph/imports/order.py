"""The order that the tasks of a list in JSON wait for each other in, and what is wrong with it."""

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from ralph.imports import forms
from ralph.imports.cleaning import is_id
from ralph.imports.jsontext import Array, Number, Text
from ralph.imports.model import ImportedTask, flat
from ralph.imports.problems import Problem


def problems(tasks: Sequence[ImportedTask]) -> list[Problem]:
    """Ids that stand there twice, dependencies that are no task, and tasks that wait for each other."""
    first: dict[str, ImportedTask] = {}
    twice = [task for task in flat(tasks) if first.setdefault(task.id, task) is not task]
    found = [_of_id(task, f'"{task.id}" is the id of {first[task.id].path} too') for task in twice]
    return [*found, *_unknown(tasks, first), *_cycles(tasks, first)]


def waits(task: ImportedTask) -> Iterator[tuple[str, str, int]]:
    """Each id that the task waits for by its own words, with path and offset."""
    member = task.node.get(*forms.AFTER)
    if member is None or not isinstance(member.value, Array):
        return
    for place, item in enumerate(member.value.items):
        if isinstance(item, Text | Number):
            name = item.value if isinstance(item, Text) else item.spelled
            if is_id(name):
                yield name, f"{task.path}.{member.key.value}[{place}]", item.start


def _of_id(task: ImportedTask, what: str) -> Problem:
    member = task.node.get("id")
    assert member is not None
    return Problem(member.value.start, f"{task.path}.id", what)


def _unknown(tasks: Sequence[ImportedTask], first: dict[str, ImportedTask]) -> Iterator[Problem]:
    for task in flat(tasks):
        for name, path, at in waits(task):
            if name not in first:
                yield Problem(at, path, f'unknown id "{name}"')


def _cycles(tasks: Sequence[ImportedTask], first: dict[str, ImportedTask]) -> Iterator[Problem]:
    """One problem for each circle, at the dependency that closes it; without that one the next can be seen."""
    own = {task.path: {name: (path, at) for name, path, at in waits(task)} for task in flat(tasks)}
    above = dict(_above(tasks, ()))
    while circle := _circle(tasks, first, own, above):
        steps = list(zip(circle, [*circle[1:], circle[0]], strict=True))
        owners = ((owner, other.id) for one, other in steps for owner in above[one.path] if other.id in own[owner])
        owner, name = next(owners)  # there is one: tasks and their parts alone make no circle
        path, at = own[owner].pop(name)
        names = ", ".join(f'"{one.id}" waits for "{other.id}"' for one, other in steps)
        yield Problem(at, path, f"nothing could begin: {names}")


def _above(tasks: Sequence[ImportedTask], outer: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The path of every task, with its own and those of the tasks that it is part of: what they wait for, it does."""
    for task in tasks:
        paths = (task.path, *outer)
        yield task.path, paths
        yield from _above(task.subtasks, paths)


def _circle(
    tasks: Sequence[ImportedTask],
    first: dict[str, ImportedTask],
    own: dict[str, dict[str, tuple[str, int]]],
    above: dict[str, tuple[str, ...]],
) -> list[ImportedTask]:
    """Tasks of which each waits for the next and the last for the first; none when all have an order."""
    named = {task.path: task for task in flat(tasks)}
    graph: TopologicalSorter[str] = TopologicalSorter()
    for task in named.values():
        waited = [first[name].path for path in above[task.path] for name in own[path] if name in first]
        graph.add(task.path, *waited, *(part.path for part in task.subtasks))
    try:
        graph.prepare()
    except CycleError as error:
        return [named[path] for path in reversed(error.args[1][1:])]
    return []
