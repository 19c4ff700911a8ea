"""The loop: the few lines around deciding and doing.

Nothing here touches the outside. The progress file is read anew each time round, so a restart needs no code: the same
command goes on where the file says.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from ralph import waiting
from ralph.agent.turn import Outcome
from ralph.judge import Iteration, Judgement, Verification, judge, open_tasks, tally
from ralph.progress import Progress
from ralph.verdict import OPENS, Limits, Reason, Stop, Tallies, budget_usd, holds, verdict
from ralph.waiting import Wait
from ralph.words import duration


class World(Protocol):
    """What the loop needs done. One implementation does it for real."""

    def interrupted(self) -> Stop | None:
        """Whether somebody asked ralph to end, by a signal."""

    def now(self) -> float:
        """The time since 1970, in seconds."""

    def elapsed_s(self) -> float:
        """How long this start has been going on, a suspended machine's sleep included."""

    def read(self) -> Progress:
        """The progress file as it is now, brought back first if it was lost."""

    def choose(self) -> Stop | None:
        """Strict: chooses the task of the next iteration; a Stop when none can be begun."""

    def tidy(self) -> Progress:
        """The same between two iterations; strict, with its tasks made ready to choose from."""

    def iterate(self, number: int, before: Progress, budget_usd: float | None) -> Iteration:
        """Renders the prompt, runs the agent once to its very end, and looks at what changed."""

    def verify(self) -> Verification | None:
        """Runs the verify command on what the file declares done; None when a signal came before its end."""

    def accept_done(self, verified: Verification | None) -> Progress:
        """RALPH_DONE holds."""

    def refuse_done(self, judged: Judgement) -> Progress:
        """Takes RALPH_DONE back, leaves the reasons in the file and puts missing tasks back into the list."""

    def stay_in_progress(self) -> Progress:
        """A mode that is one iteration declares nothing done: the file says IN_PROGRESS afterwards."""

    def dispose(self, iteration: Iteration, judged: Judgement) -> tuple[Iteration, Judgement]:
        """Strict: checks what the agent proposes, then ticks and commits the task, or writes down why not."""

    def planned_badly(self) -> str:
        """Strict: what is wrong with the task list; empty when nothing is."""

    def record(self, iteration: Iteration, judged: Judgement) -> None:
        """Adds it to the sums of the run and to the journal, and tells the person at the screen."""

    def notice_progress(self) -> None:
        """Tells the person who is away."""

    def wait(self, wait: Wait, over: Callable[[], bool]) -> None:
        """Tells everybody until when nothing happens, and pauses."""

    def pause(self, seconds: float, over: Callable[[], bool]) -> None:
        """Waits that long; looks up now and then, and ends when it is `over` or a signal comes."""

    def block(self, stop: Stop) -> None:
        """Writes RALPH_BLOCKED, so that the next start does not repeat what failed here."""

    def unblock(self) -> None:
        """A good iteration after a block: it is forgotten."""


def run(world: World, limits: Limits, tallies: Tallies) -> Stop:
    """Iterates until there is a reason to stop, and returns it."""
    while True:
        before, tallies = _checked(world, world.tidy(), tallies, limits)
        if stop := world.interrupted() or verdict(before, tallies, limits, world.elapsed_s()) or _chosen(world, limits):
            break
        iteration = world.iterate(tallies.iterations + 1, before, budget_usd(before, tallies, limits))
        iteration, judged = _settled(world, iteration, judge(iteration, tallies, limits), limits)
        world.record(iteration, judged)
        was, tallies = tallies, tally(tallies, iteration, judged)
        if was.half_open and not tallies.half_open:
            world.unblock()
        if stop := (judged.ended or _after(world, iteration, judged, tallies, limits)):
            stop = world.interrupted() or stop
            break
    if stop.reason in OPENS:
        world.block(stop)
    return stop


def _checked(world: World, now: Progress, tallies: Tallies, limits: Limits) -> tuple[Progress, Tallies]:
    """A RALPH_DONE that stands there between iterations, whoever wrote it, is verified unless it was before."""
    if limits.strict and now.done and now.open and now.blocked is None:
        return _taken_back(world, tallies, Judgement(refused=tuple(open_tasks(now))))
    if not _unchecked(now, limits) or world.interrupted():
        return now, tallies
    if not limits.verify:
        return world.accept_done(None), tallies
    verified = world.verify()
    if verified is None:
        return now, tallies
    if not verified.failed:
        return world.accept_done(verified), tallies
    return _taken_back(world, tallies, Judgement(refused=(verified.failed,), verified=verified))


def _taken_back(world: World, tallies: Tallies, judged: Judgement) -> tuple[Progress, Tallies]:
    last = "; ".join(judged.refused)
    return world.refuse_done(judged), replace(tallies, refusals=tallies.refusals + 1, last_refusal=last)


def _unchecked(now: Progress, limits: Limits) -> bool:
    """Whether a RALPH_DONE stands there that must be verified before it counts; strict, whether nothing is open."""
    if limits.once or now.blocked is not None:
        return False
    claimed = bool(now.tasks) and not now.open if limits.strict else now.done
    return claimed and not (now.done and holds(now, limits))


def _chosen(world: World, limits: Limits) -> Stop | None:
    return world.choose() if limits.strict else None


def _settled(world: World, iteration: Iteration, judged: Judgement, limits: Limits) -> tuple[Iteration, Judgement]:
    """The same once the status that the agent left in the file is settled."""
    before, after = iteration.before, iteration.after
    if iteration.strayed:
        return iteration, judged
    if limits.strict:
        return world.dispose(iteration, judged)
    if limits.once:
        planned = iteration.turn.outcome is Outcome.OK and after.blocked is None
        after = world.stay_in_progress() if planned or (after.done and not before.done) else after
        wrong = world.planned_badly()
        if wrong and judged.ended and judged.ended.reason is Reason.ONCE:
            judged = replace(judged, ended=Stop(Reason.ONCE_FAILED, wrong))
    elif after.done and not judged.refused and not limits.verify:
        after = world.accept_done(None)
    elif after.done and not judged.refused and not world.interrupted():
        verified = world.verify()
        judged = replace(judged, verified=verified, refused=(verified.failed,) if verified and verified.failed else ())
        after = world.accept_done(verified) if verified and not verified.failed else world.read()
    if judged.refused:
        after = world.refuse_done(judged)
    return replace(iteration, after=after), judged


def _after(world: World, iteration: Iteration, judged: Judgement, tallies: Tallies, limits: Limits) -> Stop | None:
    """What comes between two iterations: a notice and a pause, or a long wait; a Stop when that would be in vain."""
    over = _over(world, tallies, limits)
    if judged.again:
        return None if over() or world.interrupted() else _wait(world, iteration, tallies, limits)
    if _notice_is_due(tallies.iterations, limits):
        world.notice_progress()
    if verdict(world.read(), tallies, limits, world.elapsed_s()) is None:
        world.pause(limits.delay_s, over)
    return None


def _wait(world: World, iteration: Iteration, tallies: Tallies, limits: Limits) -> Stop | None:
    wait = waiting.after(iteration.turn, repeats=tallies.waits - 1, now=world.now())
    most = limits.max_time_s
    if most is not None and world.elapsed_s() + wait.seconds >= most:
        return Stop(Reason.LIMIT, f"max-time is {duration(most)}, sooner over than {wait}: {wait.turn.why}")
    world.wait(wait, _over(world, tallies, limits))
    return None


def _over(world: World, tallies: Tallies, limits: Limits) -> Callable[[], bool]:
    """Whether meanwhile somebody said stop or done in the file, or the time is over."""

    def over() -> bool:
        now = world.read()
        return _unchecked(now, limits) or verdict(now, tallies, limits, world.elapsed_s()) is not None

    return over


def _notice_is_due(iterations: int, limits: Limits) -> bool:
    every = limits.notify_frequency
    return every is not None and (iterations == 1 or iterations % every == 0)
