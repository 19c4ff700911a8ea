"""The loop on one screen. The rules by which it decides are in stop_rules.py and judge.py.

The controller (plain, strict or parallel) picks and ticks the tasks. The progress file is read again each time round,
so a restart needs no code: the same command continues where the file says.
"""

from ralph.loop.iteration import notify_and_pause_or_wait, pause_between, record_and_report
from ralph.loop.modes import advance_mode, follow_mode_line, request_validation_if_due, write_done_if_all_ticked
from ralph.plan import progress
from ralph.run.context import Run
from ralph.run.evidence import accept_plan_done_or_count_refusal, is_first_verify_due, run_first_verify
from ralph.run.judge import judge_iteration
from ralph.run.stop_rules import Reason, Stop, has_unaccepted_plan_done
from ralph.store.state import AnnouncedConversation, OpenedBreaker


def loop(run: Run) -> Stop:
    """Iterates until there is a reason to stop, and returns it."""
    write_done_if_all_ticked(run)
    stop = prepare_next_iteration(run)
    while not stop:
        iteration = judge_iteration(run.controller.run_or_await_iteration(), run.tally, run.settings)
        if not iteration.findings.why_run_ends:  # else git may lead elsewhere, so it may not run
            iteration = run.controller.accept_or_refuse_result(iteration)
        record_and_report(run, iteration)
        stop = run.controller.defer_stop_to_finish_work(iteration.run_stop or notify_and_pause_or_wait(run, iteration))
        stop = stop or prepare_next_iteration(run)
    stop = run.stop_if_git_tampered() or stop
    if stop.reason is not Reason.TAMPERED:  # else the next run would take its changes for the user's
        stop = run.stop_if_interrupted() or stop
    write_end_to_progress_file(run, stop)
    return stop


def prepare_next_iteration(run: Run) -> Stop | None:
    """Prepares the next iteration. Returns why there is none, or None if it can begin.

    Switches to the mode that the file names, checks a RALPH_DONE, whoever wrote it, and has the next task chosen.
    """
    if stop := run.stop_if_git_tampered():
        return stop
    run.read_progress()
    request_validation_if_due(run)
    if run.file.last.mode != run.live.file_mode:
        follow_mode_line(run)
    run.controller.add_ids_and_tidy_marks()
    while has_unaccepted_plan_done(run.file.last, run.settings) and not run.stop_if_interrupted():
        accept_plan_done_or_count_refusal(run)
        if run.stop_reason() or (run.controller.picks_tasks and run.settings.max_failures is None):
            break  # no agent fixes what fails if all is ticked, and nothing counts the failures
        pause_between(run)
        run.read_progress()
    stop = run.stop_reason()
    if not stop and run.settings.verify and is_first_verify_due(run):
        run_first_verify(run)
        return prepare_next_iteration(run)
    stop = stop or run.controller.begin_next_tasks()
    return prepare_next_iteration(run) if stop and advance_mode(run, stop) else stop


def write_end_to_progress_file(run: Run, stop: Stop) -> None:
    """Writes the end of the run into the progress file, with RALPH_BLOCKED if another run would only fail again."""
    run.state.remove_iteration_note()
    if stop.reason is Reason.TALK:
        run.state.save_note(AnnouncedConversation(mode=run.mode))  # the last notice announces it
    if stop.opens_breaker:
        run.file.edit(progress.with_run_blocked, stop.why)
        run.state.save_note(OpenedBreaker(reason=stop.reason.name))
    elif stop.reason is Reason.DONE:
        run.file.edit(progress.without_refusal)
    run.write_statuses_to_plan()
