"""Texts about a run for the user: its heading, status line, notices and last line. Pure functions."""

import shlex
import time

from ralph import files
from ralph.agent.turn import Outcome
from ralph.notify.channels import Notice
from ralph.plan import progress
from ralph.run.context import Run
from ralph.run.judge import Iteration
from ralph.run.stop_rules import Reason, Stop
from ralph.screen.text import clip, display_width
from ralph.words import REASON_LENGTH, format_duration, format_usd, one_line, plural, shorten

_IDLE_S = 2.0
"""Seconds of silence from which the status line mentions it."""
_DOING_COLUMNS = 16
"""Columns for the current activity, before figures are left out."""


def _mode(run: Run) -> str:
    return f"{run.mode} {run.file.last.rounds}".strip()


def first_line(run: Run) -> str:
    """The first line of a run: where its progress is, why it may not commit, what it found, who gets notices."""
    off = "" if run.settings.auto_commit else f"commits are off ({run.settings.given['auto_commit'].where})"
    commit, text = run.changes.identify_tree(), ", ".join(run.outbox.names)
    found = "uncommitted changes" if "-dirty-" in commit else "" if commit else "no commit to return to"
    return " · ".join(filter(None, [f"progress in {run.file.path}", off, found, text and f"notices: {text}"]))


def iteration_heading(run: Run) -> str:
    """The first line of an iteration."""
    what = f"{_mode(run)} {run.start.name}"
    if run.settings.once:
        return what
    at_most = f" of {run.settings.max_iterations}" if run.settings.max_iterations else ""
    if run.earlier:
        at_most = f" ({run.current.number - run.earlier}{at_most} in this run)"
    task = f" · {run.current.task}" if run.current.task else ""
    return f"{what} · iteration {run.current.number}{at_most} · {run.file.last.task_counts}{task}"


def iteration_summary(run: Run, iteration: Iteration) -> str:
    """`#7 · 9/15 tasks (+1, 2 new) · 3 commits +212 −40 · 6m12s · $0.41`, and what was wrong."""  # noqa: RUF002
    turn, commits = iteration.turn, iteration.commits
    changes = [f"{iteration.newly_ticked_count:+d}"] if iteration.newly_ticked_count else []
    if iteration.new_task_count > 0:
        changes.append(f"{iteration.new_task_count} new")
    wrong = one_line(iteration.failed or turn.why, REASON_LENGTH)
    parts = [
        f"#{run.current.number}",
        run.current.task,
        iteration.after.task_counts + (f" ({', '.join(changes)})" if changes else ""),
        f"{plural(commits.count, 'commit')} +{commits.added} −{commits.removed}" if commits.count else "",  # noqa: RUF001 - a minus
        "waits to be merged" if iteration.is_queued else "merged" if iteration.is_merge and iteration.passed else "",
        format_duration(turn.took_s),
        turn.model if len(run.settings.model or ()) > 1 else "",
        format_usd(turn.cost_usd, at_least=turn.at_least) if turn.cost_usd is not None else "",
        wrong if turn.outcome is Outcome.OK else f"{turn.outcome.value}: {wrong}",
        f"done refused: {one_line('; '.join(iteration.refused), REASON_LENGTH)}" if iteration.refused else "",
    ]
    return " · ".join(filter(None, parts))


def started_notice(run: Run) -> Notice:
    """The notice that the first iteration begins."""
    red = run.tally.red_start
    return _notice(run, "started", "Started", red and f"Verify was red before the first task: {red}")


def progress_notice(run: Run, iteration: Iteration) -> Notice:
    """The notice that an iteration is over."""
    how = "failed" if iteration.failed else "completed"
    return _notice(run, "progress", "Progress", f"Iteration {run.current.number} {how}", run.live.summaries[-1])


def waiting_notice(run: Run, what: str, why: str) -> Notice:
    """The notice that nothing happens for a while."""
    return _notice(run, "waiting", "Waiting", what.capitalize(), f"Reason: {shorten(why, 1000)}")


def end_notice(run: Run, stop: Stop) -> Notice:
    """The notice that the run is over: why, its result, and what the user can do."""
    code, move, pays = stop.reason.code, stop.next_step_hint(run.file.path.name), run.tally.pays
    event, what = "stopped", "Stopped"
    if code == 0:
        is_plan = run.mode == "plan"
        event, what = ("planned", "Planning Complete!") if is_plan else ("done", "Complete!")
    elif code in (1, 4):
        event, what = "blocked", "Blocked"
    lines = [
        stop.why and f"Reason: {shorten(stop.why, 1000)}",
        move and f"To continue: {move}",
        run_figures(run) + (f", paid by the API key in {pays}" if pays else ""),
        "Last:" if run.live.summaries else "",
    ]
    return _notice(run, event, what, *lines, *run.live.summaries, *run.live.put_backs)


def _notice(run: Run, event: str, what: str, *lines: str) -> Notice:
    title = f"Rehearsal: Ralph {what}" if run.start.rehearsal else f"Ralph {what}"  # so that nobody takes it for real
    parts = [f"Plan: {run.start.name}", f"Mode: {_mode(run)}", *lines, f"Repo: {run.top.name}"]
    return Notice(event, title, "\n".join(filter(None, parts)))


def last_line(run: Run, stop: Stop) -> str:
    """The last line of a run."""
    what = stop.reason.label + f": {stop.why}" * bool(stop.why and stop.reason.code != 1)  # an error is on stderr
    move = stop.next_step_hint(run.file.path.name)
    ends = f"to continue, {move}" if move else ""
    if stop.reason is Reason.ONCE and run.settings.once and run.settings.next_mode:
        what = f"{run.mode} ready in {run.file.path}"
        ends = f"next: ralph {shlex.quote(run.start.asked.plan)} {run.settings.next_mode}"
    return " · ".join(filter(None, [what, run_figures(run), ends]))


def run_figures(run: Run) -> str:
    """The figures of the run so far: tasks, iterations, commits, time and cost."""
    tally, parts = run.tally, [run.file.last.task_counts]
    if tally.iterations > 1 or not run.settings.once:
        parts += [plural(tally.iterations, "iteration"), plural(tally.commits, "commit")]
    if run.file.last.done and run.settings.strict and not run.settings.evidence:
        parts.append("not checked again")
    parts.append(format_duration(run.elapsed_s()))
    if tally.waited_s:
        parts.append(f"{format_duration(tally.waited_s)} of it waiting")
    if tally.cost_usd is not None:
        parts.append(format_usd(tally.cost_usd, at_least=tally.at_least))
    return " · ".join(parts)


def status_line(run: Run, edge: int) -> str:
    """The status line, at most `edge` columns wide: the activity is shortened first, then cost, time and the others go.

    Above it is a line for each task in progress, under `--jobs`.
    """
    tally = run.tally
    now = run.file.last
    doing = run.view.doing
    silent_s = time.monotonic() - run.view.heard_at
    clock = f" · idle {format_duration(silent_s)}" if silent_s >= _IDLE_S else ""
    if run.console.activity:
        doing, began, seconds = run.console.activity
        took_s = run.pace.uptime_s() - began
        left = "" if seconds is None else f" · {format_duration(max(0.0, seconds - took_s))} left"
        clock = left or f" · {format_duration(took_s)}"
    if progress.parse(files.read_or_empty(run.file.path)).stop:  # the run itself reads it after the iteration
        clock += " · then RALPH_STOP"
    figures = []
    if run.current.number and not run.settings.once:  # planning works on no task
        if now.tasks:
            figures.append(f"task {min(now.ticked + 1, len(now.tasks))} of {len(now.tasks)} · ")
        figures.append(f"iteration {run.current.number} · ")
    figures.append(f"{format_duration(run.elapsed_s())} · ")
    if tally.cost_usd is not None:
        figures.append(f"{format_usd(tally.cost_usd, at_least=tally.at_least)} · ")
    while figures and display_width("".join(figures) + clock) + min(_DOING_COLUMNS, display_width(doing)) > edge:
        figures.pop()
    shown = "".join(figures)
    line = clip(shown + clip(doing, edge - display_width(shown + clock)) + clock, edge)
    return "\n".join([*run.controller.activity, line])
