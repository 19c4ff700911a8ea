"""A session: sets up the loop, runs it, and cleans up however it ends."""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ralph import files
from ralph.agent.command import check_installed
from ralph.errors import RalphError
from ralph.loop.loop import loop
from ralph.loop.modes import start_controller, stop_controller
from ralph.plan import progress
from ralph.plan.progress.file import ProgressFile
from ralph.process import signals
from ralph.process.lock import Lock
from ralph.process.programs import kill_running_programs
from ralph.run import notices
from ralph.run.context import Run, open_run
from ralph.run.controllers import Controller
from ralph.run.prepared import PreparedStart
from ralph.run.stop_rules import Reason, Stop, tally_after_breaker
from ralph.screen.text import is_attended
from ralph.store import journal
from ralph.store.notes import BlockReason, StartResult
from ralph.store.state import State
from ralph.words import plural, timestamp


class Wiring(NamedTuple):
    """What a session needs from the rooms above the loop."""

    make_controller: Callable[[Run], Controller]
    recover: Callable[[Run, Lock], None]
    """Recovers from the death of an earlier run. Raises RalphError if the user has to decide."""
    record_tree_after_death: Callable[[State], None]
    """What the supervisor does once ralph is dead and everything has ended."""


def run_session(start: PreparedStart, file: ProgressFile, state: State, held_lock: Lock, wiring: Wiring) -> int:
    """Runs the loop to its end and returns the exit code, 128 + its number if a signal ended it.

    Raises RalphError if no iteration could begin. A bug in ralph leaves the lock, and the supervisor, which still has
    an agent to end, in place.
    """
    last_look = partial(wiring.record_tree_after_death, state)
    run = open_run(start, file, state, held_lock, after_death=last_look, make_controller=wiring.make_controller)
    run.screen.status = partial(notices.status_line, run)
    run.screen.open()
    stop = Stop(Reason.HOPELESS, "an error in ralph itself, which it printed")
    failure = None
    try:
        _prepare_session(run, held_lock, wiring)
        stop = loop(run)
    except RalphError as error:
        stop = run.stop_if_interrupted() or Stop(Reason.HOPELESS, error.message)
        failure = error if stop.reason is Reason.HOPELESS else None
    finally:
        _close_session(run, stop)
    for supervisor in (run.supervisor, *run.supervisors):
        supervisor.dismiss()
    held_lock.holder_note.unlink(missing_ok=True)
    if failure and run.current.transcript:
        return failure.exit_code
    if failure:
        raise failure
    return stop.reason.code + (signals.interrupted() or 0 if stop.reason is Reason.INTERRUPTED else 0)


def check_can_begin(run: Run) -> None:
    """Raises RalphError if no iteration can begin, before anything of an earlier run is used up."""
    for start in (run.start, *run.start.with_own_agents()):
        check_installed(start.agents, start.settings)
        run.print_setting_remarks(start.settings)
    run.start.load_prompt()
    run.state.make_room()


def _prepare_session(run: Run, held_lock: Lock, wiring: Wiring) -> None:
    """Prepares the first iteration: recovery, progress file, mode. Raises RalphError before money is spent."""
    start = run.start
    file = run.file
    state = run.state
    if held_lock.dead_run_mark() or state.unjudged_iteration():
        wiring.recover(run, held_lock)
    held_lock.write_holder(run.id, start.plan.name, start.progress_path)
    check_can_begin(run)
    opened = state.load_note(BlockReason)
    if not file.exists() and not file.text:
        where = os.path.relpath(start.plan) if start.plan.is_relative_to(run.top) else str(start.plan)
        file.create(progress.new_progress_text(start.name, where, timestamp()))
        state.remove_note(StartResult)
        opened = None
    file.read()
    file.check_writable()
    if start.imported and not file.last.tasks and not file.last.done:
        count = plural(len(start.imported.tasks), "task")
        run.console.complain(f"{count} taken from {start.imported.place} into the Task List")
        file.edit(start.with_imported_tasks)
    for text in start.imported_tasks_missing_from(file.text):
        run.console.complain(text.message)
    if start.is_strict_build:
        start.why_stuck(file.text)  # ends the run here if the list is wrong
    run.changes.begin()
    start_controller(run)
    if start.is_strict_build and file.last.verified and start.is_verified_stale(file.last):
        file.edit(progress.without_lines, "Verified")
    now = file.last
    if now.blocked_by_ralph and is_attended():
        run.console.complain(f"took RALPH_BLOCKED out of {file.path}, since you are here; it said: {now.blocked}")
        file.edit(progress.without_blocked_line)
    state.remove_iteration_note()
    run.screen.remark(f"ralph: {notices.first_line(run)}")
    run.live.tally = tally_after_breaker(opened.reason if opened else "", run.settings)
    state.remove_note(BlockReason)
    is_first_sum = run.settings.max_total_cost is not None and "Spent" not in file.last.words
    known = []
    if is_first_sum or not file.last.tasks:  # 90 ms for 3,000 iterations
        known = journal.parse_lines(files.read_or_empty(state.journal))
    moves = (one.event == "sums" or (one.event == "iteration" and one.moved) for one in known)
    run.tally.has_moved = bool(file.last.tasks) or any(moves)
    if is_first_sum and (spent := journal.sum_up(known).cost_usd):
        file.edit(progress.with_spent, spent)


def _close_session(run: Run, stop: Stop) -> None:
    """Prints and records how the run ended, sends the last notice, and stops what still runs for the run."""
    stop_controller(run)
    run.console.set_activity("sending the last notice")
    run.write_journal(
        "run",
        success=stop.reason.code == 0,
        message=stop.why,
        ended=stop.reason.name.lower(),
        summary=f"{stop.reason.label}: {stop.why}".removesuffix(": "),
        so_far=notices.run_figures(run),
        duration_s=round(run.elapsed_s(), 3),
    )
    if run.current.transcript or stop.reason is not Reason.HOPELESS:
        run.screen.say(f"ralph: {notices.last_line(run, stop)}")
    if run.current.transcript:
        if stop.reason.code == 1 and not (is_attended() and stop.why in "".join(list(run.live.summaries)[-1:])):
            run.console.complain(stop.why)
        run.outbox.send(notices.end_notice(run, stop))
    hurried = signals.is_impatient if stop.reason is Reason.INTERRUPTED else signals.interrupted
    deadline = time.monotonic() + run.pace.send_s
    while run.outbox.has_pending() and time.monotonic() < deadline and not hurried():
        signals.wait(0.05)
    run.outbox.close()
    kill_running_programs()
    run.screen.close()
