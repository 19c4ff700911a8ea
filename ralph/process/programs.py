"""Ralph's own small programs: git, a notify script, what a terminal shows. They are no part of what the keeper ends."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ralph.process import signals
from ralph.process.tree import send_to

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
        with _starting:
            child = subprocess.Popen(
                argv, env=env, cwd=cwd, stdin=given, stdout=out, stderr=err, start_new_session=True
            )
            _running.add(child.pid)
        deadline = time.monotonic() + timeout_s
        try:
            while child.poll() is None and time.monotonic() < deadline and not (signals.impatient() or over()):
                signals.wait(0.01)
        finally:
            if timed_out := child.returncode is None:
                send_to(os.killpg, child.pid, signal.SIGKILL)
                with contextlib.suppress(subprocess.TimeoutExpired):  # a dead network disk holds it
                    child.wait(5)
            _running.discard(child.pid)
        out.seek(0)
        err.seek(0)
        code = -signal.SIGKILL if child.returncode is None else child.returncode
        return Finished(code=code, stdout=out.read(), stderr=err.read(), timed_out=timed_out)


def _scratch() -> BinaryIO:
    """A file without a name; in memory where the system can: no disk is too slow or too full for it."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("ralph"), "w+b")
    return tempfile.TemporaryFile()


def end_own() -> None:
    """Kills what still runs: a notify script that hangs must not outlive ralph. No other thread starts any more."""
    _starting.acquire()  # for good
    for pid in tuple(_running):
        send_to(os.killpg, pid, signal.SIGKILL)


def foreground(argv: Sequence[str], *, env: Mapping[str, str], cwd: str, errors: Path | None = None) -> int:
    """Runs a program in this terminal, its complaints perhaps in a file; its exit code, negative for a signal.

    The first signal is passed on; Ctrl+C goes to both, so that it gets there twice at once, which is one wish. Raises
    KeyboardInterrupt afterwards where ralph was asked to stop.
    """
    sys.stdout.flush()
    with errors.open("wb") if errors else contextlib.nullcontext() as err:
        child = subprocess.Popen(argv, env=env, cwd=cwd, stderr=err)
    passed = False
    while child.returncode is None:
        ended, status = os.waitpid(child.pid, os.WNOHANG | os.WUNTRACED)
        if ended and os.WIFSTOPPED(status):  # by Ctrl+Z; the shell's `fg` wakes both
            os.kill(os.getpid(), signal.SIGSTOP)
        elif ended:
            child.returncode = os.waitstatus_to_exitcode(status)
        if not passed and (number := signals.interrupted()):
            child.send_signal(number)
            passed = True
        with contextlib.suppress(KeyboardInterrupt):
            signals.wait(0.1)
    if signals.interrupted() is not None:
        raise KeyboardInterrupt
    return child.returncode
