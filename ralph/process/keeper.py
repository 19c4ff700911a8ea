"""The keeper: the process below which everything runs that is not ralph's own, and which ends all of it.

On Linux whatever loses its parent becomes the keeper's child, so descent alone finds the agent's processes, however
they hide, and nobody else's. When ralph's end of the link closes, ralph is done, or dead by whatever means, kill -9
included: then the keeper ends everything, and holds ralph's lock until that is done.
"""

import contextlib
import io
import os
import pickle
import select
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ralph.errors import RalphError
from ralph.process import signals
from ralph.process.tree import LINUX, Patience, Tree, below, end_strays, send_to

_LOOK_S = 3600.0 if LINUX else 2.0
"""Seconds between looks; where orphans do not become the keeper's, having seen them in time is all there is."""
_END = "end"


class Files(NamedTuple):
    """Where a program's standard input comes from, and where its output and its complaints go."""

    prompt: Path
    output: Path
    errors: Path


class Job(NamedTuple):
    """What to run, with what."""

    argv: Sequence[str]
    env: Mapping[str, str]
    files: Files
    folder: Path | None = None
    """Where; None is ralph's own when its keeper began."""


class Ended(NamedTuple):
    """What became of a job."""

    code: int
    """Negative for the signal that killed it."""
    unstarted: OSError | None = None
    """Why it could not be started."""
    left_over: tuple[str, ...] = ()
    """Command lines of what it had left running, now ended."""
    survivors: tuple[str, ...] = ()
    """Command lines of what could not be ended."""
    interrupted: bool = False
    """Ralph was asked to stop while it ran."""
    shrunk: bool = False
    """Its output became shorter while it ran, so the record is not whole."""


class Keeper:
    """Ralph's end of the link. The keeper starts when this is made, which has to be before the first thread.

    `mark` is the RALPH_RUN_ID of what it will run, and `errors` the file for a traceback of its own. It shares the
    descriptors `holds`, and does `at_last` when all is ended and ralph is gone.
    """

    def __init__(
        self,
        mark: str,
        patience: Patience,
        errors: Path,
        *,
        holds: Collection[int] = (),
        at_last: Callable[[], None] = lambda: None,
    ) -> None:
        assert threading.active_count() == 1, "a fork copies the locks that other threads hold, and not the threads"
        self.patience = patience
        self._mark, self._errors = mark, errors
        (its_reads, writes), (reads, its_writes) = os.pipe(), os.pipe()
        self._pid = os.fork()
        if not self._pid:
            _become_keeper(_Link(its_reads, its_writes), patience, errors, {*holds, its_reads, its_writes}, at_last)
        os.close(its_reads)
        os.close(its_writes)
        self._link = _Link(reads, writes)

    def start(self, job: Job) -> None:
        """Starts it in a session of its own. Raises RalphError without a keeper."""
        try:
            self._link.send(job)
        except EOFError:
            self._lost()

    def fileno(self) -> int:
        """Readable once the job's own process has left."""
        return self._link.fileno()

    def has_left(self) -> bool:
        """Whether the job's own process is gone; what it started may still run."""
        return self._link.has_news()

    def end(self) -> Ended:
        """What became of the job, when it and all that it started are gone. Raises RalphError without a keeper."""
        ended = None
        try:
            self._link.send(_END)
            while not isinstance(ended, Ended):
                if signals.impatient():
                    os.kill(self._pid, signal.SIGQUIT)  # which loses patience, too
                signals.wait(1.0, self._link.fileno())
                ended = self._link.receive() if self._link.has_news() else None
        except EOFError:
            self._lost()
        return ended

    def dismiss(self) -> None:
        """Lets it go, and waits until it has."""
        self._link.close()
        with contextlib.suppress(ChildProcessError):  # it was killed, and that is known
            os.waitpid(self._pid, 0)

    def _lost(self) -> NoReturn:
        """Nobody knows any more who descends from whom; what carries the mark can still be found."""
        self.dismiss()
        end_strays(self._mark, self.patience)
        how = f"failed, see {self._errors}" if self._errors.exists() else "was killed"
        raise RalphError(f"the keeper {how}: the process of ralph's below which all runs", 1, fix="start ralph again")


class _Link:
    """One end of a line between two processes: whole objects, and EOFError when nobody is at the other end."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads = io.BufferedReader(io.FileIO(reads), 1)  # with room for more it would read ahead
        self._writes = io.FileIO(writes, "w")

    def fileno(self) -> int:
        return self._reads.fileno()

    def send(self, said: object) -> None:
        data = pickle.dumps(said)
        try:
            while data:
                data = data[self._writes.write(data) :]
        except (OSError, ValueError):  # gone, or let go
            raise EOFError from None

    def receive(self) -> Any:
        try:
            return pickle.load(self._reads)  # noqa: S301 - its own other half
        except pickle.UnpicklingError:  # it died in the middle of a word
            raise EOFError from None

    def has_news(self) -> bool:
        return bool(select.select([self._reads], [], [], 0)[0])

    def close(self) -> None:
        self._reads.close()
        self._writes.close()


def _become_keeper(
    link: _Link, patience: Patience, errors: Path, kept: set[int], at_last: Callable[[], None]
) -> NoReturn:
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
        if LINUX:
            import ctypes  # noqa: PLC0415 - 10 ms that only a run pays

            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER, prctl(2)
        _Keeping(link, patience).keep()
        at_last()
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
        self._unstarted: OSError | None = None
        me = {os.getpid()}
        self._tree = Tree(lambda processes: below(me, processes), self._is_childless if LINUX else None)

    def keep(self) -> None:
        """Does what ralph says until it is gone, and ends everything."""
        try:
            while True:
                said = self._link.receive()
                if isinstance(said, Job):
                    self._start(said)
                else:
                    self._link.send(self._end())
        except EOFError:
            self._end()

    def _start(self, job: Job) -> None:
        """Returns when its own process has left, which is told, or ralph says something."""
        self._child, self._unstarted, files = None, None, job.files
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
            self._unstarted = error
        while self._runs():
            signals.wait(_LOOK_S, self._link.fileno())
            if self._link.has_news():
                return
            if not LINUX:
                self._tree.look()
        self._link.send(None)

    def _end(self) -> Ended:
        """Asks the job itself to stop, then its group; then ends all that is left.

        Only SIGINT makes the real agent end its tools and still report its cost (measured). A shell script waits for
        the program that it runs, which must hear of it too.
        """
        pid = self._child.pid if self._child else 0
        for kill, part in ((os.kill, 0.4), (os.killpg, 0.6)):
            deadline = time.monotonic() + part * self._patience.interrupt_s
            if self._runs() and not signals.impatient():
                send_to(kill, pid, signal.SIGINT)
            while self._runs() and time.monotonic() < deadline and not signals.impatient():
                signals.wait(0.02)
        left_over, survivors = self._tree.end(self._patience, but=pid)
        code = None if self._runs() or not self._child else self._child.returncode
        code = -signal.SIGKILL if code is None else code
        return Ended(code=code, unstarted=self._unstarted, left_over=left_over, survivors=survivors)

    def _runs(self) -> bool:
        """Whether the job's own process does."""
        self._is_childless()
        return self._child is not None and self._child.returncode is None

    def _is_childless(self) -> bool:
        """Whether no child is left, of whoever inherits every orphan no descendant. Buries all who are dead.

        Nobody else waits for anybody here.
        """
        with contextlib.suppress(ChildProcessError):
            while (dead := os.waitpid(-1, os.WNOHANG))[0]:
                if self._child and dead[0] == self._child.pid:
                    self._child.returncode = os.waitstatus_to_exitcode(dead[1])
            return False
        return True
