"""Evidence: the results of a task's checks before its first attempt, and whether ticked tasks still pass theirs.

A check proves something only if it was red before. The results are written below the task, so that they survive a
restart and reach a clone.
"""

import os
from collections.abc import Iterable, Sequence

from ralph.git.changes import run_git
from ralph.plan import tasks
from ralph.plan.tasks import Note, Task
from ralph.run import acceptance
from ralph.run.acceptance import Check, CheckResult, CommitLacks, checks_of_tasks
from ralph.run.context import Run
from ralph.words import plural, timestamp


def run_check(run: Run, check: Check, lacks: CommitLacks, doing: str = "checking") -> CheckResult | None:
    """Runs a check and returns its result; None if a signal ended it."""
    ended = acceptance.evaluate_check(
        check,
        base_url=run.settings.base_url or "",
        run=lambda command: run.command_runner.run_shell(doing, "the check", command),
        lacks=lacks,
    )
    return None if run.stop_if_interrupted() else ended


def run_checks_before(run: Run, checks: Iterable[Check], lacks: CommitLacks) -> dict[str, CheckResult] | None:
    """Runs these checks before anything is built. Returns their results by text; None if a signal ended them.

    Each is run once. One that may change something is not run, and counts as one that cannot run.
    """
    found = dict[str, CheckResult]()
    for check in checks:
        if check.fields and check.text not in found:
            unknown = CheckResult(1, "not run beforehand", cannot_run=True)
            ended = run_check(run, check, lacks) if check.changes_nothing else unknown
            if ended is None:
                return None
            found[check.text] = ended
    return found


def evidence_notes(found: dict[str, CheckResult], commit: str) -> list[Note]:
    """Returns the notes for a task that begins: when, at which commit, and which of its checks prove nothing."""
    notes = [Note("begun", f"{timestamp()} {commit}".rstrip())]
    for text, ended in found.items():
        if not ended.failed or ended.cannot_run:
            notes.append(Note("cannot run" if ended.cannot_run else "held", text))
    return notes


def is_proved(task: Task, checks: Sequence[Check], *, has_changes: bool) -> bool:
    """Whether there is evidence for a tick, now that all of these checks are green.

    Evidence is a check that was red when the task began; if there are none, or one could not run, changed files.
    """
    texts = {check.text for check in checks if check.fields}
    unknown = texts.intersection(task.note_values("cannot run"))
    was_red = texts.difference(unknown, task.note_values("held"))
    return bool(was_red) or (has_changes and (bool(unknown) or not texts))


def recheck(run: Run, text: bytes, lacks: CommitLacks) -> dict[str, str] | None:
    """Runs the checks of ticked tasks again. Returns why tasks are no longer done, by id; None if it had to stop early.

    Each check is run once, in the order of the list, and a red one twice, since tests can be flaky. It skips checks
    that passed before their task began, or that may change something; one that cannot run counts for nothing.
    """
    asked = dict[str, list[Task]]()
    for task in tasks.read_tasks(text):
        held_before = {one for each in (task, *task.subtasks) for one in each.note_values("held")}
        for check in checks_of_tasks([task] if task.mark == "x" else ()):
            if check.fields and check.changes_nothing and check.text not in held_before:
                asked.setdefault(check.text, []).append(task)
    broken = dict[str, str]()
    for number, (line, owners) in enumerate(asked.items(), 1):
        doing = f"checking {number} of {len(asked)} again"
        run.console.set_activity(doing)
        for is_last in (False, True):
            is_over = run.settings.max_time is not None and run.elapsed_s() >= run.settings.max_time
            if is_over or (ended := run_check(run, acceptance.parse_check(line), lacks, doing)) is None:
                return None
            if not ended.failed or ended.cannot_run:
                break
            if is_last:
                broken |= {
                    one.id: f"a later change broke it{_breaking_commit(run, one.id)}: {ended.why}" for one in owners
                }
    return broken


def _breaking_commit(run: Run, task_id: str) -> str:
    """Names the commit after the task's own, or how many there are; empty if git does not know."""

    def commits(*which: str) -> list[str]:
        return os.fsdecode(run_git("log", "--format=%h %s", *which, cwd=run.top).stdout).splitlines()

    own = commits("-1", f"--grep=^Ralph-Task: {task_id}$")
    later = commits(f"{own[0].split()[0]}..") if own else []
    if not later:
        return ""
    return f" ({later[0]})" if len(later) == 1 else f" (one of {plural(len(later), 'commit')} since)"
