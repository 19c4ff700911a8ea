"""The loop: why to stop, what an iteration came to, and the few lines around them.

Nothing here touches the outside. The progress file is read anew each time round, so a restart needs no code: the same
command goes on where the file says.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from ralph.progress import Progress, Task, vanished
from ralph.turn import Commits, Outcome, Turn


class Reason(Enum):
    """Why a run ends, and the exit code that says so."""

    DONE = 0, "done"
    ONCE = 0, "finished"
    """A mode that is one iteration, such as plan."""
    FAILURES = 1, "failed"
    HOPELESS = 1, "cannot go on"
    ONCE_FAILED = 1, "not finished"
    """Such a mode did not do what it is for."""
    LIMIT = 3, "limit reached"
    STOPPED = 3, "stopped"
    BLOCKED = 4, "blocked"
    REFUSED = 4, "done refused"
    INTERRUPTED = 128, "interrupted"
    """The signal's number is added."""

    def __init__(self, code: int, label: str) -> None:
        self.code = code
        self.label = label


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the run ends, for the exit code and for people."""

    reason: Reason
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the loop needs to know of the settings. None is no limit."""

    max_iterations: int | None
    max_failures: int | None
    notify_frequency: int | None
    once: bool
    """A mode such as plan: one iteration, which changes nothing but the progress file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What an iteration came to."""

    failed: str = ""
    """Why it counts as failed; empty when it does not."""
    refused: tuple[str, ...] = ()
    """Why its RALPH_DONE does not hold; empty when there was none, or it does."""
    missing: tuple[Task, ...] = ()
    """Open tasks that are gone from the list."""
    ended: Stop | None = None
    """Set when no further iteration can help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallies:
    """What has happened in this start so far."""

    iterations: int = 0
    failures: int = 0
    """Since the last good iteration."""
    refusals: int = 0
    """Since the last good iteration."""
    last_failure: str = ""
    last_refusal: str = ""

    def plus(self, judged: Judgement) -> "Tallies":
        """The same after one more iteration. Failures and refusals may take turns; only a good one begins anew."""
        bad = bool(judged.failed or judged.refused)
        return Tallies(
            iterations=self.iterations + 1,
            failures=(self.failures + bool(judged.failed)) * bad,
            refusals=(self.refusals + bool(judged.refused)) * bad,
            last_failure=judged.failed or self.last_failure,
            last_refusal="; ".join(judged.refused) or self.last_refusal,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """All there is to say about one iteration."""

    number: int
    before: Progress
    after: Progress
    turn: Turn
    commits: Commits
    strays: tuple[str, ...] = ()
    """Files that a planning iteration changed though it must not."""


class World(Protocol):
    """What the loop needs done. One implementation does it for real."""

    def interrupted(self) -> Stop | None:
        """Whether somebody asked ralph to end, by a signal."""

    def read(self) -> Progress:
        """The progress file as it is now, brought back first if it was lost."""

    def iterate(self, number: int, before: Progress) -> Iteration:
        """Renders the prompt, runs the agent once to its very end, and looks at what changed."""

    def accept_done(self) -> Progress:
        """RALPH_DONE holds."""

    def refuse_done(self, judged: Judgement) -> Progress:
        """Takes RALPH_DONE back, leaves the reasons in the file and puts missing tasks back into the list."""

    def stay_in_progress(self) -> Progress:
        """A mode that is one iteration declares nothing done: the file says IN_PROGRESS afterwards."""

    def record(self, iteration: Iteration, judged: Judgement) -> None:
        """Adds it to the sums of the run and tells the person at the screen."""

    def notice_progress(self) -> None:
        """Tells the person who is away."""

    def block(self, why: str) -> None:
        """Writes RALPH_BLOCKED, so that the next start does not repeat what failed here."""

    def pause(self) -> None:
        """The delay between iterations."""


def verdict(now: Progress, tallies: Tallies, limits: Limits) -> Stop | None:
    """Why to stop before the next iteration, or None to go on."""
    if now.blocked is not None:
        return Stop(Reason.BLOCKED, now.blocked or "RALPH_BLOCKED stands in the progress file")
    if now.done and not limits.once:
        return Stop(Reason.DONE)
    if now.stop:
        return Stop(Reason.STOPPED, "RALPH_STOP stands in the progress file")
    if limits.max_failures is not None and tallies.failures >= limits.max_failures:
        return Stop(Reason.FAILURES, f"{tallies.failures} iterations failed in a row: {tallies.last_failure}")
    if limits.max_failures is not None and tallies.refusals >= limits.max_failures:
        return Stop(
            Reason.REFUSED,
            f"done was claimed {tallies.refusals} times in a row and does not hold: {tallies.last_refusal}",
        )
    if limits.max_iterations is not None and tallies.iterations >= limits.max_iterations:
        return Stop(Reason.LIMIT, f"max-iterations is {limits.max_iterations}")
    return None


def judge(iteration: Iteration, limits: Limits) -> Judgement:
    """What an iteration came to. What can be checked is checked, whatever the agent said."""
    turn, before, after = iteration.turn, iteration.before, iteration.after
    missing = vanished(before, after)
    judged = Judgement(missing=missing)
    if turn.outcome is Outcome.OUT_OF_TURNS and not _moved(iteration):
        judged = replace(judged, failed=f"{turn.why}, and nothing was ticked, added or committed")
    elif turn.outcome is Outcome.FAILED:
        judged = replace(judged, failed=turn.why)
    if limits.once:
        return replace(judged, ended=_once(iteration))
    if turn.outcome in _ENDS:
        judged = replace(judged, ended=Stop(_ENDS[turn.outcome], turn.why))
    return replace(judged, refused=_refusal(after, missing, turn)) if after.done else judged


def _moved(iteration: Iteration) -> bool:
    before, after = iteration.before, iteration.after
    return after.ticked > before.ticked or len(after.tasks) > len(before.tasks) or iteration.commits.count > 0


def _refusal(after: Progress, missing: tuple[Task, ...], turn: Turn) -> tuple[str, ...]:
    """Why a claim of done does not hold, in words that the next iteration can act on; empty when it holds."""
    reasons = []
    if after.open:
        reasons.append(f"{_tasks(len(after.open))} not ticked: {_named(after.open)}")
    if missing:
        reasons.append(f"{_tasks(len(missing))} gone without being ticked, now put back: {_named(missing)}")
    if turn.outcome is not Outcome.OK:
        reasons.append(f"the iteration that claimed it did not end well: {turn.why}")
    return tuple(reasons)


def _tasks(count: int) -> str:
    return "1 task is" if count == 1 else f"{count} tasks are"


def _named(tasks: tuple[Task, ...]) -> str:
    shown = ", ".join(f'"{task.text[:80]}"' for task in tasks[:3])
    return shown + (f" and {len(tasks) - 3} more" if len(tasks) > 3 else "")


def _once(iteration: Iteration) -> Stop:
    turn = iteration.turn
    if turn.outcome is not Outcome.OK:
        return Stop(_ENDS.get(turn.outcome, Reason.ONCE_FAILED), turn.why)
    if iteration.after.blocked is not None:
        return Stop(Reason.BLOCKED, iteration.after.blocked)
    if iteration.strays:
        changed = ", ".join(iteration.strays[:10])
        return Stop(Reason.ONCE_FAILED, f"it may change nothing but the progress file, and changed {changed}")
    return Stop(Reason.ONCE)


_ENDS = {
    Outcome.INTERRUPTED: Reason.INTERRUPTED,
    Outcome.HOPELESS: Reason.HOPELESS,
    Outcome.LIMIT: Reason.LIMIT,
}
"""Outcomes after which another iteration would only cost."""


def run(world: World, limits: Limits) -> Stop:
    """Iterates until there is a reason to stop, and returns it."""
    tallies = Tallies()
    while (stop := world.interrupted() or verdict(before := world.read(), tallies, limits)) is None:
        iteration = world.iterate(tallies.iterations + 1, before)
        judged = judge(iteration, limits)
        iteration = replace(iteration, after=_settle(world, iteration, judged, limits))
        world.record(iteration, judged)
        tallies = tallies.plus(judged)
        if judged.ended:
            return world.interrupted() or judged.ended
        if _notice_is_due(tallies.iterations, limits):
            world.notice_progress()
        if verdict(iteration.after, tallies, limits) is None:
            world.pause()
    if stop.reason in (Reason.FAILURES, Reason.REFUSED):
        world.block(stop.why)
    return stop


def _settle(world: World, iteration: Iteration, judged: Judgement, limits: Limits) -> Progress:
    """What the file says once the status that the agent left there is settled."""
    before, after = iteration.before, iteration.after
    if limits.once:
        planned = iteration.turn.outcome is Outcome.OK and after.blocked is None
        return world.stay_in_progress() if planned or (after.done and not before.done) else after
    if judged.refused:
        return world.refuse_done(judged)
    return world.accept_done() if after.done else after


def _notice_is_due(iterations: int, limits: Limits) -> bool:
    every = limits.notify_frequency
    return every is not None and (iterations == 1 or iterations % every == 0)
