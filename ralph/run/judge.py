"""An iteration: the controller that runs it, what is known of it, and how it is judged; then it counts in the tally."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.agent.turn import Commits, Outcome, Turn
from ralph.plan.progress import Progress, Task, vanished_open_tasks
from ralph.run.stop_rules import Reason, Stop, Tally
from ralph.settings.table import Settings
from ralph.words import REASON_LENGTH, format_moment, join_names, one_line, plural, shorten

# Pauses in a row, three hours in all, after which lasting network or server trouble ends the run.
_TROUBLE_PAUSES = 16
_AFTER_RESET_S = 2.0


@dataclass(kw_only=True, eq=False)
class TurnFindings:
    """What the agent did that it may not do; complete, and put right, when its turn is over."""

    tampering: tuple[str, ...] = ()
    """In words, what it changed of what is ralph's own under --strict."""
    outside: Sequence[str] = ()
    """Files that it changed although --only does not allow that."""
    changed: Sequence[str] | None = None
    """Other files that it changed; None if the guard did not look."""
    why_run_ends: str = ""
    """Why the run has to end: git may lead elsewhere now, or the user has to decide."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Iteration:
    """Everything known about one iteration: what happened, and its result once it is judged."""

    before: Progress
    after: Progress
    turn: Turn
    commits: Commits
    changed: Sequence[str] = ()
    """Files that it changed, committed or not, except the progress file."""
    findings: TurnFindings

    failed: str = ""
    """Why it counts as failed; empty if it does not."""
    refused: Sequence[str] = ()
    """Why its RALPH_DONE is refused; empty if there was none, or it is accepted."""
    missing: Sequence[Task] = ()
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
    run_stop: Stop | None = None
    """Why the run has to end, if no further iteration can help."""

    @property
    def has_ticked_or_added(self) -> bool:
        """Whether a task was ticked or added."""
        return self.after.ticked > self.before.ticked or bool(vanished_open_tasks(self.after, self.before))


WhyCommitLacks = Callable[[Path, bytes], str]
"""Returns why a task's commit would lack an existing file, or its content; empty if it would not."""
AroundTurn = Callable[[], AbstractContextManager[TurnFindings]]
"""Surrounds a turn of the agent, to watch over the working tree; the findings are complete when it is over."""


class BaseController:
    """Picks, checks and ticks tasks around the turns of the agent. This one does nothing, and runs no agent."""

    around_turn: AroundTurn = staticmethod(lambda: nullcontext(TurnFindings()))
    why_commit_would_lack: WhyCommitLacks = staticmethod(lambda *_: "")
    picks_tasks = False
    """Whether ralph picks the tasks and ticks them."""

    @property
    def has_work_to_finish(self) -> bool:
        """Whether agents are at work between two iterations."""
        return False

    @property
    def parallel_activity(self) -> Sequence[str]:
        """A line for each agent at work besides the one of the iteration."""
        return ()

    def add_ids_and_tidy_marks(self) -> None:
        """Brings the task list into the form that the next choice needs."""

    def begin_next_tasks(self) -> Stop | None:
        """Chooses the next task. Returns why none can be begun, or None."""

    def run_or_await_iteration(self) -> Iteration:
        """Runs the next iteration and returns what is known of it once its agent has ended."""
        raise NotImplementedError

    def accept_or_refuse_result(self, judged: Iteration) -> Iteration:
        """Returns the judged iteration with its result, which is in the progress file too by then."""
        return judged

    def find_and_reopen_broken_tasks(self) -> Mapping[str, str] | None:
        """Unticks tasks whose checks fail now. Returns why, by task id; None if that could not be found out."""
        return {}

    def defer_stop_to_finish_work(self, stop: Stop | None) -> Stop | None:
        """Returns why to stop now; None if running work ends first."""
        return stop

    def delay_new_agents(self, until: float) -> bool:  # noqa: ARG002 - of the interface
        """Begins no agent before that moment, in seconds since 1970. Returns whether it does that."""
        return False

    def end_work_and_unmark_tasks(self) -> None:
        """Ends all work, even after an error."""


def judge_iteration(iteration: Iteration, tally: Tally, settings: Settings) -> Iteration:
    """Returns the iteration with its result, before anything is verified."""
    if blocked := iteration.findings.why_run_ends:
        return replace(iteration, failed=blocked, run_stop=Stop(Reason.TAMPERED, blocked))
    turn, after = iteration.turn, iteration.after
    moved = iteration.has_ticked_or_added or bool(iteration.changed)
    is_repeated = turn.outcome is Outcome.LIMIT and (settings.wait or turn.another_is_free)
    if turn.outcome is Outcome.TROUBLE:
        is_repeated = moved or tally.repeat_cause is not turn.outcome or tally.repeats < _TROUBLE_PAUSES
    iteration = replace(iteration, missing=vanished_open_tasks(iteration.before, after), moved=moved)
    return replace(
        iteration,
        is_repeated=is_repeated,
        failed=_why_turn_failed(iteration, settings),
        refused=_why_done_refused(iteration, tally) if after.done and not settings.once else (),
        run_stop=None if is_repeated else _stop_by_outcome(iteration, settings),
    )


_WATCHDOG = (Outcome.HUNG, Outcome.TIMED_OUT, Outcome.TOO_LONG)
# Outcomes that do not count as failures if something was done before.
_CUT_SHORT = (*_WATCHDOG, Outcome.OUT_OF_TURNS, Outcome.OUT_OF_BUDGET, Outcome.CONTEXT_FULL)


def _why_turn_failed(iteration: Iteration, settings: Settings) -> str:
    """Returns why it failed. If it was cut short, only if it did nothing; if it hung, edits alone do not count."""
    turn = iteration.turn
    if turn.outcome is Outcome.FAILED:
        return turn.why
    if turn.outcome not in _CUT_SHORT or iteration.has_ticked_or_added or iteration.commits.count:
        return ""
    if settings.auto_commit and turn.outcome in _WATCHDOG:
        return f"{turn.why}, and nothing was ticked, added or committed"
    return "" if iteration.changed else f"{turn.why}, and nothing was ticked, added or changed"


# Outcomes after which another iteration would only cost; the last two once ralph no longer waits.
_ENDS = {
    Outcome.INTERRUPTED: Reason.INTERRUPTED,
    Outcome.HOPELESS: Reason.HOPELESS,
    Outcome.LIMIT: Reason.LIMIT,
    Outcome.TROUBLE: Reason.TROUBLE,
}


def _stop_by_outcome(iteration: Iteration, settings: Settings) -> Stop | None:
    turn = iteration.turn
    if reason := _ENDS.get(turn.outcome):
        return Stop(reason, f"{turn.why}{f'; until {format_moment(turn.resets_at, 0)}' if turn.resets_at else ''}")
    if iteration.findings.tampering and settings.on_tamper == "abort":
        return Stop(Reason.TAMPERED, f"{'; '.join(iteration.findings.tampering)} (undone)")
    return None


def _why_done_refused(iteration: Iteration, tally: Tally) -> Sequence[str]:
    """Returns why a claim of done is refused, in words that the next iteration can act on; empty if it is not."""
    turn, after, missing = iteration.turn, iteration.after, iteration.missing
    nothing = "no task in the list, and no change since the plan began: plan first, or write the tasks"
    reasons = {
        describe_open_tasks(after): bool(after.open),
        nothing: not (after.tasks or iteration.moved or tally.has_moved),
        "RALPH_BLOCKED is there, too": after.blocked is not None,
        f"{plural(len(missing), 'task')} gone without being ticked, now put back: {quote_tasks(missing)}": bool(
            missing
        ),
        f"the iteration that claimed it did not end well: {turn.why}": turn.outcome is not Outcome.OK,
    }
    return [reason for reason, holds in reasons.items() if holds]


def describe_open_tasks(now: Progress) -> str:
    """Returns why the plan is not done, as far as the progress file alone shows; empty if nothing shows that."""
    return f"{plural(len(now.open), 'task')} not ticked: {quote_tasks(now.open)}" if now.open else ""


def quote_tasks(tasks: Sequence[Task]) -> str:
    """Quotes the first of these tasks, as they are in the list."""
    return join_names([f'"{shorten(task.whole, 80)}"' for task in tasks], 3)


def count_in_tally(tally: Tally, iteration: Iteration, task: str = "") -> None:
    """Counts one more iteration, which worked on this task.

    Failures and refusals may alternate; only a good iteration resets the counts. A claim of done alone neither adds nor
    resets: its check decides. An iteration that is repeated changes only costs, commits and the length of the pause.
    """
    turn = iteration.turn
    tally.commits += iteration.commits.count
    if turn.cost_usd is not None:
        tally.cost_usd = (tally.cost_usd or 0.0) + turn.cost_usd
    tally.at_least |= turn.at_least
    tally.crashes[task] = tally.crashes[task] + 1 if turn.outcome is Outcome.FAILED else 0
    if iteration.moved:
        tally.stalls, tally.has_moved = 0, True
    if iteration.is_repeated:
        in_a_row = tally.repeat_cause is turn.outcome and not iteration.moved
        tally.repeat_cause, tally.repeats = turn.outcome, tally.repeats + 1 if in_a_row else 1
        return
    tally.repeat_cause, tally.repeats = None, 0
    tally.iterations += not iteration.is_merge
    if iteration.is_queued and not iteration.failed:
        return
    tally.stalls += not iteration.moved
    if not (iteration.failed or iteration.refused or iteration.after.done):
        tally.failures = tally.refusals = tally.red_failures = 0
        return
    tally.failures += bool(iteration.failed) and not iteration.may_retry
    tally.refusals += bool(iteration.refused)
    tally.last_failure = one_line(iteration.failed or "; ".join(iteration.refused), REASON_LENGTH) or tally.last_failure


def wait_before_repeat_s(turn: Turn, *, repeats: int, now: float) -> float:
    """Returns the seconds to pause after such a turn, twice as many for each of `repeats` directly before it."""
    rest_s = turn.resets_at - now
    first, most = (30.0, 900.0) if turn.outcome is Outcome.TROUBLE else (300.0, 3600.0)
    if rest_s > 0:
        first = 3.0  # avoids spinning on a limit that does not end when it should
    return max(min(first * 2.0 ** min(repeats, 30), most), rest_s + _AFTER_RESET_S)
