"""Undoing what an agent changed in a progress file that only ralph may change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ralph.tasks.blocks import Block, blocks_of, stray, without
from ralph.tasks.findings import difference, findings, match
from ralph.tasks.mending import mended, with_quotation, with_stops
from ralph.tasks.pieces import Survey, fingerprint, fingerprint_of, list_lines, survey

__all__ = ["Undone", "fingerprint", "undo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """A text in which everything that is ralph's alone is as it was."""

    text: bytes
    what: tuple[str, ...] = ()
    """What was undone, one line each for people; white space, proposals and notes put in their place are none of it."""
    proposed: int = 0
    """How many new items were moved from the task list to Proposed."""
    diff: str = ""
    """The protected lines, as they were and as they were left; empty when nothing was undone."""


def undo(before: bytes, after: bytes) -> Undone:
    """The text `after` with what is ralph's alone put back to what it was in `before`.

    Whatever `after` says, the result means the same to ralph as `before`, but for a new RALPH_STOP or RALPH_BLOCKED.
    """
    was, now = survey(before), survey(after)
    wanted = fingerprint_of(was)
    if fingerprint_of(now) == wanted:
        return Undone(text=after)
    matched = match(was.items, now.items)
    known = {item.line.start for item in now.items} - {item.line.start for item in matched.new}
    blocks, strays = blocks_of(now, matched.new, known), stray(was, now)
    what = findings(was, now, matched)
    if not what and _words(was) != _words(without(after, [*blocks, *strays])):
        what = ("lines of the task list were changed or moved",)
    diff = difference(was, now) if what else ""
    for found, moved in _candidates(was, now, blocks, strays):
        if fingerprint_of(found) == wanted:
            return Undone(text=found.text, what=what, proposed=len(moved), diff=diff)
    return Undone(text=before, what=what, diff=diff)


def _candidates(
    was: Survey, now: Survey, blocks: Sequence[Block], strays: Sequence[Block]
) -> Iterator[tuple[Survey, Sequence[Block]]]:
    """What might be the answer, the kindest first; each is looked at before it is taken, for texts can be tricky."""
    if now.text.strip(b"\xef\xbb\xbf\0 \t\r\n"):
        yield with_stops(mended(was, now, blocks, strays), now), blocks
        yield with_stops(with_quotation(was, now), now), ()
    yield with_stops(was, now), ()


def _words(now: Survey) -> list[bytes]:
    return [line.rstrip() for line in list_lines(now)]
