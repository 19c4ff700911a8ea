"""One task of a list."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

STATUSES = {" ": "pending", "~": "in_progress", "!": "blocked", "x": "complete"}
"""The status that each mark means."""


class TextLine(NamedTuple):
    """One line of a text: `text[start:end]`, with its line end, without a byte order mark."""

    start: int
    end: int
    body: bytes
    """The line without its line end."""


_NOWHERE = TextLine(0, 0, b"")


class Note(NamedTuple):
    """One line of a task's metadata."""

    name: str
    value: str
    line: TextLine = _NOWHERE


@dataclass(frozen=True, kw_only=True)
class Task:
    """One item of a task list, with its metadata and subtasks; `text` does not include the id."""

    id: str
    """Empty when it has none yet."""
    text: str
    mark: str
    """The character between the brackets."""
    whole: str = ""
    """The text with the id, as it is in the list."""
    line: TextLine = _NOWHERE
    number: int = 0
    """The number of its line, for messages."""
    notes: list[Note] = field(default_factory=list)
    subtasks: list["Task"] = field(default_factory=list)
    above: tuple["Task", ...] = field(default=(), compare=False, repr=False)
    """The tasks that it is a subtask of, innermost first."""

    def note_values(self, name: str) -> list[str]:
        """The values of its notes of this name that are not empty, oldest first."""
        return [note.value for note in self.notes if note.name == name and note.value]

    @property
    def is_done(self) -> bool:
        """Whether it is ticked, or all its subtasks are done and it has no checks of its own."""
        if self.subtasks and all(task.is_done for task in self.subtasks) and not self.note_values("verify"):
            return True
        return self.mark == "x"

    @property
    def after(self) -> list[str]:
        """The ids in its own after: lines."""
        return re.findall(r"[^\s,`]+", " ".join(self.note_values("after")))

    @property
    def prerequisite_ids(self) -> list[str]:
        """The ids of the tasks that have to be done before it, also for the tasks above it; with its subtasks."""
        after = [name for one in (self, *self.above) for name in one.after]
        return after + [part.id for part in self.subtasks]

    @property
    def priority(self) -> int | None:
        """Its priority, lower is sooner; None if it has none."""
        first = next(iter(self.note_values("priority")), "")
        return int(first) if re.fullmatch(r"[+-]?\d{1,9}", first, re.ASCII) else None

    @property
    def failed_tries(self) -> int:
        """How many attempts at it failed."""
        return len(self.note_values("failed"))

    def is_last_try(self, most: int | None) -> bool:
        """Whether one more failure would be the last of `most` attempts, None for no limit."""
        return most is not None and self.failed_tries + 1 >= most

    @property
    def status(self) -> str:
        """Its status in one word; a task is also `complete` if its subtasks make it so."""
        return STATUSES["x" if self.is_done else self.mark]

    @property
    def self_and_completed_parents(self) -> list["Task"]:
        """The task, then the tasks above it that will be done once it is, innermost first."""
        found = [self]
        for one in self.above:
            if not all(part.is_done or part is found[-1] for part in one.subtasks):
                break
            found.append(one)
        return found
