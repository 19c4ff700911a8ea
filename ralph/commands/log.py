"""`ralph log`: the iterations of a plan, one line each, or one of them as the screen showed it; changes nothing."""

import re
import sys
import time
from pathlib import Path

from ralph.commands import plans
from ralph.errors import RalphError
from ralph.process.programs import run_in_front
from ralph.screen.view import AgentView
from ralph.store import journal
from ralph.words import format_moment, without_control_codes


def print_log_or_iteration(  # noqa: PLR0913 - what can be asked for
    plan_word: str | None,
    *,
    number: str | None,
    part: str | None,
    follow: bool,
    verbose: bool,
    progress_file: str | None,
) -> None:
    """Prints the log of a plan, or one iteration. Raises RalphError if either does not exist."""
    if number is None and plan_word and re.fullmatch(r"last|\d+", plan_word):
        plan_word, number = None, plan_word  # the only plan of the folder need not be named
    plan, view = plans.find_plan(plan_word, progress_file), AgentView(_print_clean, whole=verbose)
    if follow:
        _follow(plan, view)
    elif part == "memory":
        from ralph.run.notices import describe_last_iterations_for_prompt  # noqa: PLC0415 - 20 ms that nothing else here pays

        _print_clean(describe_last_iterations_for_prompt(plan.state_folder) or "nothing yet")
    elif number or part:
        _print_iteration(plans.inspect_plan(plan), number or "last", part, view)
    else:
        seen = plans.inspect_plan(plan)
        _print_records(seen.records)
        if not seen.records:
            _print_clean(f"nothing has run yet; to begin, {seen.next_step_hint or 'run ralph'}")


def _print_clean(line: str) -> None:
    """Prints a line without control codes. Unlike a run it waits for a slow reader."""
    print(without_control_codes(line))


def _print_records(records: list[journal.Record]) -> None:
    """Prints a line for each record that has one, with a dash if an iteration changed nothing."""
    for record in records:
        if message := plans.describe_record(record):
            is_idle = record.event == "iteration" and record.counted and not record.moved
            mark = "\N{EN DASH}" if is_idle else " "
            _print_clean(f"{mark} {format_moment(record.written_at, 0)}  {message}")


def _print_iteration(seen: plans.PlanDetails, number: str, part: str | None, view: AgentView) -> None:
    """Prints one iteration as the screen showed it, and its lines in the list; or its commits, raw output or prompt."""
    plan = seen.plan
    row = next((row for row in reversed(seen.iterations) if number in ("last", str(row.iteration))), None)
    if not row:
        raise RalphError(f"{plan.name}: there is no such iteration", fix=f"`ralph log {plan.name}` lists them")
    if part == "diff":
        if not row.commits:
            raise RalphError(f"iteration {row.iteration} committed nothing", 1)
        between = f"{row.base}..{row.head}" if row.base else row.head
        folder = plan.progress_path.resolve().parent
        if run_in_front(["git", "-C", str(folder), "log", "--reverse", "--patch", "--end-of-options", between, "--"]):
            raise RalphError(f"iteration {row.iteration}: git does not show its commits", 1)
        return
    path = plan.state_folder.folder / "transcripts" / row.transcript
    path = path.with_suffix(".prompt.md") if part == "prompt" else path
    if not path.is_file():
        raise RalphError(
            f"{plan.name}: there is no transcript of iteration {row.iteration}; the newest 200 MB are kept", 1
        )
    if part:
        sys.stdout.buffer.write(path.read_bytes())
        return
    _TranscriptViewer(plan, row.mode, row.iteration, path, view).show_new_lines(is_output_complete=True)
    _print_records([one for one in seen.records if (one.run, one.iteration) == (row.run, row.iteration)])


class _TranscriptViewer:
    """Shows the transcript at `path`, even while it grows, and the agent's standard error."""

    def __init__(self, plan: plans.Plan, mode: str, iteration: int, path: Path, view: AgentView):
        _print_clean(f"{mode} {plan.name} · iteration {iteration}")
        self.path = path
        self._reader = view.new_reader()
        self._files = [place.open("rb") for place in (path, path.with_suffix(".err")) if place.is_file()]

    def show_new_lines(self, *, is_output_complete: bool) -> None:
        """Shows what was added since; if that is the last of it, also a line without a line break."""
        self._reader.read_output(*[file.read() for file in self._files])
        if is_output_complete:
            self._reader.read_last_line()


def _follow(plan: plans.Plan, view: AgentView) -> None:
    """Shows the running iteration and those after it until the run ends. Raises RalphError without one."""
    if not plan.holder:
        raise RalphError(f"{plan.name}: no run works on it now", 1, fix=f"`ralph log {plan.name}` shows what was")
    state = plan.state_folder
    news, at = journal.read_since(state.journal, 0)
    _print_records(news[-1:])
    replay, is_over = None, False
    while not is_over:
        is_over = not plan.holder
        news, at = journal.read_since(state.journal, at)
        running = state.unfinished_iteration()
        if replay:
            replay.show_new_lines(is_output_complete=bool(news or not running or is_over))
        _print_records(news)
        if running and running.transcript.is_file() and (replay is None or replay.path != running.transcript):
            replay = _TranscriptViewer(plan, running.mode, running.iteration, running.transcript, view)
        sys.stdout.flush()
        time.sleep(1)  # seldom, since looking for the end of the run takes its lock for an instant
    if running:
        seen = plans.inspect_plan(plan)
        _print_clean(f"{seen.state}: {seen.why}")
