"""The screen: lines that never block, never end a run, and never drive the terminal."""

import contextlib
import os
import queue
import shutil
import threading
import time

from ralph.terminal import is_terminal, plain

_LINES_KEPT = 10_000
_STALLED_S = 1.0
"""Seconds after which a reader that takes nothing counts as gone, and lines are dropped."""


class Screen:
    """Prints from a thread of its own, so that Ctrl+S, a full pipe or a closed one costs lines and nothing else."""

    def __init__(self) -> None:
        self.width = shutil.get_terminal_size().columns if is_terminal(1) else None
        self._colour = self.width is not None and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._waiting: queue.Queue[tuple[int, bytes]] = queue.Queue(_LINES_KEPT)
        self._lost = 0
        self._printed_at = time.monotonic()

    def open(self) -> None:
        """Starts the thread; what was said before is printed now."""
        threading.Thread(target=self._print, name="screen", daemon=True).start()

    def agent(self, line: str) -> None:
        """A line of the agent's."""
        self._put(1, plain(line))

    def say(self, line: str) -> None:
        """A line of ralph's own."""
        self._put(1, f"\x1b[1m{plain(line)}\x1b[0m" if self._colour else plain(line))

    def complain(self, line: str) -> None:
        """A line on standard error."""
        self._put(2, plain(line))

    def _put(self, fd: int, line: str) -> None:
        """Waits for a slow reader as long as it reads at all."""
        waits = time.monotonic() - self._printed_at < _STALLED_S
        try:
            self._waiting.put((fd, line.encode(errors="replace") + b"\n"), block=waits, timeout=_STALLED_S)
        except queue.Full:
            self._lost += 1

    def _print(self) -> None:
        while True:
            fd, data = self._waiting.get()
            with contextlib.suppress(OSError):
                while data:
                    data = data[_write(fd, data) :]
            self._printed_at = time.monotonic()
            self._waiting.task_done()

    def close(self, timeout_s: float = 2.0) -> None:
        """Waits at most that long for what is still to be printed."""
        if self._lost:
            self._put(2, f"ralph: {self._lost} lines could not be shown; the transcripts have them")
        deadline = time.monotonic() + timeout_s
        while self._waiting.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.002)


def _write(fd: int, data: bytes) -> int:
    try:
        return os.write(fd, data)
    except BlockingIOError:  # somebody made the terminal non-blocking; it may be shared
        time.sleep(0.05)
        return 0
