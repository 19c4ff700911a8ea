"""What somebody left of the progress file, with everything in it that is ralph's alone as it was.

The head, the Status, the Task List and the Verification are ralph's, all other sections the agent's, and words that
stop a run are anybody's. However tricky a text is, the result is only taken if it means the same to ralph as before.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ralph import progress
from ralph.progress.edits import insert
from ralph.tasks.edits import lines
from ralph.tasks.order import unknown
from ralph.tasks.reading import Task, flat, read

_OURS = ("progress", "status", "task", "verification")
_STOPS = (b"RALPH_STOP", b"RALPH_BLOCKED")
_MOST_SAID = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """A text in which everything that is ralph's is as it was."""

    text: bytes
    what: Sequence[str] = ()
    """What was undone, a line each for people; proposals are none of it."""
    proposed: int = 0
    """How many new tasks were moved from the task list to Proposed."""


def mend(before: bytes, after: bytes) -> Mended:
    """The text `after` with what is ralph's alone as it is in `before`, but for a new RALPH_STOP or RALPH_BLOCKED."""
    wanted = _meaning(before)
    if _meaning(after) == wanted:
        return Mended(text=after)
    known = {key for task in flat(read(before)) for key in (task.id, task.text) if key}
    new = unknown(read(after), known)
    what = _undone(before, after, new)
    for quoted in (False, True) if after.strip() else ():  # quoted, nothing means anything
        text = _with_stops(_with_proposed(_merged(before, after, quoted=quoted), new), after)
        if _meaning(text) == wanted:
            return Mended(text=text, what=what, proposed=len(new))
    return Mended(text=_with_stops(before, after), what=what or ("all of it, since it would mean something else",))


def _meaning(text: bytes) -> object:
    """What it says to ralph, and what ralph says in it, but for what stops a run."""
    now = progress.parse(text)
    refusal = [section.split() for title, _, section in _sections(text) if title.startswith("verification")]
    return now.done, now.verified, now.plan, now.spent_usd, bool(now.on("IN_PROGRESS")), refusal, read(text)


def _sections(text: bytes) -> Iterator[tuple[str, bool, bytes]]:
    """From one heading of the upper two levels to the next: its title, whether it is ralph's, and its text."""
    now = progress.parse(text)
    headings = [(line.start, title.casefold()) for line, level, title in now.headings if level <= 2]
    places = [(0, ""), *((start, title) for start, title in headings if start), (len(text), "")]
    listed = [task.line.start for task in now.tasks]
    for (start, title), (end, _) in pairwise(places):
        has_tasks = bisect_left(listed, start) < bisect_left(listed, end)
        yield title, has_tasks or not title or title.startswith(_OURS), text[start:end]


def _undone(before: bytes, after: bytes, new: Sequence[Task]) -> tuple[str, ...]:
    """The lines in which ralph's sections differ, but for the new tasks, which are proposals."""
    proposed = {line.body.strip() for task in flat(new) for line in (task.place, *(note.place for note in task.notes))}
    was, now = _protected(before), _protected(after)
    said = [(line, "removed") for line in was if line not in now]
    said += [(line, "added") for line in now if line not in was and line not in proposed]
    if not said and not new:
        return ("what stands elsewhere or in another order means something else there",)
    return tuple(f'"{line.decode(errors="surrogateescape")}" {what}' for line, what in said[:_MOST_SAID])


def _protected(text: bytes) -> dict[bytes, None]:
    """The lines of ralph's sections that are not blank, but for words that stop a run."""
    ours = b"".join(section for _, is_ours, section in _sections(text) if is_ours)
    found = (line.strip() for line in ours.split(b"\n"))
    return {line: None for line in found if line and not line.startswith(_STOPS)}


def _merged(before: bytes, after: bytes, *, quoted: bool) -> bytes:
    """Ralph's sections as they were, all others as they are, in the order in which they were, new ones last."""
    ours = {title for title, is_ours, _ in _sections(before) if is_ours}
    theirs: dict[str, bytes] = {}
    for title, _, section in _sections(after):
        if title not in ours and not title.startswith(_OURS):
            heading, *rest = section.splitlines(keepends=True)
            theirs[title] = theirs.get(title, b"") + (b"> ".join([heading, *rest]) if quoted else section)
    parts = [section if title in ours else theirs.pop(title, b"") for title, _, section in _sections(before)]
    parts += theirs.values()
    return b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts if part)


def _with_proposed(text: bytes, new: Sequence[Task]) -> bytes:
    """The same with these tasks, to do, at the end of its Proposed section, made where there is none."""
    listed = [line.replace(b"- [x]", b"- [ ]", 1) for line in lines(new)]
    at = 0
    for title, _, section in _sections(text):
        at += len(section)
        if title == "proposed":
            return insert(text, at, listed)
    return insert(text, len(text), [b"", b"## Proposed", b"", *listed]) if new else text


def _with_stops(text: bytes, after: bytes) -> bytes:
    """With every word that stops a run, where a person would look for it."""
    there = {line.body for line, _, _ in progress.parse(text).words}
    words = ((line.body, word) for line, word, _ in progress.parse(after).words)
    stops = [body for body, word in words if word.encode() in _STOPS and body not in there]
    under_way = progress.parse(text).on("IN_PROGRESS")
    return insert(text, under_way[0].end if under_way else len(text), stops)
