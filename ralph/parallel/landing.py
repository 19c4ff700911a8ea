"""The branch that parallel work moves, and how a commit is applied on top of others.

`python -m ralph.parallel.landing COMMIT` is the agent of an integration: its result passes the same gates as
any work, and the project's hooks run at the commit.
"""

import os
import re
import sys
from base64 import b64decode
from pathlib import Path

from ralph.git import changes
from ralph.git.repository import Repository
from ralph.parallel.attempt import pack_bundle
from ralph.words import join_names

_PATIENT = ("-c", "core.filesRefLockTimeout=10000")
"""A branch that another git holds is waited for, for so many milliseconds."""
_PLAIN_MERGE = ("--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-verify-signatures")
"""Whatever the person's settings say: what is not committed stays as it is, and the gates have judged the commit."""


class TargetBranch:
    """The branch that a run began on: the only one that parallel work moves. What cannot be merged yet is queued.

    The queue is refs of the person's repository, a commit for each task, so that it survives the run.
    """

    def __init__(self, repository: Repository, queue: str) -> None:
        self._repository, self._queue = repository, f"refs/ralph/queue/{queue}/"
        self.name, _ = repository.read_head()
        """`refs/heads/main`; empty where HEAD is on no branch."""

    def tip(self) -> str:
        """The commit that everything builds on which begins now; empty where the branch is gone."""
        return self._at(self.name) if self.name else ""

    def contains_commit(self, commit: str, tip: str) -> bool:
        """Whether that commit is the tip, or one before it."""
        return self._repository.ask("merge-base", commit, tip) == commit

    def advance(self, commit: str, tip: str) -> str:
        """Moves from the tip on to that commit; what is in the way where it could not."""
        repository, short = self._repository, self.name.removeprefix("refs/heads/")
        if repository.read_head()[0] == self.name:
            failed = repository.fails(*_PATIENT, "merge", *_PLAIN_MERGE, "--quiet", commit)
            names = join_names([line.strip() for line in failed.splitlines() if line.startswith("\t")], 5)
            failed = f"your changes to {names} are" if names else failed and f"what git says is: {failed}"
        elif not self.tip():
            failed = f"the branch {short} is gone, which is"
        elif f"branch {self.name}" in repository.ask("worktree", "list", "--porcelain").splitlines():
            failed = f"{short} is checked out in another working tree, which is"
        else:
            failed = repository.fails(*_PATIENT, "update-ref", self.name, commit, tip)
        return "" if self.tip() == commit else failed or f"{short} was moved, which is"

    def fetch(self, packed: str) -> None:
        """Takes the commits of an attempt in."""
        self._repository.run("bundle", "unbundle", "/dev/stdin", stdin=b64decode(packed))

    def queued(self) -> dict[str, str]:
        """The commits that were checked and could not be merged yet, by task."""
        printed = self._repository.ask("for-each-ref", "--format=%(objectname) %(refname)", self._queue).splitlines()
        return {ref.removeprefix(self._queue): commit for commit, _, ref in (line.partition(" ") for line in printed)}

    def pack_queued(self, task: str) -> str:
        """That task's commit as a bundle."""
        return pack_bundle(self._repository, f"{self._queue}{task}^..{self._queue}{task}")

    def put_into_queue(self, task: str, commit: str) -> None:
        """Keeps a task's commit for the next run."""
        self._repository.run("update-ref", self._queue + task, commit)

    def take_from_queue(self, task: str) -> None:
        """Forgets it."""
        self._repository.ask("update-ref", "-d", self._queue + task)

    def _at(self, ref: str) -> str:
        return self._repository.ask("rev-parse", "--verify", "--quiet", ref)


def run_cherry_pick_agent(commit: str) -> int:
    """Reads a prompt, applies the commit to the working tree, and prints its message and the signal."""
    prompt, here = sys.stdin.read(), Path.cwd()
    signal = re.findall(r"<task-done [^<>]*>[^<>]*</task-done>", prompt)[-1]
    done = changes.run_git("cherry-pick", "--no-commit", commit, cwd=here)
    if done.code:
        names = changes.names_in(changes.run_git("diff", "--name-only", "-z", "--diff-filter=U", cwd=here).stdout)
        changes.run_git("reset", "--hard", "--quiet", cwd=here)
        print(f"conflicts in {', '.join(names)}" if names else changes.error_text(done), file=sys.stderr)
        return 1
    message = os.fsdecode(changes.run_git("show", "-s", "--format=%B", commit, cwd=here).stdout)
    task = re.escape("".join(re.findall(r"(?m)^Ralph-Task: (.+)", message)[-1:]))
    words = re.sub(rf"(?m)^Ralph-(?:Task|Role): .*\n?|\A.*?\b{task}: ", "", message).strip()  # hooks prefix it
    print(f"{words}\n\n{signal}")
    return 0


if __name__ == "__main__":
    sys.exit(run_cherry_pick_agent(sys.argv[1]))
