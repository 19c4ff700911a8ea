"""One run per working tree: a lock on the folder itself, which leaves no file there and dies with its holders."""

import binascii
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ralph import files
from ralph.errors import RalphError
from ralph.words import timestamp

LOCKED = 75
"""EX_TEMPFAIL of sysexits.h: try again later."""


class Holder(NamedTuple):
    """The run that holds a lock, as its note says; empty if it has not written the note yet."""

    pid: int = 0
    run: str = ""
    """The mark that its processes carry in their environment."""
    since: str = ""
    progress: str = ""
    """The progress file it works on, absolute."""
    plan: str = ""

    def __str__(self) -> str:
        return f"{self.plan} since {self.since} (pid {self.pid})" if self.pid else "it has just begun"


class Lock(NamedTuple):
    """An acquired lock; the supervisor shares `fd`, so the lock lasts until the agent of a killed ralph is gone."""

    fd: int
    tree: Path

    @property
    def holder_note(self) -> Path:
        """The file that says who has the lock, and after a run that did not end cleanly, who had it."""
        return files.state_home() / "locks" / f"{binascii.crc32(os.fsencode(self.tree)):08x}"

    def write_holder(self, run: str, plan: str, progress: Path) -> None:
        """Notes who holds the lock, for anyone who finds it taken, and for the next run if this one dies."""
        holder = Holder(os.getpid(), run, timestamp(), os.path.realpath(progress), plan)
        with suppress(OSError):  # the lock itself needs no file
            self.holder_note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write_own_file_directly(self.holder_note, json.dumps(holder).encode())

    def last_noted_holder(self) -> Holder:
        """Who has the lock, or had it last, if that run did not end cleanly."""
        with suppress(OSError, ValueError, TypeError):
            return Holder(*json.loads(self.holder_note.read_bytes()))
        return Holder()


def working_tree(folder: Path) -> Path:
    """The top folder of the git working tree around `folder`, else `folder` itself."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), folder)


def acquire_lock(tree: Path) -> Lock:
    """Returns the lock on `tree`. Raises RalphError 75, which says who has the lock, since when and for which plan."""
    with files.os_errors_as_ralph_errors(tree, "locked"):
        lock = Lock(os.open(tree, os.O_RDONLY), tree)
    # Anyone who only looks, like `read_holder`, has the lock for a moment, even on a busy machine; a run has it longer.
    if _try_lock(lock.fd, within_s=0.2):
        return lock
    os.close(lock.fd)
    raise RalphError(f"another run works in {tree}: {lock.last_noted_holder()}", LOCKED, for_people=True)


def read_holder(tree: Path) -> Holder | None:
    """Who holds the lock on `tree`; None when nobody does."""
    with suppress(OSError):
        lock = Lock(os.open(tree, os.O_RDONLY), tree)
        try:
            # shared, so that two lookers do not take each other for a run
            return None if _try_lock(lock.fd, fcntl.LOCK_SH) else lock.last_noted_holder()
        finally:
            os.close(lock.fd)
    return None


@contextmanager
def hold_edit_lock(lock_path: Path) -> Iterator[None]:
    """Guards what only one ralph does at a time. Waits 30 s at most, then goes ahead: the other may be suspended."""
    with lock_path.open("ab") as file:
        # A turn takes milliseconds, but on a busy machine many turns, of several ralphs, come first.
        _try_lock(file.fileno(), within_s=30.0)
        yield


def _try_lock(fd: int, kind: int = fcntl.LOCK_EX, within_s: float = 0.0) -> bool:
    """Returns whether this process has the lock at last."""
    until = time.monotonic() + within_s
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.005)
        else:
            return True
