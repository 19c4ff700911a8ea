"""Starts ralph as a fork of a process that has imported it: real pids, sessions, signals and exit codes for 10 ms.

What an import costs or breaks, these starts do not see; a test that is about that has a real one (`real_starts`).
"""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PYTHON = (sys.executable, "-P")
PROGRAM = Path(__file__).with_name("zygote.py")
BEGINS_WITH = {"LANG": "C.UTF-8", "PYTHONPATH": str(PROGRAM.parents[1])}
"""All in an environment that Python reads as it starts."""
READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "GLIBC_")
ROOM = 30_000
"""Bytes for the command line of a fork, and for its environment."""


def can_fork(argv: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether a fork does what a start of `argv` would do."""
    at_start = {name: value for name, value in env.items() if name.startswith(READ_AT_START)}
    is_ralph = tuple(argv[:4]) == (*PYTHON, "-m", "ralph") or tuple(argv[:3]) == (*PYTHON, "-c")
    sizes = (sum(map(len, argv)), sum(len(name) + len(value) for name, value in env.items()))
    return is_ralph and at_start == BEGINS_WITH and max(sizes) < ROOM / 2


class Forked:
    """A process that does what `argv` says; to a test the same as a Popen."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, *streams: int, has_terminal: bool
    ) -> None:
        self._news, theirs = os.pipe()
        self._said = b""
        self._code: int | None = None
        about = {"words": argv[len(PYTHON) :], "env": dict(env), "cwd": str(cwd), "has_terminal": has_terminal}
        with tempfile.TemporaryFile() as request, open(theirs, "wb") as theirs_only:  # noqa: PTH123 - descriptors
            request.write(json.dumps(about).encode())
            request.seek(0)
            socket.send_fds(server(), [b"."], [*streams, theirs_only.fileno(), request.fileno()])
        said = self._next(None)
        what, number = said or (b"nothing", b"")
        assert what == b"born", f"it could not be started in {cwd}"
        self.pid = int(number)

    def __del__(self) -> None:
        os.close(self._news)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended; negative for a death by that signal."""
        if self._code is None:
            if (said := self._next(timeout)) is None:
                raise subprocess.TimeoutExpired("ralph", timeout or 0)
            self._code = int(said[1])
        return self._code

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def send_signal(self, which: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, which)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _next(self, timeout: float | None) -> list[bytes] | None:
        """The next line about it; None when there is none in time."""
        while b"\n" not in self._said:
            if not select.select([self._news], [], [], timeout)[0]:
                return None
            more = os.read(self._news, 64)
            assert more, "the fork server has ended, and nobody knows"
            self._said += more
        line, _, self._said = self._said.partition(b"\n")
        return line.split()


@functools.cache
def server() -> socket.socket:
    """The socket of the process that forks: one a test process, begun when it is first needed, gone with it."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [*PYTHON, str(PROGRAM), str(theirs.fileno()), "x" * ROOM],
            env={**BEGINS_WITH, "PATH": os.defpath, "ROOM": "x" * ROOM},
            cwd="/",
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    atexit.register(process.wait)
    atexit.register(ours.close)  # which comes first
    return ours
