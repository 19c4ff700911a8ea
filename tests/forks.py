"""Starts ralph as a fork of a process that has imported it: real pids, sessions, signals and exit codes for 10 ms.

What an import costs or breaks, these starts do not see; a test that is about that has a real one, behind a `prefix`.
"""

import atexit
import ctypes
import functools
import json
import os
import socket
import subprocess
import sys
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
    is_ralph = tuple(argv[:2]) == PYTHON
    sizes = (sum(map(len, argv)), sum(len(name) + len(value) for name, value in env.items()))
    return sys.platform == "linux" and is_ralph and at_start == BEGINS_WITH and max(sizes) < ROOM / 2


class Forked(subprocess.Popen[bytes]):
    """A process that does what `argv` says; to a test the same as any other Popen."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, *streams: int, has_terminal: bool
    ) -> None:
        self._streams = streams
        about = {"words": argv[len(PYTHON) :], "env": dict(env), "cwd": str(cwd), "has_terminal": has_terminal}
        self._request = json.dumps(about).encode()
        super().__init__(argv)

    def _execute_child(self, *_: object) -> None:
        socket.send_fds(server(), [self._request], self._streams)
        self.pid = int(server().recv(64))
        self._child_created = True

    def __del__(self) -> None:
        """Nothing: a test may leave one that it has killed."""


@functools.cache
def server() -> socket.socket:
    """The socket of the process that forks: one a test process, begun when it is first needed, gone with it."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    ours.settimeout(60)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: a fork that is left alone is ours to wait for
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
