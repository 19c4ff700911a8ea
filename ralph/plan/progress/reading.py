"""Reading a progress file: what it says, and where."""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ralph.plan.progress.task import Line, Note, Task

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_FENCE = re.compile(rb"(?:[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t])*(`{3,}(?=[^`]*\Z)|~{3,}).*")
_FENCE_END = re.compile(rb"[ \t]*(`{3,}|~{3,})\s*")
_WORD = re.compile(
    rb"[ ]{0,3}(?:(RALPH_DONE|RALPH_STOP|RALPH_BLOCKED|IN_PROGRESS)\s*"
    rb"|(RALPH_BLOCKED|Plan|Started|Spent|Mode|Verified):.*)"
)
_HEADING = re.compile(rb"[ ]{0,3}(#{1,6})[ \t]+(.*)")
_BULLET = rb"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]"
_ITEM = re.compile(_BULLET)
_TASK = re.compile(_BULLET + rb"[ \t]*\[([ xX~!])\][ \t]+(\S.*)")
_NOTES = rb"after|priority|verify|failed|blocked|reopened|role|begun|held|cannot run|claimed|dismissed"
_NOTES += rb"|note(?=: its checks held)"
_NOTE = re.compile(_BULLET + rb"[ \t]*(" + _NOTES + rb"):(.*)", re.IGNORECASE)
_ID = re.compile(r"\A(?:[*`]*([^\W_][\w.-]{0,63})[*`]*:[*`]*\s+(?=\S))?(.*)", re.DOTALL)
"""Perhaps in stars or backticks, perhaps there is none; and the text."""
_MOST_COLUMNS = 60
"""What is indented further is read as if it were not: such a text must not be deep for those who walk the tree."""
_OF_HEAD = ("Plan", "Started", "Spent", "Mode")
_MODE = re.compile(r"(.*?)\s*((?<!\S)(\d{1,4})(?:/\d{1,4})?)?$")
_DOLLARS = re.compile(r"\$?(\d[\d,]{0,14}(?:\.\d+)?)")
_LISTS = ("task", "notes", "acceptance", "success criteria", "proposed")
"""How the titles begin of sections whose checkboxes are known to be tasks, and to be none: people write checks as
checkboxes too, agents proposals."""

LARGE_BYTES = 50_000
"""A file beyond that deserves a word: every iteration pays for reading it."""
BY_RALPH = "ralph: "
"""Begins the reason of a RALPH_BLOCKED that ralph wrote itself."""
CHECKS_ALONE = "(checks alone)"
"""Of a task list without a verify command."""
BOM = b"\xef\xbb\xbf"


class MarkdownBlocks(NamedTuple):
    """A text in Markdown, taken apart."""

    lines: list[Line]
    """What stands outside of code fences."""
    fences: list[tuple[Line, Line]]
    """The first and the last line of each."""
    unclosed: bool
    """One finds no end."""


def read_lines_and_fences(text: bytes) -> MarkdownBlocks:
    """The lines of a text and its code fences.

    A fence is three or more backticks or tildes, closed by at least as many of the same, at any indentation, since
    lists may hold it. One that is never closed is not a fence, and all below it is text: a slip must not hide the rest.
    """
    lines: list[Line] = []
    fences: list[tuple[Line, Line]] = []
    fence: list[Line] = []
    marks = b""
    for found in _LINE.finditer(text, len(BOM) if text.startswith(BOM) else 0):
        line = Line(found.start(), found.end(), found[0].rstrip(b"\r\n"))
        if fence:
            fence.append(line)
            end = _FENCE_END.fullmatch(line.body)
            if end and end[1].startswith(marks):
                fences.append((fence[0], line))
                fence = []
        elif opening := _FENCE.fullmatch(line.body):
            fence, marks = [line], opening[1]
        else:
            lines.append(line)
    return MarkdownBlocks(lines + fence, fences, bool(fence))


class Progress(NamedTuple):
    """What a progress file says, and on which of its lines."""

    size: int
    words: dict[str, list[Line]]
    """The lines that count, by the word that they begin with: the control words; directly below RALPH_DONE Verified,
    the note of a check that passed; above the first heading below the top level Plan, Started, Spent and Mode."""
    done: bool
    """Whether RALPH_DONE is there."""
    verified: str
    """ralph's note below it: when the check passed, on which commit, and whether it was `CHECKS_ALONE`."""
    stop: bool
    """Whether RALPH_STOP is there."""
    blocked: str | None
    """The reason after RALPH_BLOCKED, perhaps empty; None when the word is not there."""
    blocked_by_ralph: bool
    """Whether it was ralph that gave up, not the agent or the user."""
    plan: str
    """The plan it was made for, if it says so."""
    spent_usd: float
    """What the plan cost so far, as far as it says so."""
    mode: str
    """The mode that it is in; empty where none is given, which means build."""
    rounds: str
    """`2/3`: how many times what was built was handed on to be validated, and how often it may be; or nothing."""
    round: int
    """The first of these numbers, or 0."""
    headings: Sequence[tuple[Line, int, str]]
    """With level and title."""
    tasks: tuple[Task, ...]
    elsewhere: tuple[Task, ...]
    """Taskes outside of the task list; an agent may move what is done to a section of its own."""
    open: tuple[Task, ...]
    """The tasks that are not ticked."""
    unclosed: bool
    """A code fence is never closed, and therefore counts as text."""
    ticked: int
    """How many are."""
    unproved: int
    """How many of them on the word of agents alone."""

    @property
    def verified_commit(self) -> str:
        """What that note says of the commit, and of what else had changed; empty without a repository."""
        return " ".join(self.verified.removesuffix(CHECKS_ALONE).split()[2:])

    @property
    def task_counts(self) -> str:
        """`9/15 tasks`, and how many nothing proves."""
        without = f", {self.unproved} of them without proof" if self.unproved else ""
        return f"{self.ticked}/{len(self.tasks)} tasks{without}" if self.tasks else "no tasks"


def text_after_colon(line: Line) -> str:
    """What stands behind the colon."""
    return line.body.partition(b":")[2].decode(errors="replace").strip()


@functools.lru_cache(maxsize=4)  # of one text it is asked again and again
def parse(text: bytes) -> Progress:
    """What `text` says; any bytes are a progress file."""
    lines, _, unclosed = read_lines_and_fences(text)
    words: dict[str, list[Line]] = {}
    headings: list[tuple[Line, int, str]] = []
    items: list[tuple[str, Task]] = []
    """The checkboxes, each with the beginning of the innermost title around it that is one of `_LISTS`."""
    around, listed = [(0, "")], ""
    nested: list[tuple[int, Task | None]] = [(-1, None)]
    """The open list items: the column, and the innermost task that each belongs to."""
    is_head, is_below_done = True, False
    for line in lines:
        name = ""
        if bullet := _ITEM.match(line.body):
            column = min(len(bullet[1].expandtabs(4)), _MOST_COLUMNS)
            while nested[-1][0] >= column:
                nested.pop()
            owner = nested[-1][1]
            if item := _TASK.fullmatch(line.body):
                whole = item[3].decode(errors="surrogateescape").strip()
                task_id, what = _ID.findall(whole)[0]
                task = Task(
                    id=task_id,
                    text=what,
                    mark=item[2].decode().lower(),
                    whole=whole,
                    line=line,
                    number=text.count(b"\n", 0, line.start) + 1,
                    above=(owner, *owner.above) if owner else (),
                )
                if owner:
                    owner.subtasks.append(task)
                items.append((around[-1][1], task))
                owner = task
            elif owner and (note := _NOTE.fullmatch(line.body)):
                value = note[3].decode(errors="surrogateescape").strip()
                owner.notes.append(Note(note[2].decode().lower(), value, line))
            nested.append((column, owner))
        elif heading := _HEADING.fullmatch(line.body):
            level, title = len(heading[1]), heading[2].decode(errors="replace").strip(" \t*_#")
            headings.append((line, level, title))
            del nested[1:]
            is_head = is_head and level == 1
            around = [outer for outer in around if outer[0] < level]
            kind = next((kind for kind in _LISTS if title.casefold().startswith(kind)), around[-1][1])
            around.append((level, kind))
            listed = kind if kind == "task" else listed
        elif word := _WORD.fullmatch(line.body):
            name = (word[1] or word[2]).decode()
            if is_below_done if name == "Verified" else is_head or name not in _OF_HEAD:
                words.setdefault(name, []).append(line)
        is_below_done = name == "RALPH_DONE" or (is_below_done and name == "Verified")
    values = {name: text_after_colon(each[0]) for name, each in words.items()}
    blocked = values.get("RALPH_BLOCKED")
    dollars = _DOLLARS.match(values.get("Spent", ""))
    mode, rounds, number = _MODE.findall(values.get("Mode", ""))[0]
    tasks = tuple(task for kind, task in items if kind == listed)
    undone = tuple(task for task in tasks if task.mark != "x")
    return Progress(
        size=len(text),
        words=words,
        done="RALPH_DONE" in words,
        verified=values.get("Verified", ""),
        stop="RALPH_STOP" in words,
        blocked=blocked,
        blocked_by_ralph=(blocked or "").startswith(BY_RALPH),
        plan=values.get("Plan", ""),
        spent_usd=float(dollars[1].replace(",", "")) if dollars else 0.0,
        mode="" if mode == "build" else mode,
        rounds=rounds,
        round=int(number or 0),
        headings=headings,
        tasks=tasks,
        elsewhere=tuple(task for kind, task in items if kind != listed),
        open=undone,
        unclosed=unclosed,
        ticked=len(tasks) - len(undone),
        unproved=sum(len(task.note_values("note")) for task in tasks),
    )


def vanished_tasks(before: Progress, after: Progress) -> tuple[Task, ...]:
    """The tasks that were open and are now neither open nor ticked anywhere.

    A longer text or other markup is the same task; the longest names are settled first.
    """
    now = (*after.tasks, *(task for task in after.elsewhere if task.mark == "x"))
    left = Counter(map(_normalized_text, now)) - Counter(
        _normalized_text(task) for task in before.tasks if task.mark == "x"
    )
    missing = []
    for task in sorted(before.open, key=lambda task: -len(_normalized_text(task))):
        gist = _normalized_text(task)
        longer = (name for name in left if left[name] > 0 and name.startswith(gist + " "))
        same = gist if left[gist] > 0 else next(longer, "")
        left[same] -= 1
        if not same:
            missing.append(task)
    return tuple(task for task in before.open if task in missing)


def _normalized_text(task: Task) -> str:
    return re.sub(r"[\W_]+", " ", task.whole).casefold().strip() or task.whole
