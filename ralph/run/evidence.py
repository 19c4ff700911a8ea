"""Evidence: what proves a task's tick, and RALPH_DONE: how they are checked, and accepted or taken back.

A check proves something only if it was red before. The results are written below the task, so that they survive a
restart and reach a clone.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ralph.git.changes import run_git
from ralph.plan import progress
from ralph.plan.tasks import Task, read_tasks
from ralph.run.acceptance import Check, CheckResult, evaluate_check, parse_check
from ralph.run.context import Run
from ralph.run.judge import describe_open_tasks
from ralph.store.state import FirstVerifyResult
from ralph.words import REASON_LENGTH, format_duration, join_names, one_line, timestamp


def run_check(run: Run, check: Check, doing: str = "checking") -> CheckResult | None:
    """Runs a check and returns its result; None if a signal ended it."""
    ended = evaluate_check(
        check,
        base_url=run.settings.base_url or "",
        run_unless_interrupted=lambda command: run.command_runner.run_shell(doing, "the check", command),
        why_commit_would_lack=run.controller.why_commit_would_lack,
    )
    return None if run.stop_if_interrupted() else ended


def run_repeatable_checks(
    run: Run, checks: Iterable[Check], *, retry_red: bool = False
) -> dict[str, CheckResult] | None:
    """Runs these checks, each once. Returns their results by text; None if a signal ended them.

    One that may change something is not run, and counts as one that cannot run. With `retry_red`, for ticked tasks, a
    red one is run twice, since tests can be flaky, and the end of max-time ends them, too.
    """
    asked = {check.text: check for check in checks if check.fields}
    found = dict[str, CheckResult]()
    for number, (text, check) in enumerate(asked.items(), 1):
        doing = f"checking {number} of {len(asked)} again" if retry_red else "checking"
        ended: CheckResult | None = CheckResult(1, "not run beforehand", cannot_run=True)
        for _ in range((1 + retry_red) * check.is_safe_to_repeat):
            ended = None if retry_red and run.remaining_s() <= 0 else run_check(run, check, doing)
            if not ended or not ended.why_failed or ended.cannot_run:
                break
        if not ended:
            return None
        found[text] = ended
    return found


def find_broken_tasks(run: Run) -> dict[str, str] | None:
    """Runs the checks of ticked tasks again. Returns why tasks are no longer done, by id; None if it had to stop early.

    It skips checks that passed before their task began; one that cannot run counts for nothing.
    """
    owners = defaultdict[str, list[Task]](list)
    for task in read_tasks(run.file.text):
        held_before = [one for each in (task, *task.subtasks) for one in each.note_values("held")]
        for line in task.note_values("verify") if task.mark == "x" else ():
            if line not in held_before:
                owners[line].append(task)
    found = run_repeatable_checks(run, map(parse_check, owners), retry_red=True)
    if found is None:
        return None
    broken = [
        (one, ended.failure_with_output)
        for line, ended in found.items()
        if not ended.cannot_run
        for one in owners[line]
    ]
    return {
        one.id: f"a later change broke it{_describe_later_commits(run, one.id)}: {why}" for one, why in broken if why
    }


def _describe_later_commits(run: Run, task_id: str) -> str:
    """Names the commit after the task's own, or how many there are; empty if git does not know."""
    own = f"HEAD^{{/Ralph-Task: {task_id}(\n|$)}}"
    later = os.fsdecode(run_git("log", "--format=%h %s", f"{own}..", cwd=run.top).stdout).splitlines()
    return f" (since: {join_names(later, 1)})" if later else ""


def accept_plan_done_or_count_refusal(run: Run) -> None:
    """Accepts a RALPH_DONE, or refuses it, which counts toward the limit.

    Work that the user adds meanwhile also keeps the plan from being done, but is not a refusal.
    """
    if reasons := accept_or_refuse_plan_done(run):
        run.tally.refusals += 1
        run.tally.last_failure = why = one_line("; ".join(reasons), REASON_LENGTH)
        if run.last_lines:
            run.last_lines[-1] += f" · done refused: {why}"
    run.state.remove_iteration_note()


def accept_or_refuse_plan_done(run: Run, *, is_verified: bool = False) -> Sequence[str]:
    """Returns why RALPH_DONE was refused; empty if it was accepted, or if a signal left that open.

    No task may be open, then the checks of all ticked tasks must pass once more, then the verify command.
    """
    before = _open_tasks_and_message_lines(run)
    open_tasks = describe_open_tasks(run.file.last) if run.controller.picks_tasks else ""
    reasons = [open_tasks]
    if not open_tasks:
        if (broken := run.controller.find_and_reopen_broken_tasks()) is None:
            return ()
        reasons = [f"{task} is not done: {why}" for task, why in broken.items()]
    if run.settings.verify and not (reasons or is_verified):
        if (verified := run_verify_command(run)) is None:
            return ()
        if verified.why_failed:
            refuse_plan_done(run, [verified.why_failed], output=verified.output)
            return [verified.failure_with_output]
    if reasons:
        refuse_plan_done(run, reasons)
    elif new := _open_tasks_and_message_lines(run) - before:
        run.console.complain(f"back to work: {join_names(sorted(new))} came while it was verified")
        run.file.edit(progress.with_status, "IN_PROGRESS")
    else:
        _write_done_to_progress_file(run)
    return reasons


def _open_tasks_and_message_lines(run: Run) -> set[str]:
    """Reads the open tasks of the progress file, and what the user wrote under Messages."""
    now = run.read_progress()
    messages = map(os.fsdecode, progress.section_lines(run.file.text, "Messages"))
    return {task.whole for task in now.open}.union(messages)


def _write_done_to_progress_file(run: Run) -> None:
    """Records that RALPH_DONE is true, and removes what an earlier refusal left in the file."""
    settings = run.settings
    if run.controller.picks_tasks:  # so ralph sets the status
        run.file.edit(progress.with_status, "RALPH_DONE")
        if not run.git_settings.serious:
            run.changes.take_changes()
    run.file.edit(progress.without_refusal)
    if settings.verify or (settings.strict and settings.evidence):
        alone = "" if settings.verify else f" {progress.CHECKS_ALONE}"
        run.file.edit(progress.with_done_verified, f"{timestamp()} {run.changes.tree_version()}{alone}")


def refuse_plan_done(run: Run, reasons: Sequence[str], vanished: Sequence[Task] = (), output: str = "") -> None:
    """Removes RALPH_DONE; puts the vanished tasks back, and writes the reasons for the next iteration."""
    for reason in reasons:
        run.console.complain(f"RALPH_DONE refused: {reason}")
    run.file.edit(progress.with_tasks_added, [task.line.body for task in vanished])
    run.file.edit(progress.with_refusal, reasons, output)
    run.file.edit(progress.with_status, "IN_PROGRESS")


def is_first_verify_due(run: Run) -> bool:
    """Whether verify must run before the first agent, which is not to blame for a red one."""
    can_skip = run.settings.once or run.prepared_mode.rehearsal or run.is_attempt
    return run.tally.first_verify_failure is None and not can_skip


def run_first_verify(run: Run) -> None:
    """Runs verify unless it passed on this very tree, and complains if it is red."""
    now = run.file.last
    if now.verified and now.verified_tree_version == run.changes.tree_version():
        run.tally.first_verify_failure = ""
    elif (ended := run_verify_command(run)) and ended.why_failed:
        run.console.complain(f"before the first task, {ended.why_failed}")


def run_verify_command(run: Run) -> CheckResult | None:
    """Runs the verify command and returns its result; None if a signal ended it."""
    command, tally = run.settings.verify or "", run.tally
    ended = run.command_runner.run_shell("verifying", "the verify command", command)
    if ended is None:
        return None
    tally.red_failures = tally.red_failures + 1 if ended.why_failed and tally.first_verify_failure else 0
    if tally.first_verify_failure is None or not ended.why_failed:
        tally.first_verify_failure = ended.failure_with_output
        run.state.save_note(FirstVerifyResult(command=command, failure=ended.failure_with_output))
    verified = ended._replace(how_ended=f"the verify command `{' '.join(command.split())}` {ended.how_ended}")
    run.write_journal(
        "verify",
        success=not verified.why_failed,
        message=verified.failure_with_output,
        command=command,
        duration_s=round(verified.took_s, 3),
    )
    for line in verified.failure_with_output.split("\n")[1:]:
        run.screen.say_cleaned_unless_quiet(f"  {line}")
    if not verified.why_failed:
        run.screen.say_unless_quiet(f"ralph: verified in {format_duration(verified.took_s)}")
    return verified
