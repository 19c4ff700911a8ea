"""Locks that a git of the iteration left behind."""

from collections.abc import Mapping
from pathlib import Path

from ralph import git
from ralph.worktree.repository import Repository


def seen(repository: Repository) -> dict[Path, object]:
    """The locks that a commit takes, and which of them are there."""
    return {lock: git.identity(lock) for lock in git.locks(repository.index.with_name("index.lock"))}


def unlock(repository: Repository, before: Mapping[Path, object]) -> None:
    """Removes those that are new and that no git is left to own."""
    now = seen(repository)
    git.remove_orphaned_locks((lock for lock in now if now[lock] != before.get(lock)), repository.root)
