"""Ralph's own small programs: git, a notify script, what a terminal shows. They are no part of what the keeper ends."""

import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from ralph.process import signals
from ralph.process.tree import start

_DYING_S = 5.0
"""Seconds to wait for what was killed: a dead network disk can hold it."""
_running: set[int] = set()
_starting = threading.RLock()


class Finished(NamedTuple):
    """What came of one of ralph's own small programs; `code` is negative for a signal."""

    code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool


def call(  # noqa: PLR0913 - each can be said of any program
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    stdin: bytes = b"",
    over: Callable[[], bool] = lambda: False,
) -> Finished:
    """Runs a program of ralph's own (git, a notify script) to its end, or kills its group at the timeout, or `over`.

    Safe from any thread. What it leaves in the background is not waited for: its output goes to files, as the agent's
    does. Nothing is started any more for somebody who lost patience. Raises OSError when it cannot be started.
    """
    if signals.impatient():
        return Finished(code=-signal.SIGKILL, stdout=b"", stderr=b"", timed_out=True)
    with _scratch() as given, _scratch() as out, _scratch() as err:
        given.write(stdin)
        given.seek(0)
        files = [one.fileno() for one in (given, out, err)]
        with _starting:
            pid = start(argv, os.environ if env is None else env, files, cwd=cwd)
            _running.add(pid)
        code = None
        try:
            code = _ended(pid, timeout_s, lambda: signals.impatient() or over())
        finally:
            if code is None:
                signals.send(os.killpg, pid, signal.SIGKILL)
                _ended(pid, _DYING_S, lambda: False)
            _running.discard(pid)
        out.seek(0)
        err.seek(0)
        return Finished(-signal.SIGKILL if code is None else code, out.read(), err.read(), timed_out=code is None)


def _ended(pid: int, within_s: float, over: Callable[[], bool]) -> int | None:
    """The exit code of a child; None when it still runs after that time, or once it is over."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and not over():
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        signals.wait(0.01)
    return None


def _scratch() -> IO[bytes]:
    """A file without a name; in memory where the system can: no disk is too slow or too full for it."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("ralph"), "w+b", 0)  # noqa: PTH123 - a descriptor
    return tempfile.TemporaryFile(buffering=0)


def end_own() -> None:
    """Kills what still runs: a notify script that hangs must not outlive ralph. No other thread starts any more."""
    _starting.acquire()  # for good
    for pid in tuple(_running):
        signals.send(os.killpg, pid, signal.SIGKILL)


def foreground(argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None = None) -> int:
    """Runs a program in this terminal; its exit code, negative for a signal.

    The first signal is passed on; Ctrl+C goes to both, so that it gets there twice at once, which is one wish. Raises
    KeyboardInterrupt afterwards where ralph was asked to stop.
    """
    sys.stdout.flush()
    pid = start(argv, env, (0, 1, 2), cwd=cwd, apart=False)
    code, passed = None, False
    while code is None:
        ended, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if ended and os.WIFSTOPPED(status):  # by Ctrl+Z; the shell's `fg` wakes both
            os.kill(os.getpid(), signal.SIGSTOP)
        elif ended:
            code = os.waitstatus_to_exitcode(status)
        elif not passed and (number := signals.interrupted()):
            os.kill(pid, number)
            passed = True
        with contextlib.suppress(KeyboardInterrupt):
            signals.wait(0.1)
    if signals.interrupted() is not None:
        raise KeyboardInterrupt
    return code
