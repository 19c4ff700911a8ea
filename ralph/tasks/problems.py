"""What makes a task list impossible to work on: cycles, unknown dependencies, double ids, odd metadata."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ralph.tasks.order import flat, name
from ralph.tasks.reading import Task

_MOST_NAMED = 12


def problems(tasks: Sequence[Task]) -> list[str]:
    """One message each, with its lines; none when every task can be reached."""
    listed = flat(tasks)
    return [*_double(listed), *_unknown(listed), *(odd for task in listed for odd in task.odd), *_cycles(listed)]


def _double(listed: Sequence[Task]) -> Iterator[str]:
    named: dict[str, list[Task]] = defaultdict(list)
    for task in listed:
        named[task.id].append(task)
    for task_id, same in named.items():
        if task_id and len(same) > 1:
            yield f"lines {_lines(same)}: {task_id} is the id of {len(same)} tasks; each needs one of its own"


def _unknown(listed: Sequence[Task]) -> Iterator[str]:
    known = {task.id for task in listed if task.id}
    for task in listed:
        for other in task.after:
            if other not in known:
                yield f"line {task.line}: {name(task)} comes after {other}, which is no task"


def _cycles(listed: Sequence[Task]) -> Iterator[str]:
    """Those who wait for each other: to be done a task must have begun, which all it comes after must let it."""
    for ring in _rings(_needs(listed)):
        places = sorted({node // 2 for node in ring})
        around = [listed[place] for place in places]
        if len(around) == 1:
            yield f"line {around[0].line}: {name(around[0])} waits for itself"
        else:
            more = f" and {len(around) - _MOST_NAMED} more" if len(around) > _MOST_NAMED else ""
            names = ", ".join(name(task) for task in around[:_MOST_NAMED])
            yield f"lines {_lines(around)}: {names}{more} wait for each other"


def _lines(tasks: Sequence[Task]) -> str:
    shown = ", ".join(str(task.line) for task in tasks[:_MOST_NAMED])
    return shown + (", …" if len(tasks) > _MOST_NAMED else "")


def _needs(listed: Sequence[Task]) -> list[list[int]]:
    """What each node needs: of the task at place n, 2n is its beginning and 2n + 1 its end."""
    place = {id(task): n for n, task in enumerate(listed)}
    named = {task.id: n for n, task in reversed(list(enumerate(listed))) if task.id}
    needs: list[list[int]] = [[] for _ in range(2 * len(listed))]
    for n, task in enumerate(listed):
        needs[2 * n] += [2 * named[other] + 1 for other in task.after if other in named]
        if not task.subtasks:
            needs[2 * n + 1].append(2 * n)
        for below in task.subtasks:
            needs[2 * place[id(below)]].append(2 * n)
            needs[2 * n + 1].append(2 * place[id(below)] + 1)
    return needs


def _rings(needs: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The sets of nodes that all need each other (Tarjan's, with a stack of its own: chains may be long)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    kept: list[int] = []
    within: set[int] = set()
    for root in range(len(needs)):
        path = [(root, iter(needs[root]))] if root not in order else []
        while path:
            node, rest = path[-1]
            if node not in order:
                order[node] = low[node] = len(order)
                kept.append(node)
                within.add(node)
            for other in rest:
                if other not in order:
                    path.append((other, iter(needs[other])))
                    break
                if other in within:
                    low[node] = min(low[node], order[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    ring = _taken_off(kept, node)
                    within.difference_update(ring)
                    if len(ring) > 1:
                        yield ring


def _taken_off(kept: list[int], last: int) -> list[int]:
    """What lies on the stack down to `last`."""
    ring = [kept.pop()]
    while ring[-1] != last:
        ring.append(kept.pop())
    return ring
