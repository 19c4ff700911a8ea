"""The agent's words on their way to a person: wrapped, as they come, and never twice."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ralph.screen.terminal import plain
from ralph.screen.text import LINE_LIMIT, Rows

MARGIN = "  "
_NARROWEST = 10


class Live(Protocol):
    """A terminal on which an unfinished row can be shown, and whose width may change."""

    @property
    def width(self) -> int | None:
        """Its columns, as they are now."""

    def words(self, rows: Sequence[str], row: str) -> None:
        """Rows that are full, and the unfinished one, in place of the one before."""


class Speech:
    """Prints what one agent says, with `say` or on a `live` terminal; `whole`: however long a line is."""

    def __init__(self, say: Callable[[str], None], width: int | None, live: Live | None, *, whole: bool) -> None:
        self._say, self._width, self._live = say, width, live
        self._whole = whole
        self._rows = self._fresh_rows()
        self._heard = _Heard()

    def begin(self) -> None:
        """What comes now belongs to no text before: one that broke off is said anew from its beginning."""
        self.end()
        self._heard = _Heard()

    def piece(self, text: str) -> None:
        """The next piece of a text that comes as a whole later."""
        self._heard.add(text)
        self._add(text)

    def aside(self, text: str, indent: str) -> None:
        """A whole text of somebody who speaks meanwhile, and whose words never come in pieces."""
        rows = self._fresh_rows()
        self._print([*_cut(rows, text, self.room(indent)), *rows.end()], indent)

    def text(self, text: str) -> None:
        """A whole text, or what of it has not been shown in pieces."""
        rest = self._heard.rest(text)
        if rest is None:
            self.end()
            rest = text
        self._add(rest)
        self._end()

    def end(self) -> None:
        """Words that broke off are a line, too."""
        if self._rows.row:
            self._end()

    def room(self, indent: str = "") -> int | None:
        """Columns between margin and edge; None where there is no edge."""
        width = self._live.width if self._live else self._width
        return None if width is None else max(_NARROWEST, width - len(MARGIN + indent))

    def _add(self, text: str) -> None:
        self._print(list(_cut(self._rows, text, self.room())))

    def _end(self) -> None:
        rows, self._rows = list(self._rows.end()), self._fresh_rows()
        self._print(rows)

    def _print(self, rows: Sequence[str], indent: str = "") -> None:
        lines = [f"{MARGIN}{indent}{row}" for row in rows]
        if self._live:
            self._live.words(lines, MARGIN + self._rows.row if self._rows.row else "")
            return
        for line in lines:
            self._say(line)

    def _fresh_rows(self) -> Rows:
        return Rows(None if self._whole else LINE_LIMIT)


def _cut(rows: Rows, text: str, room: int | None) -> Iterator[str]:
    return rows.add(text if room is None else plain(text), room)  # what is measured has to be what is shown


class _Heard:
    """Remembers what was said of a text without keeping it."""

    def __init__(self) -> None:
        self._length = self._sum = 0

    def add(self, piece: str) -> None:
        """The next piece."""
        self._length += len(piece)
        self._sum = zlib.crc32(_bytes(piece), self._sum)

    def rest(self, whole: str) -> str | None:
        """What is still to be said of this text; None when it is not the one that the pieces began. Begins anew."""
        length, known = self._length, self._sum
        self._length = self._sum = 0
        return whole[length:] if length and zlib.crc32(_bytes(whole[:length])) == known else None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # JSON can hold halves of characters
