"""Starting programs: the agent, followed through a file as it goes, and ralph's own small ones."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Protocol

from ralph.process import family, signals
from ralph.process.family import Family, Patience
from ralph.process.guardian import Guardian

_GLANCE_S = 0.1
_CHUNK = 1 << 16
_COMPLAINTS = 20_000


class How(Enum):
    """How the agent's process came to its end."""

    LEFT = "left by itself"
    ENDED_AFTER_RESULT = "ended after its result"
    INTERRUPTED = "interrupted"


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


class Listener(Protocol):
    """Who hears what the agent prints."""

    def sees(self, data: bytes) -> None:
        """The next bytes of its output."""

    def complains(self, data: bytes) -> None:
        """The next bytes of its standard error."""

    def has_result(self) -> bool:
        """Whether the last thing it printed was its result: then it has `after_result_s` to leave."""

    def over(self) -> None:
        """Its result stands: it is being ended now, and what it says about that is no result."""

    def ending(self) -> None:
        """Somebody asked ralph to stop, and it is being ended."""

    def quiet(self) -> None:
        """Called some ten times a second while nothing comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """Who sees to it that nothing of an agent is left."""

    kin: Family
    guardian: Guardian
    patience: Patience


def follow(argv: Sequence[str], env: Mapping[str, str], files: Files, listener: Listener, care: Care) -> Ended:
    """Runs the agent to its end and ends everything it started; `listener` gets its output as it comes.

    The output goes to a file, never a pipe: on a pipe the real agent loses what is not read in time
    (measured), and a process left behind would hold the other end. Raises OSError when it cannot start.
    """
    with files.prompt.open("rb") as stdin, files.output.open("a+b") as stdout, files.errors.open("a+b") as stderr:
        tail, errors = Tail(stdout), Tail(stderr)
        child = subprocess.Popen(argv, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True)
        try:
            care.guardian.watch(child.pid)
            how = _watch(child, tail, errors, listener, care)
        except BaseException:  # whatever went wrong here, the agent never outlives it
            _end(child, care)
            raise
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


def _watch(child: "subprocess.Popen[bytes]", tail: Tail, errors: Tail, listener: Listener, care: Care) -> How:
    heard_at = time.monotonic()
    while child.poll() is None:
        data = tail.read()
        if data:
            heard_at = time.monotonic()
            listener.sees(data)
        if signals.interrupted():
            listener.ending()
            return How.INTERRUPTED
        if listener.has_result() and time.monotonic() - heard_at > care.patience.after_result_s:
            listener.over()
            return How.ENDED_AFTER_RESULT
        if not data:
            listener.complains(errors.read())
            listener.quiet()
            family.reap_orphans(but=child.pid)
            care.kin.glance()
            signals.wait(_GLANCE_S)
    return How.INTERRUPTED if signals.interrupted() else How.LEFT


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What came of one of ralph's own small programs; `code` is negative for a signal."""

    pid: int
    code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool


def call(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stdin: bytes = b"",
) -> Finished:
    """Runs a program of ralph's own (git, a notify script) to its end, or kills its group at the timeout.

    Safe from any thread, and never taken for the agent's. What it leaves in the background is not waited for: its
    output goes to files, as the agent's does. Raises OSError when it cannot be started.
    """
    with _scratch() as given, _scratch() as out, _scratch() as err:
        given.write(stdin)
        given.seek(0)
        with family.spawning:
            child = subprocess.Popen(
                argv,
                env={**(os.environ if env is None else env), family.OWN[0]: family.OWN[1]},
                cwd=cwd,
                stdin=given,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            family.own.add(child.pid)
        try:
            timed_out = not _left_within(child, timeout_s)
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            code = _code(child)
            with family.spawning:
                family.own.discard(child.pid)
        out.seek(0)
        err.seek(0)
        return Finished(pid=child.pid, code=code, stdout=out.read(), stderr=err.read(), timed_out=timed_out)


def _scratch() -> BinaryIO:
    """A file without a name; in memory where the system can: no disk is too slow or too full for it."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("ralph"), "w+b")
    return tempfile.TemporaryFile()


def _left_within(child: "subprocess.Popen[bytes]", timeout_s: float) -> bool:
    """Whether it ended in time, and before somebody lost patience.

    `Popen.wait` with a timeout polls, which would cost git more time than git itself takes.
    """
    deadline = time.monotonic() + timeout_s
    try:
        fd = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # macOS, old kernels, filters of containers
        fd = -1
    try:
        while child.poll() is None and time.monotonic() < deadline and not signals.impatient():
            if fd < 0:
                time.sleep(0.002)
            else:
                select.select([fd], [], [], _GLANCE_S)
    finally:
        if fd >= 0:
            os.close(fd)
    return child.poll() is not None


def _code(child: "subprocess.Popen[bytes]") -> int:
    """Its exit code; one that not even SIGKILL ends (a dead network disk) is not waited for."""
    try:
        return child.wait(5)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL


def foreground(argv: Sequence[str], *, env: Mapping[str, str], cwd: str) -> int:
    """Runs a program in this terminal, which gives both of us the Ctrl+C; its exit code, negative for a signal."""
    sys.stdout.flush()
    child = subprocess.Popen(argv, env=env, cwd=cwd)
    forwarded = False
    while child.poll() is None:
        number = signals.interrupted()
        if number is not None and number != signal.SIGINT and not forwarded:
            child.send_signal(number)
            forwarded = True
        with contextlib.suppress(KeyboardInterrupt):
            signals.wait(_GLANCE_S)
    return child.returncode
