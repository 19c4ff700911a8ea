"""What somebody left of the progress file, with everything in it that is ralph's alone as it was.

The head, the Status, the Task List and the Verification are ralph's, all other sections the agent's, and words that
stop a run are anybody's. However tricky a text is, the result is only taken if it means the same to ralph as before.
"""

import difflib
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from ralph import progress
from ralph.progress.edits import insert
from ralph.progress.reading import scan
from ralph.tasks.edits import lines, spliced
from ralph.tasks.reading import Task, flat, read

_OURS = ("progress", "status", "task", "verification")
_STOPS = (b"RALPH_STOP", b"RALPH_BLOCKED")
_TOLD = b"> Kept by ralph when it put the task list back:"
_COUNTS = re.compile(
    r"\s*(?:[#>]|RALPH_|IN_PROGRESS|Plan:|Started:|Spent:|Verified:|`{3}|~{3}|<!--"
    r"|(?:[-*+]|\d{1,9}[.)])\s+(?:\[.\]|(?:after|priority|verify|failed|blocked):))"
)
"""A line that means, or may have meant, something to ralph; any other among its own is somebody's words."""
_COMPARED = 1000
"""Lines that are compared one by one."""
_MOST_SAID = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """A text in which everything that is ralph's is as it was."""

    text: bytes
    what: Sequence[str] = ()
    """What was undone, a line each for people; white space and proposals are none of it."""
    proposed: int = 0
    """How many new tasks were moved from the task list to Proposed."""


def mend(before: bytes, after: bytes) -> Mended:
    """The text `after` with what is ralph's alone as it is in `before`, but for a new RALPH_STOP or RALPH_BLOCKED."""
    wanted = _meaning(before)
    if _meaning(after) == wanted:
        return Mended(text=after)
    known = {key for task in flat(read(before)) for key in (task.id, task.text) if key}
    new = list(_new(read(after), known))
    places = [line for task in flat(new) for line in (task.place, *(note.place for note in task.notes))]
    was, now = _protected(before), _protected(spliced(after, ((line.start, line.end, b"") for line in places)))
    if was == now and not new:  # what is elsewhere means something where it stands now
        was, now = _lines(before), _lines(after)
    what = tuple(islice(_said(was, now), _MOST_SAID))
    words = [line for line in _unknown(was, now) if not _COUNTS.match(line)]
    merged = _with_quoted(_with_lines(_merged(before, after), "Proposed", lines(new)), words)
    quoted = _with_quoted(before, _unknown(_lines(before), _lines(after)))
    for text, proposed in ((merged, len(new)), (quoted, 0)) if after.strip(b"\xef\xbb\xbf\0 \t\r\n") else ():
        whole = _with_stops(text, after)
        if _meaning(whole) == wanted:
            return Mended(text=whole, what=what, proposed=proposed)
    return Mended(text=_with_stops(before, after), what=what)


def _meaning(text: bytes) -> object:
    """What it says to ralph, and what ralph says in it, but for what stops a run."""
    now = progress.parse(text)
    under_way = any(word == b"IN_PROGRESS" for _, word, _ in scan(text).words)
    signed = (section for title, _, section in _sections(text) if title.startswith("verification"))
    refusal = [line.rstrip() for section in signed for line in _lines(section)]
    return now.done, now.verified, now.plan, now.spent_usd, under_way, refusal, read(text)


def _sections(text: bytes) -> Iterator[tuple[str, bool, bytes]]:
    """From one heading of the upper two levels to the next: its title, whether it is ralph's, and its text."""
    now = scan(text)
    headings = [(line.start, title.casefold()) for line, level, title in now.headings if level <= 2]
    places = [(0, ""), *((start, title) for start, title in headings if start), (len(text), "")]
    listed = [line.start for line, _ in now.tasks]
    for (start, title), (end, _) in pairwise(places):
        has_tasks = bisect_left(listed, start) < bisect_left(listed, end)
        yield title, has_tasks or not title or title.startswith(_OURS), text[start:end]


def _protected(text: bytes) -> list[str]:
    """The lines of ralph's sections, but for words that stop a run."""
    stops = [(line.start, line.end, b"") for line, word, _ in scan(text).words if word in _STOPS]
    return _lines(b"".join(section for _, ours, section in _sections(spliced(text, stops)) if ours))


def _lines(text: bytes) -> list[str]:
    """Those that are not blank, without what editors change unasked."""
    every = (line.strip(b"\r\0").removeprefix(b"\xef\xbb\xbf") for line in text.split(b"\n"))
    return [line.decode(errors="surrogateescape") for line in every if line.strip()][:_COMPARED]


def _unknown(was: Sequence[str], now: Sequence[str]) -> list[str]:
    known = {line.rstrip() for line in was}
    return [line for line in now if line.rstrip() not in known]


def _said(was: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    for kind, start, end, new_start, new_end in difflib.SequenceMatcher(None, was, now).get_opcodes():
        old, new = was[start:end], now[new_start:new_end]
        if kind == "replace" and len(old) == len(new):
            yield from (f'"{one.strip()}" became "{two.strip()}"' for one, two in zip(old, new, strict=True))
        elif kind != "equal":
            yield from (f'"{line.strip()}" removed' for line in old)
            yield from (f'"{line.strip()}" added' for line in new)


def _merged(before: bytes, after: bytes) -> bytes:
    """Ralph's sections as they were, all others as they are, each behind the one of ralph's it stands behind."""
    ours = [(title, section) for title, is_ours, section in _sections(before) if is_ours]
    titles = {title for title, _ in ours}
    behind: dict[str, list[bytes]] = {}
    last = ours[0][0] if ours else ""
    for title, _, section in _sections(after):
        if title in titles:
            last = title
        elif title and not title.startswith(_OURS):
            behind.setdefault(last, []).append(section)
    parts = [part for title, section in ours for part in (section, *behind.pop(title, ()))]
    return b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts if part)


def _new(tasks: Sequence[Task], known: Collection[str]) -> Iterator[Task]:
    """Those of them that are not known, unticked, and below the others likewise."""
    for task in tasks:
        below = list(_new(task.subtasks, known))
        if task.id in known or task.text in known:
            yield from below
        else:
            yield replace(task, mark=" ", subtasks=below)


def _with_quoted(text: bytes, words: Sequence[str]) -> bytes:
    """The same with these lines in its Notes, as a quotation, in which nothing means anything."""
    quotes = [b"> " + word.encode(errors="surrogateescape") for word in words]
    return _with_lines(text, "Notes", [_TOLD, *quotes] if quotes else [])


def _with_lines(text: bytes, title: str, new: Sequence[bytes]) -> bytes:
    """The same with these lines at the end of the section of that title, made with its heading where there is none."""
    at = 0
    for name, _, section in _sections(text):
        at += len(section)
        if name == title.casefold() and new:
            return insert(text, at, new)
    return insert(text, len(text), [b"", f"## {title}".encode(), b"", *new]) if new else text


def _with_stops(text: bytes, after: bytes) -> bytes:
    """With every word that stops a run, where a person would look for it."""
    there = {line.body for line, _, _ in scan(text).words}
    stops = [line.body for line, word, _ in scan(after).words if word in _STOPS and line.body not in there]
    at = next((line.end for line, word, _ in scan(text).words if word == b"IN_PROGRESS"), len(text))
    return insert(text, at, stops) if stops else text
