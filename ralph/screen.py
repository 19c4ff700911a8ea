"""The screen: lines that never block, never end a run, and never drive the terminal."""

import contextlib
import os
import queue
import shutil
import stat
import threading
import time

from ralph.process import signals
from ralph.terminal import is_terminal, plain

_LINES_KEPT = 2_000
_LINE_LIMIT = 4_000
"""Characters of a line that are shown; the transcript has it all."""
_PATIENCE_S = 2.0
"""Seconds that lines wait in all for a reader that is behind, before they are dropped."""


class Screen:
    """Prints from a thread of its own, so that Ctrl+S, a full pipe or a closed one costs lines and nothing else."""

    def __init__(self) -> None:
        self.width = shutil.get_terminal_size().columns if is_terminal(1) else None
        self._colour = self.width is not None and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._waiting: queue.Queue[tuple[int, bytes]] = queue.Queue(_LINES_KEPT)
        self._lost = 0
        self._patience_s = _PATIENCE_S
        self._is_file = stat.S_ISREG(os.fstat(1).st_mode)  # a disk is slow at times, but it does not stop reading

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
        """Waits for a slow reader, but not for long, and not when ralph shall end."""
        if self._waiting.empty():
            self._patience_s = _PATIENCE_S
        patience_s = 0.0 if signals.interrupted() else self._patience_s
        began = time.monotonic()
        try:
            data = line[:_LINE_LIMIT].encode(errors="replace") + b"\n"
            self._waiting.put((fd, data), block=patience_s > 0, timeout=patience_s or None)
        except queue.Full:
            self._lost += 1
        self._patience_s -= 0.0 if self._is_file else time.monotonic() - began

    def _print(self) -> None:
        while True:
            fd, data = self._waiting.get()
            with contextlib.suppress(OSError):
                while data:
                    data = data[_write(fd, data) :]
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
