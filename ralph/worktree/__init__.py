"""The working tree around an iteration: how it was, what is not so any more, and putting that back."""

from ralph.worktree.beyond import strayed
from ralph.worktree.commit import HOOKS_S, Committed, Runner, check_can_commit, commit
from ralph.worktree.configured import settings_back
from ralph.worktree.head import Moved, forget, head_back
from ralph.worktree.kept import keep
from ralph.worktree.new_files import is_repository_within
from ralph.worktree.only import allowed
from ralph.worktree.put_back import put_back, scratch_away
from ralph.worktree.repository import is_repository
from ralph.worktree.snapshot import Snapshot, changed, take
from ralph.worktree.staged import as_committed, staged_back

__all__ = [
    "HOOKS_S",
    "Committed",
    "Moved",
    "Runner",
    "Snapshot",
    "allowed",
    "as_committed",
    "changed",
    "check_can_commit",
    "commit",
    "forget",
    "head_back",
    "is_repository",
    "is_repository_within",
    "keep",
    "put_back",
    "scratch_away",
    "settings_back",
    "staged_back",
    "strayed",
    "take",
]
