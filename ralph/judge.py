"""What an iteration came to, and what is remembered of it. What can be checked is checked, whatever the agent said."""

from collections import Counter
from dataclasses import dataclass, replace

from ralph.agent.turn import Commits, Outcome, Turn
from ralph.progress import Progress, Task, vanished
from ralph.settings import Settings
from ralph.verdict import Reason, Stop, Tally
from ralph.words import counted, duration, moment, named, shortened, usd

_TROUBLE_PAUSES = 8
"""After so many pauses in a row, an hour in all, trouble that still lasts is a failed iteration."""
_TROUBLE_S = (30.0, 900.0)
"""The first and the longest pause: each is twice as long as the one before."""
_LIMIT_S = (300.0, 3600.0)
"""The same when nobody knows when a limit ends."""
_LIMIT_AT_LEAST_S = (3.0, 3600.0)
"""The same when somebody does: nobody spins on a limit that does not end when it should."""
_AFTER_RESET_S = 2.0
_FAILED = 200
"""Characters of why a try failed, in a line."""


@dataclass(slots=True, kw_only=True, eq=False)
class Watched:
    """What an agent's turn did that it may not; known when it is over, and put right by then."""

    tampered: tuple[str, ...] = ()
    """What is ralph's under --strict, in words."""
    outside: tuple[str, ...] = ()
    """Files that --only does not allow."""
    changed: tuple[str, ...] | None = None
    """What else is not as it was; None where somebody else has to look."""
    blocked: str = ""
    """Why nothing more may be done: git leads elsewhere since, or a person has to decide."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Iteration:
    """All there is to say about one iteration: what was seen of it, and what it came to once that is judged."""

    number: int
    before: Progress
    after: Progress
    turn: Turn
    commits: Commits
    changed: tuple[str, ...] = ()
    """Files that are not as they were before it, committed or not, but for the progress file."""
    task: str = ""
    """The id of the task that ralph chose for it, under --strict."""
    watched: Watched = Watched()  # noqa: RUF009 - nobody writes into it

    failed: str = ""
    """Why it counts as failed; empty when it does not."""
    trouble: bool = False
    """Trouble outside is why."""
    refused: tuple[str, ...] = ()
    """Why its RALPH_DONE does not hold; empty when there was none, or it does."""
    missing: tuple[Task, ...] = ()
    """Open tasks that are gone from the list."""
    moved: bool = False
    """A task was ticked or added, or something in the repository changed."""
    again: bool = False
    """It does not count, and is due again after a pause."""
    tried: bool = False
    """What failed is a try of the task, of which there may be some, and not the agent."""
    passed: bool = False
    """The try did not fail: ralph has ticked the task."""
    given_up: bool = False
    """There were as many as there may be."""
    ended: Stop | None = None
    """Set when no further iteration can help."""

    @property
    def ticked(self) -> int:
        """How many tasks more are ticked than before."""
        return self.after.ticked - self.before.ticked

    @property
    def new(self) -> int:
        """How many tasks more there are than before."""
        return len(self.after.tasks) - len(self.before.tasks)

    @property
    def listed(self) -> bool:
        """Whether a task was ticked or added; what is done may have been moved away from the list meanwhile."""
        ticked = _ticked(self.after) - _ticked(self.before)
        added = self.new > 0 or bool(vanished(self.after, self.before))
        return added or any(task.text in ticked for task in self.before.open)


def _ticked(progress: Progress) -> Counter[str]:
    return Counter(task.text for task in (*progress.tasks, *progress.elsewhere) if task.done)


def judge(iteration: Iteration, tally: Tally, settings: Settings) -> Iteration:
    """The same with what it came to, before anything is verified."""
    if blocked := iteration.watched.blocked:
        return replace(iteration, failed=blocked, ended=Stop(Reason.TAMPERED, blocked))
    outcome, after = iteration.turn.outcome, iteration.after
    missing, moved = vanished(iteration.before, after), iteration.listed or bool(iteration.changed)
    lasts = tally.waits_for is Outcome.TROUBLE and tally.repeats >= _TROUBLE_PAUSES and not moved
    again = {Outcome.TROUBLE: not lasts, Outcome.LIMIT: settings.wait or iteration.turn.others}.get(outcome, False)
    trouble = outcome is Outcome.TROUBLE and lasts
    failed = "" if again else _failure(iteration, settings)
    failed = f"trouble for an hour: {iteration.turn.why}" if trouble else failed
    iteration = replace(iteration, failed=failed, trouble=trouble, missing=missing, moved=moved, again=again)
    if not settings.once:
        refused = refusal(iteration) if after.done else ()
        return replace(iteration, refused=refused, ended=_ended(iteration, settings))
    again = again and not iteration.changed
    return replace(iteration, again=again, ended=None if again else _once(iteration))


_WATCHDOG = (Outcome.HUNG, Outcome.TIMED_OUT, Outcome.TOO_LONG)
_CUT_SHORT = (*_WATCHDOG, Outcome.OUT_OF_TURNS, Outcome.OUT_OF_BUDGET, Outcome.CONTEXT_FULL)
"""Outcomes that are no failure when something was done before."""


def _failure(iteration: Iteration, settings: Settings) -> str:
    """Why it failed. One that was cut short did not where it did something; one that hangs always edits a little."""
    turn = iteration.turn
    if turn.outcome is Outcome.FAILED:
        return turn.why
    lasting = settings.auto_commit and turn.outcome in _WATCHDOG
    did = iteration.listed or iteration.commits.count > 0 or (bool(iteration.changed) and not lasting)
    is_starts = turn.outcome is Outcome.OUT_OF_BUDGET and settings.max_iteration_cost is None
    if turn.outcome not in _CUT_SHORT or did or is_starts:  # the start's money: the verdict knows
        return ""
    return f"{turn.why}, and nothing was ticked, added or {'committed' if lasting else 'changed'}"


_ENDS = {
    Outcome.INTERRUPTED: Reason.INTERRUPTED,
    Outcome.HOPELESS: Reason.HOPELESS,
    Outcome.LIMIT: Reason.LIMIT,
}
"""Outcomes after which another iteration would only cost; a limit only when it is not waited for."""
_ENDS_ONCE = {**_ENDS, Outcome.OUT_OF_BUDGET: Reason.LIMIT, Outcome.OUT_OF_TIME: Reason.LIMIT}


def _ended(iteration: Iteration, settings: Settings) -> Stop | None:
    turn = iteration.turn
    if turn.outcome in _ENDS and not iteration.again:
        return Stop(_ENDS[turn.outcome], _why(turn))
    if iteration.watched.tampered and settings.on_tamper == "abort":
        return Stop(Reason.TAMPERED, f"{'; '.join(iteration.watched.tampered)} (undone)")
    return None


def _once(iteration: Iteration) -> Stop:
    turn, after = iteration.turn, iteration.after
    if iteration.changed and turn.outcome in (Outcome.OK, Outcome.LIMIT, Outcome.TROUBLE):
        changed = named(iteration.changed, 10)
        return Stop(Reason.ONCE_FAILED, f"it may change nothing but the progress file, and changed {changed}")
    if turn.outcome is not Outcome.OK:
        return Stop(_ENDS_ONCE.get(turn.outcome, Reason.ONCE_FAILED), _why(turn))
    return Stop(Reason.ONCE) if after.blocked is None else Stop(Reason.BLOCKED, after.blocked)


def _why(turn: Turn) -> str:
    return turn.why + (f"; until {moment(turn.resets_at, 0)}" if turn.resets_at else "")


def refusal(iteration: Iteration) -> tuple[str, ...]:
    """Why a claim of done does not hold, in words that the next iteration can act on; empty when it holds."""
    turn, missing = iteration.turn, iteration.missing
    reasons = open_tasks(iteration.after)
    if iteration.after.blocked is not None:
        reasons.append("RALPH_BLOCKED stands there, too")
    if missing:
        reasons.append(f"{_are(len(missing))} gone without being ticked, now put back: {_named(missing)}")
    if turn.outcome is not Outcome.OK:
        reasons.append(f"the iteration that claimed it did not end well: {turn.why}")
    return tuple(reasons)


def open_tasks(now: Progress) -> list[str]:
    """The same for a claim of which nothing is known but what the file says."""
    return [f"{_are(len(now.open))} not ticked: {_named(now.open)}"] if now.open else []


def _are(count: int) -> str:
    return "1 task is" if count == 1 else f"{count} tasks are"


def _named(tasks: tuple[Task, ...]) -> str:
    return named([f'"{shortened(task.text, 80)}"' for task in tasks], 3)


def tallied(tally: Tally, iteration: Iteration) -> Tally:
    """The tally after one more iteration.

    Failures and refusals may take turns; only a good iteration begins anew. One that claims to be done neither adds nor
    resets anything by that: the check decides. One that is due again changes no more than what it cost and left, and
    how long it is waited.
    """
    tally, turn = replace(tally), iteration.turn
    tally.commits += iteration.commits.count
    if turn.cost_usd is not None:
        tally.cost_usd = (tally.cost_usd or 0.0) + turn.cost_usd
    tally.at_least |= turn.at_least
    tally.pays = turn.pays or tally.pays
    if iteration.moved:
        tally.stalls = 0
    if iteration.again:
        in_a_row = tally.waits_for is turn.outcome and not iteration.moved
        tally.waits_for, tally.repeats = turn.outcome, tally.repeats + 1 if in_a_row else 1
        return tally
    tally.waits_for, tally.repeats = None, 0
    tally.iterations += 1
    tally.stalls += not iteration.moved and not iteration.trouble
    if not iteration.failed and not iteration.refused and not iteration.after.done:
        tally.failures, tally.refusals, tally.trouble = 0, 0, False
        return tally
    tally.failures += bool(iteration.failed) and (iteration.given_up or not iteration.tried)
    tally.refusals += bool(iteration.refused)
    tally.trouble |= iteration.trouble
    tally.last_failure = iteration.failed or tally.last_failure
    tally.last_refusal = "; ".join(iteration.refused) or tally.last_refusal
    return tally


def summary(iteration: Iteration) -> str:
    """`#7 · 9/15 tasks (+1, 2 new) · 3 commits +212 −40 · 6m12s · $0.41`, and what was wrong."""  # noqa: RUF002
    turn, commits = iteration.turn, iteration.commits
    changes = ", ".join(
        [f"{iteration.ticked:+d}"] * bool(iteration.ticked) + [f"{iteration.new} new"] * (iteration.new > 0)
    )
    parts = [
        f"#{iteration.number}",
        iteration.task,
        tasks(iteration.after) + (f" ({changes})" if changes else ""),
        f"{counted(commits.count, 'commit')} +{commits.added} −{commits.removed}" if commits.count else "",  # noqa: RUF001 - a minus
        duration(turn.took_s),
        usd(turn.cost_usd, at_least=turn.at_least) if turn.cost_usd is not None else "",
        f"{turn.outcome.value}: {turn.why}" if turn.outcome is not Outcome.OK else "",
        "done refused" if iteration.refused else "",
        shortened(iteration.failed, _FAILED) if iteration.tried else "",
    ]
    return " · ".join(filter(None, parts))


def tasks(progress: Progress) -> str:
    """`9/15 tasks`."""
    return f"{progress.ticked}/{len(progress.tasks)} tasks" if progress.tasks else "no tasks"


def wait_s(turn: Turn, *, repeats: int, now: float) -> float:
    """How long to pause after such a turn when `repeats` others came directly before it."""
    rest_s = -1.0
    first, most = _TROUBLE_S
    if turn.outcome is Outcome.LIMIT:
        rest_s = (turn.resets_at or 0.0) - now
        first, most = _LIMIT_S if rest_s < 0 else _LIMIT_AT_LEAST_S
    growing = float(min(first * 2 ** min(repeats, 30), most))
    return growing if rest_s < 0 else max(growing, rest_s + _AFTER_RESET_S)
