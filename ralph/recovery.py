"""After a death: what a ralph that was killed has left behind is ended, removed, put back and written down."""

import contextlib

from ralph import changes, journal, progress
from ralph.claims import refuse
from ralph.errors import RalphError
from ralph.judge import open_tasks
from ralph.lock import Lock
from ralph.process.programs import end_strays
from ralph.run import Run

_LAST_WRITES_S = 15.0
"""Seconds that an agent may go on after the last word on its record, until the keeper has ended it."""


def after_death(run: Run, held: Lock) -> None:
    """Sweeps what carries the dead run's mark and removes git's orphaned locks, and says so; nothing after a good end.

    The lock is held, so whoever still carries the mark of its last holder has lost both its ralph and its keeper. That
    an iteration died is said and written down once, whatever becomes of the starts that follow.
    """
    state, death = run.state, run.state.died()
    if mark := held.dead_run():
        for command in end_strays(mark, run.pace.patience):
            run.complain(f"ended what the run before left running: {command}")
        for lock in changes.remove_orphaned_locks(changes.locks(held.tree), held.tree, held.dead_since()):
            run.complain(f"removed {lock}, left behind by the run before")
    held.forget()
    if death and not journal.tells_of(journal.read(state.journal), death):
        run.complain(f"the run before was killed in iteration {death.iteration}; its record is {death.record}")
        with contextlib.suppress(OSError):  # a full disk is said where it matters
            journal.append(state.journal, journal.unfinished(death, "ralph was killed"))


def clear_up(run: Run) -> None:
    """After a death in an iteration that was watched: what it may not have changed is put back.

    Raises RalphError where a person has to decide, or what ralph is started with was among it.
    """
    file, state = run.file, run.state
    death, task = state.died(), state.noted("task")
    if death is None or not state.noted("guard"):
        return
    from ralph import tasks  # noqa: PLC0415 - only a death gets here
    from ralph.strict.guard import Guard  # noqa: PLC0415 - same

    since = until = 0.0
    with contextlib.suppress(OSError):  # without the record nobody knows when that was
        since = death.record.with_suffix(".prompt.md").stat().st_mtime
        until = death.record.stat().st_mtime + _LAST_WRITES_S
    guard = Guard(run)
    ticked = bool(task) and any(one.id == task and one.done for one in tasks.read(death.before))
    put_back = guard.recover(task, since, until, ticked=ticked) if until else ""
    if why := guard.check():
        if file.exists():
            file.read()
            file.edit(lambda text: progress.blocked(text, why))
        state.note("guard", "")
        raise RalphError(why, 4)
    if put_back:
        what = f"{put_back} in the iteration in which ralph died, and is put back; its settings may not have been yours"
        raise RalphError(what, 1, fix="start it again")


def check_strict(run: Run) -> None:
    """The list of tasks is as it should be before money is spent; also after a death in an iteration, or a clear error.

    What was changed there since that iteration began may be its doing, so it is undone, and kept.
    """
    from ralph import tasklist  # noqa: PLC0415 - only --strict gets here
    from ralph.tasks import edits  # noqa: PLC0415 - same
    from ralph.tasks.mending import mend  # noqa: PLC0415 - same

    file, name = run.file, run.file.path.name
    death, left = run.state.died(), file.text
    if death and (before := death.before):
        planned = False
        with contextlib.suppress(RalphError):  # its template is gone
            planned = run.start.entered(death.mode).settings.once  # it works on no task
        file.edit(lambda text: edits.planned(before, text) if planned else mend(before, text).text)
        if file.text != left:
            run.complain(
                f"what changed in the tasks of {name} since ralph was killed is undone, "
                f"since the agent may have done it; as it was left it is {run.state.keep(name, left)}"
            )
    tasklist.check(file.text, name, run.settings)


def judge_claim(run: Run) -> None:
    """A claim that nobody judged, because ralph died: it is verified, or taken back where nothing can tell."""
    why = open_tasks(run.file.last)
    if run.settings.verify and not why:
        run.file.edit(progress.without_verified)
    else:
        refuse(run, why or ["ralph was ended before it could check it"])
