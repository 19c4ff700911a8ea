"""The guardian: a small process that outlives ralph by the moment it takes to end the agent.

It is forked before any thread, holds the lock together with ralph, and reads a pipe whose only other end is ralph's.
When that end closes without a goodbye, ralph is dead by whatever means, kill -9 included. A parent-death signal would
reach only the agent and not its tools, and comes when the *thread* that started it ends (both measured).
"""

import contextlib
import os
import select
import shutil
from collections.abc import Callable
from pathlib import Path

from ralph.process import signals
from ralph.process.family import LOOK_EVERY_S, Family, Patience, end_agent, table
from ralph.terminal import Taken


class Guardian:
    """Starts watching when made; told of each agent; dismissed when ralph leaves in good order.

    After a ralph that did not, it also cleans up the terminal that it had `taken`, and removes the folder `litter`.
    """

    def __init__(
        self, *, mark: str, keep_open: int, litter: Path, patience: Patience, taken: Taken | None = None
    ) -> None:
        family = Family(ralph=os.getpid(), mark=mark)  # before there is an agent
        listen, self._tell = os.pipe()
        child = os.fork()
        if child == 0:
            kept = {listen, keep_open} | ({taken.fd} if taken else set())
            _become_guardian(kept, lambda: _guard(listen, family, litter, patience, taken))
        os.close(listen)
        os.waitpid(child, 0)

    def watch(self, pid: int) -> None:
        """The agent's pid, 0 when there is none. A guardian that was killed itself is no reason to stop."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._tell, b"%d\n" % pid)

    def dismiss(self) -> None:
        """Lets it go: everything is ended already."""
        self.watch(-1)
        os.close(self._tell)


def _become_guardian(kept: set[int], guard: Callable[[], None]) -> None:
    """Never returns. A session of its own and a parent that has left: no terminal's and no group's signal gets here."""
    try:
        os.setsid()
        if os.fork() == 0:
            _let_go_of_everything_but(kept)
            guard()
    finally:
        os._exit(0)


def _let_go_of_everything_but(kept: set[int]) -> None:
    signals.forget()
    os.chdir("/")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    below = 3
    for fd in sorted(fd for fd in kept if fd >= below):
        os.closerange(below, fd)
        below = fd + 1
    os.closerange(below, 65536)


def _guard(listen: int, family: Family, litter: Path, patience: Patience, taken: Taken | None) -> None:
    agent, started, newest = 0, "", b""
    while True:
        ready, _, _ = select.select([listen], [], [], LOOK_EVERY_S)
        if not ready:
            before, newest = newest, _newest()
            if not newest or newest != before:
                family.look()
            continue
        said = os.read(listen, 4096).split()
        if not said:
            break
        agent = int(said[-1])
        if agent < 0:
            return
        started = _started(agent)
    if taken:
        taken.clean_up()  # before the shell's prompt, if it can be
    family.members()  # seen once more before the agent's end makes orphans of them
    try:
        if agent and started:
            end_agent(agent, lambda: _started(agent) == started, patience)
    finally:
        family.end(patience)
        _remove(litter)


def _remove(folder: Path) -> None:
    """With the folders in it that are read-only, as a cache of modules may be."""
    for place, names, _ in os.walk(folder):
        for inner in (Path(place, name) for name in names):
            if not inner.is_symlink():
                with contextlib.suppress(OSError):
                    inner.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _newest() -> bytes:
    """The pid given out last, from proc(5): as long as it stays, there is nobody new to see; empty where unknown.

    Read in 10 microseconds; where the system does not tell a process's children, a look is one at all processes.
    """
    try:
        newest = Path("/proc/loadavg").read_bytes().split()[-1]
    except OSError:
        return b""
    return b"" if newest == b"0" else newest


def _started(pid: int) -> str:
    """What tells this process from a later one of the same pid; empty when it is gone."""
    process = table().get(pid)
    return process.started if process and not process.zombie else ""
