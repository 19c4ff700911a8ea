"""The loop, to be read aloud. What is decided stands in verdict.py and judge.py.

The progress file is read anew each time round, so a restart needs no code: the same command goes on where it says.
"""

from ralph import progress
from ralph.claims import check_claim, refuse
from ralph.iteration import iterate, pause, record, rest
from ralph.judge import Iteration, judge
from ralph.phases import end_once, follow, handed_on
from ralph.run import Run
from ralph.verdict import Reason, Stop, claims_done


def loop(run: Run) -> Stop:
    """Iterates until there is a reason to stop, and returns it."""
    stop = reason_to_stop(run)
    while not stop:
        iteration = settle(run, run.crew.iterate() if run.crew else iterate(run))
        record(run, iteration)
        stop = iteration.ended or rest(run, iteration)
        stop = (run.crew.lets_finish(stop) if run.crew else stop) or reason_to_stop(run)
    return leave(run, run.interrupted() or stop)


def reason_to_stop(run: Run) -> Stop | None:
    """Why no other iteration begins. A RALPH_DONE that stands there, whoever wrote it, is checked before it counts."""
    follow(run)
    if run.strict:
        run.strict.tidy()
    while claims_done(run.file.last, run.settings) and not run.interrupted():
        check_claim(run)
        if run.verdict() or (run.strict and run.settings.max_failures is None):
            break  # what no agent can mend would be looked at for ever
        pause(run)
        run.read()
    stop = run.verdict() or (run.strict.choose() if run.strict else None)
    return reason_to_stop(run) if stop and handed_on(run, stop) else stop


def settle(run: Run, iteration: Iteration) -> Iteration:
    """The same with what it came to; the file says so too."""
    iteration = judge(iteration, run.tally, run.settings)
    if iteration.watched.blocked:  # git would be led elsewhere
        return iteration
    if run.strict:
        return run.strict.dispose(iteration)
    if run.settings.once:
        iteration = end_once(run, iteration)
    if iteration.refused:
        refuse(run, iteration.refused, iteration.missing)
    return iteration


def leave(run: Run, stop: Stop) -> Stop:
    """The breaker opens in the file where another start would repeat what failed."""
    run.state.end()
    if stop.reason is Reason.TALK:
        run.state.note("conversation", run.mode)  # the last notice says it
    if stop.opens:
        run.file.edit(progress.blocked, stop.why)
        run.state.note("breaker", stop.reason.name)
    elif stop.reason is Reason.DONE:
        run.file.edit(progress.without_refusal)
    return stop
