"""Text for terminals: how wide it is, and how it is cut or wrapped to fit; and whether there is a terminal."""

import codecs
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from itertools import accumulate

from ralph.words import without_control_codes

# The fewest columns of a row of words, however narrow the terminal is.
_NARROWEST = 8
_ASCII = dict(zip("·…→▸⎿✓✗−≥", "-.>>-+x->", strict=True))  # noqa: RUF001 - a minus


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Returns one ASCII character for each character that the encoding of stdout lacks, and where to continue."""
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_ASCII.get(one, "?") for one in error.object[error.start : error.end]), error.end


codecs.register_error("ascii", _in_ascii)


def _column_count(letter: str) -> int:
    """The columns of one character. Terminals disagree on some emoji: too many is harmless, too few is not."""
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def display_width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return len(text) if text.isascii() else sum(map(_column_count, text))


def _count_fitting(text: str, width: int) -> int:
    """How many characters of the text fit into `width` columns."""
    return sum(columns <= width for columns in accumulate(map(_column_count, text)))


def clip(text: str, width: int) -> str:
    """The text as one row of `width` columns: all of it, or as much of its beginning as fits, and `…`."""
    row = without_control_codes(text.replace("\n", " ").replace("\t", " "))
    return row if display_width(row) <= width else row[: _count_fitting(row, width - 1)] + "…"


def wrap(text: str, width: int | None) -> Iterator[str]:
    """Yields the text's lines, wrapped to `width` columns if given: after a ` ·`, else at a blank, else anywhere."""
    edge = max(width or sys.maxsize, _NARROWEST)
    for line in without_control_codes(text).expandtabs(4).split("\n"):
        at = 0
        while display_width(piece := line[at : at + 4 * edge]) > edge:
            fits = _count_fitting(piece, edge)
            row = re.match(r"(.*\S ·|.*\S) +", piece[: fits + 1])
            yield row[1] if row else piece[:fits]
            at += row.end() if row else fits
        yield line[at:]


def is_any_output_on_terminal() -> bool:
    """Whether stdout or stderr is a terminal, so that somebody sees what is printed."""
    return os.isatty(1) or os.isatty(2)


def terminal_width(fd: int = 1) -> int | None:
    """The number of columns of the terminal on stdout, or on another descriptor; None if it is not a terminal."""
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        return None


def is_foreground() -> bool:
    """Whether this process is in the foreground of the terminal on stdout, and not a background job that shares it."""
    try:
        return os.tcgetpgrp(1) == os.getpgrp()
    except OSError:  # not the controlling terminal of this process
        return True
