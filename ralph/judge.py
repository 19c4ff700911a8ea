"""What an iteration came to. What can be checked is checked, whatever the agent said."""

from collections import Counter
from dataclasses import dataclass, replace

from ralph.agent.turn import Commits, Outcome, Turn
from ralph.progress import Progress, Task, vanished
from ralph.settings import Settings
from ralph.verdict import Reason, Stop, Tally, left_usd
from ralph.words import counted, duration, moment, named, shortened, usd

_TROUBLE_IS_FAILURE_S = 3600.0
"""Trouble in a row that lasts longer is a failed iteration."""

_LIMIT_S = (300.0, 3600.0)
"""The first and the longest pause when nobody knows when a limit ends."""
_TROUBLE_S = (30.0, 900.0)
_AFTER_RESET_S = 2.0
_LIMIT_AT_LEAST_S = (3.0, 3600.0)
"""The least pause even so: nobody spins on a limit that does not end when it should."""
_LAST_SUMMARIES = 5
_FAILED = 200
"""Characters of why a try failed, in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """All there is to say about one iteration."""

    number: int
    before: Progress
    after: Progress
    turn: Turn
    commits: Commits
    changed: tuple[str, ...] = ()
    """Files that are not as they were before it, committed or not, but for the progress file."""
    task: str = ""
    """The id of the task that ralph chose for it, under --strict."""
    tampered: tuple[str, ...] = ()
    """What it did to what is ralph's under --strict; undone."""
    outside: tuple[str, ...] = ()
    """Files that it changed and that --only does not allow; put back."""
    strayed: str = ""
    """What leads git out of the repository since; nothing more may be done there."""
    ended_s: float = 0.0
    """When it ended, in seconds of this start."""

    @property
    def listed(self) -> bool:
        """Whether a task was ticked or added; what is done may have been moved away from the list meanwhile."""
        ticked = _ticked(self.after) - _ticked(self.before)
        added = len(self.after.tasks) > len(self.before.tasks) or bool(vanished(self.after, self.before))
        return added or any(task.text in ticked for task in self.before.open)


def _ticked(progress: Progress) -> Counter[str]:
    return Counter(task.text for task in (*progress.tasks, *progress.elsewhere) if task.done)


@dataclass(slots=True, kw_only=True)
class Watched:
    """What an agent's turn did that it may not; known when it is over, and put right by then."""

    tampered: tuple[str, ...] = ()
    """What is ralph's under --strict, in words."""
    outside: tuple[str, ...] = ()
    """Files that --only does not allow."""
    changed: tuple[str, ...] | None = None
    """What else is not as it was; None where somebody else has to look."""
    strayed: str = ""
    """Why nothing more may be done: git leads elsewhere since, or a person has to decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What an iteration came to."""

    failed: str = ""
    """Why it counts as failed; empty when it does not."""
    outside: bool = False
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


def judge(iteration: Iteration, tally: Tally, settings: Settings) -> Judgement:
    """What an iteration came to, before anything is verified."""
    turn, after = iteration.turn, iteration.after
    if iteration.strayed:
        return Judgement(failed=iteration.strayed, ended=Stop(Reason.TAMPERED, iteration.strayed))
    judged = Judgement(missing=vanished(iteration.before, after), moved=iteration.listed or bool(iteration.changed))
    since = iteration.ended_s if tally.trouble_since_s is None or judged.moved else tally.trouble_since_s
    if turn.outcome is Outcome.TROUBLE and iteration.ended_s - since >= _TROUBLE_IS_FAILURE_S:
        judged = replace(judged, failed=f"trouble for an hour: {turn.why}", outside=True)
    elif turn.outcome is Outcome.TROUBLE or (turn.outcome is Outcome.LIMIT and settings.wait):
        judged = replace(judged, again=True)
    else:
        judged = replace(judged, failed=_failure(iteration, tally, settings))
    if settings.once:
        again = judged.again and not iteration.changed
        return replace(judged, again=again, ended=None if again else _once(iteration))
    rest_usd = _binding_rest_usd(iteration, tally, settings)
    if rest_usd is not None and (turn.cost_usd or 0.0) < rest_usd:  # what the agent says it cost does not show it
        judged = replace(judged, ended=Stop(Reason.LIMIT, f"nothing is left of max-cost or max-total-cost: {turn.why}"))
    if iteration.tampered and settings.on_tamper == "abort":
        judged = replace(judged, ended=Stop(Reason.TAMPERED, f"{'; '.join(iteration.tampered)} (undone)"))
    if turn.outcome in _ENDS and not judged.again:
        judged = replace(judged, ended=Stop(_ENDS[turn.outcome], _why(turn)))
    return replace(judged, refused=refusal(after, judged.missing, turn)) if after.done else judged


def _why(turn: Turn) -> str:
    return turn.why + (f"; until {moment(turn.resets_at, 0)}" if turn.resets_at else "")


def _failure(iteration: Iteration, tally: Tally, settings: Settings) -> str:
    """Why it failed. One that was cut short did not where it did something; one that hangs always edits a little."""
    turn = iteration.turn
    if turn.outcome is Outcome.FAILED:
        return turn.why
    lasting = settings.auto_commit and turn.outcome in _WATCHDOG
    did = iteration.listed or iteration.commits.count > 0 or (bool(iteration.changed) and not lasting)
    if turn.outcome not in _CUT_SHORT or did or _binding_rest_usd(iteration, tally, settings) is not None:
        return ""
    return f"{turn.why}, and nothing was ticked, added or {'committed' if lasting else 'changed'}"


def _binding_rest_usd(iteration: Iteration, tally: Tally, settings: Settings) -> float | None:
    """What was left of the start's or the plan's money, if an agent out of budget was bound by that, not by its own."""
    own, rest = settings.max_iteration_cost, left_usd(iteration.before, tally, settings)
    binding = rest is not None and (own is None or rest < own)
    return rest if binding and iteration.turn.outcome is Outcome.OUT_OF_BUDGET else None


def refusal(after: Progress, missing: tuple[Task, ...], turn: Turn) -> tuple[str, ...]:
    """Why a claim of done does not hold, in words that the next iteration can act on; empty when it holds."""
    reasons = open_tasks(after)
    if after.blocked is not None:
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


def _once(iteration: Iteration) -> Stop:
    turn, after = iteration.turn, iteration.after
    if iteration.changed and turn.outcome in (Outcome.OK, Outcome.LIMIT, Outcome.TROUBLE):
        changed = named(iteration.changed, 10)
        return Stop(Reason.ONCE_FAILED, f"it may change nothing but the progress file, and changed {changed}")
    if turn.outcome is not Outcome.OK:
        return Stop(_ENDS_ONCE.get(turn.outcome, Reason.ONCE_FAILED), _why(turn))
    return Stop(Reason.ONCE) if after.blocked is None else Stop(Reason.BLOCKED, after.blocked)


_ENDS = {
    Outcome.INTERRUPTED: Reason.INTERRUPTED,
    Outcome.HOPELESS: Reason.HOPELESS,
    Outcome.LIMIT: Reason.LIMIT,
}
"""Outcomes after which another iteration would only cost; a limit only when it is not waited for."""
_ENDS_ONCE = {**_ENDS, Outcome.OUT_OF_BUDGET: Reason.LIMIT, Outcome.OUT_OF_TIME: Reason.LIMIT}
_WATCHDOG = (Outcome.HUNG, Outcome.TIMED_OUT, Outcome.TOO_LONG)
_CUT_SHORT = (*_WATCHDOG, Outcome.OUT_OF_TURNS, Outcome.OUT_OF_BUDGET, Outcome.CONTEXT_FULL)
"""Outcomes that are no failure when something was done before."""


def tallied(tally: Tally, iteration: Iteration, judged: Judgement) -> Tally:
    """The tally after one more iteration.

    Failures and refusals may take turns; only a good iteration begins anew. One that claims to be done neither adds nor
    resets anything by that: the check decides. One that is due again changes no more than what it cost and left, and
    how long it is waited.
    """
    turn = iteration.turn
    costs = [cost for cost in (tally.cost_usd, turn.cost_usd) if cost is not None]
    tally = replace(
        tally,
        commits=tally.commits + iteration.commits.count,
        cost_usd=sum(costs) if costs else None,
        at_least=tally.at_least or turn.at_least,
        pays=turn.pays or tally.pays,
        stalls=0 if judged.moved else tally.stalls,
    )
    return _waiting(tally, iteration, judged) if judged.again else _counted(tally, iteration, judged)


def _waiting(tally: Tally, iteration: Iteration, judged: Judgement) -> Tally:
    outcome, known = iteration.turn.outcome, None if judged.moved else tally.trouble_since_s
    since = iteration.ended_s if known is None else known
    return replace(
        tally,
        waits_for=outcome,
        repeats=1 if tally.waits_for is not outcome else tally.repeats + 1,
        trouble_since_s=since if outcome is Outcome.TROUBLE else None,
    )


def _counted(tally: Tally, iteration: Iteration, judged: Judgement) -> Tally:
    outcome, bad = iteration.turn.outcome, bool(judged.failed or judged.refused or iteration.after.done)
    excused = outcome is Outcome.OUT_OF_TIME or (outcome is Outcome.OUT_OF_BUDGET and not judged.failed)
    stalled = not (judged.moved or judged.outside or excused)
    return replace(
        tally,
        iterations=tally.iterations + 1,
        summaries=(*tally.summaries, summary(iteration, judged))[-_LAST_SUMMARIES:],
        failed=bool(judged.failed),
        failures=(tally.failures + (bool(judged.failed) and (judged.given_up or not judged.tried))) * bad,
        refusals=(tally.refusals + bool(judged.refused)) * bad,
        stalls=tally.stalls + stalled,
        last_failure=judged.failed or tally.last_failure,
        last_refusal="; ".join(judged.refused) or tally.last_refusal,
        outside=bad and (tally.outside or judged.outside),
        repeats=0,
        waits_for=Outcome.TROUBLE if judged.outside else None,
        trouble_since_s=iteration.ended_s if judged.outside else None,
        half_open=None if judged.moved and not bad else tally.half_open,
    )


def summary(iteration: Iteration, judged: Judgement) -> str:
    """`#7 · 9/15 tasks (+1, 2 new) · 3 commits +212 −40 · 6m12s · $0.41`, and what was wrong."""  # noqa: RUF002
    turn, commits, before, after = iteration.turn, iteration.commits, iteration.before, iteration.after
    ticked, new = after.ticked - before.ticked, len(after.tasks) - len(before.tasks)
    changes = ", ".join([f"{ticked:+d}"] * bool(ticked) + [f"{new} new"] * (new > 0))
    parts = [f"#{iteration.number}", *([iteration.task] if iteration.task else [])]
    parts.append(tasks(after) + (f" ({changes})" if changes else ""))
    if commits.count:
        parts.append(f"{counted(commits.count, 'commit')} +{commits.added} −{commits.removed}")  # noqa: RUF001 - a minus
    parts.append(duration(turn.took_s))
    if turn.cost_usd is not None:
        parts.append(usd(turn.cost_usd, at_least=turn.at_least))
    if turn.outcome is not Outcome.OK:
        parts.append(f"{turn.outcome.value}: {turn.why}")
    if judged.refused:
        parts.append("done refused")
    if judged.tried:
        parts.append(shortened(judged.failed, _FAILED))
    return " · ".join(parts)


def tasks(progress: Progress) -> str:
    """`9/15 tasks`."""
    return f"{progress.ticked}/{len(progress.tasks)} tasks" if progress.tasks else "no tasks"


def over_budget(iteration: Iteration, settings: Settings) -> str:
    """A word about an iteration that cost more than one may; empty when it did not."""
    most, cost = settings.max_iteration_cost, iteration.turn.cost_usd or 0.0
    return f"this iteration cost {usd(cost)}; max-iteration-cost is {usd(most)}" if most and cost > most else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A pause before the same iteration again."""

    turn: Turn
    """The one that is the reason."""
    seconds: float
    until: float
    """The same as a time since 1970."""

    @property
    def is_for_limit(self) -> bool:
        """Whether the account's limit is what is waited for."""
        return self.turn.outcome is Outcome.LIMIT

    def __str__(self) -> str:
        return f"waiting until {moment(self.until, self.until - self.seconds)} ({duration(self.seconds)})"


def wait_after(turn: Turn, *, repeats: int, now: float) -> Wait:
    """The pause after such a turn when `repeats` others came directly before it."""
    if turn.outcome is not Outcome.LIMIT:
        seconds = _growing(_TROUBLE_S, repeats)
    elif turn.resets_at is None or turn.resets_at < now:
        seconds = _growing(_LIMIT_S, repeats)
    else:
        seconds = max(turn.resets_at + _AFTER_RESET_S - now, _growing(_LIMIT_AT_LEAST_S, repeats))
    return Wait(turn=turn, seconds=seconds, until=now + seconds)


def _growing(bounds: tuple[float, float], repeats: int) -> float:
    first, most = bounds
    return float(min(first * 2 ** min(repeats, 30), most))
