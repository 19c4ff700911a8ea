"""The merge queue: what passed waits, in the order of finishing, until it is checked on top of all before it."""

import os
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from zlib import crc32

from ralph.git.repository import Repository
from ralph.parallel.attempt import AttemptResult
from ralph.parallel.task_attempt import TaskAttempt
from ralph.plan.tasks import Task
from ralph.words import join_names

# Has git wait up to 10,000 ms for a branch that another git has locked, and leave nothing running.
_PATIENT = ("-c", "core.filesRefLockTimeout=10000", "-c", "maintenance.auto=false")
# Overrides the user's settings: uncommitted changes stay as they are, and the gates have judged the commit.
_PLAIN_MERGE = ("--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-verify-signatures")


class MergeQueue:
    """The branch that a run began on, the only one that parallel work moves, and the attempts that wait to be merged.

    The first `width` of them are checked at the same time, each on top of the branch and everything queued before it.
    If one fails, or somebody else moves the branch, those behind it are checked again. In the user's repository a ref
    keeps the commit of each, so that it survives the run; `name` tells the refs of this plan from others.
    """

    def __init__(self, repository: Repository, name: str, width: int):
        self.repository, self._width = repository, width
        self._refs = f"refs/ralph/queue/{crc32(os.fsencode(name)):08x}/"
        # The branch, such as `refs/heads/main`; empty if HEAD is on none.
        self._branch, _ = repository.read_branch_and_commit()
        self.entries: list[TaskAttempt] = []
        """In the order of finishing."""

    def branch_tip(self) -> str:
        """The branch's latest commit, from which new attempts begin; empty if the branch is gone."""
        return self.repository.read_branch(self._branch)

    def add(self, attempt: TaskAttempt) -> None:
        """Queues an attempt whose commit passed on top of its base."""
        attempt.result = AttemptResult(passed=True, commit=attempt.commit)
        self.entries.append(attempt)

    def keep_and_unqueue(self, attempt: TaskAttempt) -> str:
        """Takes the attempt out of the queue. Returns the ref that keeps its commit from now on, if it has one."""
        attempt.is_canceled = True
        self.remove_entry(attempt.task)
        return self.repository.keep_commit(attempt.commit) if attempt.commit else ""

    def remove_entry(self, task: Task) -> None:
        """Forgets what waits for this task, if anything does."""
        self.entries = [entry for entry in self.entries if entry.task.id != task.id]
        self.repository.output_or_empty("update-ref", "-d", self._ref_of(task))

    def pick_due_checks(self) -> Iterator[TaskAttempt]:
        """Yields each attempt whose commit has to be checked now, on top of its base.

        Cancels the checks whose base has changed meanwhile.
        """
        base = self.branch_tip()
        for entry in self.entries[: self._width]:
            if not base:
                return
            on_top, conflicts = self.repository.apply_on_top(base, entry.commit)
            is_checked = self._tree_of(entry.base) == self._tree_of(base)
            if entry.work:
                entry.is_canceled |= not is_checked
            elif self._tree_of(on_top) == self._tree_of(base):  # a run was killed right after it merged this commit
                entry.base, entry.result = base, AttemptResult(passed=True)
            elif not is_checked and not conflicts:
                entry.base = base
                yield entry
            elif not is_checked and entry is self.entries[0]:  # else one before it may conflict with it, and fail
                entry.base, entry.conflict = base, f"conflicts in {join_names(conflicts)}"
                entry.result = AttemptResult()
            base = on_top

    def entry_checked_on_tip(self) -> TaskAttempt | None:
        """Returns the first entry once it is checked on top of the branch as it is now, or if the branch is gone.

        Its base is the branch's tip then: it moves from there, or not at all.
        """
        head, tip = next(iter(self.entries), None), self.branch_tip()
        if not head or head.work or (tip and self._tree_of(head.base) != self._tree_of(tip)):
            return None
        head.base = tip
        return head

    def fetch_commit(self, attempt: TaskAttempt) -> None:
        """Takes over the commit that the attempt's work has just made, if it made one."""
        if attempt.result.bundle:
            self.repository.run("bundle", "unbundle", "/dev/stdin", stdin=b64decode(attempt.result.bundle))
            self._set_commit(attempt, attempt.result.commit)

    def _set_commit(self, attempt: TaskAttempt, commit: str) -> None:
        self.repository.run("update-ref", self._ref_of(attempt.task), commit)
        attempt.commit = commit

    def move_branch(self, attempt: TaskAttempt) -> str:
        """Moves the branch from the attempt's base to its commit. Returns what is in the way if it could not."""
        repository, short, base = self.repository, self._branch.removeprefix("refs/heads/"), attempt.base
        head, _, message = repository.run("cat-file", "commit", attempt.commit).partition(b"\n\n")
        # if the base only has the same files as its parent, it is made again; and signed if it was
        if base and f"parent {base}\n".encode() not in head:
            signs = ["-S"] * (b"\ngpgsig" in head)
            made = repository.run("commit-tree", *signs, "-p", base, f"{attempt.commit}^{{tree}}", stdin=message)
            self._set_commit(attempt, made.decode().strip())
        if repository.read_branch_and_commit()[0] == self._branch:
            failed = repository.failure_of(*_PATIENT, "merge", *_PLAIN_MERGE, "--quiet", attempt.commit)
            names = join_names([line.strip() for line in failed.splitlines() if line.startswith("\t")])
            failed = f"your changes to {names} are" if names else failed and f"what git says is: {failed}"
        elif not self.branch_tip():
            failed = f"the branch {short} is gone, which is"
        elif repository.output_or_empty("for-each-ref", "--format=%(worktreepath)", self._branch):
            failed = f"{short} is checked out in another working tree, which is"
        else:
            failed = repository.failure_of(*_PATIENT, "update-ref", self._branch, attempt.commit, base)
        return "" if self.branch_tip() == attempt.commit else failed or f"{short} was moved, which is"

    def queued_commit(self, task: Task) -> str:
        """The commit that passed for this task and waits to be merged; empty if there is none for its present text."""
        return self.repository.read_branch(self._ref_of(task))

    @cache  # noqa: B019 - a run has one queue
    def _tree_of(self, commit: str) -> str:
        return self.repository.output_or_empty("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")

    def _ref_of(self, task: Task) -> str:
        words = "\0".join([task.id, task.text, *task.note_values("verify")])
        return f"{self._refs}{crc32(words.encode(errors='surrogateescape')):08x}"
