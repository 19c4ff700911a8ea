"""The tasks of a progress file, for --strict: what each says, which is next, and what makes a list impossible."""

import functools
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from ralph.plan.progress import Line, encode_text, parse, split_blocks
from ralph.words import join_names, shorten

_BULLET = rb"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]"
_ITEM = re.compile(_BULLET)
_NOTES = rb"after|priority|verify|failed|blocked|reopened|role|begun|held|cannot run|claimed|dismissed"
_NOTES += rb"|note(?=: its checks held)"
_NOTE = re.compile(_BULLET + rb"[ \t]*(" + _NOTES + rb"):(.*)", re.IGNORECASE)
_ID = re.compile(r"\A(?:[*`]*([^\W_][\w.-]{0,63})[*`]*:[*`]*\s+(?=\S))?(.*)", re.DOTALL)
"""Perhaps in stars or backticks, perhaps there is none; and the text."""
WHOLE = re.compile(r"[+-]?\d{1,9}", re.ASCII)
"""What a priority is."""
_MOST_COLUMNS = 60
"""What is indented further is read as if it were not: such a text must not be deep for those who walk the tree."""
STATUSES = {" ": "pending", "~": "in_progress", "!": "blocked", "x": "complete"}
"""By mark."""
_NOWHERE = Line(0, 0, b"")
_LONGEST_ID = 56
"""Leaves room for `_2` within the 64 characters of an id."""


class Note(NamedTuple):
    """One line of metadata."""

    name: str
    value: str
    line: Line = _NOWHERE


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task with its metadata and subtasks; its text is without the id."""

    id: str
    """Empty when it has none yet."""
    text: str
    mark: str
    """What stands between the brackets."""
    line: Line = _NOWHERE
    number: int = 0
    """That of the line, for people."""
    notes: list[Note] = field(default_factory=list)
    subtasks: list["Task"] = field(default_factory=list)
    above: tuple["Task", ...] = field(default=(), compare=False, repr=False)
    """Those that it is a part of, innermost first."""

    def note_values(self, name: str) -> list[str]:
        """What its metadata of this name says, oldest first."""
        return [note.value for note in self.notes if note.name == name and note.value]

    @property
    def done(self) -> bool:
        """Whether it is ticked, or everything below it is and nothing more is asked for."""
        if self.mark == "x" or not self.subtasks:
            return self.mark == "x"
        return all(task.done for task in self.subtasks) and not self.note_values("verify")

    @property
    def after(self) -> list[str]:
        """The ids of what it waits for."""
        return re.findall(r"[^\s,`]+", " ".join(self.note_values("after")))

    @property
    def priority(self) -> int | None:
        """The lower, the sooner."""
        first = next(iter(self.note_values("priority")), "")
        return int(first) if WHOLE.fullmatch(first) else None

    @property
    def tries(self) -> int:
        """How often it failed."""
        return len(self.note_values("failed"))

    def has_more_tries(self, most: int | None) -> bool:
        """Whether it may be tried again after one more failure, where it gets at most so many tries."""
        return most is None or self.tries + 1 < most

    @property
    def status(self) -> str:
        """How it stands, in a word; it is also complete where its parts make it so."""
        return STATUSES["x" if self.done else self.mark]

    @property
    def chain(self) -> list["Task"]:
        """The task, then those above it that are done once it is, innermost first."""
        found = [self]
        for one in self.above:
            if not all(part.done or part is found[-1] for part in one.subtasks):
                break
            found.append(one)
        return found


@functools.lru_cache(maxsize=4)  # of one text it is asked again and again
def read_tasks(text: bytes) -> tuple[Task, ...]:
    """The tasks of the task list, subtasks behind their task; the very checkboxes `progress.parse` counts."""
    now = parse(text)
    listed = {task.line.start: task for task in now.tasks}
    headings = {line for line, _, _ in now.headings}
    found: list[Task] = []
    around: list[tuple[int, Task | None]] = [(-1, None)]
    """The open list items: the column, and the innermost task that each belongs to."""
    for line in split_blocks(text).lines:
        if line in headings:
            del around[1:]
        if not (bullet := _ITEM.match(line.body)):
            continue
        column = min(len(bullet[1].expandtabs(4)), _MOST_COLUMNS)
        while around[-1][0] >= column:
            around.pop()
        owner = around[-1][1]
        if item := listed.get(line.start):
            name, message = _ID.findall(item.text)[0]
            task = Task(
                id=name,
                text=message,
                mark=item.mark.lower(),
                line=line,
                number=text.count(b"\n", 0, line.start) + 1,
                above=(owner, *owner.above) if owner else (),
            )
            if owner:
                owner.subtasks.append(task)
            found.append(task)
            owner = task
        elif owner and (note := _NOTE.fullmatch(line.body)):
            value = note[3].decode(errors="surrogateescape").strip()
            owner.notes.append(Note(note[2].decode().lower(), value, line))
        around.append((column, owner))
    return tuple(found)


def task_lines(tasks: Sequence[Task]) -> list[bytes]:
    """The lines of these tasks in a list, with what belongs to each nested below."""
    message = []
    for task in tasks:
        indent = "  " * len(task.above)
        name = f"{task.id}: " if task.id else ""
        message.append(f"{indent}- [{task.mark}] {name}{task.text}")
        message += [f"{indent}  - {note.name}: {note.value}" for note in task.notes]
    return [encode_text(line) for line in message]


def new_id(text: str, taken: Iterable[str]) -> str:
    """An id of the text's own words, none of those taken; capitals do not tell two apart."""
    used = {name.casefold() for name in taken}
    words = [word for word in re.findall(r"[^\W_]+", text.casefold()) if word not in ("a", "an", "the")]
    base = "_".join(words[:5])[:_LONGEST_ID] or "task"
    numbered = (f"{base}_{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([base], numbered) if name not in used)


def find_task(tasks: Sequence[Task], task_id: str | None) -> Task | None:
    """The task of this id."""
    return next((task for task in tasks if task.id == task_id), None)


def select_next(
    tasks: Sequence[Task], alone: str | None = None, crashes: Mapping[str, int] | None = None
) -> Task | None:
    """What to do next: pending, nothing it comes after is open; by priority, then fewest tries, then order.

    Of all, or of this one alone. Last what was blocked before, and that at which agents failed outright twice.
    """
    ready = [task for task, waits_for in _to_do(tasks) if not waits_for and alone in (None, task.id)]

    def turn(task: Task) -> tuple[float, ...]:
        waits = len(task.note_values("reopened")) + (crashes or {}).get(task.id, 0) // 2
        priorities = (one.priority for one in (task, *task.above) if one.priority is not None)
        return waits, next(priorities, math.inf), task.tries

    return min(ready, key=turn, default=None)


def count_ready(tasks: Sequence[Task]) -> int:
    """How many could be begun now."""
    return sum(not waits_for for _, waits_for in _to_do(tasks))


def _to_do(tasks: Sequence[Task]) -> Iterator[tuple[Task, list[str]]]:
    """What is neither done nor blocked, and nothing above it is; with what it still waits for, such as its parts."""
    done = {task.id for task in tasks if task.done}
    for task in tasks:
        if task.mark == " " and not task.done and not any(one.mark == "!" for one in task.above):
            after = [name for one in (task, *task.above) for name in one.after if name not in done]
            yield task, after + [part.id for part in task.subtasks if not part.done]


def why_stuck(tasks: Sequence[Task], alone: str | None = None) -> str:
    """For a person: what is blocked, and what waits for what; empty when one can be begun, or all is done.

    Of all, or of this one alone.
    """
    if not tasks:
        return "there is no task in the list; write some, or let ralph PLAN plan --strict do it"
    if select_next(tasks, alone):
        return ""
    if alone and not find_task(tasks, alone):
        return f"there is no task {alone} in the list"
    blocked = [task for task in tasks if task.mark == "!"]
    reasons = [": ".join([f"{task.id} is blocked", *task.note_values("blocked")]) for task in blocked]
    for task, waits_for in _to_do(tasks):
        if alone in (None, task.id):
            reasons.append(f"{task.id} waits for {', '.join(dict.fromkeys(waits_for))}")
    return shorten("; ".join(reasons), 500)


def find_problems(tasks: Sequence[Task]) -> list[str]:
    """Why it cannot be worked on: one message each, with its line; none when every task can be reached.

    Tasks that wait for each other, one ring of them, are told once each has an id of its own and all that is waited for
    is there. A task waits for its parts, and a part for what its task comes after.
    """
    wrong = list[str]()
    order = TopologicalSorter[str]()
    by_id = {task.id: task for task in reversed(tasks)}
    for task in tasks:
        if by_id[task.id] is not task:
            wrong.append(f"line {task.number}: {task.id} is the id of another task, too; each needs one of its own")
        for name in task.after:
            if name not in by_id:
                wrong.append(f"line {task.number}: {task.id} comes after {name}, which is no task")
        after = [name for one in (task, *task.above) for name in one.after]
        order.add(task.id, *after, *(part.id for part in task.subtasks))
    try:
        order.prepare()
    except CycleError as error:
        around = [task for task in tasks if task.id in error.args[1]]
        names = join_names([task.id for task in around])
        return wrong or [f"line {around[0].number}: these tasks wait for each other: {names}"]
    return wrong
