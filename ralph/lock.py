"""One run per working tree: a lock on the folder itself, which leaves no file there and dies with its holders."""

import binascii
import contextlib
import errno
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from ralph import files
from ralph.errors import RalphError

LOCKED = 75
"""EX_TEMPFAIL of sysexits.h: try again later."""
_HELD = (errno.EWOULDBLOCK, errno.EACCES)
_LOOKS_S = (0.0005, 0.001, 0.002, 0.004, 0.008)
"""Pauses before a lock is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A held lock; the keeper holds `fd` too, so that it lasts until the agent of a killed ralph is gone."""

    fd: int
    tree: Path

    def dead_run(self) -> str:
        """The mark of the run that held this lock last, if it did not end in good order, else empty."""
        with contextlib.suppress(OSError):
            return _note(self.tree, "run").read_bytes().decode(errors="replace").strip()
        return ""

    def dead_since(self) -> float:
        """When that run began, in seconds since 1970."""
        return _note(self.tree, "run").stat().st_mtime

    def begin(self, run: str) -> None:
        """Notes the mark that the processes of this run carry; empty when none is left."""
        with contextlib.suppress(OSError):
            note = _note(self.tree, "run")
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.overwrite(note, run.encode())

    def release(self) -> None:
        """Frees the tree at once, whoever else still has the descriptor."""
        with contextlib.suppress(OSError):
            fcntl.flock(self.fd, fcntl.LOCK_UN)
        os.close(self.fd)


def working_tree(folder: Path) -> Path:
    """The top folder of the git working tree around `folder`, else `folder` itself."""
    for place in (folder, *folder.parents):
        if (place / ".git").exists():
            return place
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a lock; empty where it has not said so yet."""

    pid: int = 0
    plan: str = ""
    since: str = ""
    progress: str = ""
    """The progress file it works on, absolute."""

    def __str__(self) -> str:
        return f"{self.plan} since {self.since} (pid {self.pid})" if self.pid else "it has just begun"


def acquire(tree: Path) -> Lock:
    """The lock on `tree`, or RalphError 75 that says who has it, since when and for which plan."""
    fd = -1
    try:
        fd = os.open(tree, os.O_RDONLY)
        _lock(fd, fcntl.LOCK_EX)
    except OSError as error:
        if fd >= 0:
            os.close(fd)
        if fd >= 0 and error.errno in _HELD:
            raise RalphError(f"another run works in {tree}: {_said(tree)}", LOCKED) from error
        raise RalphError(f"{tree}: cannot be locked: {error.strerror}", 1) from error
    return Lock(fd=fd, tree=tree)


def _lock(fd: int, kind: int) -> None:
    """Somebody who only looks, as `holder` does, has it for a moment; a run has it for longer than that."""
    for pause_s in _LOOKS_S:
        try:
            return fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _HELD:
                raise
        time.sleep(pause_s)
    return fcntl.flock(fd, kind | fcntl.LOCK_NB)


def holder(tree: Path) -> Holder | None:
    """Who holds the lock on `tree`; None when nobody does."""
    try:
        fd = os.open(tree, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who look do not see each other
    except OSError as error:
        return _said(tree) if error.errno in _HELD else None
    else:
        return None
    finally:
        os.close(fd)


def announce(tree: Path, plan: str, progress: Path) -> None:
    """Leaves word of who holds the lock, for the one who finds it held."""
    import json  # noqa: PLC0415 - only a run pays for it

    since = time.strftime("%Y-%m-%d %H:%M:%S")
    said = {"pid": os.getpid(), "plan": plan, "since": since, "tree": str(tree), "progress": os.path.realpath(progress)}
    note = _note(tree, "json")
    with contextlib.suppress(OSError):  # the lock itself needs no file
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.replace(note, json.dumps(said).encode(), mode=0o600)


def _said(tree: Path) -> Holder:
    import json  # noqa: PLC0415 - only who finds it locked pays for it

    try:
        said = json.loads(_note(tree, "json").read_bytes())
        return Holder(pid=said["pid"], plan=said["plan"], since=said["since"], progress=said.get("progress", ""))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Holder()


def _note(tree: Path, kind: str) -> Path:
    return files.state_home() / "locks" / f"{binascii.crc32(os.fsencode(tree)):08x}.{kind}"
