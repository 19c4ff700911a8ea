"""Where the work lands: on the person's branch, or while their own changes are in the way, on one of ralph's."""

import os
from base64 import b64decode
from pathlib import Path

from ralph import changes
from ralph.crew.attempt import git

_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
"""They have run where the commit was made."""


class Branch:
    """The branch of the working tree `tree`, with the one of ralph's for the plan of that name."""

    def __init__(self, tree: Path, name: str) -> None:
        self.tree, self.own = tree, f"ralph/{name}"

    def tip(self) -> str:
        """The commit that everything builds on which begins now."""
        head, own = self.asked("rev-parse", "HEAD"), self._own_tip()
        return own if own and self.has(head, own) else head

    def has(self, commit: str, tip: str) -> bool:
        """Whether that commit is the tip, or one before it."""
        return changes.git("merge-base", "--is-ancestor", commit, tip, cwd=self.tree).code == 0

    def moves(self, commit: str, packed: str) -> bool:
        """Moves on to that commit, which comes in a bundle; whether it was the person's branch that could move."""
        git("bundle", "unbundle", "/dev/stdin", cwd=self.tree, stdin=b64decode(packed))
        if changes.git(
            *_NO_HOOKS, "merge", "--ff-only", "--no-overwrite-ignore", "--quiet", commit, cwd=self.tree
        ).code:
            git("update-ref", f"refs/heads/{self.own}", commit, cwd=self.tree)
            return False
        if own := self._own_tip():
            git("update-ref", "-d", f"refs/heads/{self.own}", own, cwd=self.tree)
        return True

    def _own_tip(self) -> str:
        return self.asked("rev-parse", "--verify", "--quiet", f"refs/heads/{self.own}")

    def asked(self, *arguments: str) -> str:
        """What git says there, or nothing."""
        done = changes.git(*arguments, cwd=self.tree)
        return "" if done.code else os.fsdecode(done.stdout).strip()
