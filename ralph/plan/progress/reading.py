"""Reading a progress file: what it says, and where."""

import functools
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ralph.plan.progress.task import Note, Task, TextLine

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_FENCE = re.compile(rb"(?:[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t])*(`{3,}(?=[^`]*\Z)|~{3,}).*")
_FENCE_END = re.compile(rb"[ \t]*(`{3,}|~{3,})\s*")
# The lines that mean something: items of lists, some of which are tasks or their notes; headings; control words.
_KIND = re.compile(
    r"""
    (?P<indent>[ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]  # an item of a list
        (?:[ \t]*\[(?P<mark>[ xX~!])\][ \t]+(?P<task>\S.*)
        |[ \t]*(?P<note>(?i:after|priority|verify|failed|blocked|reopened|role|begun|held|cannot\ run|claimed|dismissed
            |note(?=:\ its\ checks\ held))):(?P<value>.*)
        |.*)
    |[ ]{0,3}(?P<level>\#{1,6})[ \t]+(?P<title>.*)
    |[ ]{0,3}(?:(?P<word>RALPH_DONE|RALPH_STOP|RALPH_BLOCKED|IN_PROGRESS)\s*
        |(?P<name>RALPH_BLOCKED|Plan|Started|Spent|Mode|Verified):.*)
    """,
    re.VERBOSE | re.ASCII,
)
# The id of a task, perhaps in stars or backticks, if it has one; then its text.
_ID = re.compile(r"\A(?:[*`]*([^\W_][\w.-]{0,63})[*`]*:[*`]*\s+(?=\S))?(.*)", re.DOTALL)
_OF_HEAD = ("Plan", "Started", "Spent", "Mode")
_MODE = re.compile(r"(.*?)\s*((?<!\S)(\d{1,4})(?:/\d{1,4})?)?$")
_DOLLARS = re.compile(r"\$?(\d[\d,]{0,14}(?:\.\d+)?)")
# How known section titles begin: checkboxes under the first are tasks, under the others they are not, since people
# write checks as checkboxes too, and agents write proposals.
_LISTS = re.compile("task|notes|acceptance|success criteria|proposed", re.IGNORECASE)

BY_RALPH = "ralph: "
"""How the reason begins in a RALPH_BLOCKED line that ralph wrote itself."""
CHECKS_ALONE = "(checks alone)"
"""Ends a Verified line if there was no verify command, only the checks of the task list."""
BOM = b"\xef\xbb\xbf"


class MarkdownBlocks(NamedTuple):
    """The lines and code fences of a text in Markdown."""

    unfenced_lines: list[TextLine]
    """The lines outside of code fences."""
    fences: list[tuple[TextLine, TextLine]]
    """The first and the last line of each fence."""


def read_unfenced_lines_and_fences(text: bytes) -> MarkdownBlocks:
    """The lines of a text and its code fences.

    A fence is three or more backticks or tildes, closed by at least as many of the same, at any indentation, since it
    may be in a list. If it is never closed, it and all below it count as text: a slip must not hide the rest.
    """
    lines: list[TextLine] = []
    fences: list[tuple[TextLine, TextLine]] = []
    fence: list[TextLine] = []
    marks = b""
    for found in _LINE.finditer(text, len(BOM) if text.startswith(BOM) else 0):
        line = TextLine(*found.span(), found[0].rstrip(b"\r\n"))
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
    return MarkdownBlocks(lines + fence, fences)


class Progress(NamedTuple):
    """What a progress file says, and on which of its lines."""

    size: int
    words: dict[str, list[TextLine]]
    """The lines that count, by the word they begin with: the control words; Verified, the note of a check that passed,
    directly below RALPH_DONE; Plan, Started, Spent and Mode, above the first heading below the top level."""
    done: bool
    """Whether RALPH_DONE is there."""
    verified: str
    """ralph's note below RALPH_DONE: when the check passed, on which commit, and whether it was `CHECKS_ALONE`."""
    stop: bool
    """Whether RALPH_STOP is there."""
    blocked: str | None
    """The reason after RALPH_BLOCKED, perhaps empty; None when the word is not there."""
    blocked_by_ralph: bool
    """Whether it was ralph that gave up, not the agent or the user."""
    plan: str
    """The plan that the file was made for, if it names one."""
    spent_usd: float
    """What the plan has cost so far; 0 if the file does not say."""
    mode: str
    """The current mode of the plan; empty for build, which is the default."""
    rounds: str
    """`2/3`: how many times the work was handed on to be validated, and the limit; or empty."""
    round: int
    """The first number in `rounds`, or 0."""
    headings: Sequence[tuple[TextLine, int, str]]
    """The line, level and title of each heading."""
    tasks: Sequence[Task]
    elsewhere: Sequence[Task]
    """Tasks outside of the task list; an agent may move finished ones to a section of their own."""
    open: Sequence[Task]
    """The tasks that are not ticked."""
    ticked: int
    """How many tasks are ticked."""
    unproved: int
    """How many of them are ticked on the word of an agent alone."""

    @property
    def verified_tree_version(self) -> str:
        """The commit in `verified`, with a digest of any changes beyond it; empty without a repository."""
        return " ".join(self.verified.removesuffix(CHECKS_ALONE).split()[2:])

    @property
    def ticked_of_total(self) -> str:
        """`9/15 tasks`, and how many of them are ticked without proof."""
        without = f", {self.unproved} of them without proof" if self.unproved else ""
        return f"{self.ticked}/{len(self.tasks)} tasks{without}" if self.tasks else "no tasks"


@functools.lru_cache(maxsize=16)  # the same text is parsed again and again
def parse(text: bytes) -> Progress:
    """Parses the text of a progress file; any bytes are valid."""
    words: dict[str, list[TextLine]] = {}
    headings: list[tuple[TextLine, int, str]] = []
    # The checkboxes, each with what `kinds` says of its place.
    items: list[tuple[str, Task]] = []
    # What `_LISTS` finds in the innermost such title around this line, for headings down to each level.
    kinds, listed = [""] * 7, ""
    # The list items around this line: the column of each, and the innermost task that it belongs to.
    nested: list[tuple[int, Task | None]] = [(-1, None)]
    is_head, is_below_done = True, False
    for line in read_unfenced_lines_and_fences(text).unfenced_lines:
        kind = _KIND.fullmatch(line.body.decode(errors="surrogateescape"))
        name = ""
        if kind and kind["indent"] is not None:
            column = len(kind["indent"].expandtabs(4))
            while nested[-1][0] >= column:
                nested.pop()
            owner = nested[-1][1]
            if kind["mark"]:
                whole = kind["task"].strip()
                task_id, what = _ID.findall(whole)[0]
                task = Task(
                    id=task_id,
                    text=what,
                    mark=kind["mark"].lower(),
                    whole=whole,
                    line=line,
                    number=text.count(b"\n", 0, line.start) + 1,
                    above=(owner, *owner.above) if owner else (),
                )
                if owner:
                    owner.subtasks.append(task)
                items.append((kinds[-1], task))
                owner = task
            elif owner and kind["note"]:
                owner.notes.append(Note(kind["note"].lower(), kind["value"].strip(), line))
            nested.append((column, owner))
        elif kind and kind["level"]:
            level, title = len(kind["level"]), kind["title"].strip(" \t*_#")
            headings.append((line, level, title))
            del nested[1:]
            is_head = is_head and level == 1
            known = _LISTS.match(title)
            kinds[level:] = [known[0].lower() if known else kinds[level - 1]] * (7 - level)
            listed = "task" if "task" in (listed, kinds[-1]) else ""
        elif kind:
            name = kind["word"] or kind["name"]
            if is_below_done if name == "Verified" else is_head or name not in _OF_HEAD:
                words.setdefault(name, []).append(line)
        is_below_done = name == "RALPH_DONE" or (is_below_done and name == "Verified")
    values = defaultdict(
        str,
        {name: lines[0].body.partition(b":")[2].decode(errors="replace").strip() for name, lines in words.items()},
    )
    blocked = values.get("RALPH_BLOCKED")
    dollars = _DOLLARS.match(values["Spent"])
    mode, rounds, number = _MODE.findall(values["Mode"])[0]
    tasks = [task for kind, task in items if kind == listed]
    undone = [task for task in tasks if task.mark != "x"]
    return Progress(
        size=len(text),
        words=words,
        done="RALPH_DONE" in words,
        verified=values["Verified"],
        stop="RALPH_STOP" in words,
        blocked=blocked,
        blocked_by_ralph=(blocked or "").startswith(BY_RALPH),
        plan=values["Plan"],
        spent_usd=float(dollars[1].replace(",", "")) if dollars else 0.0,
        mode="" if mode == "build" else mode,
        rounds=rounds,
        round=int(number or 0),
        headings=headings,
        tasks=tasks,
        elsewhere=[task for kind, task in items if kind != listed],
        open=undone,
        ticked=len(tasks) - len(undone),
        unproved=sum(len(task.note_values("note")) for task in tasks),
    )


def vanished_open_tasks(before: Progress, after: Progress) -> Sequence[Task]:
    """The tasks that were open and are now neither open nor ticked anywhere.

    A task with a longer text or other markup is still the same; the longest texts are matched first.
    """
    now = (*after.tasks, *(task for task in after.elsewhere if task.mark == "x"))
    left = [*map(_normalized_text, now)]
    missing = []
    for task in sorted(before.tasks, key=lambda task: (-len(_normalized_text(task)), task.mark != "x")):
        gist = _normalized_text(task)
        if same := [gist] if gist in left else [name for name in left if name.startswith(f"{gist} ")]:
            left.remove(min(same, key=len))
        elif task.mark != "x":
            missing.append(task)
    return [task for task in before.open if task in missing]


def _normalized_text(task: Task) -> str:
    return re.sub(r"[\W_]+", " ", task.whole).casefold().strip()
