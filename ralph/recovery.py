"""After a death: what a ralph that was killed has left behind is ended, removed and written down."""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from ralph import changes, journal, progress
from ralph.errors import RalphError
from ralph.judge import open_tasks
from ralph.lock import Lock
from ralph.process import Patience, end_strays
from ralph.progress import Progress
from ralph.progress.file import ProgressFile
from ralph.state import Death, State

if TYPE_CHECKING:
    from ralph.start import Start

Complain = Callable[[str], None]
_LAST_WRITES_S = 15.0
"""Seconds that an agent may go on after the last word on its record, until the keeper has ended it."""


def after_death(held: Lock, state: State, complain: Complain, patience: Patience) -> None:
    """Sweeps what carries the dead run's mark and removes git's orphaned locks, and says so; nothing after a good end.

    The lock is held, so whoever still carries the mark of its last holder has lost both its ralph and its keeper.
    """
    if run := held.dead_run():
        if (errors := state.keepers_error(run)).exists():
            complain(f"the keeper of the run before failed: {errors}")
        for command in end_strays(run, patience):
            complain(f"ended what the run before left running: {command}")
        for lock in changes.remove_orphaned_locks(changes.locks(held.tree), held.tree, held.dead_since()):
            complain(f"removed {lock}, left behind by the run before")
    held.forget()
    if death := state.died():
        _mourn(death, state, complain)


def _mourn(death: Death, state: State, complain: Complain) -> None:
    """Says and writes down that it died; not again where a start that came to nothing has."""
    known = journal.read(state.journal)
    if any(row.ended == "died" for row in journal.rows(known) if row.run == death.run):
        return
    complain(f"the run before was killed in iteration {death.iteration}; its record is {death.record}")
    if not journal.tells_of(known, death):
        with contextlib.suppress(OSError):  # a full disk is said where it matters
            journal.append(state.journal, journal.unfinished(death, "ralph was killed"))


def clear_up(start: "Start", file: ProgressFile, state: State, complain: Complain) -> None:
    """After a death in an iteration that was watched: what it may not have changed is put back.

    Raises RalphError where a person has to decide, or what ralph is started with was among it.
    """
    death, task = state.died(), state.noted("task")
    if death is None or not state.noted("guard"):
        return
    from ralph import tasks  # noqa: PLC0415 - only a death gets here
    from ralph.strict.guard import Guard  # noqa: PLC0415 - same

    since = until = 0.0
    with contextlib.suppress(OSError):  # without the record nobody knows when that was
        since = death.record.with_suffix(".prompt.md").stat().st_mtime
        until = death.record.stat().st_mtime + _LAST_WRITES_S
    guard = Guard(start, state, death.run, lambda line: complain(f"after a death: {line}"))
    ticked = any(one.id == task and one.done for one in tasks.flat(tasks.read(state.before_death())))
    put_back = guard.recover(task, since, until, ticked=ticked) if until else ""
    if why := guard.strayed():
        if file.exists():
            file.read()
            file.edit(lambda text: progress.blocked(text, why))
        state.note("guard", "")
        raise RalphError(why, 4)
    if put_back:
        what = f"{put_back} in the iteration in which ralph died, and is put back; its settings may not have been yours"
        raise RalphError(what, 1, fix="start it again")


def check_strict(start: "Start", file: ProgressFile, state: State, complain: Complain) -> None:
    """The list of tasks is as it should be before money is spent; also after a death in an iteration, or a clear error.

    What was changed there since that iteration began may be its doing, so it is undone, and kept.
    """
    from ralph import tasklist  # noqa: PLC0415 - only --strict gets here
    from ralph.tasks.mending import mend  # noqa: PLC0415 - same

    before, left = state.before_death(), file.text
    if before:
        planned = (death := state.died()) is not None and death.mode == "plan"
        file.edit(lambda text: tasklist.planned(before, text) if planned else mend(before, text).text)
        if file.text != left:
            complain(
                f"what changed in the tasks of {file.path.name} since ralph was killed is undone, "
                f"since the agent may have done it; as it was left it is {state.keep(file.path.name, left)}"
            )
    tasklist.check(file.text, file.path.name, start.settings)


def judge_claim(start: "Start", file: ProgressFile, now: Progress, complain: Complain) -> None:
    """A claim that nobody judged, because ralph died: it is verified, or taken back where nothing can tell."""
    why = open_tasks(now)
    if not why and start.settings.verify:
        file.edit(progress.without_verified)
        return
    why = why or ["ralph was ended before it could check it"]
    complain(f"RALPH_DONE refused: {why[0]}")
    file.edit(lambda text: progress.with_refusal(progress.without_done(text), why))
