"""The supervisor: the parent process of everything that is not ralph's own, which also ends all of it.

On Linux a process that loses its parent becomes the supervisor's child, so descent alone finds the agent's processes,
however they hide, and nobody else's. When ralph's end of the link closes, ralph is done, or dead by whatever means,
kill -9 included: then the supervisor ends everything, and holds ralph's lock until that is done.
"""

import ctypes
import io
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, NamedTuple

from ralph.errors import RalphError
from ralph.files import os_errors_as_ralph_errors
from ralph.process import signals
from ralph.process.clock import ClockAndLimits
from ralph.process.programs import (
    LINUX,
    Patience,
    ProcessTreeWatch,
    close_files_but,
    end_marked_processes,
    fork_module,
    spawn,
    start_in_fork,
)

_POLL_S = 3600.0 if LINUX else 2.0  # elsewhere it does not inherit orphans, and must see them in time
_GONE = (EOFError, pickle.UnpicklingError)  # the latter if the other end died in the middle of a message
_CHUNK = 1 << 16
# Bytes of a buffer that cannot hold a whole message, which would be unseen by `wait`; 1 is not allowed.
_UNBUFFERED = 2

OnOutput = Callable[[bytes, bytes], None]
"""Receives a program's stdout and stderr as they arrive, and empty bytes while it is quiet."""
ShouldEnd = Callable[[float, float, int], bool]
"""Whether a program has to end now, given its seconds of silence and of life, and the bytes that it has printed."""


class Command(NamedTuple):
    """What to run, where its output goes, and the file that it reads as standard input."""

    argv: list[str]
    env: Mapping[str, str]
    output: Path
    stdin_path: Path = Path(os.devnull)
    loads: Sequence[str] = ()
    """If it is a module of this Python, the modules that it needs: loaded once, they serve all that are started."""

    @property
    def errors(self) -> Path:
        """The file for its stderr."""
        return self.output.with_suffix(".err")


class Ended(NamedTuple):
    """The result of a job; `code` is negative for the signal that killed it."""

    code: int
    unstarted: str = ""
    """Why it could not be started; empty if it was."""
    left_over: Sequence[str] = ()
    """Command lines of what it had left running, now ended."""
    survivors: Sequence[str] = ()
    """Command lines of what could not be ended."""


class Supervisor:
    """Ralph's end of the link. Creating one starts the supervisor process, and must precede the first thread.

    `mark` is the RALPH_RUN_ID of what the supervisor will run. It shares the descriptor `lock`, and calls
    `after_all_ended` when everything has been ended and ralph is gone.
    """

    def __init__(self, mark: str, clock: ClockAndLimits, lock: int, after_all_ended: Callable[[], None]):
        assert threading.active_count() == 1, "a fork copies the locks that other threads hold, and not the threads"
        self.mark, self._clock = mark, clock
        (its_reads, self._writes), (reads, its_writes) = os.pipe(), os.pipe()

        def supervise() -> None:
            os.setsid()  # no signal to ralph's terminal or group arrives any more
            close_files_but({its_reads, its_writes, lock})
            for _ in range(3):
                os.open(os.devnull, os.O_RDWR)  # 0, 1 and 2 again: nothing else may get these numbers
            signals.install_handlers()
            if LINUX:
                ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER, prctl(2)
            with suppress(*_GONE), open(its_reads, "rb", _UNBUFFERED) as link:  # noqa: PTH123 - a descriptor
                while True:
                    if job := pickle.load(link):  # noqa: S301 - its own other half
                        _send(its_writes, _run_job(job, link, clock.patience))  # else that job has already ended
            signals.install_handlers()  # again: impatience with the agent is not meant for `after_all_ended`
            after_all_ended()

        self._pid = start_in_fork(supervise)
        os.close(its_reads)
        os.close(its_writes)
        self._reads = open(reads, "rb", _UNBUFFERED)  # noqa: PTH123, SIM115 - a descriptor

    def run(self, job: Command, on_output: OnOutput, should_end: ShouldEnd) -> Ended:
        """Runs the job to its end, or until `should_end` is true, and ends everything that it started.

        The job prints to files, never to a pipe: with a pipe the real agent loses what is not read in time (measured),
        and a process left behind would keep the other end open. Raises RalphError if the files cannot be written, or
        if the supervisor is gone.
        """
        with os_errors_as_ralph_errors(job.output, "written"):
            output, errors = io.FileIO(job.output, "w+"), io.FileIO(job.errors, "w+")
        _send(self._writes, job)
        began = heard_at = self._clock.awake_clock_s()
        has_news = is_over = has_ended = False
        try:
            while not has_ended or (has_news and not signals.is_impatient()):
                has_ended = signals.has_input_within(0.0 if has_news else 0.2, self._reads)
                now = self._clock.awake_clock_s()  # before the read, so that no output older than this is missed
                news = output.read(_CHUNK), errors.read(_CHUNK)
                if has_news := any(news):
                    heard_at = now
                on_output(*news)
                # It is asked one last time when the job has ended.
                if not is_over and (is_over := should_end(now - heard_at, now - began, output.tell() + errors.tell())):
                    _send(self._writes, None)
                if signals.is_impatient():
                    os.kill(self._pid, signal.SIGQUIT)  # makes the supervisor wait for nothing any more
        finally:
            output.close()
            errors.close()
            if not has_ended:
                _send(self._writes, None)  # whatever went wrong here, nothing outlives it
            try:
                ended: Ended = pickle.load(self._reads)  # noqa: S301 - its own other half
            except _GONE:
                end_marked_processes(self.mark, self._clock.patience)  # descent is no longer known, but the mark is
                what = "the supervisor died: the process of ralph's below which all runs"
                raise RalphError(what, 1, fix="start ralph again") from None
        return ended

    def close_link_and_wait(self) -> None:
        """Closes the link and waits until the supervisor has exited."""
        os.close(self._writes)
        os.waitpid(self._pid, 0)


def _send(writes: int, message: object) -> None:
    with suppress(OSError), open(writes, "wb", closefd=False) as whole:  # a lost reader never answers
        pickle.dump(message, whole)


def _run_job(job: Command, end_request: IO[bytes], patience: Patience) -> Ended:
    """Runs the job and returns its result once everything has ended; any message from ralph ends the job early."""
    tree = _Descendants(lambda _, parent: parent == os.getpid())
    try:
        with job.stdin_path.open("rb") as given, job.output.open("ab") as out, job.errors.open("ab") as errors:
            start = fork_module if [*map(import_module, job.loads)] else spawn
            tree.pid = start(job.argv, job.env, [given.fileno(), out.fileno(), errors.fileno()])
    except OSError as error:
        return Ended(tree.code, str(error.strerror))
    while tree.reap_children() and tree.is_running and not signals.has_input_within(_POLL_S, end_request):
        if not LINUX:
            tree.find_running()
    if tree.is_running:  # only SIGINT makes the real agent report its cost (measured)
        signals.send_signal(-tree.pid, signal.SIGINT)
    deadline = time.monotonic() + patience.interrupt_s
    while tree.reap_children() and tree.is_running and time.monotonic() < deadline and not signals.is_impatient():
        signals.sleep_until_signal(0.02)
    left = tree.end(patience)
    return Ended(tree.code, "", *left)


class _Descendants(ProcessTreeWatch):
    """All that runs below the supervisor; `pid` is the job itself."""

    is_running = True
    """Whether the job itself runs."""
    code = -signal.SIGKILL
    """The exit code of the job, once it has ended."""

    def reap_children(self) -> bool:
        """Takes in the children that have ended; returns whether any is left."""
        with suppress(ChildProcessError):
            while (dead := os.waitpid(-1, os.WNOHANG))[0]:
                if dead[0] == self.pid:
                    self.is_running, self.code = False, os.waitstatus_to_exitcode(dead[1])
            return True
        return False

    def is_over(self) -> bool:
        """Whether no child is left: then no descendant is, where orphans become children."""
        return not self.reap_children() if LINUX else super().is_over()
