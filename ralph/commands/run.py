"""Starts a run: finds and checks everything before money is spent."""

import os
import shlex
from pathlib import Path

from ralph import files
from ralph.errors import RalphError
from ralph.plan import progress
from ralph.plan.progress.file import ProgressFile
from ralph.process import lock
from ralph.run.prepared import PreparedStart
from ralph.run.stop_rules import Reason, Stop, Tally, stop_reason
from ralph.screen.text import is_any_output_on_terminal
from ralph.settings import options, sources


def start_run(asked: options.Invocation) -> int:
    """Does what the user asked for, and returns the exit code."""
    start = find_start(asked)
    if asked.dry_run:
        from ralph.commands.outside_loop import show_dry_run  # noqa: PLC0415 - as `session` below

        show_dry_run(start)
        return 0
    if start.settings.interactive:
        from ralph.commands.outside_loop import talk  # noqa: PLC0415 - same

        following = talk(start)
        return start_run(following) if following else 0
    held_lock = lock.acquire_lock(lock.working_tree(Path.cwd()))
    file = ProgressFile(start.progress_path, start.state_folder)
    file.load_text_of_dead_run()
    now = read_progress_if_begun(start, file)
    if now and not held_lock.last_noted_holder().run and (early := why_nothing_to_do(start, file.text)):
        missing = start.imported.error_about_missing_tasks(file.text) if start.imported else None
        raise RalphError.of([early, missing] if missing else [early])
    from ralph.commands.session import run_session  # noqa: PLC0415 - 60 ms, if there is work

    return run_session(start, file, held_lock)


def find_start(asked: options.Invocation) -> PreparedStart:
    """Finds plan, settings and progress file, and changes nothing. Raises RalphError with all that is wrong."""
    plan = Path(asked.plan)
    text = files.read_or_empty(plan)
    if not text:
        if files.is_file(plan):
            raise RalphError(f"{plan}: has nothing in it that can be read", fix="describe in it what you want")
        what = f"{plan}: No such file" if asked.plan else "no plan is named"
        raise RalphError(what, fix=options.suggest_for_missing_plan(asked.plan, asked.mode) or "name the plan first")
    given = sources.collect_settings(plan, asked.given)
    name = files.plan_name(plan)
    progress_path = sources.resolve_only(given, "RALPH_PROGRESS_FILE").progress_file or Path(f"{name}_PROGRESS.md")
    imported = None
    if plan.name.endswith(".json") or b"json" in text.lower():
        from ralph.plan import taskjson  # noqa: PLC0415 - 10 ms that only plans that mention JSON pay

        imported = taskjson.find_task_list(plan, text)
    now = progress.parse(files.read_or_empty(progress_path))
    start = PreparedStart(
        asked=asked,
        plan=plan.resolve(),
        name=name,
        given=given,
        progress_before=now,
        imported=imported,
        progress_path=progress_path,
        rehearsal="RALPH_REHEARSAL" in os.environ,
    )
    mode = asked.mode
    if mode == "all" and not (now.mode or now.done or now.tasks or imported):
        mode = "plan"
    elif mode in ("", "all"):
        mode = "build" if now.done else now.mode or "build"
    try:
        return start.in_mode(mode)
    except RalphError as error:
        if mode == asked.mode or mode != now.mode:
            raise
        entered = start.in_mode("build")
        entered.settings.remarks.append(RalphError(f"{progress_path}: Mode: {mode} is ignored: {error.message}"))
        return entered


def why_nothing_to_do(start: PreparedStart, text: bytes) -> RalphError | None:
    """Returns why a run has nothing to do with this progress file, and what the user can do; None if there is work."""
    path, now = start.progress_path, progress.parse(text)
    if now.blocked_by_ralph and is_any_output_on_terminal():
        now = progress.parse(progress.without_control_lines(text, "RALPH_BLOCKED"))
    if start.state_folder.unfinished_iteration() and now.blocked is None:
        return None  # what the run wrote that died was never checked
    stop = stop_reason(now, Tally(), start.settings)
    if start.is_strict_loop:
        if stop and stop.reason is Reason.DONE and start.has_tree_changed_since_verified(now):
            return None
        if not stop and (now.tasks or not start.imported):
            from ralph.plan.tasks import why_stuck  # noqa: PLC0415 - 40 ms that only --strict pays

            if why := why_stuck(start.read_valid_tasks(text)):
                stop = Stop(Reason.STUCK, why)
    if not stop:
        return None
    fixes = {Reason.LIMIT: "raise it to continue", Reason.DONE: f"delete RALPH_DONE in {path} to continue"}
    fix = fixes.get(stop.reason) or stop.next_step_hint(str(path)) or f"edit {path}"
    what = f"{start.name}: {stop.reason.label}: {stop.why}".removesuffix(": ")
    return RalphError(what, stop.reason.code, fix=fix, for_people=True)


def check_names_plan(plan: Path, progress_path: Path, now: progress.Progress) -> None:
    """Raises RalphError if the progress file is another plan's: two plans of one name would share their progress."""
    other = Path(now.plan or plan)
    if other.exists() and not other.samefile(plan):
        fix = "rename one of them, or give this one its own with --progress-file"
        raise RalphError(f"{progress_path} belongs to another plan, {other}", fix=fix)


def read_progress_if_begun(start: PreparedStart, file: ProgressFile) -> progress.Progress | None:
    """Reads the progress file; None if there is none. Raises RalphError if it is another plan's, or in another folder.

    Else cron in the wrong folder would start over.
    """
    now = file.read_or_restore() if file.exists() else None
    path, beside = start.progress_path, start.plan.with_name(f"{start.name}_PROGRESS.md")
    if now:
        check_names_plan(start.plan, path, now)
    elif not start.settings.progress_file and beside.exists():
        fix = f"start ralph with -C {shlex.quote(str(beside.parent))}"
        raise RalphError(f"{path} is not in {Path.cwd()}, but there is one beside the plan", fix=fix)
    return now
