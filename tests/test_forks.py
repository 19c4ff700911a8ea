"""What the tests rely on: a fork is what a start of Python would be, and nobody else is reached."""

import json
import socket

import pytest
from forks import PYTHON, Forked
from ralph_driver import Project

TELLS = """
import json, os, signal, sys, threading

def stream(one):
    return [one.encoding, one.errors, one.mode, one.line_buffering, one.isatty(), one.newlines]

def read(name):
    path = f"/proc/self/{name}"
    return open(path, "rb").read().rstrip(b"\\0").decode("latin-1") if os.path.exists(path) else ""

print(json.dumps({
    "argv": sys.argv,
    "orig_argv": sys.orig_argv,
    "path": sys.path,
    "main": sorted(name for name in vars(sys.modules["__main__"]) if not name.startswith("__")),
    "environ": dict(os.environ),
    "seen": [read("environ"), read("cmdline")],
    "cwd": os.getcwd(),
    "umask": os.umask(0o22),
    "parent": os.getppid(),
    "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
    "in front": os.isatty(0) and os.tcgetpgrp(0) == os.getpid(),
    "threads": threading.active_count(),
    "descriptors": sorted(set(os.listdir("/dev/fd")) & {str(n) for n in range(64)}),
    "signals": {s.name: str(signal.getsignal(s)).split(" at ")[0] for s in signal.Signals},
    "blocked": [s.name for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "wakes": signal.set_wakeup_fd(-1),
    "streams": [stream(sys.stdin), stream(sys.stdout), stream(sys.stderr)],
}))
"""


@pytest.mark.parametrize("terminal", [False, True], ids=["in a file", "in a terminal"])
def test_a_fork_finds_what_a_new_process_finds(project: Project, terminal: bool) -> None:
    project.env |= {"TZ": "Asia/Tokyo", "STRANGE": "a=b\udcff\n"}
    told = []
    for prefix in ((), ("env",)):
        start = project.start_tty if terminal else project.start
        run = start("one", "", "ü", command=(*prefix, *PYTHON, "-c", TELLS))
        assert isinstance(run.process, Forked) is not bool(prefix)
        told.append(json.loads(run.wait().text))
    assert told[0] == told[1]


def test_nothing_but_loopback_can_be_reached(project: Project) -> None:
    with pytest.raises(AssertionError, match="looks up"):
        socket.create_connection(("example.invalid", 80), timeout=1)
    with socket.socket() as direct, pytest.raises(AssertionError, match="connects to"):
        direct.connect(("192.0.2.1", 80))
    assert not [name for name in project.env if name.startswith(("RALPH", "TMUX", "CLAUDE", "ANTHROPIC"))]
