"""The loop, to be read aloud. The rules by which it decides are in verdict.py and judge.py.

Who picks the tasks and ticks them is the controller's business: plain, strict or parallel. The progress file is read
anew each time round, so a restart needs no code: the same command goes on where the file says.
"""

from ralph.loop.iteration import pause, record, rest
from ralph.loop.modes import follow, hand_on, skip_build
from ralph.plan import progress
from ralph.run.claims import check_claim, look_at_start
from ralph.run.context import Run
from ralph.run.judge import Iteration, judge
from ralph.run.verdict import Reason, Stop, claims_done


def loop(run: Run) -> Stop:
    """Iterates until there is a reason to stop, and returns it."""
    stop = prepare_next_iteration(run)
    if not stop and (skip_build(run) or run.interrupted()):
        stop = prepare_next_iteration(run)
    while not stop:
        iteration = settle(run, run.controller.run_iteration())
        record(run, iteration)
        stop = run.controller.lets_finish(iteration.ended or rest(run, iteration))
        stop = stop or prepare_next_iteration(run)
    return leave(run, run.tampered() or stop)


def prepare_next_iteration(run: Run) -> Stop | None:
    """Why there is no next iteration, or None once it is prepared.

    Follows the mode that the file names, checks a RALPH_DONE, whoever wrote it, and has the next task chosen.
    """
    if stop := run.tampered():
        return stop
    if run.read().mode != run.said_mode:
        follow(run)
    run.controller.prepare_task_list()
    while claims_done(run.file.last, run.settings) and not run.interrupted():
        check_claim(run)
        if run.verdict() or (run.controller.picks_tasks and run.settings.max_failures is None):
            break  # where all is ticked no agent mends what fails, and nobody counts how often
        pause(run)
        run.read()
    stop = run.verdict()
    if not stop and look_at_start(run):
        return prepare_next_iteration(run)
    stop = stop or run.controller.choose_next()
    return prepare_next_iteration(run) if stop and hand_on(run, stop) else stop


def settle(run: Run, iteration: Iteration) -> Iteration:
    """The iteration with what it came to; the progress file says so too."""
    iteration = judge(iteration, run.tally, run.settings)
    if iteration.watched.blocked:  # the agent led git elsewhere, so none may run; `judge` has said to stop
        return iteration
    return run.controller.conclude(iteration)


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
