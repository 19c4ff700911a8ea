"""After a death in an iteration: what it may not have changed is put back, and what it claimed is not believed."""

from ralph import progress, tasks
from ralph.changes import touched_at
from ralph.claims import refuse
from ralph.errors import RalphError
from ralph.judge import open_tasks
from ralph.phases import untick
from ralph.run import Run
from ralph.state import Death
from ralph.strict.guard import Guard, put_right

_LAST_WRITES_S = 15.0
"""Seconds that an agent may go on after the last word on its record, until the keeper has ended it."""


def recover(run: Run, death: Death) -> None:
    """Undoes what nobody judged. Raises RalphError where a person has to decide, or as `_put_back` does."""
    if run.state.noted("guard"):
        _put_back(run, death)
    if run.start.strict and any(task.mark == "~" for task in tasks.read(death.before)):
        put_right(run, death.before, "also after ralph was killed")  # it may be that iteration's doing; it is kept
    elif run.start.strict and death.before:  # it worked on no task
        untick(run, death.mode, death.before)
    if run.read().done:  # a claim that nobody judged is verified, or taken back where nothing can tell
        why = open_tasks(run.file.last)
        if run.settings.verify and not why:
            run.file.edit(progress.without, "Verified")
        else:
            refuse(run, why or ["ralph was ended before it could check it"])


def _put_back(run: Run, death: Death) -> None:
    """After an iteration that was watched. Raises RalphError where what ralph is started with was among it."""
    since, heard_at = touched_at(death.record.with_suffix(".prompt.md")), touched_at(death.record)
    guard = Guard(run)
    ticked = [task.id for task in tasks.read(death.before) if task.id and task.done]
    put_back = guard.recover(ticked, since, heard_at + _LAST_WRITES_S) if since and heard_at else ""
    if why := guard.check():
        run.file.edit(progress.blocked, why)
        run.state.note("guard", "")
        raise RalphError(why, 4)
    if put_back:
        what = f"{put_back} in the iteration in which ralph died, and is put back; its settings may not have been yours"
        raise RalphError(what, 1, fix="start it again")
