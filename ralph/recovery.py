"""After a death in an iteration: what it may not have changed is put back, and what it claimed is not believed."""

from ralph import progress, tasks
from ralph.claims import refuse
from ralph.errors import RalphError
from ralph.judge import open_tasks
from ralph.phases import untick
from ralph.run import Run
from ralph.state import Death
from ralph.strict.guard import Guard, put_right


def recover(run: Run, death: Death) -> None:
    """Undoes what nobody judged. Raises RalphError where a person has to decide, or what ralph starts with was hit."""
    if run.state.noted("guard"):  # it was watched
        guard = Guard(run)
        put_back = guard.recover(death)
        if why := guard.check():
            run.file.edit(progress.blocked, why)
            run.state.note("guard", "")
            raise RalphError(why, 4)
        if put_back:
            what = f"{put_back} in the iteration in which ralph died, and is put back"
            raise RalphError(f"{what}; its settings may not have been yours", 1, fix="start it again")
    if run.start.strict and any(task.mark == "~" for task in tasks.read(death.before)):
        put_right(run, death.before, "also after ralph was killed")  # it may be that iteration's doing; it is kept
    elif run.start.strict and death.before:  # it worked on no task
        untick(run, death.mode, death.before)
    if run.read().done:  # a claim that nobody judged is verified, or taken back where nothing can tell
        open_ones = open_tasks(run.file.last)
        if run.settings.verify and not open_ones:
            run.file.edit(progress.without, "Verified")
        else:
            refuse(run, open_ones or ["ralph was ended before it could check it"])
