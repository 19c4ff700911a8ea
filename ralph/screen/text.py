"""Text as the rows of a terminal: how many columns it takes, and where it is cut."""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from ralph.screen.terminal import plain

LINE_LIMIT = 4_000
"""Characters of a line that are shown, unless all is wanted; the transcript has it all."""
_PIECE = 4_096
"""Characters that are cut at once: cutting copies what is left."""
_EMOJI = "\N{VARIATION SELECTOR-16}"
_SOFT_HYPHEN = "\N{SOFT HYPHEN}"
_BLANKS = str.maketrans("\n\t", "  ")


@lru_cache(1_024)
def _columns(letter: str) -> int:
    """Of one character; terminals disagree on some emoji, and too many is harmless where too few is not."""
    if letter in (_EMOJI, _SOFT_HYPHEN):
        return 1
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def columns(text: str) -> int:
    """How many columns of a terminal it takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def fitting(text: str, width: int) -> int:
    """How many of its characters fit into so many columns."""
    if text.isascii():
        return min(len(text), max(0, width))
    for at, letter in enumerate(text):
        width -= _columns(letter)
        if width < 0:
            return at
    return len(text)


def clipped(text: str, width: int) -> str:
    """The text, or as much of its beginning as fits, and `…`."""
    if fitting(text, width) == len(text):
        return text
    return text[: fitting(text, width - 1)] + "…"


def one_row(text: str) -> str:
    """The text as one row: what would begin another one, or drive the terminal, is taken out."""
    return plain(text.translate(_BLANKS))


def beginning(line: str, limit: int | None) -> str:
    """The line, or so many characters of it, and `…`."""
    return line if limit is None or len(line) <= limit else line[:limit] + "…"


class Rows:
    """Cuts one text, which comes in pieces, into rows; of a line that is longer than `limit` only the beginning."""

    def __init__(self, limit: int | None = None) -> None:
        self.row = ""
        """The unfinished one."""
        self._limit = limit
        self._length = 0

    def add(self, text: str, width: int | None) -> Iterator[str]:
        """The rows that are full now; without a width a row is a line, however long."""
        first, *more = text.split("\n")
        yield from self._lengthen(first, width)
        for line in more:
            yield from self.end()
            yield from self._lengthen(line, width)

    def end(self) -> Iterator[str]:
        """The last row of a line."""
        row, self.row, self._length = self.row, "", 0
        yield row

    def _lengthen(self, piece: str, width: int | None) -> Iterator[str]:
        length, self._length = self._length, self._length + len(piece)
        if self._limit is not None and self._length > self._limit:
            piece = piece[: max(0, self._limit - length)] + "…" * (length <= self._limit)
        if width is None:
            self.row += piece
            return
        for at in range(0, len(piece), _PIECE):
            self.row += piece[at : at + _PIECE].replace("\t", "    ")
            while fitting(self.row, width) < len(self.row):
                row, self.row = _cut(self.row, width)
                yield row


def _cut(text: str, width: int) -> tuple[str, str]:
    """The first row of a text that is longer, cut at a space where there is one, and what is left."""
    fits = max(1, fitting(text, width))
    at = text.rfind(" ", 0, fits + 1)
    if not text[: max(at, 0)].strip():
        return text[:fits], text[fits:]
    return text[:at], text[at + 1 :]
