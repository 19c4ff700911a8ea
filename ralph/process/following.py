"""Following a program through a file as it goes, within bounds, until it and all it started have ended."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Protocol

from ralph.process import family, signals
from ralph.process.family import Family, Patience
from ralph.process.guardian import Guardian

_GLANCE_S, _LAZY_GLANCE_S = 0.1, 0.4
_ATTENTIVE_S = 5.0
"""Seconds of silence after which ralph looks less often; an agent's end wakes it all the same."""
_CHUNK = 1 << 16
_COMPLAINTS = 20_000


class How(Enum):
    """How the agent's process came to its end."""

    LEFT = "left by itself"
    ENDED_AFTER_RESULT = "ended after its result"
    INTERRUPTED = "interrupted"
    SILENT = "silent for too long"
    TOO_SLOW = "too slow"
    OUT_OF_TIME = "the run's time was over"
    ENOUGH = "its listener had enough"
    TOO_LONG = "printed too much"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What became of one agent process; `code` is negative for the signal that killed it."""

    code: int
    how: How
    shrunk: bool
    """Its output file became shorter while it ran, so the record is not whole."""
    left_over: tuple[str, ...]
    """Command lines of what it had left running and ralph ended."""
    survivors: tuple[str, ...]
    """Command lines of what could not be ended."""
    complaints: bytes
    """The end of what it wrote to standard error."""


class Tail:
    """New bytes of a file that somebody else is writing."""

    def __init__(self, file: BinaryIO) -> None:
        self._fd = file.fileno()
        self._offset = 0
        self.shrunk = False

    def read(self) -> bytes:
        """Some of what is new; empty when there is nothing."""
        size = self.size()
        if size < self._offset:
            self.shrunk, self._offset = True, size
        data = os.pread(self._fd, _CHUNK, self._offset)
        self._offset += len(data)
        return data

    def rest(self) -> Iterator[bytes]:
        """All that is there now; what comes later is nobody's."""
        end = self.size()
        while self._offset < end and not signals.impatient() and (data := self.read()):
            yield data

    def last(self, count: int) -> bytes:
        """The last bytes of the file itself, whatever stands at its path by now."""
        return os.pread(self._fd, count, max(0, self.size() - count))

    def size(self) -> int:
        """The length of the file."""
        return os.fstat(self._fd).st_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Where an agent's prompt comes from, and where its output and its complaints go."""

    prompt: Path
    output: Path
    errors: Path

    def size(self) -> int:
        """Their bytes together."""
        return sum(path.stat().st_size for path in (self.prompt, self.output, self.errors) if path.is_file())


class Listener(Protocol):
    """Who hears what the agent prints."""

    def sees(self, data: bytes) -> None:
        """The next bytes of its output."""

    def complains(self, data: bytes) -> None:
        """The next bytes of its standard error."""

    def has_result(self) -> bool:
        """Whether the last thing it printed was its result: then it has `after_result_s` to leave."""

    def has_enough(self) -> bool:
        """Whether it shall be ended now, for what it has printed."""

    def over(self) -> None:
        """Its result stands: it is being ended now, and what it says about that is no result."""

    def ending(self) -> None:
        """Somebody asked ralph to stop, and it is being ended."""

    def quiet(self) -> None:
        """Called some times a second while nothing comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """Who sees to it that nothing of an agent is left."""

    kin: Family
    guardian: Guardian
    patience: Patience


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much a program may take of what; None is no bound. A suspended machine's sleep does not count."""

    silence_s: float | None = None
    whole_s: float | None = None
    output_bytes: int | None = None
    out_of_time: Callable[[], bool] = lambda: False
    """Whether the time of the whole run is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run, with what, into which files, and within which bounds."""

    argv: Sequence[str]
    env: Mapping[str, str]
    files: Files
    bounds: Bounds


def follow(program: Program, listener: Listener, care: Care) -> Ended:
    """Runs the agent to its end, or to a bound, and ends everything it started; `listener` gets its output as it comes.

    The output goes to a file, never a pipe: on a pipe the real agent loses what is not read in time
    (measured), and a process left behind would hold the other end. Raises OSError when it cannot start.
    """
    files = program.files
    with files.prompt.open("rb") as stdin, files.output.open("a+b") as stdout, files.errors.open("a+b") as stderr:
        tail, errors = Tail(stdout), Tail(stderr)
        child = subprocess.Popen(
            program.argv, env=program.env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            care.guardian.watch(child.pid)
            how = _watch(child, _Output(tail, errors), listener, care, program.bounds)
        except BaseException:  # whatever went wrong here, the agent never outlives it
            _end(child, care)
            raise
        if how is not How.LEFT:
            listener.over()
        ended, survivors = _end(child, care) if how is not How.LEFT else care.kin.end(care.patience)
        for data in tail.rest():
            listener.sees(data)
        for data in errors.rest():
            listener.complains(data)
        complaints = errors.last(_COMPLAINTS)
        care.guardian.watch(0)
    code = child.poll()
    return Ended(
        code=-9 if code is None else code,
        how=how,
        shrunk=tail.shrunk,
        left_over=tuple(ended),
        survivors=tuple(survivors),
        complaints=complaints,
    )


def _end(child: "subprocess.Popen[bytes]", care: Care) -> tuple[list[str], list[str]]:
    care.kin.look()
    family.end_agent(child.pid, lambda: child.poll() is None, care.patience)
    return care.kin.end(care.patience)


@dataclass(frozen=True, slots=True)
class _Output:
    """Both files that a program writes."""

    tail: Tail
    errors: Tail

    def size(self) -> int:
        return self.tail.size() + self.errors.size()


def _watch(child: "subprocess.Popen[bytes]", output: _Output, listener: Listener, care: Care, bounds: Bounds) -> How:
    began = heard_at = time.monotonic()
    result_at: float | None = None
    while child.poll() is None:
        data = output.tail.read()
        if data:
            heard_at = time.monotonic()
            listener.sees(data)
        if signals.interrupted():
            listener.ending()
            return How.INTERRUPTED
        now = time.monotonic()
        result_at = (result_at or now) if listener.has_result() else None
        if result_at is not None:
            if now - result_at > care.patience.after_result_s:
                return How.ENDED_AFTER_RESULT
        elif how := _beyond(bounds, listener, now - heard_at, now - began, output.size()):
            return how
        if not data:
            if complaints := output.errors.read():
                heard_at = now
                listener.complains(complaints)
            listener.quiet()
            family.reap_orphans(but=child.pid)
            care.kin.glance()
            signals.wait(_GLANCE_S if now - heard_at < _ATTENTIVE_S else _LAZY_GLANCE_S)
    return How.INTERRUPTED if signals.interrupted() else How.LEFT


def _beyond(bounds: Bounds, listener: Listener, silent_s: float, took_s: float, printed: int) -> How | None:
    """The bound that is crossed, if any."""
    if bounds.out_of_time():
        return How.OUT_OF_TIME
    if bounds.whole_s is not None and took_s > bounds.whole_s:
        return How.TOO_SLOW
    if bounds.silence_s is not None and silent_s > bounds.silence_s:
        return How.SILENT
    if bounds.output_bytes is not None and printed > bounds.output_bytes:
        return How.TOO_LONG
    return How.ENOUGH if listener.has_enough() else None
