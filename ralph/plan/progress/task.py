"""One task of a list."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

WHOLE = re.compile(r"[+-]?\d{1,9}", re.ASCII)
"""What a priority is."""
STATUSES = {" ": "pending", "~": "in_progress", "!": "blocked", "x": "complete"}
"""By mark."""


class Line(NamedTuple):
    """One line of a text: `text[start:end]`, its line end included, a byte order mark left out."""

    start: int
    end: int
    body: bytes
    """The line without its line end."""


_NOWHERE = Line(0, 0, b"")


class Note(NamedTuple):
    """One line of metadata."""

    name: str
    value: str
    line: Line = _NOWHERE


@dataclass(frozen=True, kw_only=True)
class Task:
    """One item of a list with its metadata and subtasks; its text is without the id."""

    id: str
    """Empty when it has none yet."""
    text: str
    mark: str
    """What stands between the brackets."""
    whole: str = ""
    """The text with the id, as it is in the list."""
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

    def has_attempts_left(self, most: int | None) -> bool:
        """Whether it may be tried again after one more failure, where it gets at most so many attempts."""
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
