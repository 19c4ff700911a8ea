"""Starts ralph as a fork of a process that has imported it: real pids, sessions, signals and exit codes for 10 ms.

What an import costs or breaks, these starts do not see; a test that is about that has a real one (`real_starts`).
"""

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
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


class Server:
    """The process that forks; one a test process, begun when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._heard = b""
        self._born: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._asked = self._lost = 0
        """Both count starts: of those up to the second one, nothing more will be heard."""

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: int,
        stdout: int,
        stderr: int,
        has_terminal: bool = False,
        gate: int | None = None,
    ) -> "Forked":
        """A process that does what `argv` says; with a gate, once nobody holds its other end any more."""
        with self._lock:
            if self._process is None:
                self._begin()
            self._asked += 1
            number = self._asked
            about = {"number": number, "words": argv[len(PYTHON) :], "env": dict(env), "cwd": str(cwd)}
            body = json.dumps({**about, "has_terminal": has_terminal}).encode()
            descriptors = [stdin, stdout, stderr, *([] if gate is None else [gate])]
            with contextlib.suppress(BrokenPipeError):  # what became of it is said below
                socket.send_fds(self._channel, [len(body).to_bytes(4)], descriptors)
                self._channel.sendall(body)
            while number not in self._born:
                assert number not in self._ended, f"it could not be started in {cwd}"
                self._listen()
        return Forked(self, number, self._born.pop(number))

    @property
    def pid(self) -> int | None:
        """The server's own, while it runs."""
        return self._process.pid if self._process else None

    def code(self, number: int) -> int | None:
        """The exit code of that process; negative for a death by that signal, None while it runs."""
        with self._lock:
            while number not in self._ended and self._has_news(0):
                self._listen()
            assert number in self._ended or number > self._lost, "the fork server has ended, and nobody knows"
            return self._ended.get(number)

    def wait(self, number: int, timeout_s: float | None) -> int:
        """The same, once it has ended."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (code := self.code(number)) is None:
            if timeout_s is not None and deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("ralph", timeout_s)
            self._has_news(0.02)  # another thread may hear it first
        return code

    def close(self) -> None:
        """Ends the server, and with SIGTERM what still runs of its forks."""
        with self._lock:
            self._end()

    def _begin(self) -> None:
        self._channel, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed in _end
        env = {**BEGINS_WITH, "PATH": os.defpath, "ROOM": "x" * ROOM}
        with theirs:
            self._process = subprocess.Popen(
                [*PYTHON, str(PROGRAM), str(theirs.fileno()), "x" * ROOM],
                env=env,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def _end(self) -> str:
        """What the server said, which is its last word."""
        if self._process is None:
            return ""
        self._channel.close()
        self._process.wait(10)
        self._process, self._heard = None, b""
        self._said.seek(0)
        with self._said:
            return self._said.read().decode("utf-8", "replace")

    def _has_news(self, within_s: float) -> bool:
        return self._process is not None and self._channel in select.select([self._channel], [], [], within_s)[0]

    def _listen(self) -> None:
        assert self._has_news(10), "the fork server does not answer"
        try:
            heard = self._channel.recv(65536)
        except ConnectionResetError:
            heard = b""
        if not heard:
            self._lost = self._asked
            raise AssertionError(f"the fork server has ended: {self._end()}")
        *lines, self._heard = (self._heard + heard).split(b"\n")
        for line in lines:
            what, number, value = line.split()
            {b"born": self._born, b"ended": self._ended}[what][int(number)] = int(value)


class Forked:
    """A process that the server forked; to a test the same as a Popen."""

    def __init__(self, server: Server, number: int, pid: int) -> None:
        self._server, self._number, self.pid = server, number, pid

    def poll(self) -> int | None:
        return self._server.code(self._number)

    def wait(self, timeout: float | None = None) -> int:
        return self._server.wait(self._number, timeout)

    def send_signal(self, which: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, which)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


SERVER = Server()
atexit.register(SERVER.close)
