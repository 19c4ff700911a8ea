"""Following a program through the files that it writes, until it and all that it started have ended."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from ralph.errors import RalphError
from ralph.process import signals
from ralph.process.keeper import Ended, Job, Keeper

_GLANCE_S, _LAZY_GLANCE_S = 0.1, 0.4
_ATTENTIVE_S = 5.0
"""Seconds of silence after which ralph looks less often; a program's end wakes it all the same."""
_CHUNK = 1 << 16

Hear = Callable[[bytes, bytes], None]
"""Gets a program's output and its complaints as they come, and nothing at all when it is quiet."""
Over = Callable[[float, float, int], bool]
"""Whether it has to end now, by its seconds of silence and of life, and by the bytes that it printed."""


def follow(job: Job, keeper: Keeper, hear: Hear, over: Over, clock: Callable[[], float]) -> Ended:
    """Runs it to its end, or until it is `over`, and ends everything that it started.

    What it prints goes to files, never to a pipe: there the real agent loses what is not read in time (measured), and a
    process left behind would hold the other end. Raises RalphError when the files cannot be written or read.
    """
    with closing(_Tail(job.files.output)) as output, closing(_Tail(job.files.errors)) as errors:
        keeper.start(job)
        began = heard_at = clock()
        pause_s = 0.0
        try:
            while not keeper.has_left(pause_s):
                now = clock()  # before it looks: what is late by then would have been heard
                data = output.read()
                complaints = b"" if data else errors.read()
                heard_at = now if data or complaints else heard_at
                hear(data, complaints)
                if over(now - heard_at, now - began, output.size() + errors.size()):
                    break
                silent_s = now - heard_at
                pause_s = 0.0 if not silent_s else _GLANCE_S if silent_s < _ATTENTIVE_S else _LAZY_GLANCE_S
            interrupted = signals.interrupted() is not None
        finally:  # whatever went wrong here, nothing outlives it
            ended = keeper.end()
        for data in output.rest():
            hear(data, b"")
        for complaints in errors.rest():
            hear(b"", complaints)
        return ended._replace(interrupted=interrupted, shrunk=output.shrunk)


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

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read(self) -> bytes:
        """Some of what is new; empty when there is nothing."""
        if (size := self.size()) < self._at:
            self.shrunk, self._at = True, size
        try:
            data = os.pread(self._fd, _CHUNK, self._at)
        except OSError as error:
            raise RalphError(f"{self._path}: cannot be read: {error.strerror}", 1) from error
        self._at += len(data)
        return data

    def rest(self) -> Iterator[bytes]:
        """All that is there now; what comes later is nobody's."""
        end = self.size()
        while self._at < end and not signals.impatient() and (data := self.read()):
            yield data
