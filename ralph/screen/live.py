"""The live area: what changes at the bottom of a terminal, below lines that stay."""

from collections.abc import Callable

from ralph.screen import terminal
from ralph.screen.text import clipped, one_row

_HEIGHT = 4
"""Lines of the smallest terminal that has room for it."""
_ERASE = "\r\x1b[J"


class LiveArea:
    """The unfinished row of the agent's words, and under it the status line.

    Between two drawings the cursor rests at the beginning, so that erasing needs no counting: whatever a terminal makes
    of the rows when it becomes narrower, they are what stands from the cursor on. Only where it becomes so low that
    they do not fit into it, the first of them has scrolled away, and a copy of it stays there.
    """

    def __init__(self, *, colour: bool) -> None:
        self.row = ""
        self.status: Callable[[int], str] = lambda _width: ""
        """The status line for so many columns."""
        self.is_over = False
        """From the next drawing on there is none."""
        self.taken = terminal.Taken()
        self._style = ("\x1b[2m", "\x1b[0m") if colour else ("", "")
        self._drawn = ""

    def draw(self, lines: bytes) -> bytes:
        """What to write so that these lines stand above it, and it says what is true now."""
        try:
            area = self._area()
        except Exception:  # noqa: BLE001 - a mistake there costs the area; it must not cost the lines, from then on
            area = ""
        self.taken.take() if area else self.taken.give_back()
        if not lines and area == self._drawn:
            return b""
        erase = _ERASE if self._drawn else ""
        self._drawn = area
        return erase.encode() + lines + area.encode(errors="replace")

    def _area(self) -> str:
        width, height = terminal.size()
        if self.is_over or height < _HEIGHT or not terminal.in_front():
            return ""
        status = self.status(width)
        rows = [_unwrapped(self.row, width)] if self.row else []
        rows += [self._style[0] + _unwrapped(status, width) + self._style[1]] if status else []
        return "\r\n".join(rows) + "\x1b[A" * (len(rows) - 1) + "\r" * bool(rows)


def _unwrapped(text: str, width: int) -> str:
    """One row for certain, also where the terminal counts columns in another way or has just become narrower."""
    return f"\x1b[?7l{clipped(one_row(text), width)}\x1b[?7h"
