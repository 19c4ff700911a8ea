"""The program behind forks.py: it has imported ralph, and becomes one with a fork when it is asked to.

A request on the socket given by its number is four bytes of length, with the descriptors that shall be 0, 1 and 2, and
perhaps a gate to wait at, and then JSON. The answers are lines: "born NUMBER PID", by the new process once it is what
it shall be, and "ended NUMBER CODE" later.
"""

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import termios
import time
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

DESCRIPTORS = 4


@dataclass(frozen=True, slots=True)
class Request:
    """What a new process shall be."""

    number: int
    words: list[str]
    """What stands behind `python -P`: -m ralph ..., or -c CODE ..."""
    env: dict[str, str]
    cwd: str
    has_terminal: bool
    """Whether its standard input is the terminal that controls it."""
    descriptors: list[int]


def serve(channel: socket.socket) -> Request:
    """Returns in each new process what it shall be; the server itself leaves when the tests have ended."""
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel.fileno(), heard], [], [])
        if heard in ready:
            os.read(heard, 4096)
            while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                number = running.pop(ended[0])
                channel.sendall(b"ended %d %d\n" % (number, os.waitstatus_to_exitcode(ended[1])))
        if channel.fileno() not in ready:
            continue
        if (request := receive(channel)) is None:
            for pid in running:
                os.kill(pid, signal.SIGTERM)
            sys.exit()
        if not (pid := os.fork()):
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return request
        running[pid] = request.number
        for descriptor in request.descriptors:
            os.close(descriptor)


def receive(channel: socket.socket) -> Request | None:
    """The next request; None when the other end has gone."""
    head, descriptors, _, _ = socket.recv_fds(channel, 4, DESCRIPTORS)
    if not head:
        return None
    body = b""
    while len(body) < int.from_bytes(head):
        body += channel.recv(int.from_bytes(head) - len(body))
    return Request(**json.loads(body), descriptors=descriptors)


def become(request: Request, channel: socket.socket) -> None:
    """Makes of this process what a new one finds that was started so."""
    for number, descriptor in enumerate(request.descriptors[:3]):
        os.dup2(descriptor, number)
    os.setsid()
    if request.has_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.env)
    time.tzset()
    if sys.platform == "linux":
        show(request)
    channel.sendall(b"born %d %d\n" % (request.number, os.getpid()))
    for gate in request.descriptors[3:]:
        os.read(gate, 1)  # ends when nobody holds the other end any more
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - a Path for each costs
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(int(name))
    sys.stdin = opened(0, "r", sys.stdin)
    sys.stdout = opened(1, "w", sys.stdout)
    sys.stderr = opened(2, "w", sys.stderr)
    sys.orig_argv = [sys.executable, "-P", *request.words]


def opened(number: int, mode: str, like: TextIO) -> Any:
    """A standard stream as Python makes it."""
    lines = 1 if number == 2 else -1
    return open(number, mode, buffering=lines, encoding=like.encoding, errors=like.errors, closefd=False)


def show(request: Request) -> None:
    """Lets /proc say of this process what it says of a new one: the command line, and the environment it began with.

    The room is that of the server's own, which forks.py has made large.
    """
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    command, command_end, environment, environment_end = map(int, stat[45:49])  # proc(5): fields 48 to 51
    words = [sys.executable, "-P", *request.words]
    named = [f"{name}={value}" for name, value in request.env.items()]
    for start, end, texts in ((command, command_end, words), (environment, environment_end, named)):
        block = b"".join(os.fsencode(text) + b"\0" for text in texts)
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, block[: end - start], min(len(block), end - start))


def run(words: list[str]) -> None:
    """What `python -P WORDS` does."""
    kind, what, *args = words
    if kind == "-m":
        sys.argv = [what, *args]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *args]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), main.__dict__)


def load() -> None:
    """Imports what a run imports, early or late."""
    for name in ("ralph", "jinja2.sandbox", "requests"):
        importlib.import_module(name)
    for module in pkgutil.walk_packages(sys.modules["ralph"].__path__, "ralph."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load()
    tests = socket.socket(fileno=int(sys.argv[1]))
    asked = serve(tests)
    become(asked, tests)
    tests.detach()
    run(asked.words)
