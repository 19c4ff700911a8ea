"""Who belongs to the agent, by descent, by mark or by having been seen: found however it hides, and ended.

The real agent starts every shell command in a session of its own, so neither its process group nor its own exit takes
them along (measured). On Linux ralph is their subreaper: whatever loses its parent becomes ralph's child, so descent
finds all of it. Where environments can be read, the mark in `RALPH_RUN_ID` finds the rest.
"""

import contextlib
import functools
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ralph.process import signals

MARK = "RALPH_RUN_ID"
OWN = ("RALPH_OWN_CHILD", secrets.token_hex(8))
"""Marks the programs that ralph runs for itself (git, notify scripts): never swept, nor what they start.

The value is new in each process, so that an agent cannot mark itself, and a nested ralph's are not spared.
"""

_ASK_AGAIN_S = 1.0
LOOK_EVERY_S = 0.5 if sys.platform == "linux" else 2.0
"""Seconds between looks at the process table: less than a millisecond from /proc, a program to run elsewhere."""

spawning = threading.RLock()
"""Held while a program of ralph's own starts, so that no sweep sees it before it is in `own`."""
own: set[int] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds to wait at each step of ending something."""

    interrupt_s: float = 5.0
    terminate_s: float = 5.0
    kill_s: float = 10.0
    after_result_s: float = 30.0
    """Seconds the agent has to leave by itself after its `result` event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One row of the process table; `started` tells two processes of the same pid apart."""

    pid: int
    parent: int
    started: str
    zombie: bool


def table() -> dict[int, Process]:
    """Every process of this machine that may be seen."""
    return _proc_table() if sys.platform == "linux" else _ps_table()


def near(pids: Iterable[int]) -> dict[int, Process]:
    """These processes and all that descends from them, and perhaps others; one that is born now may be left out."""
    return _proc_near(pids) if sys.platform == "linux" and _tells_children() else table()


@functools.cache
def _tells_children() -> bool:
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _proc_near(pids: Iterable[int]) -> dict[int, Process]:
    """Each is asked for its children, which is less to read than all the processes of a machine."""
    found: dict[int, Process] = {}
    todo = list(pids)
    while todo:
        pid = todo.pop()
        if pid not in found and (process := _row(pid)):
            found[pid] = process
            todo += _children(pid)
    return found


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - see below
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                yield from map(int, file.read().split())


def _proc_table() -> dict[int, Process]:
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208 - see below
    return {pid: process for pid in pids if (process := _row(pid))}


def _row(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - a Path for each of some hundred is what costs
            row = file.read()
    except OSError:
        return None
    # proc(5): the name stands in parentheses and may hold any byte
    state, parent, *rest = row[row.rindex(b")") + 2 :].split()
    return Process(pid=pid, parent=int(parent), started=rest[17].decode(), zombie=state == b"Z")


def _ps_table() -> dict[int, Process]:
    from ralph.process.run import call  # noqa: PLC0415 - only where there is no /proc

    found = {}
    done = call(["ps", "-A", "-o", "pid=,ppid=,stat=,lstart="], timeout_s=10)
    for line in done.stdout.decode(errors="replace").splitlines():
        pid, parent, state, started = line.split(maxsplit=3)
        if int(pid) == done.pid:
            continue
        found[int(pid)] = Process(pid=int(pid), parent=int(parent), started=started, zombie=state.startswith("Z"))
    return found


def environ(pid: int) -> dict[bytes, bytes]:
    """The environment the process was started with; empty where the system or its owner hides it."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    return dict(pair.split(b"=", 1) for pair in raw.split(b"\0") if b"=" in pair)


def command(pid: int) -> str:
    """The command line as a person would recognise it."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return f"process {pid}"
    return b" ".join(words).decode(errors="replace").strip()[:80] or f"process {pid}"


def somebody_runs(program: str, inside: Path) -> bool:
    """Whether a process of that name works in or below the folder; yes, to be careful, where that cannot be seen."""
    if sys.platform != "linux":
        return True
    for pid in table():
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            if name.startswith(program) and Path(f"/proc/{pid}/cwd").readlink().is_relative_to(inside):
                return True
    return False


def be_subreaper() -> None:
    """Makes orphans of the agent ralph's children, where the system can (Linux)."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - 10 ms that only a run pays

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER, prctl(2)


class Family:
    """The agent's processes, as seen from `ralph`: its descendants and all that carry the mark.

    What is below ralph when this is made is not the agent's: a shell that execs ralph hands its children over. Below
    PID 1 is everybody's, so there only the mark and having been seen count; also for a run whose `ralph` is None, dead.
    """

    def __init__(self, *, ralph: int | None, mark: str) -> None:
        self.ralph = ralph
        self.mark = mark.encode()
        self._seen: dict[int, str] = {}
        processes = table()
        roots = set() if ralph is None else {ralph}
        self._before = {pid: processes[pid].started for pid in _below(roots, processes, set())}
        self._asked: dict[int, tuple[str, float]] = {}
        self._look_at = 0.0

    def look(self) -> None:
        """Remembers who is alive below ralph: they stay known when their parents die."""
        processes, spared = self._table(lambda: near(self._roots | self._seen.keys()))
        known = _still(self._seen, processes)
        self._remember(known | _below(self._roots | known, processes, spared), processes)

    def glance(self) -> None:
        """Looks now and then, where orphans do not become ralph's own: there, having seen them is all there is."""
        if sys.platform != "linux" and time.monotonic() > self._look_at:
            self._look_at = time.monotonic() + LOOK_EVERY_S
            self.look()

    def members(self) -> dict[int, Process]:
        """The agent's processes that are alive now. Never ralph, its ancestors or what it runs for itself."""
        processes, spared = self._table()
        marked = {pid for pid in processes if self.mark in environ(pid).get(MARK.encode(), b"").split(b":")}
        roots = marked | _still(self._seen, processes)
        found = roots | _below(roots | self._roots, processes, spared)
        found -= spared | _ancestors(os.getpid(), processes) | _ancestors(self.ralph or 1, processes)
        self._remember(found, processes)
        return {pid: processes[pid] for pid in found if not processes[pid].zombie and not self._is_spared(pid)}

    def _is_spared(self, pid: int) -> bool:
        """Whether ralph runs it for itself; once ralph is dead nobody waits for it, and the guardian ends that too."""
        name, value = OWN
        return self.ralph == os.getpid() and environ(pid).get(name.encode()) == value.encode()

    def _remember(self, pids: set[int], processes: dict[int, Process]) -> None:
        self._seen = {pid: processes[pid].started for pid in pids}

    @property
    def _roots(self) -> set[int]:
        return set() if self.ralph is None or self.ralph == 1 else {self.ralph}

    def _table(self, look: Callable[[], dict[int, Process]] = table) -> tuple[dict[int, Process], set[int]]:
        """The processes there are, and those of them that are never the agent's."""
        with spawning:
            processes = look()
            return processes, own | _still(self._before, processes)

    def _asked_to_end(self) -> dict[int, Process]:
        """Those alive now, each asked to end: also what was born while others were ended.

        Asked again after a second, since a shell that has just forked can lose a signal it traps.
        """
        now, clock = self.members(), time.monotonic()
        for pid, process in now.items():
            started, asked_at = self._asked.get(pid, ("", 0.0))
            if started != process.started or clock - asked_at > _ASK_AGAIN_S:
                _signal_all([pid], signal.SIGTERM)
                self._asked[pid] = (process.started, clock)
        return now

    def end(self, patience: Patience) -> tuple[list[str], list[str]]:
        """Ends them all: TERM, a while, KILL until none is left.

        Returns what had to be ended and what could not be, as command lines.
        """
        if self.ralph == os.getpid() and _no_children():
            return [], []
        left = self.members()
        names = {pid: command(pid) for pid in left}
        if not _gone(self._asked_to_end, patience.terminate_s, signals.impatient):
            deadline = time.monotonic() + patience.kill_s
            # twice: a process may fork while it is killed, and what is born in one look shows in the next
            while (left := self.members() or self.members()) and time.monotonic() < deadline:
                _signal_all(left, signal.SIGKILL)
                signals.wait(0.02)
        self._seen.clear()
        self._asked.clear()
        reap_orphans()
        still = self.members()
        return [name for pid, name in names.items() if pid not in still], [command(pid) for pid in still]


def end_left_over(mark: str, patience: Patience) -> list[str]:
    """Ends what still carries the mark of a run that died together with its guardian; its command lines."""
    ended, _ = Family(ralph=None, mark=mark).end(patience)
    return ended


def end_own() -> None:
    """Kills what ralph still runs for itself: a notify script that hangs must not outlive it."""
    with spawning:
        for pid in own:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def _no_children() -> bool:
    """Whether nothing at all descends from this process: true after most iterations, known in a microsecond."""
    if sys.platform != "linux":
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def reap_orphans(*, but: int = 0) -> None:
    """Collects the dead whom ralph inherited, each by its pid: `waitpid(-1)` would steal its own children's ends."""
    if sys.platform != "linux":
        return
    with spawning, contextlib.suppress(ChildProcessError):
        while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if dead.si_pid == but or dead.si_pid in own:
                return
            os.waitpid(dead.si_pid, os.WNOHANG)


def _still(known: dict[int, str], processes: dict[int, Process]) -> set[int]:
    return {pid for pid, started in known.items() if pid in processes and processes[pid].started == started}


def _below(roots: Iterable[int], processes: dict[int, Process], spared: set[int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        for pid in children.get(todo.pop(), []):
            if pid not in found and pid not in spared:
                found.add(pid)
                todo.append(pid)
    return found


def _ancestors(pid: int, processes: dict[int, Process]) -> set[int]:
    found = {pid, 0, 1}
    while pid in processes and processes[pid].parent not in found:
        pid = processes[pid].parent
        found.add(pid)
    return found


def _signal_all(processes: Iterable[int], number: int) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # what is stopped hears nothing else


def _gone(members: Callable[[], dict[int, Process]], within_s: float, hurry: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + within_s
    while members() or members():  # what is born in one look shows in the next
        if time.monotonic() > deadline or hurry():
            return False
        signals.wait(0.05)
    return True


def end_agent(pid: int, alive: Callable[[], bool], patience: Patience) -> None:
    """Asks the agent itself to stop, then its group, then insists, then kills.

    Only SIGINT makes the real agent end its tools and still report its cost (measured). A shell script waits
    for the program it runs, which must hear of it too.
    """
    steps = (
        (os.kill, signal.SIGINT, 0.4 * patience.interrupt_s),
        (os.killpg, signal.SIGINT, 0.6 * patience.interrupt_s),
        (os.killpg, signal.SIGTERM, patience.terminate_s),
        (os.killpg, signal.SIGKILL, patience.kill_s),
    )
    for send, number, wait_s in steps:
        if not alive():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, number)
            send(pid, signal.SIGCONT)  # what is stopped hears nothing else
        deadline = time.monotonic() + wait_s
        while alive() and time.monotonic() < deadline and not (signals.impatient() and number != signal.SIGKILL):
            signals.wait(0.05)
