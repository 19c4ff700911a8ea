"""The working tree around an iteration: how it was, what is not so any more, and putting that back."""

from ralph.worktree.commit import Committed, check_can_commit, commit
from ralph.worktree.configured import settings_back
from ralph.worktree.head import Moved, forget, head_back
from ralph.worktree.kept import keep
from ralph.worktree.only import allowed
from ralph.worktree.put_back import put_back
from ralph.worktree.repository import is_repository
from ralph.worktree.snapshot import Snapshot, changed, take

__all__ = [
    "Committed",
    "Moved",
    "Snapshot",
    "allowed",
    "changed",
    "check_can_commit",
    "commit",
    "forget",
    "head_back",
    "is_repository",
    "keep",
    "put_back",
    "settings_back",
    "take",
]
