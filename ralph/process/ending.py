"""Ending processes: asked first, then killed, until none is left."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ralph.process import signals, table
from ralph.process.table import Process

_ASK_AGAIN_S = 1.0
"""A shell that has just forked can lose a signal that it traps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds to wait at each step of ending something."""

    interrupt_s: float = 5.0
    terminate_s: float = 5.0
    kill_s: float = 10.0
    after_result_s: float = 30.0
    """Seconds the agent has to leave by itself after its `result` event."""
    send_s: float = 10.0
    """Seconds that the end of a run waits for notices still on their way."""


class Tree:
    """The processes that `roots` finds among all, all below them, and those seen there before whose parents are gone.

    `is_over` is for who knows better than two looks can tell.
    """

    def __init__(
        self, roots: Callable[[dict[int, Process]], Collection[int]], is_over: Callable[[], bool] | None = None
    ) -> None:
        self._roots = roots
        self._is_over = is_over or self._seems_over
        self._seen: dict[int, Process] = {}

    def look(self) -> dict[int, Process]:
        """All that run now, but this process."""
        processes = table.alive()
        known = {pid for pid, one in self._seen.items() if pid in processes and processes[pid].started == one.started}
        roots = known.union(self._roots(processes)) - {os.getpid()}
        self._seen = {pid: processes[pid] for pid in roots} | table.below(roots, processes)
        return self._seen

    def _seems_over(self) -> bool:
        """What is born in one look shows in the next."""
        return not (self.look() or self.look())

    def end(self, patience: Patience, *, but: int = 0) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """TERM, a while, KILL; the command lines of what had to be ended, without `but`, and of what could not be."""
        names = {} if self._is_over() else {pid: table.command(pid) for pid in self.look() if pid != but}
        if not until(self._signalled(signal.SIGTERM, _ASK_AGAIN_S), patience.terminate_s):
            until(self._signalled(signal.SIGKILL, 0.0), patience.kill_s, whatever=True)
        left = {} if self._is_over() else self.look()
        return tuple(name for pid, name in names.items() if pid not in left), tuple(map(table.command, left))

    def _signalled(self, number: int, again_s: float) -> Callable[[], bool]:
        """Sends all of it the signal, also what was born meanwhile; whether there was nobody left."""
        due: dict[int, float] = {}

        def nobody_left() -> bool:
            if self._is_over():
                return True
            for pid in self.look():
                if time.monotonic() >= due.get(pid, 0.0):
                    due[pid] = time.monotonic() + again_s
                    send_to(os.kill, pid, number)
            return False

        return nobody_left


def until(over: Callable[[], bool], within_s: float, *, whatever: bool = False) -> bool:
    """Whether it was over in time, and, but for `whatever`, before somebody lost patience."""
    deadline = time.monotonic() + within_s
    while not over():
        if time.monotonic() > deadline or (signals.impatient() and not whatever):
            return False
        signals.wait(0.02)
    return True


def end_strays(mark: str, patience: Patience) -> tuple[str, ...]:
    """Ends what carries the mark of a run that has lost its keeper, and what is below that; its command lines."""
    return Tree(lambda processes: table.marked(mark, processes)).end(patience)[0]


def send_to(kill: Callable[[int, int], None], pid: int, number: int) -> None:
    """Sends the signal by os.kill or os.killpg to somebody who may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        kill(pid, number)
        kill(pid, signal.SIGCONT)  # what is stopped hears nothing else
