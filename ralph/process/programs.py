"""Ralph's own small programs: git, a notify script, what a terminal shows. They are no part of what the keeper ends."""

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
from typing import BinaryIO

from ralph.process import signals

_GLANCE_S = 0.1
_SHARED_S = 0.5
"""Seconds within which a program leaves that got the terminal's Ctrl+C too."""
_running: set[int] = set()


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

    Safe from any thread. What it leaves in the background is not waited for: its output goes to files, as the agent's
    does. Raises OSError when it cannot be started.
    """
    with _scratch() as given, _scratch() as out, _scratch() as err:
        given.write(stdin)
        given.seek(0)
        child = subprocess.Popen(argv, env=env, cwd=cwd, stdin=given, stdout=out, stderr=err, start_new_session=True)
        _running.add(child.pid)
        try:
            timed_out = not _left_within(child, timeout_s)
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            code = _code(child)
            _running.discard(child.pid)
        out.seek(0)
        err.seek(0)
        return Finished(code=code, stdout=out.read(), stderr=err.read(), timed_out=timed_out)


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


def end_own() -> None:
    """Kills what still runs: a notify script that hangs must not outlive ralph."""
    for pid in tuple(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def foreground(argv: Sequence[str], *, env: Mapping[str, str], cwd: str) -> int:
    """Runs a program in this terminal; its exit code, negative for a signal.

    It hears of each signal. Ctrl+C goes to both of us, so that one gets there only if it stays nevertheless: it may
    have been sent to this process alone.
    """
    sys.stdout.flush()
    child = subprocess.Popen(argv, env=env, cwd=cwd)
    forwarded = 0
    while child.poll() is None:
        for number, at in signals.received()[forwarded:]:
            if number == signal.SIGINT and time.monotonic() - at < _SHARED_S:
                break
            child.send_signal(number)
            forwarded += 1
        with contextlib.suppress(KeyboardInterrupt):
            signals.wait(_GLANCE_S)
    return child.returncode
