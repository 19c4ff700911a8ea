"""The loop, to be read aloud. The rules by which it decides are in verdict.py and judge.py.

Where ralph picks the tasks, `run.strict` chooses and disposes; `run.crew` does, too, for several agents at once. The
progress file is read anew each time round, so a restart needs no code: the same command goes on where the file says.
"""

from ralph import progress
from ralph.claims import check_claim, look_at_start, refuse
from ralph.iteration import iterate, pause, record, rest
from ralph.judge import Iteration, judge
from ralph.phases import end_once, follow, hand_on, skip_build
from ralph.run import Run
from ralph.verdict import Reason, Stop, claims_done


def loop(run: Run) -> Stop:
    """Iterates until there is a reason to stop, and returns it."""
    stop = reason_to_stop(run)
    if not stop and (skip_build(run) or run.interrupted()):
        stop = reason_to_stop(run)
    while not stop:
        iteration = settle(run, run.crew.iterate() if run.crew else iterate(run))
        record(run, iteration)
        stop = iteration.ended or rest(run, iteration)
        if run.crew:
            stop = run.crew.lets_finish(stop)  # none yet, where others are at work
        stop = stop or reason_to_stop(run)
    return leave(run, run.tampered() or stop)


def reason_to_stop(run: Run) -> Stop | None:
    """Prepares the next iteration, or returns why there is none. A RALPH_DONE, whoever wrote it, is checked first."""
    if stop := run.tampered():
        return stop
    if run.read().mode != run.said_mode:
        follow(run)
    if run.strict:
        run.strict.tidy()
    while claims_done(run.file.last, run.settings) and not run.interrupted():
        check_claim(run)
        if run.verdict() or (run.strict and run.settings.max_failures is None):
            break  # where all is ticked no agent mends what fails, and nobody counts how often
        pause(run)
        run.read()
    stop = run.verdict()
    if not stop and look_at_start(run):
        return reason_to_stop(run)
    stop = stop or (run.strict.choose() if run.strict else None)
    return reason_to_stop(run) if stop and hand_on(run, stop) else stop


def settle(run: Run, iteration: Iteration) -> Iteration:
    """The iteration with what it came to; the progress file says so too."""
    iteration = judge(iteration, run.tally, run.settings)
    if iteration.watched.blocked:  # the agent led git elsewhere, so none may run; `judge` has said to stop
        return iteration
    if run.strict:
        return run.strict.dispose(iteration)
    if run.settings.once:
        iteration = end_once(run, iteration)
    if iteration.refused:
        refuse(run, iteration.refused, iteration.missing)
    return iteration


def leave(run: Run, stop: Stop) -> Stop:
    """The last words in the progress file: a start that would only repeat what failed is blocked there."""
    if stop.reason is not Reason.TAMPERED:  # else the next start would take what is there for a person's
        stop = run.interrupted() or stop
    run.state.end()
    if stop.reason is Reason.TALK:
        run.state.note("conversation", run.mode)  # the last notice says it
    if stop.opens:
        run.file.edit(progress.blocked, stop.why)
        run.state.note("breaker", stop.reason.name)
    elif stop.reason is Reason.DONE:
        run.file.edit(progress.without_refusal)
    run.update_plan()
    return stop
