"""RALPH_DONE: when it is a claim, how it is checked, and how it is accepted or taken back."""

from collections.abc import Sequence

from ralph.plan import progress
from ralph.plan.progress import Task
from ralph.run.acceptance import CheckResult
from ralph.run.context import Run
from ralph.run.judge import why_not_done
from ralph.store.notes import StartResult
from ralph.words import REASON_LENGTH, format_duration, join_names, one_line, timestamp


def check_done_and_count(run: Run) -> None:
    """Accepts a RALPH_DONE, or refuses it, which counts toward the limit.

    Work that the user adds meanwhile also keeps the plan from being done, but is not a refusal.
    """
    if reasons := check_done(run):
        run.tally.refusals += 1
        run.tally.last_failure = one_line("; ".join(reasons), REASON_LENGTH)
        if run.live.summaries:
            run.live.summaries.append(
                f"{run.live.summaries.pop()} · done refused: {run.tally.last_failure}"
            )  # in the last notice
    run.state.remove_iteration_note()


def check_done(run: Run, *, is_verified: bool = False) -> Sequence[str]:
    """Returns why RALPH_DONE was refused; empty if it was accepted, or if a signal left that open.

    No task may be open, then the checks of all ticked tasks must pass once more, then the verify command.
    """
    before = _open_work(run)
    reasons = why_not_done(run.file.last) if run.controller.picks_tasks else []
    if not reasons:
        if (broken := run.controller.recheck()) is None:
            return ()
        reasons = [f"{task} is not done: {why}" for task, why in broken.items()]
    verified = run_verify(run) if run.settings.verify and not reasons and not is_verified else None
    if verified and verified.failed:
        reasons = [verified.failed]
    if reasons:
        refuse_done(run, reasons, output=verified.output if verified else "")
        return [verified.why] if verified else reasons
    if run.read_progress() and (new := _open_work(run) - before):
        run.console.complain(f"back to work: {join_names(sorted(new))} came while it was verified")
        run.file.edit(progress.with_status, "IN_PROGRESS")
    elif verified or is_verified or not run.settings.verify:
        accept_done(run)
    return ()


def _open_work(run: Run) -> set[str]:
    """Returns the open tasks of the progress file, and what the user wrote under Messages."""
    messages = {line.decode(errors="replace") for line in progress.section_lines(run.file.text, "Messages")}
    return {task.whole for task in run.file.last.open} | messages


def accept_done(run: Run) -> None:
    """Records that RALPH_DONE is true, and removes what an earlier refusal left in the file."""
    if run.controller.picks_tasks:  # so ralph sets the status
        run.file.edit(progress.with_status, "RALPH_DONE")
        run.write_statuses_to_plan()
        if not run.git_settings.serious:
            run.changes.take_changes()
    run.file.edit(progress.without_rejection)
    if run.settings.verify or (run.settings.strict and run.settings.evidence):
        alone = "" if run.settings.verify else f" {progress.CHECKS_ALONE}"
        run.file.edit(progress.with_verified, f"{timestamp()} {run.changes.identify_tree()}{alone}")


def refuse_done(run: Run, reasons: Sequence[str], missing: Sequence[Task] = (), output: str = "") -> None:
    """Removes RALPH_DONE; puts the missing tasks back, and writes the reasons for the next iteration."""
    for reason in reasons:
        run.console.complain(f"RALPH_DONE refused: {reason}")

    def taken_back(text: bytes) -> bytes:
        text = progress.with_status(text, "IN_PROGRESS")
        text = progress.with_tasks_added(text, [task.line.body for task in missing])
        return progress.with_rejection(text, reasons, output)

    run.file.edit(taken_back)


def run_first_verify(run: Run) -> bool:
    """Runs the verify command once before the first agent, which is not to blame for a red one; True if it ran now."""
    settings, now = run.settings, run.file.last
    if not settings.verify or settings.once or run.start.rehearsal or run.is_attempt:
        return False
    start = load_start_result(run)
    if start is not None:
        run.tally.red_start = start
        return False
    if now.verified and now.verified_commit == run.changes.identify_tree():
        _save_start_result(run, "")
    elif (ended := run_verify(run)) and ended.failed:
        run.console.complain(f"before the first task, {ended.failed}")
    return True


def load_start_result(run: Run) -> str | None:
    """Returns how the verify command ended before anything was built; empty once it was green, None if it never ran."""
    noted = run.state.load_note(StartResult)
    return noted.failure if noted and noted.command == run.settings.verify else None


def _save_start_result(run: Run, how: str) -> None:
    run.state.save_note(StartResult(command=run.settings.verify or "", failure=how))


def run_verify(run: Run) -> CheckResult | None:
    """Runs the verify command and returns its result; None if a signal ended it."""
    command = run.settings.verify or ""
    ended = run.command_runner.run_shell("verifying", "the verify command", command)
    if ended is None:
        return None
    start = load_start_result(run)
    run.tally.red_failures = run.tally.red_failures + 1 if ended.failed and start else 0
    if start is None or (start and not ended.failed):
        _save_start_result(run, ended.why)
    run.tally.red_start = load_start_result(run) or ""
    verified = ended._replace(what=f"the verify command `{' '.join(command.split())}` {ended.what}")
    run.write_journal(
        "verify",
        success=not verified.failed,
        message=verified.why,
        command=command,
        duration_s=round(verified.took_s, 3),
        output=verified.record,
    )
    for line in verified.why.split("\n")[1:]:
        run.screen.say_for_agent(f"  {line}")
    if not verified.failed:
        run.screen.remark(f"ralph: verified in {format_duration(verified.took_s)}")
    return verified
