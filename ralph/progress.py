"""The progress file's text: what it says, and edits that change the lines they mean to change and no other byte."""

import contextlib
import gc
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ralph.markdown import Line, outside_fences

_TELLING = rb"[ ]{0,3}(?:#{1,6}[ \t]|RALPH_|IN_PROGRESS|Plan:)|[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\["
_WORD = re.compile(rb"[ ]{0,3}(RALPH_DONE|RALPH_STOP|RALPH_BLOCKED(?::(.*))?|IN_PROGRESS)\s*")
_HEADING = re.compile(rb"[ ]{0,3}(#{1,6})[ \t]+(.*)")
_TASK = re.compile(rb"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[([ xX~!])\][ \t]+(\S.*)")
_PLAN = re.compile(rb"Plan:[ \t]*(\S.*)")
_NO_TASKS = ("notes", "acceptance", "success criteria")
"""Sections whose checkboxes describe work and are none; people write criteria as checkboxes too."""

BY_RALPH = "ralph: "
"""Begins the reason of a RALPH_BLOCKED that ralph wrote itself."""
_SIGNED = b"<!-- ralph writes this section, %d lines of reasons, and removes it when done holds -->"
_REFUSAL = re.compile(
    rb"\s*<!-- ralph writes this section, (\d{1,6}) [^\n]*\s*(?:RALPH_DONE was taken back, because:\s*\n)?"
)
_ITEM = re.compile(rb"- [^\n]*(?:\n|\Z)")
_NESTED = re.compile(rb"(?:[ \t]+[^\s][^\n]*(?:\n|\Z))*")
_BOM = b"\xef\xbb\xbf"


class Task(NamedTuple):
    """One item of the task list. A tuple, since a list may have a million."""

    text: str
    done: bool
    raw: bytes
    """The line as it stands in the file, without its line end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a progress file says."""

    done: bool
    stop: bool
    blocked: str | None
    """The reason after RALPH_BLOCKED, perhaps empty; None when the word is not there."""
    tasks: tuple[Task, ...]
    elsewhere: tuple[Task, ...]
    """Checkboxes outside of the task list; an agent may move what is done to a section of its own."""
    plan: str | None
    """The plan it was made for, if it says so."""
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


@dataclass(frozen=True, slots=True)
class _Scan:
    """The telling lines of a text, sorted by what they are."""

    words: list[tuple[Line, bytes, str]]
    headings: list[tuple[Line, int, str]]
    tasks: list[tuple[Line, Task]]
    elsewhere: list[Task]
    plan: str | None
    unclosed: int | None


def parse(text: bytes) -> Progress:
    """What `text` says; any bytes are a progress file."""
    gc.disable()  # of a million lines none is garbage, and looking for it takes longer than reading them
    try:
        scan = _scan(text)
    finally:
        gc.enable()
    words = {word for _, word, _ in scan.words}
    return Progress(
        done=b"RALPH_DONE" in words,
        stop=b"RALPH_STOP" in words,
        blocked=next((why for _, word, why in scan.words if word == b"RALPH_BLOCKED"), None),
        tasks=tuple(task for _, task in scan.tasks),
        elsewhere=tuple(scan.elsewhere),
        plan=scan.plan,
        unclosed_fence=None if scan.unclosed is None else text.count(b"\n", 0, scan.unclosed) + 1,
        size=len(text),
    )


def _scan(text: bytes) -> _Scan:
    lines, unclosed = outside_fences(text, _TELLING)
    scan = _Scan([], [], [], [], _plan(lines), unclosed)
    under: list[tuple[int, str]] = []
    here: bool | None = None
    items: list[tuple[Line, Task, bool | None]] = []
    for line in lines:
        if item := _TASK.fullmatch(line.body):
            text_of = item[2].decode(errors="surrogateescape").strip()
            items.append((line, Task(text=text_of, done=item[1] in b"xX", raw=line.body), here))
        elif word := _WORD.fullmatch(line.body):
            why = (word[2] or b"").decode(errors="replace").strip()
            scan.words.append((line, word[1].split(b":")[0], why))
        elif heading := _HEADING.fullmatch(line.body):
            level, title = len(heading[1]), heading[2].decode(errors="replace").strip(" \t*_#")
            under = [*(outer for outer in under if outer[0] < level), (level, title.casefold())]
            here = _is_for_tasks(under)
            scan.headings.append((line, level, title))
    listed = any(title.casefold().startswith("task") for _, _, title in scan.headings)
    for line, task, of_list in items:
        if of_list or (of_list is None and not listed):
            scan.tasks.append((line, task))
        else:
            scan.elsewhere.append(task)
    return scan


def _plan(lines: Sequence[Line]) -> str | None:
    for line in lines:
        if found := _PLAN.fullmatch(line.body):
            return _unquoted(found[1].decode(errors="surrogateescape").rstrip())
        if line.body.startswith(b"##"):
            return None
    return None


def _unquoted(name: str) -> str:
    """The file name that `fresh` wrote: one with control characters or outer spaces stands there as a JSON string."""
    if name.startswith('"'):
        import json  # noqa: PLC0415 - nearly no plan has such a name

        with contextlib.suppress(ValueError):
            return str(json.loads(name))
    return name


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


def fresh(name: str, plan: str, started: str) -> bytes:
    """The text of a new progress file."""
    plain = plan == plan.strip() and plan.isprintable() and not plan.startswith('"')
    where = plan if plain else _quoted(plan)
    head = f"# Progress: {' '.join(name.split())}\n\nPlan: {where}\nStarted: {started}\n"
    text = head + "\n## Status\n\nIN_PROGRESS\n\n## Task List\n\n## Notes\n"
    return _encoded(text)


def _quoted(name: str) -> str:
    import json  # noqa: PLC0415 - nearly no plan has such a name

    return json.dumps(name, ensure_ascii=False)


def without_done(text: bytes) -> bytes:
    """The same with every RALPH_DONE that counts put back to IN_PROGRESS."""
    for line, word, _ in reversed(_scan(text).words):
        if word == b"RALPH_DONE":
            text = text[: line.start] + text[line.start : line.end].replace(word, b"IN_PROGRESS") + text[line.end :]
    return text


def in_progress(text: bytes) -> bytes:
    """The same with IN_PROGRESS as its status, whatever the status was."""
    text = without_done(text)
    scan = _scan(text)
    if any(word == b"IN_PROGRESS" for _, word, _ in scan.words):
        return text
    status = next((line for line, _, title in scan.headings if title.casefold() == "status"), None)
    if status is None:
        return _insert(text, len(text), [b"", b"## Status", b"", b"IN_PROGRESS"])
    return _insert(text, status.end, [b"", b"IN_PROGRESS"])


def blocked(text: bytes, why: str) -> bytes:
    """The same with ralph's own RALPH_BLOCKED line in the Status section."""
    scan = _scan(text)
    status = [line for line, word, _ in scan.words if word == b"IN_PROGRESS"]
    status += [line for line, _, title in scan.headings if title.casefold() == "status"]
    line = _encoded(f"RALPH_BLOCKED: {BY_RALPH}{' '.join(why.split()) or 'gave up'}")
    return _insert(text, status[0].end if status else len(text), [line])


def without_own_block(text: bytes) -> bytes:
    """The same without the RALPH_BLOCKED lines that ralph wrote."""
    for line, word, why in reversed(_scan(text).words):
        if word == b"RALPH_BLOCKED" and why.startswith(BY_RALPH):
            mark = _BOM if text.startswith(_BOM, line.start) else b""
            text = text[: line.start] + mark + text[line.end :]
    return text


def with_tasks(text: bytes, lines: Sequence[bytes]) -> bytes:
    """The same with these lines at the end of the task list."""
    if not lines:
        return text
    scan = _scan(text)
    if scan.tasks:
        nested = _NESTED.match(text, scan.tasks[-1][0].end)
        return _insert(text, nested.end() if nested else len(text), lines)
    for line, _, title in scan.headings:
        if title.casefold().startswith("task"):
            return _insert(text, line.end, [b"", *lines])
    return _insert(text, len(text), [b"", b"## Task List", b"", *lines])


def with_refusal(text: bytes, reasons: Sequence[str]) -> bytes:
    """The same with a Verification section that says why RALPH_DONE does not hold, in place of an older one."""
    text = without_refusal(text)
    lines = [_encoded(f"- {_harmless(' '.join(reason.split()))}") for reason in reasons]
    said = b"RALPH_DONE was taken back, because:"
    return _insert(text, len(text), [b"", b"## Verification", b"", _SIGNED % len(lines), b"", said, b"", *lines])


def _harmless(reason: str) -> str:
    """A reason quotes what an agent wrote; at the start of an item that could be a task or a fence."""
    return f'"{reason}"' if re.match(r"[^\w\"]|\d+[.)]", reason) else reason


def without_refusal(text: bytes) -> bytes:
    """The same without the Verification section that ralph wrote; a person's own, and what was added below, stays."""
    for line, _, title in reversed(_scan(text).headings):
        if title == "Verification" and (section := _REFUSAL.match(text, line.end)):
            end = section.end()
            for _ in range(int(section[1])):
                if item := _ITEM.match(text, end):
                    end = item.end()
            text = text[: line.start - _blank_above(text, line.start)] + text[end:]
    return text


def _blank_above(text: bytes, at: int) -> int:
    """The length of the blank line before `at`, 0 when there is none."""
    return 2 if text.endswith(b"\n\r\n", 0, at) else int(text.endswith(b"\n\n", 0, at))


def _encoded(text: str) -> bytes:
    """UTF-8; bytes of file names as they are, halves of characters that programs leave when they cut as a mark."""
    return re.sub("[\ud800-\udc7f\udd00-\udfff]", "\ufffd", text).encode(errors="surrogateescape")


def _insert(text: bytes, at: int, lines: Sequence[bytes]) -> bytes:
    """Puts whole lines in at the start of a line, with the line ends the text has."""
    newline = b"\r\n" if text[: text.find(b"\n") + 1].endswith(b"\r\n") else b"\n"
    lead = newline if at and not text[:at].endswith(b"\n") else b""
    return text[:at] + lead + b"".join(line + newline for line in lines) + text[at:]
