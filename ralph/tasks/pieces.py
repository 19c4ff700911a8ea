"""A progress file cut at its headings, and what of it is ralph's alone."""

import functools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ralph.markdown import Line
from ralph.progress.reading import Scan, parse, scan, verified_below
from ralph.progress.refusal import without_refusal
from ralph.tasks.reading import Item, items

_HEAD = (b"Plan:", b"Started:", b"Spent:")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What stands from one heading to the next; the first is what stands above all headings."""

    start: int
    end: int
    level: int
    title: str
    tasks: bool
    """Whether there are tasks in it: then all of it is protected."""
    signed: int
    """Where the refusal that ralph signed ends in it, its start when there is none."""

    @property
    def name(self) -> tuple[int, str]:
        """What it is known by."""
        return self.level, self.title


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A text, and what stands where in it."""

    text: bytes
    scan: Scan
    items: Sequence[Item]
    pieces: Sequence[Piece]

    @property
    def listed(self) -> bool:
        """Whether a heading says where the tasks are."""
        return any(title.casefold().startswith("task") for _, _, title in self.scan.headings)

    @property
    def head(self) -> list[Line]:
        """The lines of the head that say something."""
        return [line for line in self.scan.head if line.body.lstrip(b" ").startswith(_HEAD)]

    @property
    def in_progress(self) -> list[Line]:
        """Each IN_PROGRESS."""
        return [line for line, word, _ in self.scan.words if word == b"IN_PROGRESS"]

    @property
    def stops(self) -> list[Line]:
        """The words that stop a run, which anybody may write."""
        return [line for line, word, _ in self.scan.words if word in (b"RALPH_STOP", b"RALPH_BLOCKED")]

    @property
    def verified(self) -> list[tuple[int, int]]:
        """Where Verified stands below a RALPH_DONE."""
        return [span for done in self.scan.done for span in verified_below(self.text, done)]

    def between(self, start: int, end: int) -> Sequence[Item]:
        """The tasks that begin there."""
        places = [bisect_left(self.items, at, key=lambda item: item.line.start) for at in (start, end)]
        return self.items[places[0] : places[1]]

    def of(self, piece: Piece) -> bytes:
        """Its text."""
        return self.text[piece.start : piece.end]


def survey(text: bytes) -> Survey:
    """What stands where in a text."""
    now = scan(text)
    starts = [0, *(line.start for line, _, _ in now.headings)]
    with_tasks = {bisect_right(starts, line.start) - 1 for line, _ in now.tasks}
    names = [(0, ""), *((level, title) for _, level, title in now.headings)]
    pieces = [
        Piece(
            start=start,
            end=end,
            level=level,
            title=title.casefold(),
            tasks=place in with_tasks,
            signed=_signed(text, start, end) if title == "Verification" else start,
        )
        for place, (start, end, (level, title)) in enumerate(zip(starts, [*starts[1:], len(text)], names, strict=True))
    ]
    return Survey(text=text, scan=now, items=items(text, now), pieces=pieces)


def _signed(text: bytes, start: int, end: int) -> int:
    rest = without_refusal(text[start:end])
    return end - len(rest)


def lines_of(text: bytes) -> list[bytes]:
    """The lines without their ends, and without blank ones: what editors change unasked is no change."""
    return [line for raw in text.split(b"\n") if (line := raw.rstrip(b"\r").removeprefix(_BOM)).strip()]


def protected(now: Survey) -> list[bytes]:
    """The lines that are ralph's alone, in order."""
    return [*head_lines(now), *state_lines(now), *list_lines(now), *signed_lines(now)]


def head_lines(now: Survey) -> list[bytes]:
    """What the head says."""
    return [line.body.strip() for line in now.head]


def state_lines(now: Survey) -> list[bytes]:
    """What the control words say, but for those that stop a run."""
    done = [b"RALPH_DONE"] * bool(now.scan.done)
    under_way = [b"IN_PROGRESS"] * bool(now.in_progress)
    return [*done, *(now.text[start:end].strip() for start, end in now.verified), *under_way]


def list_lines(now: Survey) -> list[bytes]:
    """The sections that have tasks, whole."""
    stops = [line.start for line in now.stops]
    ends = [line.end for line in now.stops]
    parts = []
    for piece in now.pieces:
        if piece.tasks:
            inside = slice(bisect_left(stops, piece.start), bisect_left(stops, piece.end))
            starts = [piece.start, *ends[inside]]
            parts += [now.text[start:end] for start, end in zip(starts, [*stops[inside], piece.end], strict=True)]
            parts.append(b"\n")
    return lines_of(b"".join(parts))


def signed_lines(now: Survey) -> list[bytes]:
    """Why RALPH_DONE was taken back, as ralph wrote it."""
    return lines_of(b"\n".join(now.text[piece.start : piece.signed] for piece in now.pieces))


@functools.lru_cache(maxsize=2)  # as with the tasks
def fingerprint(text: bytes) -> str:
    """The SHA-256 of what is ralph's alone in a progress file: its lines, and what they mean."""
    return fingerprint_of(survey(text))


def fingerprint_of(there: Survey) -> str:
    """The same of a text already looked at; what it means is read anew all the same."""
    import hashlib  # noqa: PLC0415 - only strict mode needs it

    now = parse(there.text)
    tasks = [(item.text, item.mark, item.parent, [note[:2] for note in item.notes]) for item in there.items]
    meaning = repr((now.done, now.verified, now.tasks, now.plan, now.spent_usd, tasks))
    return hashlib.sha256(b"\n".join([*protected(there), meaning.encode()])).hexdigest()
