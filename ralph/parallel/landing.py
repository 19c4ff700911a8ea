"""Where the work lands, and how a commit is applied on top of others.

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

_PATIENT = ("-c", "core.filesRefLockTimeout=10000")
"""A branch that another git holds is waited for, for so many milliseconds."""
_PLAIN_MERGE = ("--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-verify-signatures")
"""Whatever the person's settings say: what is not committed stays as it is, and the gates have judged the commit."""


class LandingBranch:
    """The branch of a working tree, and the one of ralph's for the plan of that name.

    As long as that one has work which the person's lacks, all goes on there, until the person has merged it.
    """

    def __init__(self, repository: Repository, name: str) -> None:
        self._repository, self.own = repository, f"ralph/{name}"
        self.name, _ = repository.read_head()
        """`refs/heads/main`; empty where HEAD is on no branch."""
        if self.name == f"refs/heads/{self.own}":
            self.own += "-next"

    def tip(self) -> str:
        """The commit that everything builds on which begins now."""
        theirs, own = self._at(self.name), self._at(f"refs/heads/{self.own}")
        return own if own and not self.contains_commit(own, theirs) else theirs

    def contains_commit(self, commit: str, tip: str) -> bool:
        """Whether that commit is the tip, or one before it."""
        return self._repository.ask("merge-base", commit, tip) == commit

    def advance_to(self, commit: str, packed: str) -> bool:
        """Moves on to that commit, which comes in a bundle; whether it was the person's branch that could move."""
        repository, ref = self._repository, f"refs/heads/{self.own}"
        repository.run("bundle", "unbundle", "/dev/stdin", stdin=b64decode(packed))
        own = self._at(ref)
        if repository.read_head()[0] == self.name:
            repository.ask(*_PATIENT, "merge", *_PLAIN_MERGE, "--quiet", commit)
        if repository.read_head() != (self.name, commit):
            repository.run("update-ref", ref, commit)
            return False
        if own and self.contains_commit(own, commit):
            repository.run("update-ref", "-d", ref, own)
        return True

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
