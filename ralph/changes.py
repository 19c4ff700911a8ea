"""What an iteration changed in the repository."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from ralph import git
from ralph.agent.turn import Commits
from ralph.files import state_home
from ralph.lock import working_tree


class Changes:
    """Looks at the working tree around `top` again and again; ralph's `own` files, such as the progress file, not."""

    def __init__(self, top: Path, own: Sequence[Path]) -> None:
        self._tree = working_tree(top)
        real = os.path.realpath(self._tree)
        self._ignored = {os.path.relpath(path, real) for one in own for path in (one.absolute(), one.resolve())}
        self._own = os.path.relpath(os.path.realpath(state_home()), real) + os.sep
        self._index_lock = git.index_lock()
        self._began = time.time()
        self._seen = git.tree(self._tree)
        self.disturbed = False
        """What changes before the next iteration is not its doing."""

    def begin(self, *, iteration: bool = False) -> None:
        """Something begins that may leave git's locks behind, or an iteration, of which the changes shall be known."""
        if iteration and self.disturbed:
            self._seen = git.tree(self._tree) or self._seen
            self.disturbed = False
        self._began = time.time()

    def look(self) -> tuple[Commits, tuple[str, ...]]:
        """What was committed since it began, and the files that are not as they were, committed or not."""
        before, now = self._seen, git.tree(self._tree)
        self._seen, self.disturbed = now or before, False
        if before is None or now is None:
            return Commits(), ()
        changed = git.changed(before, now, self._tree)
        files = tuple(name for name in changed if name not in self._ignored and not name.startswith(self._own))
        return git.commits(before.head, now.head), files

    def remove_orphaned_locks(self) -> list[Path]:
        """Removes the locks that a git of this iteration left behind, not older ones; their paths."""
        return git.remove_orphaned_locks(git.locks(self._index_lock), self._tree, self._began)

    def commit(self) -> str:
        """The commit that the working tree was on at the last look, `-dirty` when there are changes beyond it."""
        if self._seen is None or not self._seen.head:
            return ""
        return self._seen.head[:10] + ("-dirty" if self._seen.files.keys() - self._ignored else "")
