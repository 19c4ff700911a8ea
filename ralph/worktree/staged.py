"""What is staged as it was, where an iteration has nothing to stage."""

from typing import TYPE_CHECKING

from ralph.worktree import index, originals
from ralph.worktree.locks import unlock

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
