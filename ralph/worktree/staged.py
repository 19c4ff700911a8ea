"""What is staged as it was, where an iteration has nothing to stage."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from ralph.worktree import index, originals
from ralph.worktree.locks import unlock
from ralph.worktree.repository import listed

if TYPE_CHECKING:
    from ralph.worktree.snapshot import Snapshot


def staged_back(snapshot: "Snapshot") -> bool:
    """Makes the whole index what it was, files and HEAD stay; whether it held something else."""
    repository = snapshot.repository
    unlock(repository, snapshot.locks)
    if index.readable(snapshot) == snapshot.index:
        return False
    originals.give_back(snapshot, snapshot.index.values())
    index.replace(repository, snapshot.raw_index, snapshot.index_mtime_ns)
    return True


def as_committed(snapshot: "Snapshot", names: Collection[str]) -> None:
    """Makes the index hold of these files what the last commit holds: git may have died between the two."""
    if snapshot.jj is None and names:
        given = ["--quiet", "--pathspec-from-file=-", "--pathspec-file-nul"]
        snapshot.repository.run("reset", *given, stdin=listed(sorted(names)))
