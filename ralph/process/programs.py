"""Starts programs, runs them to their end, finds them by descent or by a mark, and ends them with all descendants."""

import os
import re
import runpy
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from ralph.files import read_or_empty
from ralph.process import signals

MARK = "RALPH_RUN_ID"
"""Environment variable of all that runs under a supervisor; an inner run's mark follows the outer one's and a colon."""
LINUX = sys.platform == "linux"
_running: set[int] = set()


class Patience(NamedTuple):
    """Seconds to wait at each step of ending something."""

    interrupt_s: float = 5.0
    terminate_s: float = 5.0
    kill_s: float = 10.0


def spawn(argv: Sequence[str], env: Mapping[str, str], stdio: Sequence[int] = ()) -> int:
    """Starts a program and returns its pid. Raises OSError if it cannot be started.

    With `stdio` as its descriptors 0 and up, it gets a session of its own; without, it shares this terminal.
    """
    moves = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(stdio)]
    return os.posix_spawnp(
        argv[0],
        tuple(argv),
        env,
        file_actions=moves,
        setsid=bool(stdio),
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores these
    )


class Finished(NamedTuple):
    """The result of one of ralph's own small programs; `code` is negative for a signal."""

    code: int
    stdout: bytes
    stderr: bytes


def call_program(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] = os.environ,
    stdin: bytes = b"",
    should_end: Callable[[], bool] = lambda: False,
) -> Finished:
    """Runs a program of ralph's own (git, a notify script); ends its group at the timeout, or if it `should_end`.

    Safe from any thread. No supervisor ends the program, and what it leaves in the background is not waited for. After
    the user has asked twice to stop, starts nothing. Raises OSError if the program cannot be started.
    """
    if signals.is_impatient():
        return Finished(-signal.SIGKILL, b"", b"")
    with _unnamed_file() as given, _unnamed_file() as out, _unnamed_file() as err:
        given.write(stdin)
        given.seek(0)
        pid = spawn(argv, env, [given.fileno(), out.fileno(), err.fileno()])
        _running.add(pid)
        code = None
        try:
            code = _wait_for_exit(pid, timeout_s, lambda: signals.is_impatient() or should_end())
        finally:
            if code is None:
                signals.send_signal(-pid, signal.SIGTERM)  # at which git removes its locks
                ended = _wait_for_exit(pid, 0.5)
                signals.send_signal(-pid, signal.SIGKILL)
                if ended is None:
                    _wait_for_exit(pid, 5.0)  # a dead network disk can block it forever
            _running.discard(pid)
        out.seek(0)
        err.seek(0)
        return Finished(-signal.SIGKILL if code is None else code, out.read(), err.read())


def _wait_for_exit(pid: int, within_s: float, should_end: Callable[[], bool] = lambda: False) -> int | None:
    """Returns the exit code of a child; None if it still runs after that time, or once `should_end()` is true."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and not should_end():
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        signals.sleep_until_signal(0.01)
    return None


def _unnamed_file() -> IO[bytes]:
    """Opens a file without a name, in memory if the system can: then no disk is too slow or too full for it."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("ralph"), "w+b", 0)  # noqa: PTH123 - a descriptor
    return tempfile.TemporaryFile(buffering=0)


def kill_called_programs() -> None:
    """Kills what `call_program` runs: a hung notify script must not outlive ralph."""
    for pid in tuple(_running):
        signals.send_signal(-pid, signal.SIGKILL)


def run_in_front(argv: Sequence[str], env: Mapping[str, str] = os.environ) -> int:
    """Runs a program in this terminal and returns its exit code, negative for a signal.

    Passes on the first signal. The terminal sends Ctrl+C to both, so the program gets it twice at once, which counts as
    one request. Raises KeyboardInterrupt afterwards if ralph was asked to stop.
    """
    sys.stdout.flush()
    return wait_or_end_in_front(spawn(argv, env))


def start_in_fork(work: Callable[[], object]) -> int:
    """Calls a function in a fork, and returns its pid. Allows no other threads."""
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    code = 1
    try:
        signals.install_handlers()
        work()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:  # noqa: BLE001 - nobody else would tell
        sys.excepthook(*sys.exc_info())
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def close_files_but(kept: set[int]) -> None:
    """Closes all open files but those with these descriptors."""
    for fd in set(map(int, os.listdir("/dev/fd"))) - kept:  # noqa: PTH208 - numbers are wanted
        with suppress(OSError):  # the descriptor that listed them
            os.close(fd)


def fork_module(argv: Sequence[str], env: Mapping[str, str], stdio: Sequence[int]) -> int:
    """Like `spawn` for `python -P -m MODULE ...`, in a fork: what is loaded here need not be loaded again.

    Allows no other threads. The environment in /proc stays that of this process.
    """

    def run_module() -> None:
        os.setsid()
        for number, fd in enumerate(stdio):
            os.dup2(fd, number)
        close_files_but({0, 1, 2})
        signals.install_handlers()  # again: they had a file open
        os.environ.clear()
        os.environ |= env
        sys.stdin, sys.argv = open(0), [*argv[3:]]  # noqa: SIM115 - what this process has read is its own
        runpy.run_module(argv[3], run_name="__main__")

    return start_in_fork(run_module)


def wait_or_end_in_front(pid: int, should_end: Callable[[], bool] = lambda: False) -> int:
    """Waits for what runs in this terminal, as `run_in_front` does, and ends it if it `should_end`."""
    ended, passed = 0, None
    while not ended:
        with suppress(KeyboardInterrupt):
            signals.sleep_until_signal(0.1)
        if not passed and (passed := signals.interrupted() or (signal.SIGTERM if should_end() else None)):
            signals.send_signal(pid, passed)
        ended, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if ended and os.WIFSTOPPED(status):  # by Ctrl+Z; the shell's `fg` wakes both
            os.kill(os.getpid(), signal.SIGSTOP)
            ended = 0
    if signals.interrupted():
        raise KeyboardInterrupt
    return os.waitstatus_to_exitcode(status)


class ProcessTreeWatch:
    """The processes for which `is_root(pid, parent's pid)` is true, all below them, and those seen there before."""

    pid = 0
    """The one that is not reported."""

    def __init__(self, is_root: Callable[[int, int], bool]):
        self._is_root = is_root
        self._seen = dict[int, str]()

    def is_over(self) -> bool:
        """Whether none is left; a process born during one look shows in the next."""
        return not (self.find_running() or self.find_running())

    def find_running(self) -> list[int]:
        """The pids that run now, except this process; parents first: a signal must reach them before a child ends."""
        alive = [one for one in _list_pids_and_starts() if one[0] != os.getpid()]
        found = {pid: at for pid, parent, at in alive if self._seen.get(pid) == at or self._is_root(pid, parent)}
        while below := {pid: at for pid, parent, at in alive if parent in found and pid not in found}:
            found |= below
        self._seen = found
        return list(found)

    def end(self, patience: Patience) -> tuple[list[str], list[str]]:
        """Sends TERM, then KILL. Returns the command lines of what was ended, except of `pid`, and of survivors."""
        if self.is_over():
            return [], []
        names = {pid: _describe_process(pid) for pid in self.find_running() if pid != self.pid}
        began, due = time.monotonic(), dict[int, float]()
        while not self.is_over() and (took_s := time.monotonic() - began) < patience.terminate_s + patience.kill_s:
            must_die = took_s > patience.terminate_s or signals.is_impatient()
            for pid in self.find_running():
                if must_die or took_s >= due.get(pid, 0.0):
                    due[pid] = took_s + 1.0  # a shell that has just forked can lose a signal it traps
                    signals.send_signal(pid, signal.SIGKILL if must_die else signal.SIGTERM)
            signals.sleep_until_signal(0.02)
        left = self.find_running()
        return [name for pid, name in names.items() if pid not in left], [*map(_describe_process, left)]


def end_marked_processes(mark: str, patience: Patience) -> list[str]:
    """Ends what carries the mark of a run that lost its supervisor, and all below it; returns the command lines."""
    marked = re.compile(rf"(?:^|\0){MARK}=(?:[^\0]*:)?{re.escape(mark)}[:\0]".encode())
    tree = ProcessTreeWatch(lambda pid, _: bool(marked.search(read_or_empty(f"/proc/{pid}/environ"))))
    return tree.end(patience)[0]


def is_git_running(inside: Path) -> bool:
    """Whether a git works in or below the folder; True, to be safe, if that cannot be seen."""
    return not LINUX or any(
        re.match(rb"git(-|$)", read_or_empty(f"/proc/{pid}/comm")) and _may_work_below(pid, inside)
        for pid, *_ in _list_pids_and_starts()
    )


def _may_work_below(pid: int, folder: Path) -> bool:
    """Whether a process works in or below the folder, or hides that; by inode, as paths differ in a container."""
    try:
        place = Path(os.readlink(f"/proc/{pid}/cwd"))  # noqa: PTH115 - a string
        return any(folder.samefile(f"/proc/{pid}/root{one}") for one in (place, *place.parents))
    except OSError as error:
        return isinstance(error, PermissionError)


def _list_pids_and_starts() -> Iterator[tuple[int, int, str]]:
    """Yields pid, parent and start time (to recognize it later) of each visible process, except zombies."""
    own, lines = "", list[str]()
    if LINUX:
        for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - a Path for each of some hundred is what costs
            row = read_or_empty(f"/proc/{pid}/stat").rpartition(b")")[2].decode().split()  # a name may hold any byte
            lines += [f"{pid} {row[1]} {row[0]} {row[19]}"] if row else []
    else:
        import subprocess  # noqa: PLC0415 - nothing else needs it

        ps = "echo $$; LC_ALL=C exec ps -A -o pid=,ppid=,stat=,lstart="
        own, *lines = subprocess.check_output(["sh", "-c", ps], text=True).splitlines()
    for line in lines:
        number, parent, state, started = line.split(maxsplit=3)
        if number != own and state[0] not in "ZX":
            yield int(number), int(parent), started


def _describe_process(pid: int) -> str:
    words = read_or_empty(f"/proc/{pid}/cmdline").decode(errors="replace").replace("\0", " ").split()
    return " ".join(words)[:80] or f"process {pid}"
