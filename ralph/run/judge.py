"""Judges an iteration and adds it to the tally. What ralph can check counts above the agent's word."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ralph.agent.turn import Commits, Outcome, Turn
from ralph.plan.progress import Progress, Task, vanished_tasks
from ralph.run.stop_rules import Reason, Stop, Tally
from ralph.settings.table import Settings
from ralph.words import REASON_LENGTH, format_moment, join_names, one_line, shorten

_TROUBLE_PAUSES = 16
"""Pauses in a row, three hours in all, after which lasting network or server trouble ends the run."""
_AFTER_RESET_S = 2.0


@dataclass(kw_only=True, eq=False)
class TurnFindings:
    """What the agent did that it may not do; complete, and put right, when its turn is over."""

    tampered: tuple[str, ...] = ()
    """In words, what it changed of what is ralph's own under --strict."""
    outside: tuple[str, ...] = ()
    """Files that it changed although --only does not allow that."""
    changed: tuple[str, ...] | None = None
    """Other files that it changed; None if the guard did not look."""
    blocked: str = ""
    """Why the run has to end: git may lead elsewhere now, or the user has to decide."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Iteration:
    """Everything known about one iteration: what happened, and its result once it is judged."""

    before: Progress
    after: Progress
    turn: Turn
    commits: Commits
    changed: tuple[str, ...] = ()
    """Files that it changed, committed or not, except the progress file."""
    findings: TurnFindings = TurnFindings()  # noqa: RUF009 - nobody writes into it

    failed: str = ""
    """Why it counts as failed; empty if it does not."""
    refused: tuple[str, ...] = ()
    """Why its RALPH_DONE is refused; empty if there was none, or it is accepted."""
    missing: tuple[Task, ...] = ()
    """Open tasks that disappeared from the list."""
    moved: bool = False
    """Whether a task was ticked or added, or a file changed."""
    is_repeated: bool = False
    """Whether it does not count, and is repeated after a pause."""
    may_retry: bool = False
    """Whether only an attempt at a task failed, which has attempts left, so that it does not count for the run."""
    passed: bool = False
    """Whether the attempt passed: its task is ticked, or goes to its next role."""
    is_queued: bool = False
    """Whether its commit passed and waits to be merged."""
    is_merge: bool = False
    """Whether no agent worked, and a waiting commit was merged or failed to merge."""
    ended: Stop | None = None
    """Why the run has to end, if no further iteration can help."""

    @property
    def newly_ticked_count(self) -> int:
        """How many more tasks are ticked than before."""
        return self.after.ticked - self.before.ticked

    @property
    def new_task_count(self) -> int:
        """How many more tasks there are than before."""
        return len(self.after.tasks) - len(self.before.tasks)

    @property
    def has_list_progress(self) -> bool:
        """Whether a task was ticked or added, even if it was moved out of the list meanwhile."""
        before, after = ([*one.tasks, *one.elsewhere] for one in (self.before, self.after))
        ticked = {task.whole for task in after if task.mark == "x"} - {
            task.whole for task in before if task.mark == "x"
        }
        added = self.new_task_count > 0 or bool(vanished_tasks(self.after, self.before))
        return added or any(task.whole in ticked for task in self.before.open)


def judge_iteration(iteration: Iteration, tally: Tally, settings: Settings) -> Iteration:
    """Returns the iteration with its result, before anything is verified."""
    if blocked := iteration.findings.blocked:
        return replace(iteration, failed=blocked, ended=Stop(Reason.TAMPERED, blocked))
    outcome = iteration.turn.outcome
    after = iteration.after
    missing = vanished_tasks(iteration.before, after)
    moved = iteration.has_list_progress or bool(iteration.changed)
    is_repeated = outcome is Outcome.LIMIT and (settings.wait or iteration.turn.another_is_free)
    if outcome is Outcome.TROUBLE:
        is_repeated = moved or tally.waits_for is not outcome or tally.repeats < _TROUBLE_PAUSES
    if settings.once and iteration.changed:
        is_repeated = False
    return replace(
        iteration,
        missing=missing,
        moved=moved,
        is_repeated=is_repeated,
        failed=_why_failed(iteration, settings),
        refused=_why_done_refused(iteration, missing, has_moved=moved or tally.has_moved)
        if after.done and not settings.once
        else (),
        ended=None if is_repeated else _why_run_ends(iteration, settings),
    )


_WATCHDOG = (Outcome.HUNG, Outcome.TIMED_OUT, Outcome.TOO_LONG)
_CUT_SHORT = (*_WATCHDOG, Outcome.OUT_OF_TURNS, Outcome.OUT_OF_BUDGET, Outcome.CONTEXT_FULL)
"""Outcomes that do not count as failures if something was done before."""


def _why_failed(iteration: Iteration, settings: Settings) -> str:
    """Returns why it failed. If it was cut short, only if it did nothing; if it hung, edits alone do not count."""
    turn = iteration.turn
    if turn.outcome is Outcome.FAILED:
        return turn.why
    if turn.outcome not in _CUT_SHORT or iteration.has_list_progress or iteration.commits.count:
        return ""
    if turn.outcome is Outcome.OUT_OF_BUDGET and settings.max_iteration_cost is None:
        return ""  # the run's budget, which the verdict checks
    if settings.auto_commit and turn.outcome in _WATCHDOG:
        return f"{turn.why}, and nothing was ticked, added or committed"
    return "" if iteration.changed else f"{turn.why}, and nothing was ticked, added or changed"


_ENDS = {
    Outcome.INTERRUPTED: Reason.INTERRUPTED,
    Outcome.HOPELESS: Reason.HOPELESS,
    Outcome.LIMIT: Reason.LIMIT,
    Outcome.TROUBLE: Reason.TROUBLE,
}
"""Outcomes after which another iteration would only cost; the last two once ralph no longer waits."""
_ENDS_ONCE = {Outcome.OUT_OF_BUDGET: Reason.LIMIT, Outcome.OUT_OF_TIME: Reason.LIMIT}


def _why_run_ends(iteration: Iteration, settings: Settings) -> Stop | None:
    turn = iteration.turn
    after = iteration.after
    reason = _ENDS.get(turn.outcome)
    if settings.once:
        if iteration.changed and turn.outcome in (Outcome.OK, Outcome.LIMIT, Outcome.TROUBLE):
            changed = join_names(iteration.changed, 10)
            return Stop(Reason.ONCE_FAILED, f"it may change nothing but the progress file, and changed {changed}")
        if turn.outcome is Outcome.OK:
            return Stop(Reason.ONCE) if after.blocked is None else Stop(Reason.BLOCKED, after.blocked)
        reason = reason or _ENDS_ONCE.get(turn.outcome, Reason.ONCE_FAILED)
    if reason:
        return Stop(reason, turn.why + (f"; until {format_moment(turn.resets_at, 0)}" if turn.resets_at else ""))
    if iteration.findings.tampered and settings.on_tamper == "abort":
        return Stop(Reason.TAMPERED, f"{'; '.join(iteration.findings.tampered)} (undone)")
    return None


def _why_done_refused(iteration: Iteration, missing: tuple[Task, ...], *, has_moved: bool) -> tuple[str, ...]:
    """Returns why a claim of done is refused, in words that the next iteration can act on; empty if it is not."""
    turn = iteration.turn
    reasons = why_not_done(iteration.after)
    if not iteration.after.tasks and not has_moved:
        reasons.append("no task in the list, and no change since the plan began: plan first, or write the tasks")
    if iteration.after.blocked is not None:
        reasons.append("RALPH_BLOCKED is there, too")
    if missing:
        reasons.append(f"{_count_tasks(missing)} gone without being ticked, now put back: {quote_tasks(missing)}")
    if turn.outcome is not Outcome.OK:
        reasons.append(f"the iteration that claimed it did not end well: {turn.why}")
    return tuple(reasons)


def why_not_done(now: Progress) -> list[str]:
    """Returns why the plan is not done, as far as the progress file alone shows."""
    return [f"{_count_tasks(now.open)} not ticked: {quote_tasks(now.open)}"] if now.open else []


def _count_tasks(tasks: tuple[Task, ...]) -> str:
    return "1 task is" if len(tasks) == 1 else f"{len(tasks)} tasks are"


def quote_tasks(tasks: Sequence[Task]) -> str:
    """Quotes the first of these tasks, as they are in the list."""
    return join_names([f'"{shorten(task.whole, 80)}"' for task in tasks], 3)


def add_to_tally(tally: Tally, iteration: Iteration) -> Tally:
    """Returns the tally after one more iteration.

    Failures and refusals may alternate; only a good iteration resets the counts. A claim of done alone neither adds nor
    resets: its check decides. An iteration that is repeated changes only costs, commits and the length of the pause.
    """
    tally = replace(tally)
    turn = iteration.turn
    tally.commits += iteration.commits.count
    if turn.cost_usd is not None:
        tally.cost_usd = (tally.cost_usd or 0.0) + turn.cost_usd
    tally.at_least |= turn.at_least
    tally.pays = turn.pays or tally.pays
    if iteration.moved:
        tally.stalls, tally.has_moved = 0, True
    if iteration.is_repeated:
        in_a_row = tally.waits_for is turn.outcome and not iteration.moved
        tally.waits_for = turn.outcome
        tally.repeats = tally.repeats + 1 if in_a_row else 1
        return tally
    tally.waits_for = None
    tally.repeats = 0
    tally.iterations += not iteration.is_merge
    if iteration.is_queued and not iteration.failed:
        return tally
    tally.stalls += not iteration.moved
    if not iteration.failed and not iteration.refused and not iteration.after.done:
        tally.failures = tally.refusals = tally.red_failures = 0
        return tally
    tally.failures += bool(iteration.failed) and not iteration.may_retry
    tally.refusals += bool(iteration.refused)
    tally.last_failure = one_line(iteration.failed or "; ".join(iteration.refused), REASON_LENGTH) or tally.last_failure
    return tally


def pause_after_turn_s(turn: Turn, *, repeats: int, now: float) -> float:
    """Returns the seconds to pause after such a turn, twice as many for each of `repeats` directly before it."""
    rest_s = (turn.resets_at or 0.0) - now
    first, most = (30.0, 900.0) if turn.outcome is Outcome.TROUBLE else (300.0, 3600.0)
    if rest_s > 0:
        first = 3.0  # avoids spinning on a limit that does not end when it should
    return max(min(first * 2.0 ** min(repeats, 30), most), rest_s + _AFTER_RESET_S)
