"""The merge queue: what passed waits, in the order of finishing, until it is checked on top of all before it."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from ralph.parallel.attempt import AttemptResult
from ralph.parallel.target_branch import TargetBranch
from ralph.parallel.task_attempt import TaskAttempt, result_of_future
from ralph.words import join_names

_CHECKS = 3
"""How often a check that fails to begin is tried: a registry that the setup needs may be down."""


@dataclass(kw_only=True, eq=False)
class QueuedTask:
    """A task whose commit passed and waits to be merged."""

    attempt: TaskAttempt
    commit: str
    """The commit as its attempt made it."""
    base: str = ""
    """The commit on top of which it was last checked; empty if no check counts."""
    tip: str = ""
    """Where the branch was when it was found to have the same files as `base`; it moves from there, or not at all."""
    checked: AttemptResult = AttemptResult()  # noqa: RUF009 - nobody writes into it
    """The result of the last check; at first that of its attempt."""
    check: Future[AttemptResult] | None = None
    """The running check, if any."""
    checks_on: str = ""
    """The commit on top of which that check runs, or the last one ran."""
    checks: int = 0
    """How often a check on top of `checks_on` was begun."""


class MergeQueue:
    """The tasks that passed, in the order of finishing; the first `width` are checked at the same time.

    Each is checked on top of the branch and everything queued before it. If one fails, or somebody else moves the
    branch, those behind it are checked again.
    """

    def __init__(
        self,
        branch: TargetBranch,
        width: int,
        begin_check: Callable[[QueuedTask, str], Future[AttemptResult]],
        cancel: Callable[[str], None],
    ) -> None:
        self._branch, self._width = branch, width
        self._begin_check, self._cancel = begin_check, cancel
        self.entries: list[QueuedTask] = []

    @property
    def running_checks(self) -> dict[Future[AttemptResult], QueuedTask]:
        """The queue entries with a running check, by check."""
        return {entry.check: entry for entry in self.entries if entry.check}

    def begin_checks(self) -> None:
        """Begins the checks that are due, and cancels those whose base has changed meanwhile."""
        base = self._branch.tip()
        for entry in self.entries[: self._width]:
            if not base:
                return
            on_top, conflicts = self._branch.apply_on_top(base, entry.commit)
            if entry.check:
                if not self._branch.is_same_tree(entry.checks_on, base):
                    self._cancel(entry.attempt.task.id)
            elif not self._branch.is_same_tree(entry.base, base):
                if not conflicts:
                    entry.checks = entry.checks + 1 if entry.checks_on == base else 1
                    entry.checks_on = base
                    entry.check = self._begin_check(entry, base)
                elif entry is self.entries[0]:  # else an entry before it may be the one that conflicts, and fail
                    entry.base, entry.checked = base, AttemptResult(why=f"conflicts in {join_names(conflicts, 5)}")
            base = on_top

    def end_check(self, check: Future[AttemptResult]) -> None:
        """Records the result of a check that ended, unless it failed to begin and may be tried again."""
        entry = self.running_checks[check]
        entry.check = None
        result = result_of_future(check)
        if result.records or entry.checks >= _CHECKS:
            entry.base, entry.checked = entry.checks_on, result

    def judged_head(self) -> QueuedTask | None:
        """Returns the first entry once it is checked on top of the branch as it is now, or if the branch is gone."""
        head = next(iter(self.entries), None)
        if not head or head.check:
            return None
        tip = self._branch.tip()
        if tip and not self._branch.is_same_tree(head.base, tip):
            return None
        head.tip = tip
        return head
