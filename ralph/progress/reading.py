"""Reading a progress file: what it says, and where."""

import functools
import itertools
import json
import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_FENCE = re.compile(rb"((?:[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t])*)(`{3,}|~{3,})(.*)", re.DOTALL)
_WORD = re.compile(rb"[ ]{0,3}(RALPH_DONE|RALPH_STOP|RALPH_BLOCKED(?::(.*))?|IN_PROGRESS)\s*")
_HEADING = re.compile(rb"[ ]{0,3}(#{1,6})[ \t]+(.*)")
_TASK = re.compile(rb"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[([ xX~!])\][ \t]+(\S.*)")
_PLAN = re.compile(rb"Plan:[ \t]*(\S.*)")
_DOLLARS = rb"(?:\d{1,3}(?:,\d{3})+|\d{1,12})(?:\.\d+)?(?![.,]?\d|[eE][+-]?\d)"
SPENT = re.compile(rb"([ ]{0,3}Spent:)(?:[ \t]*\$?[ \t]*(%b))?(.*)" % _DOLLARS)
"""The name, the dollars where they can be read, and the rest of the line."""
_VERIFIED = re.compile(rb"\s*^([ ]{0,3}Verified:[ \t]*\S[^\n]*(?:\n|\Z))", re.MULTILINE)
_NO_TASKS = ("notes", "acceptance", "success criteria", "proposed")
"""Sections whose checkboxes describe work and are none; people write criteria as checkboxes too, agents proposals."""

LARGE_BYTES = 50_000
"""A file beyond that deserves a word: every iteration pays for reading it."""
BY_RALPH = "ralph: "
"""Begins the reason of a RALPH_BLOCKED that ralph wrote itself."""
BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One line of a text: `text[start:end]`, its line end included."""

    start: int
    end: int
    body: bytes
    """The line without its line end and without a byte order mark."""


class _Fence(NamedTuple):
    line: Line
    column: int
    marks: bytes
    opens: bool
    closes: bool


def outside_fences(text: bytes, pattern: bytes = b"") -> tuple[list[Line], int | None]:
    """The lines that begin with `pattern` (a regular expression) and stand in no code fence; and an unclosed fence.

    A fence is three or more backticks or tildes, closed by at least as many of the same (CommonMark 4.5), at any
    indentation, since lists may hold it. One never closed is no fence; the offset of the first such is returned.
    """
    begins = re.compile(pattern)
    lines, fences = [], []
    for line in _lines(text):
        if fence := _fence(line):
            fences.append(fence)
        elif begins.match(line.body):
            lines.append(line)
    spans, unclosed = _closed(fences)
    starts = [start for start, _ in spans]
    before = (bisect(starts, line.start) for line in lines) if spans else itertools.repeat(0)
    return [line for line, at in zip(lines, before, strict=False) if not at or spans[at - 1][1] <= line.start], unclosed


def code_blocks(text: bytes) -> list[tuple[int, int]]:
    """Where each code fence that is closed begins, and where its end ends."""
    return _closed([fence for line in _lines(text) if (fence := _fence(line))])[0]


def _lines(text: bytes) -> Iterator[Line]:
    for found in _LINE.finditer(text):
        yield Line(found.start(), found.end(), found[0].rstrip(b"\r\n").removeprefix(BOM))


def _fence(line: Line) -> _Fence | None:
    found = _FENCE.fullmatch(line.body) if b"```" in line.body or b"~~~" in line.body else None
    if found is None:
        return None
    before, marks, info = found.groups()
    opens = not (marks[:1] == b"`" and b"`" in info)
    return _Fence(line, len(before.expandtabs(4)), marks, opens, closes=not info.strip() and not before.strip())


def _closed(fences: Sequence[_Fence]) -> tuple[list[tuple[int, int]], int | None]:
    """Where closed fences begin and end, and where the first begins that is never closed."""
    spans: list[tuple[int, int]] = []
    hopeless: set[tuple[bytes, int]] = set()  # what found no end once finds none further down
    unclosed, at = None, 0
    while at < len(fences):
        line, column, marks, opens, _ = fences[at]
        later = range(at + 1, len(fences)) if opens and (marks, column) not in hopeless else ()
        ends = (n for n in later if fences[n].closes and fences[n].marks.startswith(marks))
        end = next((n for n in ends if fences[n].column <= column + 3), None)
        if end is not None:
            spans.append((line.start, fences[end].line.end))
            at = end
        elif opens:
            hopeless.add((marks, column))
            unclosed = line.start if unclosed is None else unclosed
        at += 1
    return spans, unclosed


class Task(NamedTuple):
    """One item of the task list."""

    text: str
    done: bool
    raw: bytes
    """The line as it stands in the file, without its line end."""

    @property
    def mark(self) -> str:
        """What stands between the brackets."""
        return chr(self.raw[self.raw.index(b"[") + 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a progress file says."""

    done: bool
    verified: bool
    """Whether ralph's note that the check passed stands below RALPH_DONE."""
    stop: bool
    blocked: str | None
    """The reason after RALPH_BLOCKED, perhaps empty; None when the word is not there."""
    tasks: tuple[Task, ...]
    elsewhere: tuple[Task, ...]
    """Checkboxes outside of the task list; an agent may move what is done to a section of its own."""
    plan: str | None
    """The plan it was made for, if it says so."""
    spent_usd: float | None
    """What the plan cost so far, if it says so."""
    unclosed_fence: int | None
    """The line number of a code fence that is never closed and therefore counts as text."""
    size: int

    @property
    def ticked(self) -> int:
        """How many tasks are done."""
        return sum(task.done for task in self.tasks)

    @property
    def open(self) -> tuple[Task, ...]:
        """The tasks that are not."""
        return tuple(task for task in self.tasks if not task.done)

    @property
    def blocked_by_ralph(self) -> bool:
        """Whether it was ralph that gave up, not the agent or a person."""
        return (self.blocked or "").startswith(BY_RALPH)


class Scan(NamedTuple):
    """The telling lines of a text, sorted by what they are."""

    words: list[tuple[Line, bytes, str]]
    headings: list[tuple[Line, int, str]]
    tasks: list[tuple[Line, Task]]
    elsewhere: list[Task]
    head: list[Line]
    """What stands before the first heading below the top level: Plan, Started, Spent, and any other line."""
    unclosed: int | None

    @property
    def done(self) -> list[Line]:
        """Every RALPH_DONE."""
        return [line for line, word, _ in self.words if word == b"RALPH_DONE"]


def parse(text: bytes) -> Progress:
    """What `text` says; any bytes are a progress file."""
    now = scan(text)
    return Progress(
        done=bool(now.done),
        verified=any(verified_below(text, done) for done in now.done[:1]),
        stop=any(word == b"RALPH_STOP" for _, word, _ in now.words),
        blocked=next((why for _, word, why in now.words if word == b"RALPH_BLOCKED"), None),
        tasks=tuple(task for _, task in now.tasks),
        elsewhere=tuple(now.elsewhere),
        plan=_plan(now.head),
        spent_usd=_spent_usd(now.head),
        unclosed_fence=None if now.unclosed is None else text.count(b"\n", 0, now.unclosed) + 1,
        size=len(text),
    )


@functools.lru_cache(maxsize=4)  # of one text it is asked again and again
def scan(text: bytes) -> Scan:
    """The lines of `text` that say something."""
    lines, unclosed = outside_fences(text)
    found = Scan([], [], [], [], [], unclosed)
    under: list[tuple[int, str]] = []
    here: bool | None = None
    items: list[tuple[Line, Task, bool | None]] = []
    top = True
    for line in lines:
        if item := _TASK.fullmatch(line.body):
            text_of = item[2].decode(errors="surrogateescape").strip()
            items.append((line, Task(text=text_of, done=item[1] in b"xX", raw=line.body), here))
        elif word := _WORD.fullmatch(line.body):
            why = (word[2] or b"").decode(errors="replace").strip()
            found.words.append((line, word[1].split(b":")[0], why))
        elif heading := _HEADING.fullmatch(line.body):
            level, title = len(heading[1]), heading[2].decode(errors="replace").strip(" \t*_#")
            under = [*(outer for outer in under if outer[0] < level), (level, title.casefold())]
            here = _is_for_tasks(under)
            top = top and level == 1
            found.headings.append((line, level, title))
        elif top:
            found.head.append(line)
    listed = any(title.casefold().startswith("task") for _, _, title in found.headings)
    for line, task, of_list in items:
        if of_list or (of_list is None and not listed):
            found.tasks.append((line, task))
        else:
            found.elsewhere.append(task)
    return found


def verified_below(text: bytes, done: Line) -> list[tuple[int, int]]:
    """Where the Verified lines stand that follow a RALPH_DONE, with nothing but blank lines between."""
    found: list[tuple[int, int]] = []
    while line := _VERIFIED.match(text, found[-1][1] if found else done.end):
        found.append(line.span(1))
    return found


def _plan(head: Sequence[Line]) -> str | None:
    found = next(filter(None, (_PLAN.fullmatch(line.body) for line in head)), None)
    if found is None:
        return None
    name = found[1].decode(errors="surrogateescape").rstrip()
    try:  # one with control characters or outer blanks stands there as JSON
        return str(json.loads(name)) if name.startswith('"') else name
    except ValueError:
        return name


def _spent_usd(head: Sequence[Line]) -> float | None:
    for line in head:
        if (found := SPENT.fullmatch(line.body)) and found[2]:
            return float(found[2].replace(b",", b""))
    return None


def _is_for_tasks(under: Sequence[tuple[int, str]]) -> bool | None:
    """Whether the innermost telling heading makes a list there the task list; None when no heading says."""
    for _, title in reversed(under):
        if title.startswith(_NO_TASKS):
            return False
        if title.startswith("task"):
            return True
    return None


def vanished(before: Progress, after: Progress) -> tuple[Task, ...]:
    """The tasks that were open and are now neither open nor ticked anywhere.

    A longer text or other markup is the same task. Who still has a namesake is settled first, then the longest names.
    """
    if not before.open or Counter(task.text for task in before.tasks) <= Counter(task.text for task in after.tasks):
        return ()
    left = Counter(_gist(task.text) for task in (*after.tasks, *(task for task in after.elsewhere if task.done)))
    renamed = [task for task in before.tasks if not _take(left, _gist(task.text)) and not task.done]
    missing = set()
    for place, task in sorted(enumerate(renamed), key=lambda item: -len(_gist(item[1].text))):
        gist = _gist(task.text) + " "
        if not _take(left, next((longer for longer in +left if longer.startswith(gist)), "")):
            missing.add(place)
    return tuple(task for place, task in enumerate(renamed) if place in missing)


def _take(left: Counter[str], gist: str) -> bool:
    if not left[gist]:
        return False
    left[gist] -= 1
    return True


def _gist(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).casefold().strip() or text
