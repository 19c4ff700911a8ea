"""The screen: lines that never block, never end a run, and never drive the terminal."""

import contextlib
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from ralph.process import signals
from ralph.screen import terminal
from ralph.screen.detail import Detail
from ralph.screen.live import LiveArea
from ralph.screen.terminal import is_terminal, plain
from ralph.screen.text import LINE_LIMIT, beginning

_BYTES_KEPT = 4_000_000
_BATCH_BYTES = 65_536
_OVERHEAD_BYTES = 200
"""What an empty line takes in memory."""
_PATIENCE_S = 2.0
"""Seconds that lines wait in all for a reader that is behind, before they are dropped."""
_HELD_S = 0.5
"""Seconds after which a terminal that does not take the last lines is taken for stopped."""
_TICK_S = 1.0
_FRAME_S = 0.03
"""Seconds between two drawings of what changes all the time."""


class Screen:
    """Prints from a thread of its own, so that Ctrl+S, a full pipe or a closed one costs lines and nothing else.

    On a terminal that can do more than print lines there is a live area below them, unless there shall be no spinner.
    """

    def __init__(self, detail: Detail = Detail.NORMAL, *, spinner: bool = True) -> None:
        self._is_terminal = is_terminal(1)
        able = self._is_terminal and os.environ.get("TERM") not in ("", "dumb", None)
        self._colour = able and not os.environ.get("NO_COLOR")
        self.live = LiveArea(colour=self._colour) if able and spinner and detail is not Detail.QUIET else None
        self._errors = 1 if self.live and terminal.same(1, 2) else 2  # the area is not to be drawn into
        self.detail = detail
        self._limit = None if detail is Detail.VERBOSE else LINE_LIMIT
        self._changed = threading.Condition()
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._is_printing = self._redraws = False
        self._lost = 0
        self._patience_s = _PATIENCE_S
        self._is_file = stat.S_ISREG(os.fstat(1).st_mode)  # a disk is slow at times, but it does not stop reading

    @property
    def width(self) -> int | None:
        """The columns of the terminal, as it is now; None when it is none."""
        return terminal.size().columns if self._is_terminal else None

    def open(self) -> None:
        """Starts the thread; what was said before is printed now."""
        threading.Thread(target=self._print, name="screen", daemon=True).start()

    def agent(self, line: str) -> None:
        """A line of the agent's."""
        if self.detail is not Detail.QUIET:
            self._put(1, self._shown(line))

    def words(self, rows: Sequence[str], row: str) -> None:
        """Rows of the agent's words, and in place of the one before, which they may complete, an unfinished one."""
        with self._changed:
            for line in rows:
                self.agent(line)
            if self.live and row != self.live.row:
                self.live.row, self._redraws = row, True
                self._changed.notify_all()

    def shows(self, status: Callable[[int], str]) -> None:
        """What gives the status line for so many columns; it is called by the screen's thread."""
        if self.live:
            self.live.status = status

    def say(self, line: str) -> None:
        """A line of ralph's own."""
        text = self._shown(line)
        self._put(1, f"\x1b[1m{text}\x1b[0m" if self._colour else text)

    def remark(self, line: str) -> None:
        """A line of ralph's own that somebody who wants it quiet can do without."""
        if self.detail is not Detail.QUIET:
            self.say(line)

    def complain(self, line: str) -> None:
        """A line on standard error."""
        self._put(self._errors, self._shown(line))

    def _shown(self, line: str) -> str:
        return plain(beginning(line, self._limit))

    def _put(self, fd: int, line: str) -> None:
        """Waits for a slow reader, but not for long, and not when ralph shall end."""
        data = line.encode(errors="replace") + b"\n"
        with self._changed:
            if not self._waiting:
                self._patience_s = _PATIENCE_S
            patience_s = 0.0 if signals.interrupted() else self._patience_s
            began = time.monotonic()
            if self._changed.wait_for(self._has_room, max(0.0, patience_s)):
                self._waiting.append((fd, data))
                self._bytes += len(data) + _OVERHEAD_BYTES
                self._changed.notify_all()
            else:
                self._lost += 1
            self._patience_s -= 0.0 if self._is_file else time.monotonic() - began

    def _has_room(self) -> bool:
        return self._bytes < _BYTES_KEPT

    def _print(self) -> None:
        while True:
            fd, data = self._next()
            if self.live and fd == 1:
                data = self.live.draw(data)
            with contextlib.suppress(OSError):
                while data:
                    data = data[_write(fd, data) :]
            if self.live and not self._waiting and not self.live.is_over:
                time.sleep(_FRAME_S)

    def _next(self) -> tuple[int, bytes]:
        """Lines for one file descriptor, as many as make a good batch; none when only the live area has changed."""
        with self._changed:
            self._is_printing = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._redraws, _TICK_S if self.live else None)
            self._is_printing, self._redraws = True, False
            fd, batch = self._waiting[0][0] if self._waiting else 1, bytearray()
            while self._waiting and self._waiting[0][0] == fd and len(batch) < _BATCH_BYTES:
                _, data = self._waiting.popleft()
                batch += data
                self._bytes -= len(data) + _OVERHEAD_BYTES
            return fd, bytes(batch)

    def close(self, timeout_s: float = 2.0) -> None:
        """Waits at most that long for what is still to be printed; nothing remains of the live area."""
        if self._lost:
            self._put(self._errors, f"ralph: {self._lost} lines could not be shown; the transcripts have them")
        with self._changed:
            if self.live:
                self.live.is_over = True
            self._redraws = True
            self._changed.notify_all()
            if not self._changed.wait_for(self._is_done, min(_HELD_S, timeout_s)) and self.live:
                terminal.go_on()  # or the status line would stay, under the shell's prompt
            self._changed.wait_for(self._is_done, max(0.0, timeout_s - _HELD_S))
        if self.live:
            self.live.taken.give_back()  # also where the thread is held

    def _is_done(self) -> bool:
        return not self._waiting and not self._is_printing and not self._redraws


def _write(fd: int, data: bytes) -> int:
    try:
        return os.write(fd, data)
    except BlockingIOError:  # somebody made the terminal non-blocking; it may be shared
        time.sleep(0.05)
        return 0
