"""What somebody left of the progress file, with everything in it that is ralph's alone as it was.

The head, the Status, the Task List and the Verification are ralph's, all other sections the agent's, and words that
stop a run are anybody's. However tricky a text is, the result is only taken if it means the same to ralph as before.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ralph import progress
from ralph.progress import insert
from ralph.tasks import Task, lines, read

_OURS = ("progress", "status", "task", "verification")
_STOPS = ("RALPH_STOP", "RALPH_BLOCKED")
_MOST_SAID = 40


class Mended(NamedTuple):
    """A text in which everything that is ralph's is as it was."""

    text: bytes
    what: tuple[str, ...] = ()
    """What was undone, a line each for people. It is none that new tasks are under Proposed, and another order."""


def mend(before: bytes, after: bytes) -> Mended:
    """The text `after` with what is ralph's alone as it is in `before`, but for a new RALPH_STOP or RALPH_BLOCKED."""
    wanted, left = _meaning(before), _meaning(after)
    if left == wanted:
        return Mended(after)
    known = {key for task in read(before) for key in (task.id, task.text) if key}
    new = [task for task in read(after) if task.id not in known and task.text not in known]
    text = _with_stops(before, after)
    for quote in (b"", b"> ") if after.strip() else ():  # quoted, nothing means anything
        merged = _with_stops(_merged(before, after, new, quote), after)
        if _meaning(merged) == wanted:
            text = merged
            break
    free = {*wanted, *lines(new)}
    undone = [(line, "added") for line in left if line not in free]
    undone += [(line, "removed") for line in wanted if line not in left]
    what = [f'"{line.decode(errors="replace").strip()}" {how}' for line, how in undone[:_MOST_SAID]]
    return Mended(text, tuple(what))


def _meaning(text: bytes) -> list[bytes]:
    """What it says to ralph, and what ralph says in it, line by line, but for what stops a run."""
    words = progress.parse(text).words
    said = sorted(found[0].body.strip() for word, found in words.items() if word not in _STOPS)
    for title, _, section in _sections(text):
        if title.startswith("verification"):
            said += [line.strip() for line in section.splitlines() if line.strip()]
    return said + lines(read(text))


def _sections(text: bytes) -> Iterator[tuple[str, bool, bytes]]:
    """From one heading of the upper two levels to the next: its title, whether it is ralph's, and its text."""
    now = progress.parse(text)
    places = [(0, "")]
    places += [(line.start, title.casefold()) for line, level, title in now.headings if level <= 2 and line.start]
    for (start, title), (end, _) in pairwise([*places, (len(text), "")]):
        is_ours = not title or title.startswith(_OURS)
        yield title, is_ours or any(start <= task.line.start < end for task in now.tasks), text[start:end]


def _merged(before: bytes, after: bytes, new: Sequence[Task], quote: bytes) -> bytes:
    """Ralph's sections as they were; all others as they are, in the order that was, and the new tasks in Proposed."""
    ours = {title for title, is_ours, _ in _sections(before) if is_ours}
    theirs: dict[str, bytes] = {}
    for title, _, section in _sections(after):
        if title in ours or title.startswith(_OURS):
            continue
        heading, *rest = section.splitlines(keepends=True)
        theirs[title] = theirs.get(title, b"") + quote.join([heading, *rest])
    parts = []
    for title, _, section in _sections(before):
        parts.append(section if title in ours else theirs.pop(title, b""))
    parts += theirs.values()
    text = b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts if part)
    return progress.with_lines(text, "Proposed", [line.replace(b"- [x]", b"- [ ]", 1) for line in lines(new)])


def _with_stops(text: bytes, after: bytes) -> bytes:
    """With every word that stops a run, where a person would look for it."""
    was, now = progress.parse(text).words, progress.parse(after).words
    stops = [now[word][0].body for word in _STOPS if word in now and word not in was]
    under_way = was.get("IN_PROGRESS")
    return insert(text, under_way[0].end if under_way else len(text), stops)
