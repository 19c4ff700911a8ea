"""Recovery after a death: puts back what the iteration may not change, and refuses what it claimed."""

import contextlib
import os

from ralph import files
from ralph.errors import RalphError
from ralph.loop.modes import check_agents_and_prompt, undo_ticks
from ralph.plan import progress, tasks
from ralph.plan.tasks import edits
from ralph.process.lock import Lock
from ralph.process.programs import end_marked_processes
from ralph.run.context import Run
from ralph.run.evidence import refuse_plan_done
from ralph.run.judge import describe_open_tasks
from ralph.screen.view import AgentView
from ralph.store import journal
from ralph.store.state import TreeAfterDeath, TreeBefore, UnfinishedIteration
from ralph.strict.guard import TreeGuard, put_back_ralphs_sections
from ralph.strict.shadow import load_tree_notes
from ralph.words import timestamp


def recover_from_death(run: Run, held_lock: Lock) -> None:
    """Recovers from the death of an earlier run, in this order.

    The supervisor has put a missing plan back (`record_tree_of_dead_run`), since there is no run without one. Raises
    RalphError if the user has to decide, or if what decides how ralph works was changed.
    """
    end_processes_and_remove_locks(run, held_lock)  # so that nothing changes files any more
    # this run may be killed, too
    held_lock.write_holder(run.id, run.prepared_mode.plan.name, run.prepared_mode.progress_path)
    files.remove_leftovers(run.file.path)  # of interrupted edits
    death = run.state.unfinished_iteration()
    if not death:
        return
    report_and_record_death(run, death)  # once, whatever becomes of the runs that follow
    check_agents_and_prompt(run)  # else the rest is left to a run that can
    run.file.read_or_restore()  # puts the file back if it is gone
    try:
        run.git_settings.collect_changes_before_death()  # before any git runs
        run.git_settings.record_begin_state()
        if why := run.git_settings.why_settings_block_git:
            raise RalphError(why, 4)  # noqa: TRY301 - the user decides, as with all that is raised here
        before, end = load_tree_notes(run.state, death)
        if before:
            undo_forbidden_changes(run, death, before, end)  # what may not change; the rest is its task's
        put_list_back(run, death, end)  # ticks that ralph did not make
        commit_ticked_tasks(run)  # or the tick is taken back
        unverify_or_refuse_done(run)  # which was never checked
    except RalphError as error:
        if error.exit_code == 4:
            run.file.edit(progress.with_run_blocked, error.message)
        raise
    finally:
        run.write_tampering_to_journal(death.iteration)


def end_processes_and_remove_locks(run: Run, held_lock: Lock) -> None:
    """Ends processes with the mark of the lock's last holder, which is dead, and removes the git locks of its time."""
    if mark := held_lock.last_noted_holder().run:
        for command in end_marked_processes(mark, run.clock.patience):
            run.console.complain(f"ended what the run before left running: {command}")
        run.remove_orphaned_locks("the run before", since=held_lock.holder_note.stat().st_mtime)


def report_and_record_death(run: Run, death: UnfinishedIteration) -> None:
    """Reports how that iteration ended, on the screen and in the journal, unless the journal has it."""
    found = journal.read(run.state.journal)
    if journal.is_iteration_recorded(found, death):
        return
    end = next((row for row in found if (row.event, row.run) == ("run", death.run)), None)  # even by an error
    how = f"{'ended' if end else 'was killed'} in iteration {death.iteration}" + (f" ({end.message})" if end else "")
    run.console.complain(f"the run before {how}; its record is {death.transcript}")
    message = end.message if end else "ralph was killed"
    view = AgentView(lambda _line: None)
    view.new_reader().read_output(files.read_or_empty(death.transcript, 1_000_000))
    with contextlib.suppress(OSError):  # a full disk is reported where it matters
        line = journal.unfinished_line(death, message, view.handover_of_cut_iteration(message))
        journal.append_line(run.state.journal, line)


def put_list_back(run: Run, death: UnfinishedIteration, end: TreeAfterDeath | None) -> None:
    """Under --strict puts the task list back; what the user changed after the supervisor's note stays."""
    own = death.last_vouched_text if run.prepared_mode.is_strict_loop else b""
    if any(task.mark == "~" for task in tasks.read_tasks(own)):
        left = os.fsencode(end.progress) if end else run.file.text
        if edits.restore_ralphs_sections(own, left).text != left:  # else its content is the user's
            put_back_ralphs_sections(run, own)
    elif own:  # it worked on no task, or ralph had put it down
        undo_ticks(run, death.mode, own)


def unverify_or_refuse_done(run: Run) -> None:
    """Has an unchecked RALPH_DONE verified, or refuses it if nothing can verify it."""
    if run.read_progress().done:
        open_ones = describe_open_tasks(run.file.last)
        if run.settings.verify and not open_ones:
            run.file.edit(progress.without_control_lines, "Verified")
        else:
            refuse_plan_done(run, [open_ones or "ralph was ended before it could check it"])


def undo_forbidden_changes(
    run: Run, death: UnfinishedIteration, before: TreeBefore, end: TreeAfterDeath | None
) -> None:
    """Puts the tree and the repository back; other changes of the iteration are assigned to its task."""
    guard = TreeGuard(run, before)
    if why := guard.why_no_git_may_run():
        run.state.remove_note(TreeBefore)
        raise RalphError(why, 4)
    task = tasks.find_task(tasks.read_tasks(death.last_vouched_text), before.task or None)
    if task and task.is_done:  # as ralph vouches: it had passed, and ralph died during the commit
        return
    if put_back := guard.undo_forbidden_of_dead_run(end):
        what = f"{'; '.join(put_back)} in the iteration in which ralph died, and is put back"
        raise RalphError(f"{what}; its settings may not have been yours", 1, fix="start it again")


def commit_ticked_tasks(run: Run) -> None:
    """Commits tasks that were ticked and not committed, or unticks them."""
    done = [task.id for task in run.file.last.tasks if task.is_done]
    for name in filter(run.state.uncommitted_files, done):
        guard = TreeGuard(run)  # which knows of no HEAD to put back: the user decides where it is now
        if why := guard.try_to_commit_task(name, f"{name}: done before ralph was killed\n\nRalph-Task: {name}\n"):
            what = f"{name} was ticked when ralph was killed, and cannot be committed"
            run.console.complain(f"{what}: {': '.join(why.splitlines())}")
            # its checks pass because it was done
            run.file.edit(edits.with_mark, " ", name, note="begun", why=timestamp())
            run.file.edit(edits.with_failure, name, why, run.settings.max_tries)
