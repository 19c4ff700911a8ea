"""Modes: which one is in force, and which follows. The progress file names it, so that every run continues there."""

from bisect import bisect
from dataclasses import replace

from ralph.agent.command import check_installed
from ralph.agent.turn import Outcome
from ralph.errors import RalphError
from ralph.plan import progress
from ralph.plan.tasks import edits
from ralph.run import acceptance, evidence, notices
from ralph.run.context import Run
from ralph.run.judge import BaseController, Iteration, describe_open_tasks, quote_tasks
from ralph.run.stop_rules import Reason, Stop
from ralph.words import join_names, plural

# What the Verification section says of checks that already pass.
_PROVES_NOTHING = b"hold before anything is built, so they prove nothing"


def check_agents_and_prompt(run: Run) -> None:
    """Raises RalphError if no iteration can begin, before anything of an earlier run is used up."""
    for start in (run.prepared_mode, *run.prepared_mode.copies_for_modes_with_own_agent()):
        check_installed(start.agents, start.settings)
        run.print_setting_remarks(start.settings)
    run.prepared_mode.load_mode_prompt()
    run.state.ensure_room_for_transcripts()


def replace_controller(run: Run) -> None:
    """Sets up a mode: makes the controller that it needs, in place of the one before."""
    if run.prepared_mode.asked.mode == "all":
        run.live.file_mode = run.file.edit(progress.with_mode, run.mode).mode
    close_controller(run)
    run.live.controller = run.make_controller(run)


def close_controller(run: Run) -> None:
    """Ends the work of a mode's controller, even after an error, and clears the current task."""
    run.controller.end_work_and_unmark_tasks()
    run.live.controller = BaseController()
    run.replace_iteration_values(task="", prompt_values={})


def follow_mode_line(run: Run) -> None:
    """Switches to the mode that the `Mode:` line of the progress file names now."""
    before, now = "build" if run.prepared_mode.is_role else run.mode, run.file.last
    if now.done or run.controller.has_work_to_finish:
        return
    run.live.file_mode = now.mode
    try:
        run.use_settings_of_mode(now.mode or "build")
    except RalphError as error:
        run.console.complain(f"Mode: {now.mode} is ignored: {error.message}")
        return
    notices.record_files_changed_in_mode(run.state, before, run.mode)
    run.write_journal("mode", success=True, message=f"{before} -> {run.mode}")
    replace_controller(run)


def request_validation_if_due(run: Run) -> bool:
    """Returns whether enough was ticked for validate, at most max-rounds times; writes its name if no agent works."""
    now, live, every = run.file.last, run.live, run.settings.validate_every
    starts = [line.start for line, *_ in now.headings]
    listed, still_open = ({bisect(starts, task.line.start) for task in some} for some in (now.tasks, now.open))
    headings = len(listed - still_open)
    looks, ticked, had = live.validations = live.validations or (0, now.ticked, headings)
    is_enough = every is not None and (now.ticked >= ticked + every or (now.ticked > ticked and headings > had))
    is_due = is_enough and bool(now.open) and not (now.mode or now.done) and looks < run.settings.max_rounds
    if is_due and (run.mode == "build" or run.prepared_mode.is_role) and not run.controller.has_work_to_finish:
        live.validations = looks + 1, now.ticked, headings
        run.file.edit(progress.with_mode, "validate")
    return is_due


def advance_mode(run: Run, stop: Stop) -> bool:
    """Under `all`, writes the next mode into the file once this one is done; returns whether it did."""
    mode = run.settings.next_mode_or_empty
    if stop.reason is not Reason.DONE or run.prepared_mode.asked.mode != "all" or not mode:
        return False
    run.file.edit(progress.with_status, "IN_PROGRESS")
    _advance_mode_in_file(run, f"{run.file.last.round + 1}/{run.settings.max_rounds}")
    run.prepared_mode.in_mode(mode).load_mode_prompt()  # ends the run here if the template is missing or wrong
    return True


def write_done_if_all_ticked(run: Run) -> None:
    """Under `all`, claims that the plan is done if no task is open: verify decides, so no agent is paid to say so."""
    now, settings = run.file.last, run.settings
    is_over = now.tasks and not (now.open or now.done)
    if is_over and run.prepared_mode.asked.mode == "all" and not settings.once and settings.verify:
        run.file.edit(progress.with_status, "RALPH_DONE")


def undo_ticks_and_end_mode(run: Run, iteration: Iteration) -> Iteration:
    """Ends a mode of one iteration: takes back its ticks and its RALPH_DONE, and sets what follows."""
    after, missing, outcome, settings = iteration.after, iteration.missing, iteration.turn.outcome, run.settings
    ended_well = outcome is Outcome.OK
    judges = "done" in settings.then
    goes_on = run.prepared_mode.asked.mode == "all" or len(run.modes) > 1  # it has switched to this one
    says_done = after.done and not iteration.before.done
    if says_done or (ended_well and after.blocked is None):
        if after.done and not judges:
            run.console.complain("RALPH_DONE put back to IN_PROGRESS, since work begins now")
            if says_done:
                run.put_back["RALPH_DONE"] = 0
        run.file.edit(progress.with_status, "IN_PROGRESS")
    if judges and missing:
        run.file.edit(progress.with_tasks_added, [task.line.body for task in missing])
        run.console.complain(f"put back what {run.mode} may not take away: {quote_tasks(missing)}")
        run.put_back["open task"] += len(missing)
        iteration = replace(iteration, missing=())
    if settings.strict:
        undo_ticks(run, run.mode, run.iteration.text_before)
    if iteration.run_stop or iteration.is_repeated:
        return iteration
    if ended_well:
        stop = _write_next_mode_or_stop(run, iteration, judges=judges, run_goes_on=goes_on)
        return replace(iteration, run_stop=stop)
    is_limit = outcome in (Outcome.OUT_OF_BUDGET, Outcome.OUT_OF_TIME)
    if goes_on and not is_limit:
        return replace(iteration, failed=iteration.turn.why)  # it is retried, up to max-failures
    return replace(iteration, run_stop=Stop(Reason.LIMIT if is_limit else Reason.ONCE_FAILED, iteration.turn.why))


def _write_next_mode_or_stop(run: Run, iteration: Iteration, *, judges: bool, run_goes_on: bool) -> Stop | None:
    """Sets what follows a mode of one iteration that ended well; returns why the run ends with it."""
    if iteration.changed:
        why = f"it may change nothing but the progress file, and changed {join_names(iteration.changed, 10)}"
        return Stop(Reason.ONCE_FAILED, why)
    blocked = run.file.last.blocked
    if blocked is not None:
        if not judges:
            _advance_mode_in_file(run)
        return Stop(Reason.BLOCKED, blocked)
    if run.settings.strict:
        try:
            run.prepared_mode.read_valid_tasks(run.file.text)
        except RalphError as error:
            return Stop(Reason.ONCE_FAILED, error.message)
    if judges:
        return _write_done_or_next_mode(run, run_goes_on=run_goes_on)
    is_known = _PROVES_NOTHING in run.iteration.text_before
    if not _find_and_refuse_passing_checks(run) or is_known or not run_goes_on:  # else planning is repeated once
        _advance_mode_in_file(run)
    return None if run_goes_on else Stop(Reason.ONCE)


def _write_done_or_next_mode(run: Run, *, run_goes_on: bool) -> Stop | None:
    """Sets what follows validate: done if no task is open and verify passes, else the next mode, max-rounds times."""
    rounds, most = max(run.file.last.round, 1), run.settings.max_rounds
    left = describe_open_tasks(run.file.last)
    if not left:
        run.file.edit(progress.with_mode, "build", "")
        run.file.edit(progress.with_status, "RALPH_DONE")
        evidence.accept_plan_done_or_count_refusal(run)
        if run.file.last.done:
            return Stop(Reason.DONE)
        left = describe_open_tasks(run.file.last) or run.tally.last_failure
    count = None if progress.parse(run.iteration.text_before).open else f"{rounds}/{most}" if rounds < most else ""
    if _advance_mode_in_file(run, count) and count == "":
        return Stop(Reason.REFUSED, f"max-rounds is {most}, and {run.mode} still finds something: {left}")
    return None if run_goes_on else Stop(Reason.UNFINISHED, left)


def _advance_mode_in_file(run: Run, rounds: str | None = None) -> bool:
    """Writes the mode that follows into the progress file, if the file names the one in force too."""
    is_named = run.mode == (run.live.file_mode or "build")
    if is_named:
        run.file.edit(progress.with_mode, run.settings.next_mode_or_empty or "build", rounds)
    return is_named


def _find_and_refuse_passing_checks(run: Run) -> list[str]:
    """Reports and returns which checks of open tasks pass before anything is built."""
    if not (run.settings.strict and run.settings.evidence) or run.prepared_mode.rehearsal:
        return []
    found = evidence.run_repeatable_checks(run, acceptance.parse_checks_of_tasks(run.file.last.open)) or {}
    held_checks = [text for text, ended in found.items() if not ended.why_failed]
    if held_checks:
        what = f"{len(held_checks)} of {plural(len(found), 'check')} {_PROVES_NOTHING.decode()}"
        run.console.complain(f"{what}: {join_names(held_checks, 10)}")
        run.file.edit(progress.with_refusal, held_checks, what=what)
    elif _PROVES_NOTHING in run.file.text:
        run.file.edit(progress.without_refusal)
    return held_checks


def undo_ticks(run: Run, mode: str, before: bytes) -> None:
    """Takes back the ticks of a mode that works on no task."""
    ticked = run.file.last.ticked
    now = run.file.edit(lambda text: edits.without_new_ticks(before, text))
    if ticked > now.ticked:
        run.console.complain(f"a {mode} iteration ticks nothing: {plural(ticked - now.ticked, 'task')} unticked")
        run.put_back["tick"] += ticked - now.ticked
