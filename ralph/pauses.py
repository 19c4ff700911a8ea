"""What lies between two iterations: a notice, a pause, or a long wait."""

from ralph.agent.turn import Outcome, Turn
from ralph.channels import Notice, notices
from ralph.judge import Iteration, wait_s
from ralph.process import signals
from ralph.run import Run
from ralph.verdict import Reason, Stop, claims_done
from ralph.words import duration, moment

_LOOK_UP_S = 2.0
"""Seconds between looks at the progress file during a wait: somebody may have written RALPH_STOP."""
_BEAT_S = 300.0


def notify(run: Run, iteration: Iteration) -> None:
    """Tells whoever is away, now and then."""
    every, count = run.settings.notify_frequency, run.tally.iterations
    if every is not None and (count == 1 or count % every == 0):
        run.outbox.send(notices.progressed(run, iteration))


def wait(run: Run, turn: Turn) -> Stop | None:
    """A long pause after this turn, with one line, and for a limit one notice; a Stop where max-time is sooner over.

    None for a limit where another agent can work meanwhile.
    """
    if _over(run) or (run.crew and run.crew.began < run.waited_to):  # it met the limit that was waited for since
        return None
    now, most_s, cause = run.now(), run.settings.max_time, turn.outcome.value
    seconds = wait_s(turn, repeats=run.tally.repeats - 1, now=now)
    if turn.outcome is Outcome.LIMIT:
        run.limited |= {one.name: now + seconds for one in (run.agents if run.crew else [run.agent])}
        if free := run.free_agents():
            what = f"{free[0].name} works while {run.agent.name} is at its limit, until {moment(now + seconds, now)}"
            run.screen.say(f"ralph: {what}: {turn.why}")
            run.outbox.send(notices.waiting(run, what, turn.why))
            return None
        seconds = min(run.limited.values()) - now
    until = now + seconds
    waiting = f"waiting until {moment(until, now)} ({duration(seconds)})"
    if most_s is not None and run.elapsed_s() + seconds >= most_s:
        return Stop(Reason.LIMIT, f"max-time is {duration(most_s)}, sooner over than {waiting}: {turn.why}")
    run.screen.say(f"ralph: {waiting}: {cause}: {turn.why}")
    why = turn.outcome.name.lower()
    run.write_down("wait", success=True, message=turn.why, why=why, until=round(until, 3), planned_s=seconds)
    if turn.outcome is Outcome.LIMIT and run.tally.repeats == 1:
        run.outbox.send(notices.waiting(run, waiting, turn.why))
    began = run.elapsed_s()
    run.does(f"until {moment(until, now)}: {cause}", seconds)
    _sleep(run, seconds)
    waited_s = run.elapsed_s() - began
    run.waited_s += waited_s
    run.waited_to = run.pace.clock.running()
    run.tally.waits += 1
    run.tally.waited_s += waited_s
    return None


def pause(run: Run, seconds: float) -> None:
    """The time between two iterations; none where there is something else to do."""
    if seconds and not _over(run):
        run.does("next iteration", seconds)
        _sleep(run, seconds)


def _over(run: Run) -> bool:
    """Whether there is something else to do: somebody said stop or done, or a limit is reached."""
    return claims_done(run.read(), run.settings) or run.verdict() is not None


def _sleep(run: Run, seconds: float) -> None:
    """Waits by two clocks: one may be set by somebody, the other may not know what the first one does."""
    clock = run.pace.clock
    began = beat = running = clock.running()
    until = clock.now() + seconds
    while not signals.interrupted() and clock.now() < until and running - began < seconds:
        if running > began and _over(run):
            return
        if running - beat >= _BEAT_S:
            beat = running
            run.outbox.send(Notice("alive"))
        clock.sleep(min(_LOOK_UP_S, seconds - (running - began), until - clock.now()))
        running = clock.running()
