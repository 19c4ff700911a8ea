"""Where the work lands: on the branch that the run began on, or while that cannot move, on one of ralph's."""

import os
from base64 import b64decode
from pathlib import Path

from ralph import changes
from ralph.crew.attempt import git

_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
"""They have run where the commit was made."""


class Branch:
    """The branch of the working tree `tree`, and the one of ralph's for the plan of that name.

    As long as that one has work which the person's lacks, all goes on there, until the person has merged it.
    """

    def __init__(self, tree: Path, name: str) -> None:
        self.tree, self.own = tree, f"ralph/{name}"
        self.name = self.asked("symbolic-ref", "--quiet", "HEAD")
        """`refs/heads/main`; empty where HEAD is on no branch."""

    def tip(self) -> str:
        """The commit that everything builds on which begins now."""
        theirs, own = self._at(self.name), self._at(f"refs/heads/{self.own}")
        return own if own and not self.has(own, theirs) else theirs

    def has(self, commit: str, tip: str) -> bool:
        """Whether that commit is the tip, or one before it."""
        return changes.git("merge-base", "--is-ancestor", commit, tip, cwd=self.tree).code == 0

    def moves(self, commit: str, packed: str) -> bool:
        """Moves on to that commit, which comes in a bundle; whether it was the person's branch that could move."""
        git("bundle", "unbundle", "/dev/stdin", cwd=self.tree, stdin=b64decode(packed))
        own = self._at(f"refs/heads/{self.own}")
        merge = ("merge", "--ff-only", "--no-overwrite-ignore", "--quiet", commit)
        is_there = self.asked("symbolic-ref", "--quiet", "HEAD") == self.name
        if not is_there or changes.git(*_NO_HOOKS, *merge, cwd=self.tree).code:
            git("update-ref", f"refs/heads/{self.own}", commit, cwd=self.tree)
            return False
        if own and self.has(own, commit):
            git("update-ref", "-d", f"refs/heads/{self.own}", own, cwd=self.tree)
        return True

    def _at(self, ref: str) -> str:
        return self.asked("rev-parse", "--verify", "--quiet", ref)

    def asked(self, *arguments: str) -> str:
        """What git says there, or nothing."""
        done = changes.git(*arguments, cwd=self.tree)
        return "" if done.code else os.fsdecode(done.stdout).strip()
