"""The tasks of a progress file with what is nested below them."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ralph import progress
from ralph.progress.reading import Line, blocks, parse

_BULLET = rb"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]"
_ITEM = re.compile(_BULLET)
_NOTE = re.compile(_BULLET + rb"[ \t]*(after|priority|verify|failed|blocked|role):(.*)", re.IGNORECASE)
_WORD = r"[^\W_][\w.-]{0,63}"
_ID = re.compile(rf"(?:({_WORD}):|\*\*({_WORD}):\*\*|\*\*({_WORD})\*\*:|`({_WORD})`:)\s+(?=\S)")
WHOLE = re.compile(r"[+-]?\d{1,9}", re.ASCII)
"""What a priority is."""
_TRY = re.compile(r".*?\btry (\d{1,9}):", re.ASCII)
_MOST_COLUMNS = 60
"""What is indented further is read as if it were not: such a text must not be deep for those who walk the tree."""
_NOWHERE = Line(0, 0, b"")


class Note(NamedTuple):
    """One line of metadata."""

    name: str
    value: str
    line: Line = _NOWHERE
    number: int = 0
    """That of the line, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(progress.Task):
    """One task with its metadata and subtasks; its text is without the id."""

    id: str
    """Empty when it has none yet."""
    line: Line = _NOWHERE
    number: int = 0
    """That of the line, for people."""
    notes: list[Note] = field(default_factory=list)
    subtasks: list["Task"] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether it is ticked, or everything below it is and nothing more is asked for."""
        return self.mark == "x" or (
            bool(self.subtasks) and not self.criteria and all(task.done for task in self.subtasks)
        )

    @property
    def after(self) -> tuple[str, ...]:
        """The ids of what it waits for."""
        return tuple(name for value in self._values("after") for name in re.findall(r"[^\s,`]+", value))

    @property
    def priority(self) -> int | None:
        """The lower, the sooner."""
        said = self._values("priority")
        return int(said[0]) if said and WHOLE.fullmatch(said[0]) else None

    @property
    def criteria(self) -> Sequence[str]:
        """What its verify: lines ask for."""
        return self._values("verify")

    @property
    def failed(self) -> Sequence[str]:
        """What the failed: lines say, oldest first."""
        return self._values("failed")

    @property
    def tries(self) -> int:
        """How often it failed; of the lines only the newest are kept."""
        said = _TRY.match(self.failed[-1]) if self.failed else None
        return int(said[1]) if said else len(self.failed)

    @property
    def blocked(self) -> str:
        """Why it is, if anything says so."""
        return "".join(self._values("blocked")[-1:])

    @property
    def role(self) -> str:
        """Which role it needs next, if anything says so."""
        return "".join(self._values("role")[-1:])

    def _values(self, name: str) -> Sequence[str]:
        return tuple(note.value for note in self.notes if note.name == name and note.value)


@functools.lru_cache(maxsize=4)  # of one text it is asked again and again
def read(text: bytes) -> tuple[Task, ...]:
    """The tasks of the task list in order, subtasks in their tasks; the very checkboxes `progress.parse` counts."""
    now = parse(text)
    listed = {task.line.start: task for task in now.tasks}
    headings = {line.start for line, _, _ in now.headings}
    found: list[Task] = []
    around: list[tuple[int, Task | None]] = []  # the open list items: column, and the innermost task they belong to
    at, number = 0, 1
    for line in blocks(text).lines:
        number += text.count(b"\n", at, line.start)
        at = line.start
        if line.start in headings:
            around = []
        if not _ITEM.match(line.body):
            continue
        column = min(_column(line.body), _MOST_COLUMNS)
        while around and around[-1][0] >= column:
            around.pop()
        owner = around[-1][1] if around else None
        if item := listed.get(line.start):
            named = _ID.match(item.text)
            task_id = next(filter(None, named.groups())) if named else ""
            words = item.text[named.end() :] if named else item.text
            task = Task(id=task_id, text=words, mark=item.mark.lower(), line=line, number=number)
            (owner.subtasks if owner else found).append(task)
            owner = task
        elif owner and (note := _NOTE.fullmatch(line.body)):
            value = note[2].decode(errors="surrogateescape").strip()
            owner.notes.append(Note(name=note[1].decode().lower(), value=value, line=line, number=number))
        around.append((column, owner))
    return tuple(found)


def flat(tasks: Sequence[Task]) -> list[Task]:
    """All of them, subtasks behind their task."""
    return [one for task in tasks for one in (task, *flat(task.subtasks))]


def _column(body: bytes) -> int:
    """How far a line is indented, tabs counted to multiples of 4."""
    return len(body[: len(body) - len(body.lstrip(b" \t"))].expandtabs(4))
