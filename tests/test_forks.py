"""A fork of the server is to ralph, and to a test, what a start of Python would be."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from forks import PYTHON, ROOM, SERVER, Forked, Server, can_fork
from ralph_driver import Project, alive, eventually, launched, marked

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
    "flags": list(sys.flags),
    "main": sorted(name for name in vars(sys.modules["__main__"]) if not name.startswith("__")),
    "environ": dict(os.environ),
    "seen environ": read("environ"),
    "seen command": read("cmdline"),
    "cwd": os.getcwd(),
    "umask": os.umask(0o22),
    "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
    "threads": threading.active_count(),
    "descriptors": sorted(set(os.listdir("/dev/fd")) & {str(n) for n in range(64)}),
    "signals": {s.name: str(signal.getsignal(s)).split(" at ")[0] for s in signal.Signals},
    "blocked": [s.name for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "wakes": signal.set_wakeup_fd(-1),
    "streams": [stream(sys.stdin), stream(sys.stdout), stream(sys.stderr)],
    "kinds": [os.stat(0).st_mode, os.stat(1).st_mode],
}))
"""


def code(project: Project, source: str, *args: str) -> Forked:
    """A fork that runs this code; its output is in "said"."""
    with (project.outputs / "said").open("wb") as output, open(os.devnull, "rb") as nothing:  # noqa: PTH123
        said = output.fileno()
        return SERVER.start(
            [*PYTHON, "-c", source, *args],
            env=project.env,
            cwd=project.root,
            stdin=nothing.fileno(),
            stdout=said,
            stderr=said,
        )


def said(project: Project) -> str:
    return (project.outputs / "said").read_text()


@pytest.mark.parametrize("terminal", [False, True], ids=["in a file", "in a terminal"])
def test_a_fork_finds_what_a_new_process_finds(project: Project, terminal: bool) -> None:
    project.env |= {"TZ": "Asia/Tokyo", "STRANGE": "a=b\udcff\n"}
    project.prefix = ()

    def told() -> dict[str, object]:
        command = (*PYTHON, "-c", TELLS)
        if terminal:
            text = project.start_tty("one", "", "ü", command=command).wait().stdout
        else:
            text = project.ralph("one", "", "ü", command=command).text
        told: dict[str, object] = json.loads(text)
        return told

    fork = told()
    project.prefix = ("env",)
    assert fork == told()


def test_ralph_itself_is_forked(project: Project) -> None:
    run = project.start("--version")
    assert isinstance(run.process, Forked)
    assert run.wait().stdout.startswith("ralph ")


@pytest.mark.parametrize(
    "source",
    [
        "import sys; sys.exit(3)",
        "import sys; sys.exit('words')",
        "raise KeyboardInterrupt",
        "import os; os.kill(os.getpid(), 9)",
        "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
        "import atexit; atexit.register(print, 'last'); print('first')",
        "1 / 0",
    ],
)
def test_it_ends_as_a_new_process_ends(project: Project, source: str) -> None:
    ended = code(project, source).wait(10)
    new = subprocess.run(
        [*PYTHON, "-c", source], env=project.env, check=False, capture_output=True, text=True, start_new_session=True
    )
    assert (ended, said(project).splitlines()[-1:]) == (new.returncode, (new.stdout + new.stderr).splitlines()[-1:])


def test_two_forks_draw_differently(project: Project) -> None:
    draws = "import random, secrets, uuid; print(random.random(), secrets.token_hex(), uuid.uuid4())"
    drawn = set()
    for _ in range(2):
        code(project, draws).wait(10)
        drawn |= {*said(project).split()}
    assert len(drawn) == 6


def test_a_fork_carries_the_tests_mark(project: Project, mark: str) -> None:
    """So that conftest.py sees it when it is left running."""
    fork = code(project, "import time; time.sleep(600)")
    assert fork.poll() is None
    assert marked(mark) == [fork.pid] or sys.platform != "linux"
    with pytest.raises(subprocess.TimeoutExpired):
        fork.wait(0.1)
    fork.terminate()
    assert fork.wait(10) == -signal.SIGTERM
    fork.send_signal(signal.SIGTERM)  # nobody is there any more


def test_what_it_cannot_do_alike_is_started(project: Project) -> None:
    argv = [*PYTHON, "-m", "ralph"]
    assert can_fork(argv, project.env)
    assert not can_fork(["nohup", *argv], project.env)
    assert not can_fork([*PYTHON, "-m", "json.tool"], project.env)
    assert not can_fork(argv, project.env | {"PYTHONUTF8": "0"})
    assert not can_fork(argv, {name: value for name, value in project.env.items() if name != "LANG"})
    assert not can_fork(argv, project.env | {"MUCH": "x" * ROOM})


def test_a_folder_that_is_not_there_is_said(project: Project) -> None:
    with pytest.raises(AssertionError, match="could not be started in /nowhere"):
        launched([*PYTHON, "-m", "ralph"], project.env, Path("/nowhere"), stdout=2, stderr=2)


# The server.


def begun(project: Project, *, source: str = "import time; time.sleep(600)") -> tuple[Server, Forked]:
    server = Server()
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123
        null, argv = nothing.fileno(), [*PYTHON, "-c", source]
        return server, server.start(argv, env=project.env, cwd=project.root, stdin=null, stdout=null, stderr=null)


def test_the_end_of_the_tests_ends_the_server_and_what_it_started(project: Project) -> None:
    server, fork = begun(project)
    assert server.pid
    pid = server.pid
    server.close()
    assert not alive(pid)
    eventually(lambda: not alive(fork.pid))


def test_a_server_that_dies_is_noticed_and_the_next_start_has_another(project: Project) -> None:
    server, fork = begun(project)
    assert server.pid
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(AssertionError, match="the fork server has ended"):
        fork.wait(10)
    with pytest.raises(AssertionError, match="the fork server has ended"):
        fork.poll()
    os.kill(fork.pid, signal.SIGKILL)
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123
        null, argv = nothing.fileno(), [*PYTHON, "-c", "pass"]
        again = server.start(argv, env=project.env, cwd=project.root, stdin=null, stdout=null, stderr=null)
    assert again.wait(10) == 0
    server.close()


def test_it_keeps_no_descriptor(project: Project) -> None:
    code(project, "pass").wait(10)
    assert SERVER.pid
    folder = Path(f"/proc/{SERVER.pid}/fd")
    if folder.exists():
        before = len(list(folder.iterdir()))
        for _ in range(3):
            code(project, "pass").wait(10)
        assert len(list(folder.iterdir())) == before


def test_those_at_a_gate_begin_together(project: Project) -> None:
    gate, opens = os.pipe()
    ready, writes = os.pipe()
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        null, argv = nothing.fileno(), [*PYTHON, "-c", "print('x', end='')"]
        forks = [
            SERVER.start(argv, env=project.env, cwd=project.root, stdin=null, stdout=writes, stderr=2, gate=gate)
            for _ in range(3)
        ]
    os.close(gate)
    assert not select.select([ready], [], [], 0.1)[0]
    os.close(opens)
    assert [fork.wait(10) for fork in forks] == [0, 0, 0]
    assert os.read(ready, 10) == b"xxx"
    os.close(ready)
    os.close(writes)
