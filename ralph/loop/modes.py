"""Modes: which one is in force, and which follows. The progress file names it, so that every run continues there."""

from bisect import bisect
from dataclasses import replace
from functools import partial

from ralph.agent.turn import Outcome
from ralph.errors import RalphError
from ralph.plan import progress, tasks
from ralph.plan.tasks import edits
from ralph.run import acceptance, evidence, memory
from ralph.run.claims import check_done_and_count, run_verify
from ralph.run.context import Run
from ralph.run.controllers import Controller
from ralph.run.judge import Iteration, quote_tasks, why_not_done
from ralph.run.stop_rules import Reason, Stop
from ralph.words import join_names, plural


def start_controller(run: Run) -> None:
    """Sets up a mode: makes the controller that it needs, in place of the one before."""
    if run.start.asked.mode == "all" and not _is_mode_from_progress_file(run):
        run.file.edit(progress.with_mode, run.mode)
        run.live.file_mode = run.mode
    stop_controller(run)
    run.live.controller = run.make_controller(run)


def stop_controller(run: Run) -> None:
    """Leaves a mode, even after an error: closes its controller and clears the current task."""
    run.controller.close()
    run.live.controller = Controller()
    run.update_iteration(task="", values={})


def switch_to_file_mode(run: Run) -> None:
    """Switches to the mode that the `Mode:` line of the progress file names now."""
    before = "build" if run.start.is_role else run.mode
    mode = run.file.last.mode
    if run.file.last.done or run.controller.is_busy:
        return
    run.live.file_mode = mode
    try:
        run.use_mode(mode or "build")
        run.live.is_switched = True
    except RalphError as error:
        run.console.complain(f"Mode: {mode} is ignored: {error.message}")
        return
    memory.record_mode_results(run.state, before, run.mode, run.file.text)
    run.write_journal("mode", success=True, message=f"{before} -> {run.mode}")
    start_controller(run)


def is_validation_due(run: Run) -> bool:
    """Whether enough was ticked for validate to run, at most max-rounds times; if no agent works, writes its name."""
    now, every, live = run.read_progress(), run.settings.validate_every, run.live
    starts = [line.start for line, *_ in now.headings]
    listed, still_open = ({bisect(starts, task.line.start) for task in some} for some in (now.tasks, now.open))
    headings = len(listed - still_open)
    looks, ticked, had = live.validations = live.validations or (0, now.ticked, headings)
    is_enough = every and (now.ticked >= ticked + every or (now.ticked > ticked and headings > had))
    is_due = bool(is_enough) and bool(now.open) and not now.mode and not now.done and looks < run.settings.max_rounds
    if is_due and (run.mode == "build" or run.start.is_role) and not run.controller.is_busy:
        live.validations = looks + 1, now.ticked, headings
        run.file.edit(progress.with_mode, "validate")
    return is_due


def advance_mode(run: Run, stop: Stop) -> bool:
    """Under `all`, writes the next mode into the file once this one is done; returns whether it did."""
    mode = run.settings.next_mode
    if stop.reason is not Reason.DONE or run.start.asked.mode != "all" or not mode:
        return False
    rounds = f"{run.file.last.round + 1}/{run.settings.max_rounds}"
    run.file.edit(lambda text: progress.with_mode(progress.with_status(text, "IN_PROGRESS"), mode, rounds))
    run.start.in_mode(mode).load_prompt()  # ends the run here if the template is missing or wrong
    return True


def skip_build_if_done(run: Run) -> bool:
    """Under `all`, writes the next mode at once if no task is open and verify passes; returns whether it did."""
    now = run.file.last
    begins = run.start.asked.mode == "all" and not run.settings.once and not run.tally.last_failure
    if not begins or not run.settings.verify or not now.tasks or now.open:
        return False
    ended = run_verify(run)
    return bool(ended and not ended.failed and not run.read_progress().open and advance_mode(run, Stop(Reason.DONE)))


def end_one_iteration_mode(run: Run, iteration: Iteration) -> Iteration:
    """Ends a mode of one iteration: takes back its ticks and its RALPH_DONE, and sets what follows."""
    after = iteration.after
    stop = iteration.ended
    reason = stop and stop.reason
    ended_well = iteration.turn.outcome is Outcome.OK
    judges = "done" in run.settings.then
    goes_on = run.start.asked.mode == "all" or run.live.is_switched
    says_done = after.done and not iteration.before.done
    if says_done or (ended_well and after.blocked is None):
        if run.file.last.done and not judges:
            run.console.complain("RALPH_DONE put back to IN_PROGRESS, since work begins now")
            run.count_put_back({"RALPH_DONE": 0} if says_done else {})
        run.file.edit(progress.with_status, "IN_PROGRESS")
    if judges and iteration.missing:
        run.file.edit(progress.with_tasks_added, [task.line.body for task in iteration.missing])
        run.console.complain(f"put back what {run.mode} may not take away: {quote_tasks(iteration.missing)}")
        run.count_put_back({"open task": len(iteration.missing)})
        iteration = replace(iteration, missing=())
    if run.settings.strict and (wrong := _find_list_problems(run)) and reason is Reason.ONCE:
        return replace(iteration, ended=Stop(Reason.ONCE_FAILED, wrong))
    if reason is Reason.ONCE and not judges and _announce_green_checks(run) and goes_on:
        return replace(iteration, ended=None)  # planning is repeated once
    if stop and reason is Reason.ONCE_FAILED and goes_on and not ended_well:
        return replace(iteration, ended=None, failed=stop.why)  # it is repeated, up to max-failures
    if judges:
        ended = _follow_validation(run, goes_on=goes_on) if reason is Reason.ONCE else stop
        return replace(iteration, ended=ended)
    if reason in (Reason.ONCE, Reason.BLOCKED) and _is_mode_from_progress_file(run):
        run.file.edit(progress.with_mode, run.settings.next_mode or "build")
    return replace(iteration, ended=None) if reason is Reason.ONCE and goes_on else iteration


def _follow_validation(run: Run, *, goes_on: bool) -> Stop | None:
    """Sets what follows validate: done if no task is open and verify passes, else the next mode, max-rounds times."""
    rounds = max(run.file.last.round, 1)
    most = run.settings.max_rounds
    stands = _is_mode_from_progress_file(run)
    left = "; ".join(why_not_done(run.file.last))
    if not left:
        run.file.edit(lambda text: progress.with_mode(progress.with_status(text, "RALPH_DONE"), "build", ""))
        check_done_and_count(run)
        if run.file.last.done:
            return Stop(Reason.DONE)
        left = "; ".join(why_not_done(run.file.last)) or run.tally.last_failure
    if stands:
        count = None if progress.parse(run.current.text_before).open else f"{rounds}/{most}" if rounds < most else ""
        run.file.edit(progress.with_mode, run.settings.next_mode or "build", count)
        if count == "":
            return Stop(Reason.REFUSED, f"max-rounds is {most}, and {run.mode} still finds something: {left}")
    return None if goes_on else Stop(Reason.UNFINISHED, left)


def _is_mode_from_progress_file(run: Run) -> bool:
    """Whether the progress file names the mode in force, and not only the command line."""
    return run.mode == (run.live.file_mode or "build")


def _find_list_problems(run: Run) -> str:
    """Returns what is wrong with the task list; takes back its ticks."""
    undo_ticks(run, run.mode, run.current.text_before)
    try:
        run.start.why_stuck(run.file.text)
    except RalphError as error:
        return error.message
    return ""


def _announce_green_checks(run: Run) -> bool:
    """Reports which checks of open tasks pass before anything is built; True if that is new, to repeat planning."""
    if not (run.settings.strict and run.settings.evidence) or run.start.rehearsal:
        return False
    checks = acceptance.checks_of_tasks(task for task in tasks.read_tasks(run.file.text) if not task.done)
    found = evidence.run_checks_before(run, checks, lambda _path, _holds: "") or {}
    held_checks = [text for text, ended in found.items() if not ended.failed]
    marker = progress.PROVES_NOTHING.encode()
    if not held_checks and marker in run.file.text:
        run.file.edit(progress.without_rejection)
    if held_checks:
        what = f"{len(held_checks)} of {plural(len(found), 'check')} {progress.PROVES_NOTHING}"
        run.console.complain(f"{what}: {join_names(held_checks, 10)}")
        run.file.edit(partial(progress.with_rejection, what=what), held_checks)
    return bool(held_checks) and marker not in run.current.text_before


def undo_ticks(run: Run, mode: str, before: bytes) -> None:
    """Takes back the ticks of a mode that works on no task."""
    ticked = run.file.last.ticked
    now = run.file.edit(lambda text: edits.without_new_ticks(before, text))
    if ticked > now.ticked:
        run.console.complain(f"a {mode} iteration ticks nothing: {plural(ticked - now.ticked, 'task')} unticked")
        run.count_put_back({"tick": ticked - now.ticked})
