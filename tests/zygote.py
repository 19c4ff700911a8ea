"""The program behind forks.py: it has imported ralph, and becomes one with a fork when it is asked to.

A request is a message of JSON on the socket given by its number, with the descriptors that shall be 0, 1 and 2; the
answer is a pid, once that process is what it shall be. It is an orphan, and so the child of the tests.
"""

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import sys
import termios
import threading
import time
import types
from pathlib import Path
from typing import Any


def serve(channel: socket.socket) -> list[str]:
    """Returns in each new process what stands behind `python -P`; the server leaves when the tests have ended."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, 1 << 20, 3)
        if not request:
            os._exit(0)
        if not (parent := os.fork()):
            parent = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == parent:
                time.sleep(0.0001)
            become(json.loads(request), descriptors)
            channel.send(b"%d" % os.getpid())
            return list(json.loads(request)["words"])
        os.waitpid(parent, 0)
        for descriptor in descriptors:
            os.close(descriptor)


def become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Makes of this process what a new one finds that was started so."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.setsid()
    if request["has_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    for number, stream in enumerate((sys.stdin, sys.stdout)):
        stream.reconfigure(line_buffering=os.isatty(number))  # type: ignore[union-attr] # neither is another TextIO
    sys.orig_argv = [sys.executable, "-P", *request["words"]]
    show(sys.orig_argv, [f"{name}={value}" for name, value in request["env"].items()])


def show(*shown: list[str]) -> None:
    """Lets /proc say of this process what it says of a new one: the command line, and the environment it began with.

    The room is that of the server's own, which forks.py has made large.
    """
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    places = [int(word) for word in stat[45:49]]  # proc(5): fields 48 to 51
    for start, end, texts in zip(places[::2], places[1::2], shown, strict=True):
        block = b"".join(os.fsencode(text) + b"\0" for text in texts)
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, block[: end - start], min(len(block), end - start))


def run(kind: str, what: str, *args: str) -> None:
    """What `python -P KIND WHAT ARGS` does, for -m and -c."""
    if kind == "-m":
        sys.argv = [what, *args]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *args]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), main.__dict__)


def end(code: object) -> None:
    """Ends this process as Python does, but takes no module apart: in a fork that costs five times the fork itself."""
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 - what Python itself does at its end
    atexit._run_exitfuncs()  # noqa: SLF001 - same
    with contextlib.suppress(OSError, ValueError):  # Python itself shall meet them, and say so
        sys.stdout.flush()
        sys.stderr.flush()
        if code is None or isinstance(code, int):
            os._exit(code or 0)
    sys.exit(code)  # type: ignore[arg-type]


def load() -> None:
    """Imports what a run imports, early or late."""
    for name in ("ralph", "jinja2.sandbox", "requests"):
        importlib.import_module(name)
    for module in pkgutil.walk_packages(sys.modules["ralph"].__path__, "ralph."):
        if not module.name.endswith(("__main__", ".mcp")):  # its library weighs 40 MB, which each fork would pay for
            importlib.import_module(module.name)
    sys.modules["ralph.plan.prompt"].PromptTemplate(Path("any.md"), "Any {# words #}", None, {})  # compiles jinja's own
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load()
    try:
        run(*serve(socket.socket(fileno=int(sys.argv[1]))))
    except SystemExit as ended:
        end(ended.code)
    end(0)
