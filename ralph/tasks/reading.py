"""The tasks of a progress file with what is nested below them."""

import functools
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ralph.progress.reading import Line, Scan, outside_fences, scan

_BULLET = rb"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]"
_INDENT = re.compile(rb"[ \t]*")
_NOTE = re.compile(rb"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(after|priority|verify|failed|blocked):(.*)", re.IGNORECASE)
_WORD = r"[^\W_][\w.-]{0,63}"
_ID = re.compile(rf"(?:({_WORD}):|\*\*({_WORD}):\*\*|\*\*({_WORD})\*\*:|`({_WORD})`:)\s+(?=\S)")
_WHOLE = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_TRY = re.compile(r".*?\btry (\d{1,9}):", re.ASCII)
_DEEPEST = 30
"""Whoever nests deeper is read as if beside the deepest: such a text must not be deep for those who walk the tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task with its metadata and subtasks; two are equal wherever they stand."""

    id: str
    """Empty when it has none yet."""
    text: str
    """Without the id."""
    mark: str
    """A blank, `~`, `x` or `!`."""
    line: int = field(compare=False)
    after: tuple[str, ...] = ()
    priority: int | None = None
    criteria: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    """What the failed: lines say, oldest first."""
    tries: int = 0
    blocked: str = ""
    subtasks: tuple["Task", ...] = ()
    odd: tuple[str, ...] = field(default=(), compare=False)
    """What cannot be right in its metadata, each with its line."""

    @property
    def done(self) -> bool:
        """Whether it is ticked, or everything below it is and nothing more is asked for."""
        return self.mark == "x" or (
            bool(self.subtasks) and not self.criteria and all(task.done for task in self.subtasks)
        )


class Note(NamedTuple):
    """One line of metadata."""

    name: str
    value: str
    line: Line
    number: int


@dataclass(slots=True, kw_only=True)
class Item:
    """A task where it stands in the text."""

    line: Line
    number: int
    column: int
    text: str
    """With the id, as `progress.parse` reads it."""
    mark: str
    parent: int | None
    """Its place among the items."""
    depth: int
    notes: list[Note] = field(default_factory=list)

    @property
    def id(self) -> str:
        """Its id, empty without."""
        return named(self.text)[0]


def named(text: str) -> tuple[str, str]:
    """The id in front of a task's text, empty without, and the rest."""
    found = _ID.match(text)
    return (next(filter(None, found.groups())), text[found.end() :]) if found else ("", text)


@functools.lru_cache(maxsize=2)  # of one text it is asked again and again
def read(text: bytes) -> tuple[Task, ...]:
    """The tasks of the task list in order, subtasks in their tasks; the very checkboxes `progress.parse` counts."""
    below: dict[int | None, list[Task]] = {}
    for place, item in reversed(list(enumerate(items(text)))):
        subtasks = tuple(reversed(below.pop(place, [])))
        below.setdefault(item.parent, []).append(_task(item, subtasks))
    return tuple(reversed(below.pop(None, [])))


def items(text: bytes, now: Scan | None = None) -> list[Item]:
    """Each task where it stands, in order, with its lines of metadata."""
    now = now or scan(text)
    listed = {line.start: task for line, task in now.tasks}
    headings = [line.start for line, _, _ in now.headings]
    found: list[Item] = []
    around: list[tuple[int, int | None]] = []  # the open list items: column, and the innermost task they belong to
    section, at, number = -1, 0, 1
    for line in outside_fences(text, _BULLET)[0]:
        number, at = number + text.count(b"\n", at, line.start), line.start
        if (here := bisect_left(headings, line.start)) != section:
            section, around = here, []
        column = column_of(line.body)
        while around and around[-1][0] >= column:
            around.pop()
        owner = around[-1][1] if around else None
        if task := listed.get(line.start):
            parent = owner if owner is None or found[owner].depth < _DEEPEST else found[owner].parent
            depth = 0 if parent is None else found[parent].depth + 1
            mark = task.mark.lower()
            item = Item(line=line, number=number, column=column, text=task.text, mark=mark, parent=parent, depth=depth)
            owner = len(found)
            found.append(item)
        elif owner is not None and (note := _NOTE.fullmatch(line.body)):
            value = note[2].decode(errors="surrogateescape").strip()
            found[owner].notes.append(Note(note[1].decode().lower(), value, line, number))
        around.append((column, owner))
    return found


def column_of(body: bytes) -> int:
    """How far a line is indented, tabs counted to multiples of 4."""
    blank = _INDENT.match(body)
    return len(blank[0].expandtabs(4)) if blank else 0


def _task(item: Item, subtasks: tuple[Task, ...]) -> Task:
    task_id, text = named(item.text)
    if not item.notes:
        return Task(id=task_id, text=text, mark=item.mark, line=item.number, subtasks=subtasks)
    failed = _values(item.notes, "failed")
    priorities = _values(item.notes, "priority")
    return Task(
        id=task_id,
        text=text,
        mark=item.mark,
        line=item.number,
        after=tuple(name for value in _values(item.notes, "after") for name in re.findall(r"[^\s,`]+", value)),
        priority=int(priorities[0]) if priorities and _WHOLE.fullmatch(priorities[0]) else None,
        criteria=_values(item.notes, "verify"),
        failed=failed,
        tries=tries(failed),
        blocked="".join(_values(item.notes, "blocked")[-1:]),
        subtasks=subtasks,
        odd=tuple(_odd(item.notes)),
    )


def tries(failed: Sequence[str]) -> int:
    """How often a task of these failed: lines was tried."""
    said = _TRY.match(failed[-1]) if failed else None
    return int(said[1]) if said else len(failed)


def _values(notes: Sequence[Note], name: str) -> tuple[str, ...]:
    return tuple(note.value for note in notes if note.name == name and note.value)


def _odd(notes: Sequence[Note]) -> list[str]:
    priorities = [note for note in notes if note.name == "priority"]
    odd = [
        f'line {note.number}: priority: "{note.value}" is no whole number'
        for note in priorities
        if not _WHOLE.fullmatch(note.value)
    ]
    return odd + [f"line {note.number}: a second priority: of the same task" for note in priorities[1:]]
