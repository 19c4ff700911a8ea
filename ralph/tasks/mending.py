"""What somebody left of the progress file, with everything in it that is ralph's alone as it was.

The head, the Status, the Task List and the Verification are ralph's, all other sections the agent's, and words that
stop a run are anybody's. However tricky a text is, the result is only taken if it means the same to ralph as before.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ralph import progress
from ralph.progress import insert
from ralph.tasks import Task, flat, lines, read, unknown

_OURS = ("progress", "status", "task", "verification")
_STOPS = ("RALPH_STOP", "RALPH_BLOCKED")
_MOST_SAID = 40


class Mended(NamedTuple):
    """A text in which everything that is ralph's is as it was."""

    text: bytes
    what: tuple[str, ...] = ()
    """What was undone, a line each for people; proposals are none of it."""
    proposed: int = 0
    """How many new tasks were moved from the task list to Proposed."""


def mend(before: bytes, after: bytes) -> Mended:
    """The text `after` with what is ralph's alone as it is in `before`, but for a new RALPH_STOP or RALPH_BLOCKED."""
    if after == before:
        return Mended(after)
    wanted = _meaning(before)
    if _meaning(after) == wanted:
        return Mended(after)
    known = {key for task in flat(read(before)) for key in (task.id, task.text) if key}
    new = unknown(read(after), known)
    for quote in (b"", b"> ") if after.strip() else ():  # quoted, nothing means anything
        text = _with_stops(_merged(before, after, new, quote), after)
        if _meaning(text) == wanted:
            return Mended(text, _undone(before, after, text, new), len(new))
    text = _with_stops(before, after)
    return Mended(text, _undone(before, after, text, ()))


def _meaning(text: bytes) -> object:
    """What it says to ralph, and what ralph says in it, but for what stops a run."""
    now = progress.parse(text)
    refusal = [section.split() for title, _, section in _sections(text) if title.startswith("verification")]
    head = now.plan, now.spent_usd, now.mode, now.round
    return now.done, now.verified, head, "IN_PROGRESS" in now.words, refusal, lines(read(text))


def _sections(text: bytes) -> Iterator[tuple[str, bool, bytes]]:
    """From one heading of the upper two levels to the next: its title, whether it is ralph's, and its text."""
    now = progress.parse(text)
    places = [(0, "")]
    places += [(line.start, title.casefold()) for line, level, title in now.headings if level <= 2 and line.start]
    for (start, title), (end, _) in pairwise([*places, (len(text), "")]):
        is_ours = not title or title.startswith(_OURS)
        yield title, is_ours or any(start <= task.line.start < end for task in now.tasks), text[start:end]


def _undone(before: bytes, after: bytes, text: bytes, new: Sequence[Task]) -> tuple[str, ...]:
    """The lines in which what was left differs from what stands there now, but for new tasks, which are proposals."""
    left, now = _said(after), _said(text)
    for task in flat(new):
        for proposed in (task.line, *(note.line for note in task.notes)):
            left.pop(proposed.body.decode(errors="surrogateescape").strip(), None)
    said = []
    for line in _said(before) | left:
        if line in left and line not in now:
            said.append(f'"{line}" added')
        elif line in now and line not in left:
            said.append(f'"{line}" removed')
    if not said and not new:
        said = ["what stands elsewhere or in another order means something else there"]
    return tuple(said[:_MOST_SAID])


def _said(text: bytes) -> dict[str, None]:
    """Its lines in their order, quoted or not, each once."""
    said = text.decode(errors="surrogateescape").split("\n")
    return dict.fromkeys(line.strip().removeprefix("> ") for line in said if line.strip())


def _merged(before: bytes, after: bytes, new: Sequence[Task], quote: bytes) -> bytes:
    """Ralph's sections as they were; all others as they are, the new tasks in Proposed, in the order that was."""
    ours = {title for title, is_ours, _ in _sections(before) if is_ours}
    theirs: dict[str, bytes] = {}
    for title, _, section in _sections(after):
        if title in ours or title.startswith(_OURS):
            continue
        heading, *rest = section.splitlines(keepends=True)
        theirs[title] = theirs.get(title, b"") + quote.join([heading, *rest])
    if new:
        section = theirs.get("proposed", b"\n## Proposed\n\n")
        listed = [line.replace(b"- [x]", b"- [ ]", 1) for line in lines(new)]
        theirs["proposed"] = insert(section, len(section), listed)
    parts = []
    for title, _, section in _sections(before):
        parts.append(section if title in ours else theirs.pop(title, b""))
    parts += theirs.values()
    return b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts if part)


def _with_stops(text: bytes, after: bytes) -> bytes:
    """With every word that stops a run, where a person would look for it."""
    was, now = progress.parse(text).words, progress.parse(after).words
    there = {line.body for lines in was.values() for line in lines}
    stops = [line.body for word in _STOPS for line in now.get(word, ()) if line.body not in there]
    under_way = was.get("IN_PROGRESS")
    return insert(text, under_way[0].end if under_way else len(text), stops)
