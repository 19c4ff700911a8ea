"""After a death in an iteration: what it may not have changed is put back, and what it claimed is not believed."""

import os
from pathlib import Path

from ralph.errors import RalphError
from ralph.loop.modes import undo_ticks
from ralph.plan import progress, tasks
from ralph.plan.tasks import edits
from ralph.plan.tasks.mending import undo_list_edits
from ralph.run.claims import refuse_claim
from ralph.run.context import Run
from ralph.run.judge import open_tasks
from ralph.store.state import State, UnjudgedIteration
from ralph.strict.guard import Guard, mend_progress_file
from ralph.strict.watch import TreeAtEnd, TreeBefore
from ralph.words import timestamp


def recover(run: Run, death: UnjudgedIteration) -> None:
    """Undoes what nobody judged. Raises RalphError where a person has to decide, or what ralph starts with was hit."""
    try:
        _undo(run, death)
    except RalphError as error:
        if error.exit_code == 4:
            run.file.edit(progress.with_block, error.message)
        raise


def _undo(run: Run, death: UnjudgedIteration) -> None:
    run.git_settings.compare()
    run.git_settings.begin()
    if why := run.git_settings.block_reason:
        raise RalphError(why, 4)
    watch = TreeBefore.load(run.state)
    guard = Guard(run, watch) if watch or run.state.read_note("uncommitted") else None
    if guard and watch:
        _put_files_back(run, guard, watch, death)
    elif guard:
        run.changes.begin()
    if run.start.strict and any(task.mark == "~" for task in tasks.read_tasks(death.own_word)):
        look = TreeAtEnd.load(run.state, watch) if watch else None
        left = os.fsencode(look.progress) if look else run.read_progress() and run.file.text
        if undo_list_edits(death.own_word, left).text != left:  # else what is in it now is a person's
            mend_progress_file(run, death.own_word, "also after ralph was killed")
    elif run.start.strict and death.own_word:  # it worked on no task, or its task was put down
        undo_ticks(run, death.mode, death.own_word)
    run.write_down_put_back(death.iteration)
    if guard:
        _commit_what_is_ticked(run, guard)
    if run.read_progress().done:  # a claim that nobody judged is verified, or taken back where nothing can tell
        open_ones = open_tasks(run.file.last)
        if run.settings.verify and not open_ones:
            run.file.edit(progress.without_lines, "Verified")
        else:
            refuse_claim(run, open_ones or ["ralph was ended before it could check it"])


def put_plan_back(state: State, plan: Path) -> bool:
    """Whether the plan is there again, where the iteration removed it in which ralph died."""
    watch = TreeBefore.load(state)
    shadow = watch.shadow() if watch and watch.is_strict else None
    look = TreeAtEnd.load(state, watch) if watch else None
    if not watch or not shadow:
        return False
    name = os.path.relpath(os.path.realpath(plan.parent) + f"/{plan.name}", watch.root)
    if name not in shadow.changes() or (look and name not in look.changes):
        return False
    shadow.put_back([name], {name: True}, state.free_kept_path)
    return True


def _put_files_back(run: Run, guard: Guard, watch: TreeBefore, death: UnjudgedIteration) -> None:
    """The tree and the repository are what they may be; what else the iteration changed is its task's."""
    is_known = guard.load_snapshot()
    if why := guard.compare_hooks():
        run.state.write_note("guard", "")
        raise RalphError(why, 4)
    run.changes.begin()
    ticked = [one.id for one in tasks.read_tasks(death.own_word) if one.id and one.done]  # by ralph's own word
    if not is_known or watch.task in ticked:  # then it had passed, and ralph died while it committed
        return
    put_back = guard.undo_after_death(TreeAtEnd.load(run.state, watch))
    run.write_down_put_back(death.iteration)
    if put_back:
        what = f"{'; '.join(put_back)} in the iteration in which ralph died, and is put back"
        raise RalphError(f"{what}; its settings may not have been yours", 1, fix="start it again")


def _commit_what_is_ticked(run: Run, guard: Guard) -> None:
    """A tick without its commit gets it, or is taken back."""
    ticked = [one.id for one in tasks.read_tasks(run.file.text) if one.id and one.done]
    for task, why in guard.commit_left_over(ticked).items():
        run.console.complain(
            f"{task} was ticked when ralph was killed, and cannot be committed: {': '.join(why.splitlines())}"
        )
        run.file.edit(edits.with_mark, " ", task, note="begun", why=timestamp())  # its checks hold since it was
        run.file.edit(edits.with_failure, task, why, run.settings.max_tries)
