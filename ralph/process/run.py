"""Starting programs: the agent, followed through a file as it goes, and ralph's own small ones."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Protocol

from ralph.process import family, signals
from ralph.process.family import Family, Patience
from ralph.process.guardian import Guardian

_GLANCE_S = 0.1
_CHUNK = 1 << 20


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


class Tail:
    """New bytes of a file that somebody else is writing."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("rb", buffering=0)
        self._offset = 0
        self.shrunk = False

    def read(self) -> bytes:
        """Up to a megabyte of what is new; empty when there is nothing."""
        size = os.fstat(self._file.fileno()).st_size
        if size < self._offset:
            self.shrunk, self._offset = True, size
        data = os.pread(self._file.fileno(), _CHUNK, self._offset)
        self._offset += len(data)
        return data

    def close(self) -> None:
        """Gives the file descriptor back."""
        self._file.close()


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
    (claude-cli-facts, 13), and a process left behind would hold the other end. Raises OSError when it cannot start.
    """
    with (
        files.prompt.open("rb") as stdin,
        files.output.open("ab") as stdout,
        files.errors.open("ab") as stderr,
    ):
        child = subprocess.Popen(argv, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True)
    care.guardian.watch(child.pid)
    tail, errors = Tail(files.output), Tail(files.errors)
    try:
        how = _watch(child, tail, errors, listener, care)
        if how is not How.LEFT:
            care.kin.look()
            family.end_agent(child.pid, lambda: child.poll() is None, care.patience)
        left_over = care.kin.end(care.patience)
        while data := tail.read():
            listener.sees(data)
        listener.complains(errors.read())
        code = child.poll()
        return Ended(code=-9 if code is None else code, how=how, shrunk=tail.shrunk, left_over=tuple(left_over))
    finally:
        tail.close()
        errors.close()
        care.guardian.watch(0)


def _watch(child: "subprocess.Popen[bytes]", tail: Tail, errors: Tail, listener: Listener, care: Care) -> How:
    heard_at = time.monotonic()
    while child.poll() is None:
        data = tail.read()
        if data:
            heard_at = time.monotonic()
            listener.sees(data)
        if signals.interrupted():
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
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
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
            code = child.wait()
            with family.spawning:
                family.own.discard(child.pid)
        out.seek(0)
        err.seek(0)
        return Finished(code=code, stdout=out.read(), stderr=err.read(), timed_out=timed_out)


def _left_within(child: "subprocess.Popen[bytes]", timeout_s: float) -> bool:
    """Whether it ended in time. `Popen.wait` with a timeout polls, which would cost git more than git itself takes."""
    if hasattr(os, "pidfd_open"):
        fd = os.pidfd_open(child.pid)
        try:
            select.select([fd], [], [], timeout_s)
        finally:
            os.close(fd)
        return child.poll() is not None
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


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
