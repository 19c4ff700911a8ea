"""Runs ralph as people, cron and terminals do: real processes in a throwaway project."""

import contextlib
import fcntl
import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from forks import PYTHON, Forked, can_fork

T = TypeVar("T")

CHECKOUT = Path(__file__).resolve().parents[1]
COMMAND = (*PYTHON, "-m", "ralph")
PACED = """
import glob, json, os, sys, time
from ralph.cli import main
from ralph.process.clock import ClockAndLimits
from ralph.process.programs import Patience

how = {"speed": 1, "times": 0, "wall_s": 0, "running_s": 0, "when": "", "awake_clock_s": 0, "marks": ""}
said = json.loads(sys.argv.pop(1))
how |= {name: said.pop(name) for name in how if name in said}
began, first = time.time(), ClockAndLimits().boot_clock_s()

class Other(ClockAndLimits):
    slept = 0.0

    def elapsed(self, seconds, jump_s):
        jumped = os.path.exists(how["when"]) if how["when"] else self.slept > 0
        return seconds * how["speed"] + self.slept + jumped * jump_s

    def unix_time_s(self):
        return began + self.elapsed(super().unix_time_s() - began, how["wall_s"])

    def boot_clock_s(self):
        return first + self.elapsed(super().boot_clock_s() - first, how["running_s"])

    def awake_clock_s(self):
        return super().awake_clock_s() + how["awake_clock_s"] * len(glob.glob(how["marks"] + "/mark-*"))

    def sleep_until_signal(self, seconds):
        super().sleep_until_signal(0 if how["times"] else seconds / how["speed"])
        self.slept += max(0, seconds) * how["times"]

waits = {name: said.pop(name) for name in ("after_result_s", "notices_wait_s", "max_printed_bytes") if name in said}
main(Other(patience=Patience(**said), **waits))
"""
LONG = os.environ.get("RALPH_TESTS_LONG") == "1"
"""For a night: more examples of each property, and others; longer storms; tables in full."""
PATIENCE_S = 60.0
"""How long a test waits for what it expects: on a slow machine that may be long, and when it comes it costs nothing."""
MARK = "TEST_MARK"
"""The environment name by which everything that a test starts is known."""


def paced(**how: Any) -> tuple[str, ...]:
    """A `command` for ralph at another clock: its waits and limits of time pass `speed` times faster.

    With `times` it leaps over every sleep, so many times as far as it was asked to. The clock on the wall and the one
    that nobody sets jump once, by `wall_s` and `running_s`, at the first such leap or when the file `when` is there:
    the first alone has been set, both together have seen the machine asleep. The one that watches over an agent jumps
    by `awake_clock_s` with each mark that the agent in the folder `marks` makes; else what is measured in ralph's own
    waking seconds stays. How long it waits for what shall end, all others say (fields of Patience and ClockAndLimits).
    """
    return (*PYTHON, "-c", PACED, json.dumps(how, default=str))


def leaping(**how: Any) -> tuple[str, ...]:
    """A `command` for ralph whose clock leaps over every sleep, so that waits of hours take no time; see `paced`."""
    return paced(**{"times": 1, "interrupt_s": 1, "terminate_s": 1, **how})


UNHURRIED = paced(interrupt_s=600, terminate_s=600, notices_wait_s=600)
"""A `command` for ralph that waits for ten minutes where it waits for an end: what has ended was not waited for."""


def eventually(condition: Callable[[], T], within_s: float = PATIENCE_S) -> T:
    """The first true value of `condition`; fails when there is none in time."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not true within {within_s} s"
        time.sleep(0.01)
    return value


def everything_in(*folders: Path) -> dict[str, tuple[int, int, bytes]]:
    """Of all there is, what git keeps included: its mode, what it holds, and of a file when it was written."""
    found = {}
    for path in (one for folder in folders for one in sorted(folder.rglob("*"))):
        data, about = b"", path.lstat()
        if path.is_symlink() or path.is_file():
            data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        found[str(path)] = about.st_mode, 0 if path.is_dir() else about.st_mtime_ns, data
    return found


def state(pid: int | None) -> str:
    """The letter of ps(1): "T" for a stopped process, "Z" for a zombie, none for one that is gone."""
    ps = ["ps", "-o", "stat=", "-p", str(pid)]
    return subprocess.run(ps, check=False, capture_output=True, text=True).stdout[:1]


def alive(pid: int | None) -> bool:
    """Whether this process runs; a zombie does not."""
    return state(pid) not in {"", "Z"}


def kill(pids: Iterable[int]) -> None:
    """Kills those that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def executable(path: Path, script: str) -> Path:
    """Puts this script of the shell there."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def is_free(tree: Path) -> bool:
    """Whether nobody has the lock on it, what outlives a killed ralph included."""
    free, descriptor = False, os.open(tree, os.O_RDONLY)
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        free = True
    os.close(descriptor)
    return free


def marked(mark: str) -> list[int]:
    """The pids of all processes that carry this test's mark (none where there is no /proc)."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):  # a longer pattern fails when a process ends meanwhile
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def progress_text(*tasks: str, status: str = "IN_PROGRESS", notes: str = "", plan: str = "feature") -> str:
    """A progress file as ralph makes it, with tasks: "x done" is ticked, all others are open."""
    listed = "".join(f"- [x] {task[2:]}\n" if task.startswith("x ") else f"- [ ] {task}\n" for task in tasks)
    head = f"# Progress: {plan}\n\nPlan: {plan}.md\nStarted: 2026-11-20 22:14:03\n\n"
    end = "\n" if tasks else ""
    return f"{head}## Status\n\n{status}\n\n## Task List\n\n{listed}{end}## Notes\n{notes}"


def launched(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path, *streams: int, has_terminal: bool = False
) -> subprocess.Popen[bytes]:
    """A process in a session of its own: a fork where that does the same, else a start of all that `argv` names."""
    if can_fork(argv, env):
        return Forked(argv, env, cwd, *streams, has_terminal=has_terminal)
    stdin, stdout, stderr = streams
    if has_terminal:
        argv = ["setsid", "--ctty", *argv]
    return subprocess.Popen(
        argv, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=not has_terminal
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a run of ralph ended."""

    code: int
    """Negative: died by that signal."""
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout + self.stderr


class Running:
    """A ralph that runs without a terminal; its output goes to files, which no left-over can hold."""

    process: subprocess.Popen[bytes]

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, output: Path) -> None:
        self._out, self._err = output.with_suffix(".out"), output.with_suffix(".err")
        with Path(os.devnull).open("rb") as nothing, self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = launched(argv, env, cwd, nothing.fileno(), out.fileno(), err.fileno())

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def stdout(self) -> str:
        return self._out.read_text("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self._err.read_text("utf-8", "replace")

    def signal(self, which: signal.Signals) -> None:
        self.process.send_signal(which)

    def poll(self) -> int | None:
        return self.process.poll()

    def wait(self, timeout_s: float = PATIENCE_S) -> Run:
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running after {timeout_s} s:\n{self.stdout}{self.stderr}") from None
        return Run(code=code, stdout=self.stdout, stderr=self.stderr)


class TtyRunning(Running):
    """A ralph with a terminal of its own (80 columns); its stdout is all that was written to it."""

    stderr = ""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        master, slave = os.openpty()
        self._terminal = open(master, "r+b", buffering=0)  # noqa: PTH123, SIM115 - a descriptor, which _read closes
        self.process = launched(argv, env, cwd, slave, slave, slave, has_terminal=True)
        os.close(slave)
        self._seen: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Until the last user of the terminal is gone: Linux says EIO then, macOS gives nothing."""
        with self._terminal, contextlib.suppress(OSError):
            while data := self._terminal.read(65536):
                self._seen.append(data)

    @property
    def stdout(self) -> str:
        if self.process.returncode is not None:
            self._reader.join(2)  # what was left open may be
        return b"".join(self._seen).decode("utf-8", "replace").replace("\r\n", "\n")

    def type(self, text: str) -> None:
        """What the user types: "\\x03" is Ctrl+C, "\\x13" Ctrl+S, "\\x1a" Ctrl+Z, "\\x1c" Ctrl+\\."""
        self._terminal.write(text.encode())


@dataclass(slots=True, kw_only=True)
class Project:
    """A throwaway repository with a plan, a home, a state folder and a clean environment."""

    root: Path
    """The working directory, called "repo"."""
    home: Path
    state: Path
    outputs: Path
    env: dict[str, str]
    runs: int = 0

    @property
    def progress(self) -> Path:
        return self.root / "feature_PROGRESS.md"

    @property
    def progress_text(self) -> str:
        return self.progress.read_bytes().decode("utf-8", "surrogateescape")

    @property
    def state_folders(self) -> list[Path]:
        """The folders of the plans under $XDG_STATE_HOME/ralph."""
        return sorted(self.state.glob("ralph/*-*/"))

    def journal(self) -> list[dict[str, Any]]:
        """The lines of every plan's journal."""
        files = sorted(self.state.glob("ralph/*-*/journal.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]

    def iterations(self, *names: str) -> list[Any]:
        """What the journal tells under these names of each iteration: one value, or a tuple of them."""
        return [itemgetter(*names)(line) for line in self.journal() if line["event"] == "iteration"]

    def transcripts(self) -> dict[str, bytes]:
        """Name and content of every transcript file of every plan."""
        files = sorted(self.state.glob("ralph/*-*/transcripts/**/*"))
        return {str(file.relative_to(self.state)): file.read_bytes() for file in files if file.is_file()}

    def has_tasks(self, *tasks: str, status: str = "IN_PROGRESS", notes: str = "") -> None:
        """Writes the progress file: "x done" is ticked, all others are open."""
        self.progress.write_text(progress_text(*tasks, status=status, notes=notes))

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.root, env=self.env, check=True, capture_output=True, text=True)
        return done.stdout

    def does(self, script: str, **env: str) -> None:
        """What the user does in a shell."""
        subprocess.run(["sh", "-ec", script], cwd=self.root, env=self.env | env, check=True)

    def commits(self, subject: str) -> None:
        """Commits all that is there, as the user does between two runs."""
        self.git("add", "-A")
        self.git("commit", "-qm", subject)

    def start(
        self,
        *args: str,
        env: Mapping[str, str] = {},
        cwd: Path | None = None,
        prefix: Sequence[str] = (),
        command: Sequence[str] = COMMAND,
    ) -> Running:
        """Starts `ralph ARGS`; `prefix` is a command that runs it (nohup, setpriv, sh -c '... "$@"' sh).

        Then it is a real start, where it would be a fork.
        """
        self.runs += 1
        argv = [*prefix, *command, *args]
        return Running(argv, {**self.env, **env}, cwd or self.root, self.outputs / f"{self.runs}.x")

    def ralph(self, *args: str, timeout_s: float = PATIENCE_S, **how: Any) -> Run:
        """Runs `ralph ARGS` to its end, as `start` does; to the end of all it ran where its agent killed it."""
        run = self.start(*args, **how).wait(timeout_s)
        if run.code == -signal.SIGKILL:  # a start that is a fork is there before the lock is free
            eventually(lambda: is_free(self.root), timeout_s)
        return run

    def build(self, *args: str, **how: Any) -> Run:
        """`ralph feature.md build --delay 0 ARGS`."""
        return self.ralph("feature.md", "build", "--delay", "0", *args, **how)

    def plan(self, *args: str, **how: Any) -> Run:
        """`ralph feature.md plan --delay 0 ARGS`."""
        return self.ralph("feature.md", "plan", "--delay", "0", *args, **how)

    def start_tty(self, *args: str, env: Mapping[str, str] = {}, command: Sequence[str] = COMMAND) -> TtyRunning:
        """Starts `ralph ARGS` in a terminal of its own."""
        return TtyRunning([*command, *args], {**self.env, "TERM": "xterm", **env}, self.root)

    def ralph_tty(self, *args: str, **how: Any) -> Run:
        """Runs `ralph ARGS` to its end in a terminal; all it wrote is in `stdout`."""
        return self.start_tty(*args, **how).wait()


class Mailbox:
    """Gets the notices of all runs in this project from now on, by a script of the user who is away."""

    def __init__(self, project: Project) -> None:
        self._box = project.home / "box"
        self._box.touch()
        script = executable(project.home / "send", f'printf "%s\\0" "$1" >> {shlex.quote(str(self._box))}')
        project.env["RALPH_CUSTOM_NOTIFY_SCRIPT"] = str(script)

    @property
    def notices(self) -> list[str]:
        return self._box.read_text().split("\0")[:-1]

    @property
    def titles(self) -> list[str]:
        return [notice.partition("\n")[0] for notice in self.notices]
