"""Putting back what is ralph's alone into a text that somebody else changed, and leaving them the rest."""

from collections import Counter
from collections.abc import Sequence

from ralph.markdown import Line
from ralph.progress.edits import insert
from ralph.progress.reading import LARGE_BYTES
from ralph.tasks.blocks import Block, blocks_of, unknown
from ralph.tasks.edits import Change, inserted, spliced
from ralph.tasks.pieces import Piece, Survey, head_lines, list_lines, signed_lines, state_lines, survey

_BOM = b"\xef\xbb\xbf"
_TOLD = b"> Kept by ralph when it put the task list back:"


def mended(before: Survey, after: Survey, blocks: Sequence[Block], strays: Sequence[Block]) -> Survey:
    """What was left, with everything that is ralph's alone as it was.

    The new items go under Proposed, and words that stand astray in the task list into the Notes.
    """
    now = after
    if now.listed and not before.listed:
        now = survey(spliced(now.text, (_quoted(line) for line, _, title in now.scan.headings if _of_tasks(title))))
    if list_lines(before) != list_lines(now):
        now = survey(_with_lists(before, now))
        now = _with_quoted(now, [line for block in strays for line in block.lines])
    now = _with_proposed(now, [line for block in blocks for line in block.lines])
    return _with_signed(before, _with_head(before, _with_state(before, now)))


def _of_tasks(title: str) -> bool:
    return title.casefold().startswith("task")


def _quoted(line: Line) -> Change:
    return line.start, line.start, b"> "


def _with_lists(before: Survey, after: Survey) -> bytes:
    """The sections with tasks as they were, each where its namesake stands; where there is none, in its old place."""
    wanted = [piece for piece in before.pieces if piece.tasks]
    there = {id(piece) for piece in after.pieces if piece.tasks}
    slots, kept = _slots(wanted, after)
    changes: list[Change] = []
    filled = dict(zip(map(id, kept), slots, strict=True))
    last: int | None = slots[0].start if slots else None
    for piece in wanted:
        body = before.of(piece)
        if slot := filled.get(id(piece)):
            there.discard(id(slot))
            last = slot.end
            last_one = slot.end == len(after.text)
            changes.append((slot.start, slot.end, body if last_one else _ended(body)))
        else:
            last = _old_place(before, piece, after) if last is None else last
            changes.append((last, last, _lead(after.text, last) + _ended(body)))
    left = [item for piece in after.pieces if id(piece) in there for item in after.between(piece.start, piece.end)]
    changes += [(block.start, block.end, b"") for block in blocks_of(after, left, ())]
    return spliced(after.text, changes)


def _slots(wanted: Sequence[Piece], after: Survey) -> tuple[list[Piece], list[Piece]]:
    """The places in the new text where a section of that name stands, and those wanted there, in their old order."""
    free: dict[tuple[int, str], list[Piece]] = {}
    for piece in reversed(after.pieces):
        if piece.tasks:
            free.setdefault(piece.name, []).append(piece)
    found = [(free[piece.name].pop(), piece) for piece in wanted if free.get(piece.name)]
    return sorted((slot for slot, _ in found), key=lambda piece: piece.start), [piece for _, piece in found]


def _old_place(before: Survey, gone: Piece, after: Survey) -> int:
    """Behind the section it stood behind, and all that is nested below that."""
    names = [piece.name for piece in after.pieces]
    above = [piece.name for piece in before.pieces if piece.start < gone.start]
    known = set(names)
    place = next((names.index(name) for name in reversed(above) if name in known), 0)
    while place + 1 < len(names) and names[place + 1][0] > gone.level > 0:
        place += 1
    return after.pieces[place].end


def _ended(body: bytes) -> bytes:
    return body if body.endswith(b"\n") else body + b"\n"


def _lead(text: bytes, at: int) -> bytes:
    """What makes a blank line above that place."""
    if not at or text.endswith((b"\n\n", b"\n\r\n"), 0, at):
        return b""
    return b"\n" if text.endswith(b"\n", 0, at) else b"\n\n"


def _with_proposed(now: Survey, lines: Sequence[bytes]) -> Survey:
    """The same with these items at the end of the Proposed section."""
    if not lines:
        return now
    for piece in now.pieces:
        if piece.title.startswith("proposed") and not piece.tasks:
            at = now.text.find(b"\n", piece.start + len(now.of(piece).rstrip())) + 1 or len(now.text)
            bare = b"\n" not in now.of(piece).rstrip()
            return survey(insert(now.text, at, [b"", *lines] if bare else lines))
    return survey(insert(now.text, len(now.text), [b"", b"## Proposed", b"", *lines]))


def _with_state(before: Survey, now: Survey) -> Survey:
    """The same with the control words as they were, but for those that stop a run."""
    want, have = state_lines(before), state_lines(now)
    if want == have:
        return now
    under_way = [] if b"IN_PROGRESS" in want else now.in_progress
    gone = [(line.start, line.end) for line in (*now.scan.done, *under_way)] + now.verified
    if b"IN_PROGRESS" in want and now.in_progress:
        want = want[:-1]
    at, above, below = _place_of_state(now, [start for start, _ in gone])
    back = [inserted(now.text, at, [*above, *want, *below])] if want else []
    return survey(spliced(now.text, [*((start, end, _mark(now.text, start)) for start, end in gone), *back]))


def _place_of_state(now: Survey, gone: Sequence[int]) -> tuple[int, list[bytes], list[bytes]]:
    """Where a word went away in the Status section, else below its heading, else above the first section.

    And the lines that belong above and below it there.
    """
    for piece in now.pieces:
        if piece.title == "status":
            inside = [start for start in gone if piece.start <= start < piece.end]
            heading = now.text.find(b"\n", piece.start) + 1 or len(now.text)
            return (inside[0], [], []) if inside else (heading, [b""], [])
    sections = [piece.start for piece in now.pieces if piece.level > 1]
    above = [b""] * bool(now.text) + [b"## Status", b""]
    return (sections or [len(now.text)])[0], above, [b""]


def _mark(text: bytes, at: int) -> bytes:
    return _BOM if text.startswith(_BOM, at) else b""


def _with_head(before: Survey, now: Survey) -> Survey:
    """The same with Plan, Started and Spent as they were."""
    if head_lines(before) == head_lines(now):
        return now
    gone = [(line.start, line.end, _mark(now.text, line.start)) for line in now.head]
    title = now.pieces[1] if len(now.pieces) > 1 and now.pieces[1].level == 1 else None
    at = len(_mark(now.text, 0))
    if gone:
        at = gone[0][0]
    elif title:
        at = now.text.find(b"\n", title.start) + 1 or len(now.text)
    lines = [line.body for line in before.head]
    if not gone and not title and (old := [line for line, level, _ in before.scan.headings if level == 1]):
        lines = [old[0].body, b"", *lines, b""]
    return survey(spliced(now.text, [*gone, inserted(now.text, at, lines)]))


def _with_signed(before: Survey, now: Survey) -> Survey:
    """The same with ralph's own Verification section as it was, and no other that claims to be."""
    if signed_lines(before) == signed_lines(now):
        return now
    text = spliced(now.text, ((piece.start, piece.signed, b"") for piece in now.pieces))
    for piece in before.pieces:
        if piece.signed > piece.start:
            text = insert(text, len(text), [b""]) + before.text[piece.start : piece.signed]
    return survey(text)


def with_stops(now: Survey, after: Survey) -> Survey:
    """The same with every word that stops a run as it was left: a person may have written it."""
    missing = Counter(line.body for line in after.stops) - Counter(line.body for line in now.stops)
    at = now.in_progress[0].end if now.in_progress else len(now.text)
    return survey(insert(now.text, at, list(missing.elements()))) if missing else now


def with_quotation(before: Survey, after: Survey) -> Survey:
    """The text as it was, with what is new in the other quoted in its Notes."""
    return _with_quoted(before, unknown(before, after.text.split(b"\n")))


def _with_quoted(now: Survey, lines: Sequence[bytes]) -> Survey:
    """The same with these lines in its Notes: quoted, none of them means anything. Much would cost every iteration."""
    if not lines or sum(map(len, lines)) > LARGE_BYTES:
        return now
    quoted = [_TOLD, *(b"> " + line for line in lines)]
    for piece in now.pieces:
        if piece.title.startswith("notes") and not piece.tasks:
            return survey(insert(now.text, piece.end, [b"", *quoted] + [b""] * (piece.end < len(now.text))))
    return survey(insert(now.text, len(now.text), [b"", b"## Notes", b"", *quoted]))
