"""The tasks of a progress file, for --strict: what each says, which is next, and what is wrong with a list."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from ralph.plan.progress import Task, encode_text, parse
from ralph.words import join_names, shorten

# Leaves room for `_2` within the 64 characters of an id.
_LONGEST_ID = 56


def read_tasks(text: bytes) -> Sequence[Task]:
    """The tasks of the task list, each followed by its subtasks."""
    return parse(text).tasks


def format_task_lines(tasks: Sequence[Task]) -> list[bytes]:
    """The lines of these tasks in a list, with the notes of each nested below it."""
    message = []
    for task in tasks:
        indent = "  " * len(task.above)
        name = f"{task.id}: " if task.id else ""
        message.append(f"{indent}- [{task.mark}] {name}{task.text}")
        message += [f"{indent}  - {note.name}: {note.value}" for note in task.notes]
    return [encode_text(line) for line in message]


def new_id(text: str, taken: Iterable[str]) -> str:
    """A new id, made from the first words of the text, that differs from all in `taken`, ignoring case."""
    used = {name.casefold() for name in taken}
    words = [word for word in re.findall(r"[^\W_]+", text.casefold()) if word not in ("a", "an", "the")]
    name = base = "_".join(words[:5])[:_LONGEST_ID] or "task"
    number = 1
    while name in used:
        number += 1
        name = f"{base}_{number}"
    return name


def find_task(tasks: Sequence[Task], task_id: str | None) -> Task | None:
    """The task with this id; None if there is none."""
    return next((task for task in tasks if task.id == task_id), None)


def select_next(tasks: Sequence[Task], alone: str | None = None, crashes: Mapping[str, int] = {}) -> Task | None:
    """The next task to do: pending, and waiting for nothing; by priority, then fewest attempts, then order.

    Chooses among all tasks, or only the one with the id `alone`. Last come tasks that were blocked before, and those
    on which agents crashed twice; `crashes` counts that by id. None if no task is ready.
    """
    ready = [task for task, waits_for in tasks_to_begin(tasks) if not waits_for and alone in (None, task.id)]

    def turn(task: Task) -> tuple[float, ...]:
        waits = len(task.note_values("reopened")) + crashes.get(task.id, 0) // 2
        priorities = (one.priority for one in (task, *task.above) if one.priority is not None)
        return waits, next(priorities, math.inf), task.failed_tries

    return min(ready, key=turn, default=None)


def tasks_to_begin(tasks: Sequence[Task]) -> Iterator[tuple[Task, list[str]]]:
    """Yields pending tasks not below a blocked one, each with the ids it still waits for, such as its subtasks."""
    done = {task.id for task in tasks if task.is_done}
    for task in tasks:
        if task.mark == " " and not task.is_done and not any(one.mark == "!" for one in task.above):
            yield task, [name for name in task.prerequisite_ids if name not in done]


def why_stuck(tasks: Sequence[Task], alone: str | None = None) -> str:
    """Tells the user what is blocked, and what waits for what; empty if a task can be started, or all are done.

    Looks at all tasks, or only the one with the id `alone`.
    """
    if not tasks:
        return "there is no task in the list; write some, or let ralph PLAN plan --strict do it"
    if select_next(tasks, alone):
        return ""
    if alone and not find_task(tasks, alone):
        return f"there is no task {alone} in the list"
    reasons = [": ".join([f"{one.id} is blocked", *one.note_values("blocked")]) for one in tasks if one.mark == "!"]
    for task, waits_for in tasks_to_begin(tasks):
        if alone in (None, task.id):
            reasons.append(f"{task.id} waits for {', '.join(dict.fromkeys(waits_for))}")
    return shorten("; ".join(reasons), 500)


def find_problems(tasks: Sequence[Task]) -> list[str]:
    """Why the list cannot be worked on: one message per problem, with its line; empty if every task can be reached.

    A cycle of tasks that wait for each other, only one of them, is reported once each task has an id of its own and
    comes after existing tasks only. A task waits for its subtasks, and a subtask for what its task comes after.
    """
    wrong = list[str]()
    order = TopologicalSorter[str]()
    by_id = {task.id: task for task in reversed(tasks)}
    for task in tasks:
        where = f"line {task.number}: {task.id}"
        if by_id[task.id] is not task:
            wrong.append(f"{where} is the id of another task, too; each needs one of its own")
        wrong += [f"{where} comes after {name}, which is not a task" for name in task.after if name not in by_id]
        order.add(task.id, *task.prerequisite_ids)
    try:
        order.prepare()
    except CycleError as error:
        around = [task for task in tasks if task.id in error.args[1]]
        names = join_names([task.id for task in around])
        return wrong or [f"line {around[0].number}: these tasks wait for each other: {names}"]
    return wrong
