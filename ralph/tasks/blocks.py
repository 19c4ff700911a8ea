"""Tasks with what is nested below them, and the words between them, cut out of a text."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ralph.progress.reading import LARGE_BYTES, scan
from ralph.tasks.edits import spliced
from ralph.tasks.pieces import Survey, survey
from ralph.tasks.reading import Item, column_of

_BOM = b"\xef\xbb\xbf"
_FILLED = re.compile(rb"[^\r\n][^\n]*\n?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """An item with what is nested below it."""

    start: int
    end: int
    lines: Sequence[bytes]


def blocks_of(now: Survey, chosen: Sequence[Item], others: Collection[int]) -> list[Block]:
    """These items with what is nested below them, up to the next of the others; those within one are part of it."""
    found: list[Block] = []
    ends = [piece.end for piece in now.pieces]
    for item in sorted(chosen, key=lambda item: item.line.start):
        if not found or item.line.start >= found[-1].end:
            limit = ends[bisect_right(ends, item.line.start)]
            end = _nested_end(now.text, item, limit, others)
            found.append(Block(start=item.line.start, end=end, lines=_at_margin(now, item, end)))
    return found


def _nested_end(text: bytes, item: Item, limit: int, others: Collection[int]) -> int:
    end = at = item.line.end
    while at < limit and at not in others:
        stop = text.find(b"\n", at) + 1 or len(text)
        body = text[at:stop]
        at = stop
        if body.strip():
            if column_of(body) <= item.column:
                break
            end = at
    return end


def _at_margin(now: Survey, item: Item, end: int) -> list[bytes]:
    """The lines of an item, unticked, without the indentation it had where it stood."""
    start = item.line.start
    marks = [now.text.index(b"[", other.line.start) + 1 - start for other in now.between(start, end)]
    unticked = spliced(now.text[start:end], ((at, at + 1, b" ") for at in marks))
    lines = [line.rstrip(b"\r") for line in unticked.removeprefix(_BOM).rstrip(b"\r\n").split(b"\n")]
    lead = lines[0][: len(lines[0]) - len(lines[0].lstrip(b" \t"))]
    moved = [line.removeprefix(lead) for line in lines]
    told = scan(b"\n".join(moved))
    return lines if told.words or told.headings else moved


def stray(before: Survey, after: Survey) -> list[Block]:
    """What was added in sections of tasks and is no part of any task: words that belong into the Notes, if not many."""
    items = [item for piece in after.pieces if piece.tasks for item in after.between(piece.start, piece.end)]
    blocks = blocks_of(after, items, ())
    known = {line.start for line, _, _ in after.scan.headings} | {line.start for line in (*after.head, *after.stops)}
    known |= {line.start for line, _, _ in after.scan.words}
    starts = [piece.start for piece in after.pieces if piece.tasks] + [block.end for block in blocks]
    ends = [piece.end for piece in after.pieces if piece.tasks] + [block.start for block in blocks]
    lines = [
        Block(start=start, end=end, lines=[after.text[start:end].rstrip(b"\r\n")])
        for gap in zip(sorted(starts), sorted(ends), strict=True)
        for start, end in _lines_within(after.text, *gap)
        if start not in known
    ]
    new = Counter(unknown(before, [line.lines[0] for line in lines]))
    found = [line for line in lines if new[line.lines[0]]]
    return found if sum(line.end - line.start for line in found) <= LARGE_BYTES else []


def _lines_within(text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    return (line.span() for line in _FILLED.finditer(text, start, end))


def unknown(before: Survey, lines: Iterable[bytes]) -> list[bytes]:
    """Those that were not there before, or not so often."""
    known = Counter(line.rstrip() for line in before.text.split(b"\n"))
    kept = []
    for raw in lines:
        line = raw.rstrip()
        if line and not known[line]:
            kept.append(raw.rstrip(b"\r"))
        known[line] -= known[line] > 0
    return kept


def without(text: bytes, blocks: Sequence[Block]) -> Survey:
    """What stands where once these are out."""
    return survey(spliced(text, ((block.start, block.end, b"") for block in blocks)))
