"""The keeper: the process below which everything runs that is not ralph's own, and which ends all of it.

On Linux whatever loses its parent becomes the keeper's child, so descent alone finds the agent's processes, however
they hide, and nobody else's. When ralph's end of the link closes without a goodbye, ralph is dead by whatever means,
kill -9 included: then the keeper ends everything, and holds ralph's lock until that is done.
"""

import contextlib
import os
import pickle
import select
import signal
import subprocess
import threading
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ralph.errors import RalphError
from ralph.process import signals, table
from ralph.process.ending import Patience, Tree, end_strays, send_to, until

_LOOK_S = 2.0
"""Seconds between looks where orphans do not become the keeper's: there, having seen them in time is all there is."""
_Say = Enum("_Say", "END GOODBYE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Where a program's standard input comes from, and where its output and its complaints go."""

    prompt: Path
    output: Path
    errors: Path

    def size(self) -> int:
        """Their bytes together."""
        return sum(path.stat().st_size for path in (self.prompt, self.output, self.errors) if path.is_file())


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to run, with what."""

    argv: Sequence[str]
    env: Mapping[str, str]
    files: Files
    folder: Path | None = None
    """Where; None is ralph's own when its keeper began."""


class Left(NamedTuple):
    """What became of a job: its exit code, and command lines of what it left running and of what still runs."""

    code: int
    left_over: tuple[str, ...]
    survivors: tuple[str, ...]


class Keeper:
    """Ralph's end of the link. The keeper starts when this is made, which has to be before the first thread.

    `mark` is the RALPH_RUN_ID of what it will run, and `errors` the file for a traceback of its own. It shares the
    descriptors `holds`. When ralph has died it does `at_death`, ends everything, and does `after_death`.
    """

    def __init__(  # noqa: PLR0913 - all that it must know before it is alone
        self,
        mark: str,
        patience: Patience,
        errors: Path,
        *,
        holds: Collection[int] = (),
        at_death: Callable[[], None] = lambda: None,
        after_death: Callable[[], None] = lambda: None,
    ) -> None:
        assert threading.active_count() == 1, "a fork copies the locks that other threads hold, and not the threads"
        self.patience = patience
        self._mark, self._errors = mark, errors
        there, back = os.pipe(), os.pipe()
        self._pid = os.fork()
        if not self._pid:
            link = _Link(there[0], back[1])
            _become_keeper(lambda: _Keeping(link, patience).keep(at_death, after_death), {*holds, *link.ends}, errors)
        os.close(there[0])
        os.close(back[1])
        self._link = _Link(back[0], there[1])

    def fileno(self) -> int:
        """Readable once the job's own process has left."""
        return self._link.fileno()

    def start(self, job: Job) -> None:
        """Starts it in a session of its own. Raises OSError when it cannot be started, RalphError without a keeper."""
        try:
            self._link.send(job)
            error = self._link.receive()
        except EOFError:
            self._lost()
        if error:
            raise error

    def has_left(self) -> bool:
        """Whether the job's own process is gone; what it started may still run."""
        return self._link.has_news()

    def end(self) -> Left:
        """What became of the job, when it and all that it started are gone. Raises RalphError without a keeper."""
        left = None
        try:
            self._link.send(_Say.END)
            while not isinstance(left, Left):
                if signals.impatient():
                    os.kill(self._pid, signal.SIGQUIT)  # which loses patience, too
                signals.wait(1.0, self._link)
                left = self._link.receive() if self._link.has_news() else None
        except EOFError:
            self._lost()
        return left

    def dismiss(self) -> None:
        """Lets it go: everything is ended already."""
        with contextlib.suppress(EOFError):
            self._link.send(_Say.GOODBYE)
        with contextlib.suppress(ChildProcessError):  # it was killed, and that is known
            os.waitpid(self._pid, 0)

    def _lost(self) -> NoReturn:
        """Nobody knows any more who descends from whom; what carries the mark can still be found."""
        self.dismiss()
        end_strays(self._mark, self.patience)
        how = f"failed, see {self._errors}" if self._errors.exists() else "was killed"
        raise RalphError(f"the keeper {how}: the process of ralph's below which all runs; start ralph again", 1)


class _Link:
    """One end of a line between two processes: whole objects, and EOFError when nobody is at the other end."""

    def __init__(self, reads: int, writes: int) -> None:
        self.ends = (reads, writes)

    def fileno(self) -> int:
        return self.ends[0]

    def send(self, said: object) -> None:
        data = pickle.dumps(said)
        data = len(data).to_bytes(4, "big") + data
        try:
            while data:
                data = data[os.write(self.ends[1], data) :]
        except BrokenPipeError:
            raise EOFError from None

    def receive(self) -> Any:
        return pickle.loads(self._read(int.from_bytes(self._read(4), "big")))  # noqa: S301 - its own other half

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            if not (more := os.read(self.ends[0], count - len(data))):
                raise EOFError
            data += more
        return data

    def has_news(self) -> bool:
        return bool(select.select([self], [], [], 0)[0])


def _become_keeper(keep: Callable[[], None], kept: set[int], errors: Path) -> NoReturn:
    """In a session of its own no terminal's and no group's signal gets here, and of ralph's files only `kept` stay."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nowhere, fd)
        for fd in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - numbers are what is wanted
            if fd > 2 and fd not in kept:
                with contextlib.suppress(OSError):  # the one that listed them
                    os.close(fd)
        signals.install()
        keep()
    except BaseException:  # noqa: BLE001 - nobody else could tell
        with contextlib.suppress(OSError):
            errors.write_text(traceback.format_exc())
    finally:
        os._exit(0)


class _Keeping:
    """The keeper's end: one job at a time."""

    def __init__(self, link: _Link, patience: Patience) -> None:
        self._link, self._patience = link, patience
        self._child: subprocess.Popen[bytes] | None = None
        self._inherits = _inherits_orphans()
        childless = self._is_childless if self._inherits else None
        self._tree = Tree(lambda processes: table.below({os.getpid()}, processes), childless)

    def keep(self, at_death: Callable[[], None], after_death: Callable[[], None]) -> None:
        """Does what ralph says until it says goodbye, or is dead."""
        try:
            while (said := self._link.receive()) is not _Say.GOODBYE:
                if said is _Say.END:
                    self._link.send(self._end())
                elif isinstance(said, Job):
                    self._link.send(self._begin(said))
                    self._await()
        except EOFError:
            at_death()
            self._end()
            after_death()

    def _begin(self, job: Job) -> OSError | None:
        self._child, files = None, job.files
        try:
            with files.prompt.open("rb") as given, files.output.open("ab") as out, files.errors.open("ab") as err:
                self._child = subprocess.Popen(
                    job.argv,
                    env=job.env,
                    cwd=job.folder,
                    stdin=given,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
        except OSError as error:
            return error
        return None

    def _await(self) -> None:
        """Until the job's own process has left, which is told, or ralph says something."""
        while self._runs():
            signals.wait(3600.0 if self._inherits else _LOOK_S, self._link)
            if self._link.has_news():
                return
            if not self._inherits:
                self._tree.look()
        self._link.send(None)

    def _runs(self) -> bool:
        """Whether the job's own process does. Buries all who are dead: nobody else waits for anybody here."""
        with contextlib.suppress(ChildProcessError):
            while (dead := os.waitpid(-1, os.WNOHANG))[0]:
                if self._child and dead[0] == self._child.pid:
                    self._child.returncode = os.waitstatus_to_exitcode(dead[1])
        return self._child is not None and self._child.returncode is None

    def _end(self) -> Left:
        """Asks the job itself to stop, then its group; then ends all that is left.

        Only SIGINT makes the real agent end its tools and still report its cost (measured). A shell script waits for
        the program that it runs, which must hear of it too.
        """
        pid = self._child.pid if self._child else 0
        for kill, part in ((os.kill, 0.4), (os.killpg, 0.6)):
            if self._runs():
                send_to(kill, pid, signal.SIGINT)
                until(lambda: not self._runs(), part * self._patience.interrupt_s)
        left_over, survivors = self._tree.end(self._patience, but=pid)
        code = None if self._runs() or not self._child else self._child.returncode
        return Left(code=-signal.SIGKILL if code is None else code, left_over=left_over, survivors=survivors)

    def _is_childless(self) -> bool:
        """Who inherits every orphan has no descendant when there is no child, dead or alive."""
        self._runs()
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return False
        return True


def _inherits_orphans() -> bool:
    """Whether who loses its parent below this process becomes its child from now on; on Linux it does."""
    if not table.LINUX:
        return False
    import ctypes  # noqa: PLC0415 - 10 ms that only a run pays

    return bool(ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0)  # PR_SET_CHILD_SUBREAPER, prctl(2)
