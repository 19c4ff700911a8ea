"""What an iteration came to. What can be checked is checked, whatever the agent said."""

from collections import Counter
from dataclasses import dataclass, replace

from ralph.agent.turn import Commits, Outcome, Turn
from ralph.progress import Progress, Task, vanished
from ralph.verdict import Limits, Reason, Stop, Tallies, left_usd
from ralph.waiting import TROUBLE_IS_FAILURE_S, paused_s
from ralph.words import moment, usd


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Trespass:
    """What was done to the repository that may not be, all of it put back."""

    outside: tuple[str, ...] = ()
    """Files that --only does not allow."""
    tampered: tuple[str, ...] = ()
    """History and settings of git, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What came of the verify command."""

    failed: str = ""
    """Why it did not pass; empty when it did."""
    output: str = ""
    took_s: float = 0.0


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
    verified: Verification | None = None
    tried: bool = False
    """What failed is a try of the task, of which there may be some, and not the agent."""
    passed: bool = False
    """The try did not fail: ralph has ticked the task."""
    given_up: bool = False
    """There were as many as there may be."""
    ended: Stop | None = None
    """Set when no further iteration can help."""


def judge(iteration: Iteration, tallies: Tallies, limits: Limits) -> Judgement:
    """What an iteration came to, before anything is verified."""
    turn, after = iteration.turn, iteration.after
    if iteration.strayed:
        return Judgement(failed=iteration.strayed, ended=Stop(Reason.TAMPERED, iteration.strayed))
    missing = vanished(iteration.before, after)
    judged = Judgement(missing=missing, moved=_moved(iteration))
    if turn.outcome is Outcome.TROUBLE and _trouble_s(iteration, tallies) >= TROUBLE_IS_FAILURE_S:
        judged = replace(judged, failed=f"trouble for an hour: {turn.why}", outside=True)
    elif turn.outcome is Outcome.TROUBLE or (turn.outcome is Outcome.LIMIT and limits.wait):
        judged = replace(judged, again=True)
    else:
        judged = replace(judged, failed=_failure(iteration, tallies, limits))
    if limits.once:
        again = judged.again and not iteration.changed
        return replace(judged, again=again, ended=None if again else _once(iteration))
    rest_usd = _binding_rest_usd(iteration, tallies, limits)
    if rest_usd is not None and (turn.cost_usd or 0.0) < rest_usd:  # what the agent says it cost does not show it
        judged = replace(judged, ended=Stop(Reason.LIMIT, f"nothing is left of max-cost or max-total-cost: {turn.why}"))
    if iteration.tampered and limits.abort_on_tamper:
        judged = replace(judged, ended=Stop(Reason.TAMPERED, f"{'; '.join(iteration.tampered)} (undone)"))
    if turn.outcome in _ENDS and not judged.again:
        judged = replace(judged, ended=Stop(_ENDS[turn.outcome], _why(turn)))
    return replace(judged, refused=refusal(after, missing, turn)) if after.done else judged


def _why(turn: Turn) -> str:
    return turn.why + (f"; until {moment(turn.resets_at, 0)}" if turn.resets_at else "")


def _trouble_s(iteration: Iteration, tallies: Tallies) -> float:
    """How long trouble has lasted: since it began or since something was done, and no less than what was waited."""
    if tallies.waits_for is not Outcome.TROUBLE:
        return 0.0
    waited_s, since = paused_s(tallies.waits), tallies.trouble_since_s
    return waited_s if since is None or _moved(iteration) else max(waited_s, iteration.ended_s - since)


def _moved(iteration: Iteration) -> bool:
    return iteration.listed or bool(iteration.changed)


def _failure(iteration: Iteration, tallies: Tallies, limits: Limits) -> str:
    turn = iteration.turn
    if turn.outcome is Outcome.FAILED:
        return turn.why
    if turn.outcome not in _CUT_SHORT or _accomplished(iteration, limits):
        return ""
    if _binding_rest_usd(iteration, tallies, limits) is not None:
        return ""  # that is a limit of the start, and no failure
    return f"{turn.why}, and nothing was ticked, added or {'committed' if _lasting_only(turn, limits) else 'changed'}"


def _binding_rest_usd(iteration: Iteration, tallies: Tallies, limits: Limits) -> float | None:
    """What was left of the start's or the plan's money, if an agent out of budget was bound by that, not by its own."""
    own, rest = limits.max_iteration_cost_usd, left_usd(iteration.before, tallies, limits)
    binding = rest is not None and (own is None or rest < own)
    return rest if binding and iteration.turn.outcome is Outcome.OUT_OF_BUDGET else None


def _accomplished(iteration: Iteration, limits: Limits) -> bool:
    """Whether an iteration that was cut short did something."""
    if iteration.listed or iteration.commits.count > 0:
        return True
    return bool(iteration.changed) and not _lasting_only(iteration.turn, limits)


def _lasting_only(turn: Turn, limits: Limits) -> bool:
    """Whether changed files alone are nothing: an agent that hangs each time edits a little each time, too."""
    return limits.commits and turn.outcome in _WATCHDOG


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
    shown = ", ".join(f'"{task.text[:80]}"' for task in tasks[:3])
    return shown + (f" and {len(tasks) - 3} more" if len(tasks) > 3 else "")


def _once(iteration: Iteration) -> Stop:
    turn, after = iteration.turn, iteration.after
    if iteration.changed and turn.outcome in (Outcome.OK, Outcome.LIMIT, Outcome.TROUBLE):
        changed = ", ".join(iteration.changed[:10])
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


def tally(tallies: Tallies, iteration: Iteration, judged: Judgement) -> Tallies:
    """The tallies after one more iteration.

    Failures and refusals may take turns; only a good iteration begins anew. One that is due again changes no more than
    what it cost and how long it is waited.
    """
    tallies = replace(
        tallies,
        cost_usd=tallies.cost_usd + (iteration.turn.cost_usd or 0.0),
        stalls=0 if judged.moved else tallies.stalls,
    )
    return _waiting(tallies, iteration, judged) if judged.again else _counted(tallies, iteration, judged)


def _waiting(tallies: Tallies, iteration: Iteration, judged: Judgement) -> Tallies:
    anew = tallies.waits_for is not iteration.turn.outcome
    known = None if judged.moved else tallies.trouble_since_s
    since = iteration.ended_s if known is None else known
    return replace(
        tallies,
        waits_for=iteration.turn.outcome,
        waits=1 if anew else tallies.waits + 1,
        trouble_since_s=since if iteration.turn.outcome is Outcome.TROUBLE else None,
    )


def _counted(tallies: Tallies, iteration: Iteration, judged: Judgement) -> Tallies:
    bad = bool(judged.failed or judged.refused)
    good = not bad and (judged.moved or iteration.after.done)
    return replace(
        tallies,
        iterations=tallies.iterations + 1,
        failures=(tallies.failures + (bool(judged.failed) and (judged.given_up or not judged.tried))) * bad,
        refusals=(tallies.refusals + bool(judged.refused)) * bad,
        stalls=tallies.stalls + _stalled(iteration, judged),
        last_failure=judged.failed or tallies.last_failure,
        last_refusal="; ".join(judged.refused) or tallies.last_refusal,
        outside=bad and (tallies.outside or judged.outside),
        waits=0,
        waits_for=Outcome.TROUBLE if judged.outside else None,
        trouble_since_s=iteration.ended_s if judged.outside else None,
        half_open=None if good else tallies.half_open,
    )


def _stalled(iteration: Iteration, judged: Judgement) -> bool:
    """Whether it changed nothing, and neither the world outside nor a limit of the start was why."""
    outcome = iteration.turn.outcome
    excused = (
        judged.outside or outcome is Outcome.OUT_OF_TIME or (outcome is Outcome.OUT_OF_BUDGET and not judged.failed)
    )
    return not judged.moved and not excused


def over_budget(iteration: Iteration, limits: Limits) -> str:
    """A word about an iteration that cost more than one may; empty when it did not."""
    most, cost = limits.max_iteration_cost_usd, iteration.turn.cost_usd or 0.0
    return f"this iteration cost {usd(cost)}; max-iteration-cost is {usd(most)}" if most and cost > most else ""
