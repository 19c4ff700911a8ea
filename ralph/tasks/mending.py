"""What somebody left of the progress file, with everything in it that is ralph's alone as it was.

The head, the Status, the Task List and the Verification are ralph's, all other sections the agent's, and words that
stop a run are anybody's. However tricky a text is, the result is only taken if it means the same to ralph as before.
"""

import difflib
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ralph import progress
from ralph.progress.edits import insert
from ralph.progress.reading import scan
from ralph.tasks.edits import spliced
from ralph.tasks.reading import Item, column_of, items, named, read

_OURS = ("progress", "status", "task", "verification")
_STOPS = (b"RALPH_STOP", b"RALPH_BLOCKED")
_BLANK = b"\xef\xbb\xbf\0 \t\r\n"
_TOLD = b"> Kept by ralph when it put the task list back:"
_MARK = re.compile(rb"^([ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\[)[xX~!](?=\])", re.MULTILINE)
_COUNTS = re.compile(
    r"\s*(?:[#>]|RALPH_|IN_PROGRESS|Plan:|Started:|Spent:|Verified:|`{3}|~{3}|<!--"
    r"|(?:[-*+]|\d{1,9}[.)])\s+(?:\[.\]|(?:after|priority|verify|failed|blocked):))"
)
"""A line that means, or may have meant, something to ralph; any other among its own is somebody's words."""
_COMPARED = 1000
"""Lines that are compared one by one; a list that is longer is known by what it means."""
_READ_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """A text in which everything that is ralph's is as it was."""

    text: bytes
    what: tuple[str, ...] = ()
    """What was undone, a line each for people; white space and proposals are none of it."""
    proposed: int = 0
    """How many new tasks were moved from the task list to Proposed."""
    diff: str = ""
    """The lines that are ralph's, as they were and as they were left; empty when nothing was undone."""


def mend(before: bytes, after: bytes) -> Mended:
    """The text `after` with what is ralph's alone as it is in `before`, but for a new RALPH_STOP or RALPH_BLOCKED."""
    wanted = _essence(before)
    if _essence(after) == wanted:
        return Mended(text=after)
    new = _new_tasks(before, after)
    was, now = _protected(before), _protected(_without(after, new))
    if was == now and not new:  # what is elsewhere means something where it stands now
        was, now = _lines(before), _lines(after)
    what = tuple(_said(was, now))
    diff = "".join(f"{line}\n" for line in list(difflib.unified_diff(was, now, n=0, lineterm=""))[2:])
    words = [line for line in _unknown(was, now) if not _COUNTS.match(line)]
    proposals = [_as_proposal(after, item, end) for item, end in new]
    merged = _with_quoted(_with_proposed(_merged(before, after), proposals), words)
    quoted = _with_quoted(before, _unknown(_lines(before), _lines(after)))
    for text, proposed in ((merged, len(new)), (quoted, 0)) if after.strip(_BLANK) else ():
        whole = _with_stops(text, after)
        if _essence(whole) == wanted:
            return Mended(text=whole, what=what, proposed=proposed, diff=diff)
    return Mended(text=_with_stops(before, after), what=what, diff=diff)


def _essence(text: bytes) -> object:
    """What of a text is ralph's: its lines, and what the whole means but for words that stop a run."""
    now = progress.parse(text)
    under_way = any(word == b"IN_PROGRESS" for _, word, _ in scan(text).words)
    meaning = now.done, now.verified, now.plan, now.spent_usd, under_way, now.tasks, read(text)
    return [line.rstrip() for line in _protected(text)], meaning


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
    return _lines(b"".join(section for _, ours, section in _sections(spliced(text, stops)) if ours))[:_COMPARED]


def _lines(text: bytes) -> list[str]:
    """Those that are not blank, without what editors change unasked."""
    lines = (line.strip(b"\r\0").removeprefix(b"\xef\xbb\xbf") for line in text[:_READ_BYTES].split(b"\n"))
    return [line.decode(errors="surrogateescape") for line in lines if line.strip()]


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


def _new_tasks(before: bytes, after: bytes) -> list[tuple[Item, int]]:
    """The tasks that are new in the list, each with where that ends which is nested below it."""
    known = {key for item in items(before) for key in (item.id, named(item.text)[1]) if key}
    listed = items(after)
    old = [item.line.start for item in listed if item.id in known or named(item.text)[1] in known]
    found: list[tuple[Item, int]] = []
    for item in listed:
        place = bisect_left(old, item.line.start)
        limit = old[place] if place < len(old) else len(after)
        if limit == item.line.start or (found and item.line.start < found[-1][1]):
            continue
        end = item.line.end
        while end < limit:
            stop = after.find(b"\n", end) + 1 or len(after)
            if not after[end:stop].strip() or column_of(after[end:stop]) <= item.column:
                break
            end = stop
        found.append((item, end))
    return found


def _without(text: bytes, new: Sequence[tuple[Item, int]]) -> bytes:
    return spliced(text, ((item.line.start, end, b"") for item, end in new))


def _as_proposal(text: bytes, item: Item, end: int) -> bytes:
    """The lines of a task, unticked, at the margin."""
    lines = _MARK.sub(rb"\1 ", text[item.line.start : end].removeprefix(b"\xef\xbb\xbf")).splitlines()
    lead = lines[0][: len(lines[0]) - len(lines[0].lstrip(b" \t"))]
    return b"\n".join(line.removeprefix(lead) for line in lines)


def _with_proposed(text: bytes, proposals: Sequence[bytes]) -> bytes:
    lines = [line for proposal in proposals for line in proposal.split(b"\n")]
    return _with_lines(text, "proposed", [b"", b"## Proposed", b""], lines)


def _with_quoted(text: bytes, words: Sequence[str]) -> bytes:
    """The same with these lines in its Notes, as a quotation, in which nothing means anything."""
    lines = [b"> " + word.encode(errors="surrogateescape") for word in words]
    return _with_lines(text, "notes", [b"", b"## Notes", b""], [_TOLD, *lines] if lines else [])


def _with_lines(text: bytes, title: str, heading: Sequence[bytes], lines: Sequence[bytes]) -> bytes:
    """The same with these lines at the end of the section of that title, made with its heading where there is none."""
    at = 0
    for name, _, section in _sections(text):
        at += len(section)
        if name == title and lines:
            return insert(text, at, lines)
    return insert(text, len(text), [*heading, *lines]) if lines else text


def _with_stops(text: bytes, after: bytes) -> bytes:
    """With every word that stops a run, where a person would look for it."""
    there = {line.body for line, _, _ in scan(text).words}
    stops = [line.body for line, word, _ in scan(after).words if word in _STOPS and line.body not in there]
    at = next((line.end for line, word, _ in scan(text).words if word == b"IN_PROGRESS"), len(text))
    return insert(text, at, stops) if stops else text
