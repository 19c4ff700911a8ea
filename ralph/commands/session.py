"""A session: sets up the loop, runs it, and cleans up however it ends.

The only module that knows plain, strict and parallel work.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ralph import files
from ralph.agent.command import base_agent_environment
from ralph.errors import RalphError
from ralph.git.changes import ChangeFinder
from ralph.git.settings import GitConfigChangeFinder
from ralph.loop import iteration, loop, modes
from ralph.notify.channels import Outbox
from ralph.plan import progress
from ralph.plan.progress.file import ProgressFile
from ralph.process import programs, signals
from ralph.process.clock import ClockAndLimits
from ralph.process.lock import Lock
from ralph.process.supervisor import Supervisor
from ralph.run import notices
from ralph.run.console import Console
from ralph.run.context import LiveState, Run, merges_checked_at_once
from ralph.run.judge import BaseController
from ralph.run.prepared import PreparedStart
from ralph.run.stop_rules import Reason, Stop
from ralph.screen import screen, view
from ralph.screen.text import is_any_output_on_terminal
from ralph.settings import sources
from ralph.store import journal
from ralph.store.state import FirstVerifyResult, OpenedBreaker
from ralph.words import plural


def make_controller(run: Run) -> BaseController:
    """Returns the controller for the mode of the run. Raises RalphError if it cannot work here."""
    start, settings = run.prepared_mode, run.settings
    if not (settings.strict or settings.only):
        return iteration.PlainController(run, None)
    from ralph.strict import controller, guard  # noqa: PLC0415 - 20 ms that only --strict and --only pay

    tree_guard = guard.TreeGuard(run)
    commits = settings.strict and settings.auto_commit
    will_build = start.is_strict_loop or start.asked.mode == "all"
    if commits and will_build and not run.iteration.number:  # not again in the middle of a run
        tree_guard.check_can_commit()
    if not start.is_strict_loop:
        return iteration.PlainController(run, tree_guard.guard_turn if settings.only else None)
    if run.job_supervisors:
        from ralph.parallel.coordinator import ParallelController  # noqa: PLC0415 - 20 ms that only --jobs pays

        return ParallelController(run, tree_guard.wait_for_index)
    return controller.StrictController(run, tree_guard)


def run_session(
    start: PreparedStart,
    file: ProgressFile,
    held_lock: Lock,
    make_controller: Callable[[Run], BaseController] = make_controller,
) -> int:
    """Runs the loop to its end and returns the exit code, 128 + its number if a signal ended it.

    Raises RalphError if no iteration could begin. A bug in ralph leaves the lock, and the supervisor, which still has
    an agent to end, in place.
    """
    run = _make_supervised_run(start, file, held_lock, make_controller)
    run.screen.start_printing(partial(notices.status_lines, run))
    stop = Stop(Reason.HOPELESS, "an error in ralph itself, which it printed")
    failure = None
    try:
        _prepare_first_iteration(run, held_lock)
        stop = loop.loop(run)
    except RalphError as error:
        stop = run.stop_if_interrupted() or Stop(Reason.HOPELESS, error.message)
        failure = error if stop.reason is Reason.HOPELESS else None
    finally:
        _close_run(run, stop)
    for supervisor in (run.supervisor, *run.job_supervisors):
        supervisor.close_link_and_wait()
    held_lock.holder_note.unlink(missing_ok=True)
    if failure:
        if not run.iteration.number:
            raise failure
        return failure.exit_code
    return stop.reason.code + (signals.interrupted() or 0 if stop.reason is Reason.INTERRUPTED else 0)


def _make_supervised_run(
    start: PreparedStart, file: ProgressFile, held_lock: Lock, make_controller: Callable[[Run], BaseController]
) -> Run:
    """Starts the supervisors and returns the context of a run."""
    settings, asked, state = start.settings, start.asked, start.state_folder
    clock = asked.clock or ClockAndLimits()
    run_id = time.strftime("%Y%m%d-%H%M%S-") + os.urandom(3).hex()
    is_attempt = "RALPH_ATTEMPT" in os.environ
    console = Console(screen.Screen(quiet=asked.quiet, spinner=not asked.no_spinner), clock.boot_clock_s)
    file.say = console.complain
    monitor = "" if start.rehearsal else settings.heartbeat_url or ""
    values = {} if is_attempt else {**sources.channel_values(), "RALPH_HEARTBEAT_URL": monitor}
    temporary = tempfile.mkdtemp(prefix="ralph-")
    signals.install_handlers()
    top = Path.cwd()
    git_settings = GitConfigChangeFinder(top, state)

    def after_all_ended() -> None:
        shutil.rmtree(temporary, ignore_errors=True)
        git_settings.record_end_state()
        if death := state.unfinished_iteration():
            from ralph.strict import shadow  # noqa: PLC0415 - only that process pays, after a death

            shadow.record_tree_of_dead_run(state, death)

    jobs = settings.jobs + merges_checked_at_once(settings) if settings.jobs > 1 and settings.strict else 0
    return Run(
        id=run_id,
        live=LiveState(prepared_mode=start, file_mode=start.progress_before.mode),
        modes={(start.mode, start.is_role): start},
        make_controller=make_controller,
        file=file,
        state=state,
        clock=clock,
        began=clock.boot_clock_s(),
        top=top,
        console=console,
        view=view.AgentView(console.screen.say_cleaned_unless_quiet, whole=asked.verbose),
        outbox=Outbox(values, lambda line: console.complain(line, once=line)),
        changes=ChangeFinder(top, start.files_ralph_writes),
        git_settings=git_settings,
        history=None if start.rehearsal or is_attempt or not settings.history else settings.history.resolve(),
        env=base_agent_environment(run=run_id, tmux_folder=temporary),
        earlier=journal.last_counted_iteration(state.journal),
        is_attempt=is_attempt,
        job_supervisors=[Supervisor(f"{run_id}-{number}", clock, held_lock.fd, lambda: None) for number in range(jobs)],
        supervisor=Supervisor(run_id, clock, held_lock.fd, after_all_ended),
    )


def _prepare_first_iteration(run: Run, held_lock: Lock) -> None:
    """Prepares the first iteration: recovery, progress file, mode. Raises RalphError before money is spent."""
    start, file, state = run.prepared_mode, run.file, run.state
    if held_lock.last_noted_holder().run or state.unfinished_iteration():
        from ralph.strict import recovery  # noqa: PLC0415 - 20 ms, after a death alone

        recovery.recover_from_death(run, held_lock)
    held_lock.write_holder(run.id, start.plan.name, start.progress_path)
    modes.check_agents_and_prompt(run)
    if not file.exists() and not file.text:
        file.edit(lambda text: text or progress.new_progress_text(start.name, os.path.relpath(start.plan)))
        state.remove_note(FirstVerifyResult)
        state.remove_note(OpenedBreaker)
    noted = state.load_note(FirstVerifyResult)
    run.tally.first_verify_failure = noted.failure if noted and noted.command == start.settings.verify else None
    file.read_or_restore()
    if start.imported and not file.last.tasks and not file.last.done:
        run.console.complain(
            f"{plural(len(start.imported.tasks), 'task')} taken from {start.imported.place} into the Task List"
        )
        file.edit(start.with_imported_tasks)
    if start.imported and (error := start.imported.error_about_missing_tasks(file.text)):
        run.console.complain(error.message)
    if start.is_strict_loop:
        start.read_valid_tasks(file.text)  # ends the run here if the list is wrong
    run.changes.take_first_look()
    modes.replace_controller(run)
    if start.is_strict_loop and file.last.verified and start.has_tree_changed_since_verified(file.last):
        file.edit(progress.without_control_lines, "Verified")
    now = file.last
    if now.blocked_by_ralph and is_any_output_on_terminal():
        run.console.complain(f"took RALPH_BLOCKED out of {file.path}, since you are here; it said: {now.blocked}")
        file.edit(progress.without_control_lines, "RALPH_BLOCKED")
    state.remove_iteration_note()
    notices.print_progress_path(run)
    if opened := state.load_note(OpenedBreaker):
        run.tally.set_one_below_limit(opened.reason, run.settings)
    state.remove_note(OpenedBreaker)
    is_first_sum = run.settings.max_total_cost is not None and "Spent" not in now.words
    # Only where it is needed, since 3,000 iterations take 90 ms.
    known = journal.parse_lines(files.read_or_empty(state.journal) if is_first_sum or not now.tasks else b"")
    run.tally.has_moved = bool(now.tasks) or any(one.moved for one in journal.iterations_in(known))
    if is_first_sum and (spent := journal.sum_up(known).cost_usd):
        file.edit(progress.with_spent, spent)


def _close_run(run: Run, stop: Stop) -> None:
    """Prints and records how the run ended, sends the last notice, and stops what still runs for the run."""
    reason, has_begun = stop.reason, run.iteration.number > 0
    modes.close_controller(run)
    run.console.set_activity("sending the last notice")
    run.write_journal(
        "run",
        success=reason.code == 0,
        message=stop.why,
        ended=reason.name.lower(),
        summary=f"{reason.label}: {stop.why}".removesuffix(": "),
        so_far=notices.run_figures(run),
        duration_s=round(run.elapsed_s(), 3),
    )
    if has_begun or reason is not Reason.HOPELESS:
        run.screen.say(f"ralph: {notices.run_closing_line(run, stop)}")
    if has_begun:
        if reason.code == 1 and not (is_any_output_on_terminal() and stop.why in "\n".join(run.last_lines)):
            run.console.complain(stop.why)
        notices.notify_ended(run, stop)
    deadline = time.monotonic() + run.clock.notices_wait_s
    while run.outbox.has_pending() and time.monotonic() < deadline and not signals.is_impatient():
        signals.sleep_until_signal(0.05)
    run.outbox.drop_pending()
    programs.kill_called_programs()
    run.screen.finish_printing()
