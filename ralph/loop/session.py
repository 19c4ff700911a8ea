"""A session: the loop in its surroundings, and an orderly way out however it ends."""

import contextlib
import os
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ralph import files
from ralph.agent.command import check_there
from ralph.errors import RalphError
from ralph.git import changes
from ralph.loop.loop import loop
from ralph.loop.modes import begin, end
from ralph.plan import progress
from ralph.plan.progress.file import ProgressFile
from ralph.process import signals
from ralph.process.lock import Lock
from ralph.process.programs import end_own, end_strays
from ralph.run import notices
from ralph.run.context import Run
from ralph.run.controllers import Controller
from ralph.run.prepared import Start
from ralph.run.verdict import Reason, Stop, one_try
from ralph.screen.text import attended
from ralph.screen.view import View
from ralph.store import journal
from ralph.store.state import Death, State
from ralph.words import counted, stamp


class Wiring(NamedTuple):
    """What a session needs of the rooms above the loop."""

    make_controller: Callable[[Run], Controller]
    recover: Callable[[Run, Death], None]
    """Undoes what nobody judged. Raises RalphError where a person has to decide."""
    take_last_look: Callable[[State], None]
    """What the supervisor does once ralph is gone and all has ended."""


def session(start: Start, file: ProgressFile, state: State, held: Lock, wiring: Wiring) -> int:
    """Runs the loop to its end; the exit code, 128 + its number where a signal ended it.

    Raises RalphError where no iteration could begin. An error of ralph's own leaves the keeper and the lock in place:
    the one still has an agent to end.
    """
    run = Run(start, file, state, held, partial(wiring.take_last_look, state))
    run.make_controller = wiring.make_controller
    run.screen.status = partial(notices.status_line, run)
    run.screen.open()
    stop = Stop(Reason.HOPELESS, "an error in ralph itself, which it printed")
    failure = None
    try:
        _prepare(run, held, wiring)
        stop = loop(run)
    except RalphError as error:
        stop = run.interrupted() or Stop(Reason.HOPELESS, error.message)
        failure = error if stop.reason is Reason.HOPELESS else None
    finally:
        _close(run, stop)
    for keeper in (run.keeper, *run.keepers):
        keeper.dismiss()
    held.forget()
    if failure and run.transcript:
        return failure.exit_code
    if failure:
        raise failure
    return stop.reason.code + (signals.interrupted() or 0 if stop.reason is Reason.INTERRUPTED else 0)


def _prepare(run: Run, held: Lock, wiring: Wiring) -> None:
    """What must be there before the first iteration, or a clear error; the last checks before money is spent."""
    start = run.start
    file = run.file
    state = run.state
    _clear_up(run, held)
    held.begin(run.id, start.plan.name, start.progress_path)
    check_there(run.agents, run.settings)
    run.prompt = start.prompt()
    run.remark()
    state.make_room()  # before a start on a full disk uses up what it found
    opened = state.noted("breaker")
    if not file.exists() and not file.text:
        where = os.path.relpath(start.plan) if start.plan.is_relative_to(run.top) else str(start.plan)
        file.create(progress.fresh(start.name, where, stamp()))
        state.note("verify", opened := "")
    file.read()
    file.check_writable()
    if death := state.died():
        wiring.recover(run, death)
    if start.imported and not file.last.tasks and not file.last.done:
        run.complain(
            f"{counted(len(start.imported.tasks), 'task')} taken from {start.imported.place} into the Task List"
        )
        file.edit(start.begun)
    for told in start.lacks(file.text):
        run.complain(told.message)
    if start.strict:
        start.stuck(file.text)  # where the list is wrong, it ends here
    run.changes = changes.Changes(run.top, start.own)
    begin(run)
    if start.strict and file.last.verified and start.is_stale(file.last):
        file.edit(progress.without, "Verified")
    now = file.last
    if now.blocked_by_ralph and attended():
        run.complain(f"took RALPH_BLOCKED out of {file.path}, since you are here; it said: {now.blocked}")
        file.edit(progress.without_own_block)
    state.end()
    run.screen.remark(f"ralph: {notices.beginning(run)}")
    run.tally = one_try(opened, run.settings)
    state.note("breaker", "")
    known = [] if file.last.tasks and "Spent" in file.last.words else journal.parsed(files.held(state.journal))
    run.tally.has_moved = any(one.event == "sums" or (one.event == "iteration" and one.moved) for one in known)
    spent = journal.sums(known).cost_usd
    if spent and run.settings.max_total_cost is not None and "Spent" not in file.last.words:
        file.edit(progress.with_spent, spent)


def _clear_up(run: Run, held: Lock) -> None:
    """Ends and removes what a killed run has left behind, and says so; nothing after a good end.

    The lock is held, so whoever still carries the mark of its last holder has lost both its ralph and its keeper. That
    an iteration died is said and written down once, whatever becomes of the starts that follow.
    """
    state = run.state
    death = state.died()
    if mark := held.dead_run():
        for command in end_strays(mark, run.pace.patience):
            run.complain(f"ended what the run before left running: {command}")
        for lock in changes.remove_orphaned_locks(held.tree, held.dead_since()):
            run.complain(f"removed {lock}, left behind by the run before")
    found = journal.read(state.journal) if death else []
    if death and not journal.tells_of(found, death):
        end = journal.own_end(found, death)
        how = (
            f"ended in iteration {death.iteration} ({end.message})"
            if end
            else f"was killed in iteration {death.iteration}"
        )
        run.complain(f"the run before {how}; its record is {death.record}")
        message = end.message if end else "ralph was killed"
        view = View(lambda _line: None)
        view.begin().sees(files.held(death.record, 1_000_000))
        with contextlib.suppress(OSError):  # a full disk is said where it matters
            journal.append(state.journal, journal.unfinished(death, message, view.handover(message)))


def _close(run: Run, stop: Stop) -> None:
    """The last line, also of the journal, and the last notice."""
    end(run)
    run.does("sending the last notice")
    run.write_down(
        "run",
        success=stop.reason.code == 0,
        message=stop.why,
        ended=stop.reason.name.lower(),
        summary=f"{stop.reason.label}: {stop.why}".removesuffix(": "),
        so_far=notices.came_to(run),
        duration_s=round(run.elapsed_s(), 3),
    )
    if run.transcript or stop.reason is not Reason.HOPELESS:
        run.screen.say(f"ralph: {notices.closing(run, stop)}")
    if run.transcript:
        if stop.reason.code == 1:
            run.complain(stop.why)
        run.outbox.send(notices.ended(run, stop))
    hurried = signals.impatient if stop.reason is Reason.INTERRUPTED else signals.interrupted
    deadline = time.monotonic() + run.pace.send_s
    while run.outbox.pending() and time.monotonic() < deadline and not hurried():
        signals.wait(0.05)
    run.outbox.close()
    end_own()
    run.screen.close()
