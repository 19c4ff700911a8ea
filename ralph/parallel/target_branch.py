"""The branch that parallel work moves forward, and the refs that keep what waits to be merged."""

import os
import re
from base64 import b64decode
from zlib import crc32

from ralph.git.repository import Repository
from ralph.parallel.attempt import pack_bundle
from ralph.plan.tasks import Task
from ralph.words import join_names

_PATIENT = ("-c", "core.filesRefLockTimeout=10000", "-c", "maintenance.auto=false")
"""Has git wait up to 10,000 ms for a branch that another git has locked, and leave nothing running."""
_NOBODY = ("-c", "user.name=ralph", "-c", "user.email=ralph@localhost", "-c", "commit.gpgSign=false")
_BASE = "refs/ralph/base"
"""The ref of the commit from which a check elsewhere begins: a bundle needs a name."""
_PLAIN_MERGE = ("--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-verify-signatures")
"""Overrides the user's settings: uncommitted changes stay as they are, and the gates have judged the commit."""


class TargetBranch:
    """The branch that a run began on, the only one that parallel work moves, and the queue of what waits to be merged.

    The queue consists of refs in the user's repository, one commit per task, so that it survives the run.
    """

    def __init__(self, repository: Repository, queue: str) -> None:
        self._repository = repository
        self._queue = f"refs/ralph/queue/{crc32(os.fsencode(queue)):08x}/"
        self._trees = dict[str, str]()
        """The tree of each commit."""
        self._stacked = dict[tuple[str, str], tuple[str, list[str]]]()
        """The results of `apply_on_top`, by base and commit."""
        self.name, _ = repository.read_head()
        """The branch, such as `refs/heads/main`; empty if HEAD is on none."""

    def tip(self) -> str:
        """The branch's latest commit, from which new attempts begin; empty if the branch is gone."""
        return self._repository.read_branch(self.name) if self.name else ""

    def contains_commit(self, commit: str, tip: str) -> bool:
        """Whether the commit is the tip or one of its ancestors."""
        return self._repository.output_of("merge-base", commit, tip) == commit

    def advance(self, commit: str, tip: str) -> str:
        """Moves the branch from the tip to that commit. Returns what is in the way if it could not, else nothing."""
        repository, short = self._repository, self.name.removeprefix("refs/heads/")
        if repository.read_head()[0] == self.name:
            failed = repository.failure_of(*_PATIENT, "merge", *_PLAIN_MERGE, "--quiet", commit)
            names = join_names([line.strip() for line in failed.splitlines() if line.startswith("\t")], 5)
            failed = f"your changes to {names} are" if names else failed and f"what git says is: {failed}"
        elif not self.tip():
            failed = f"the branch {short} is gone, which is"
        elif f"branch {self.name}" in repository.output_of("worktree", "list", "--porcelain").splitlines():
            failed = f"{short} is checked out in another working tree, which is"
        else:
            failed = repository.failure_of(*_PATIENT, "update-ref", self.name, commit, tip)
        return "" if self.tip() == commit else failed or f"{short} was moved, which is"

    def fetch(self, packed: str) -> None:
        """Adds the commits of an attempt's bundle to the repository."""
        self._repository.run("bundle", "unbundle", "/dev/stdin", stdin=b64decode(packed))

    def apply_on_top(self, base: str, commit: str) -> tuple[str, list[str]]:
        """Returns a commit with this commit's changes on top of the base, or the files in which they conflict.

        Neither if git is too old to determine that without a working tree.
        """
        if (base, commit) not in self._stacked:
            before = self._make_commit(f"{commit}^")
            both = self._make_commit(base, before), self._make_commit(commit, before)
            tree, names = self._repository.merge_trees(*both)
            self._stacked[base, commit] = self._make_commit(tree, base) if tree else "", names
        return self._stacked[base, commit]

    def _make_commit(self, tree: str, *parents: str) -> str:
        """Makes a commit that only ralph sees."""
        words = [word for parent in parents for word in ("-p", parent)]
        return self._repository.run(*_NOBODY, "commit-tree", f"{tree}^{{tree}}", *words, "-m", "ralph").decode().strip()

    def is_same_tree(self, one: str, other: str) -> bool:
        """Whether two commits have the same files; False if either is empty."""
        return bool(one and other) and (one == other or self._tree_of(one) == self._tree_of(other) != "")

    def _tree_of(self, commit: str) -> str:
        if commit not in self._trees:
            self._trees[commit] = self._resolve_ref(f"{commit}^{{tree}}")
        return self._trees[commit]

    def with_parent(self, commit: str, tip: str) -> str:
        """Returns the same commit with the tip as its parent; empty if a signature fixes its present parent."""
        text = self._repository.run("cat-file", "commit", commit)
        head, _, message = text.partition(b"\n\n")
        if f"parent {tip}\n".encode() in head:
            return commit
        if b"\ngpgsig" in head:
            return ""
        head = re.sub(rb"(?m)^parent .*$", f"parent {tip}".encode(), head, count=1)
        new = head + b"\n\n" + message
        return self._repository.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=new).decode().strip()

    def queued_commit(self, task: Task) -> str:
        """The commit that passed for this task and waits to be merged; empty if there is none for its present text."""
        return self._resolve_ref(self._queue_ref(task))

    def put_into_queue(self, task: Task, commit: str) -> None:
        """Keeps a task's commit until it is merged, by another run if need be."""
        self._repository.run("update-ref", self._queue_ref(task), commit)

    def take_from_queue(self, task: Task) -> None:
        """Forgets the task's queued commit."""
        self._repository.output_of("update-ref", "-d", self._queue_ref(task))

    def pack_queued(self, task: Task) -> str:
        """The task's queued commit as a bundle."""
        ref = self._queue_ref(task)
        return pack_bundle(self._repository, f"{ref}^..{ref}")

    def pack_base(self, base: str) -> str:
        """Everything that a repository elsewhere needs to begin from that commit, as a bundle."""
        self._repository.run("update-ref", _BASE, base)
        return pack_bundle(self._repository, "HEAD", "--branches", _BASE)

    def _queue_ref(self, task: Task) -> str:
        words = "\0".join([task.id, task.text, *task.note_values("verify")])
        return f"{self._queue}{crc32(words.encode(errors='surrogateescape')):08x}"

    def _resolve_ref(self, ref: str) -> str:
        return self._repository.output_of("rev-parse", "--verify", "--quiet", ref)
