"""The screen: lines that never block, never end a run, and never control the terminal; one status line below them."""

import os
import sys
import threading
import time
from collections.abc import Callable

from ralph.screen.text import clip, is_foreground, terminal_width, wrap
from ralph.words import without_control_codes

# Bytes that a slow reader may be behind before lines are dropped; anyone who reads at all stays within it.
_BYTES_KEPT = 16_000_000
# Seconds between two writes to the screen: lines that come meanwhile do not wake the thread.
_FRAME_S = 0.03


class Screen:
    """Prints from its own thread, so that Ctrl+S, a full pipe or a closed one costs lines and nothing else.

    On a terminal that can do more than print lines, a status line is below them, unless `quiet` is on or `spinner` off.
    Between two drawings the cursor rests at its beginning, so that erasing needs no counting: however a narrower
    terminal wraps the status line, it is everything from the cursor on.
    """

    def __init__(self, *, quiet: bool, spinner: bool):
        self.quiet = quiet
        """Whether to print only a line per iteration, wait and run."""
        able = os.isatty(1) and os.environ.get("TERM") not in ("", "dumb", None)  # to do more than print lines
        has_colors = able and not os.environ.get("NO_COLOR")
        self._bold, self._dim, self._off = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if has_colors else ("", "", "")
        self.is_live = able and spinner and not quiet
        """Whether there is a status line."""
        self._errors = 1 if os.path.sameopenfile(1, 2) else 2  # so that they stay in order, and out of the status line
        self._changed = threading.Condition()
        # The bytes still to be printed, by file descriptor.
        self._waiting = {1: bytearray(), 2: bytearray()}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._print_until_closed, daemon=True)

    def start_printing(self, status: Callable[[int], str]) -> None:
        """Starts the thread, which also prints what was queued before.

        It calls `status` for one or more status lines of that many columns.
        """
        self._make_status = status
        self._thread.start()

    def say_cleaned_unless_quiet(self, line: str) -> None:
        """Prints a line of the agent's, unless `quiet`."""
        if not self.quiet:
            self._queue_line(1, without_control_codes(line))

    def say(self, line: str) -> None:
        """Prints a line of ralph's own."""
        self._queue_line(1, f"{self._bold}{self._wrap_for_terminal(line, 1)}{self._off}")

    def say_unless_quiet(self, line: str) -> None:
        """Prints a line of ralph's own, unless `quiet`."""
        if not self.quiet:
            self.say(line)

    def complain(self, line: str) -> None:
        """Prints a line on standard error, or on stdout if there is a status line on the same terminal."""
        self._queue_line(self._errors, self._wrap_for_terminal(line, 2))

    def _wrap_for_terminal(self, line: str, fd: int) -> str:
        edge = terminal_width(fd)
        return "\n  ".join(wrap(line, edge and edge - 2))

    def _queue_line(self, fd: int, line: str) -> None:
        with self._changed:
            if len(self._waiting[fd]) <= _BYTES_KEPT:
                self._waiting[fd] += line.encode(sys.stdout.encoding, "ascii") + b"\n"
                self._changed.notify_all()

    def _print_until_closed(self) -> None:
        """Prints until the screen is closed: lines as they come, and the status line with them and once a second."""
        is_over, drawn = False, ""
        tick_s = 1.0 if self.is_live else None
        while not is_over:
            with self._changed:
                self._changed.wait_for(lambda: any(self._waiting.values()) or self._closing.is_set(), tick_s)
                is_over = self._closing.is_set()
                lines, self._waiting = self._waiting, {1: bytearray(), 2: bytearray()}
            if self.is_live:
                status = self._status_rows()
                if lines[1] or status != drawn:
                    erase = b"\r\x1b[J" if drawn else b""
                    lines[1][:] = erase + lines[1] + status.encode(sys.stdout.encoding, "ascii")
                    drawn = status
            for fd, data in lines.items():
                while data:
                    try:
                        del data[: os.write(fd, data)]
                    except BlockingIOError:  # somebody made the terminal non-blocking; it may be shared
                        time.sleep(0.05)
                    except OSError:
                        break
            self._closing.wait(_FRAME_S)

    def _status_rows(self) -> str:
        """Returns what to draw as status: one row per line, even if the terminal counts columns in another way."""
        if self._closing.is_set() or not is_foreground():
            return ""
        edge = terminal_width() or 80
        try:
            lines = [clip(line, edge) for line in self._make_status(edge).splitlines()]
        except Exception:  # noqa: BLE001 - a mistake there costs the status line; it must not cost the lines
            return ""
        rows = [f"\r{self._dim}\x1b[?7l{line}\x1b[?7h{self._off}" for line in lines]
        return "\n".join(rows) + f"\x1b[{len(rows) - 1}A" * (len(rows) > 1) + "\r" * bool(rows)

    def finish_printing(self) -> None:
        """Waits two seconds at most for what is still to be printed, and removes the status line."""
        with self._changed:
            self._closing.set()
            self._changed.notify_all()
        self._thread.join(2.0)
