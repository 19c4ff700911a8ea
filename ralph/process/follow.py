"""Following a program through the files that it writes, until it and all that it started have ended."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ralph.errors import RalphError
from ralph.process import signals
from ralph.process.keeper import Job, Keeper

_GLANCE_S, _LAZY_GLANCE_S = 0.1, 0.4
_ATTENTIVE_S = 5.0
"""Seconds of silence after which ralph looks less often; a program's end wakes it all the same."""
_CHUNK = 1 << 16


class How(Enum):
    """How a program came to its end."""

    LEFT = "left by itself"
    ENDED_AFTER_RESULT = "ended after its result"
    INTERRUPTED = "interrupted"
    SILENT = "silent for too long"
    TOO_SLOW = "too slow"
    OUT_OF_TIME = "the run's time was over"
    ENOUGH = "its listener had enough"
    TOO_LONG = "printed too much"


Beyond = Callable[[float, float, int], How | None]
"""How a program has to end now, by its seconds of silence and of life, a suspended machine's not counted, and bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What became of a program; `code` is negative for the signal that killed it."""

    code: int
    how: How
    shrunk: bool = False
    """Its output became shorter while it ran, so the record is not whole."""
    left_over: tuple[str, ...] = ()
    """Command lines of what it had left running, now ended."""
    survivors: tuple[str, ...] = ()
    """Command lines of what could not be ended."""
    complaints: bytes = b""
    """The end of what it wrote to standard error."""
    unstarted: OSError | None = None
    """Why it could not be started."""


class _Tail:
    """New bytes of a file that somebody else is writing."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0
        self.shrunk = False
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CREAT, 0o600)
        except OSError as error:
            raise RalphError(f"{path}: cannot be written: {error.strerror}", 1) from error

    def close(self) -> None:
        os.close(self._fd)

    def read(self, count: int = _CHUNK) -> bytes:
        """Some of what is new; empty when there is nothing."""
        size = self.size()
        if size < self._at:
            self.shrunk, self._at = True, size
        data = self._bytes(self._at, count)
        self._at += len(data)
        return data

    def rest(self) -> Iterator[bytes]:
        """All that is there now; what comes later is nobody's."""
        end = self.size()
        while self._at < end and not signals.impatient() and (data := self.read()):
            yield data

    def last(self, count: int) -> bytes:
        """The last bytes of the file itself, whatever stands at its path by now."""
        return self._bytes(max(0, self.size() - count), count)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def _bytes(self, begin: int, count: int) -> bytes:
        try:
            return os.pread(self._fd, count, begin)
        except OSError as error:
            raise RalphError(f"{self._path}: cannot be read: {error.strerror}", 1) from error


def follow(job: Job, keeper: Keeper, hear: Callable[[bytes, bytes], None], beyond: Beyond) -> Ended:
    """Runs it to its end, or until `beyond` says how it has to end now, and ends everything that it started.

    `hear` gets its output and its complaints as they come, and nothing at all when it is quiet. They go to files, never
    to a pipe: there the real agent loses what is not read in time (measured), and a process left behind would hold the
    other end. Raises RalphError when the files cannot be written or read.
    """
    with closing(_Tail(job.files.output)) as output, closing(_Tail(job.files.errors)) as errors:
        try:
            keeper.start(job)
        except OSError as error:
            return Ended(code=127, how=How.LEFT, unstarted=error)
        try:
            how = _watch(keeper, output, errors, hear, beyond)
        except BaseException:  # whatever went wrong here, nothing outlives it
            keeper.end()
            raise
        left = keeper.end()
        for data in output.rest():
            hear(data, b"")
        for data in errors.rest():
            hear(b"", data)
        return Ended(how=how, shrunk=output.shrunk, complaints=errors.last(20_000), **left._asdict())


def _watch(
    keeper: Keeper,
    output: _Tail,
    errors: _Tail,
    hear: Callable[[bytes, bytes], None],
    beyond: Beyond,
) -> How:
    began = heard_at = time.monotonic()
    while not keeper.has_left():
        data = output.read()
        complaints = b"" if data else errors.read()
        now = time.monotonic()
        heard_at = now if data or complaints else heard_at
        hear(data, complaints)
        if how := beyond(now - heard_at, now - began, output.size() + errors.size()):
            return how
        if not (data or complaints):
            signals.wait(_GLANCE_S if now - heard_at < _ATTENTIVE_S else _LAZY_GLANCE_S, keeper)
    return How.INTERRUPTED if signals.interrupted() else How.LEFT
