"""Texts about a run: for the user its heading, status line, notices and last line; for the next iteration a memory."""

import os
import shlex
import time
from itertools import islice

from ralph import files
from ralph.agent.turn import Outcome
from ralph.notify.channels import Notice
from ralph.plan import progress
from ralph.run.context import Run
from ralph.run.judge import Iteration
from ralph.run.stop_rules import Reason, Stop
from ralph.screen.text import clip, display_width
from ralph.store import journal
from ralph.store.state import PreviousModeResults, State
from ralph.words import (
    REASON_LENGTH,
    format_duration,
    join_names,
    one_line,
    plural,
    shorten,
    usd_or_empty,
    without_control_codes,
)

# Seconds of silence from which the status line mentions it.
_IDLE_S = 2.0
_ITERATIONS = 3
# The most characters of each message in a memory, since each iteration pays for reading them.
_WORDS = 600
# Bytes at the end of the journal in which a memory looks for these iterations.
_TAIL_BYTES = 32_000
# The titles of notices that differ from the name of their event.
_TITLES = {"planned": "Planning Complete!", "done": "Complete!"}
HANDOVER = "RALPH_HANDOVER"
"""A variable of an attempt's environment: the handover of the attempt before it at the same task."""


def print_progress_path(run: Run) -> None:
    """Prints the first line of a run: where its progress is, why it may not commit, what it found, who gets notices."""
    settings, commit = run.settings, run.changes.tree_version()
    names = ", ".join(run.outbox.channels_notified_when_done)
    off = "" if settings.auto_commit else f" · commits are off ({settings.given['auto_commit'].where})"
    found = " · uncommitted changes" if "-dirty-" in commit else "" if commit else " · no commit to return to"
    run.screen.say_unless_quiet(f"ralph: progress in {run.file.path}{off}{found}{names and f' · notices: {names}'}")


def _mode_and_rounds(run: Run) -> str:
    return f"{run.mode} {run.file.last.rounds}".strip()


def iteration_heading(run: Run) -> str:
    """The first line of an iteration."""
    current, most = run.iteration, run.settings.max_iterations
    heading = f"{_mode_and_rounds(run)} {run.prepared_mode.name}"
    if run.settings.once:
        return heading
    at_most = f" of {most}" if most else ""
    if run.earlier:
        at_most = f" ({current.number - run.earlier}{at_most} in this run)"
    counts = run.file.last.ticked_of_total
    return f"{heading} · iteration {current.number}{at_most} · {counts}{current.task and f' · {current.task}'}"


def iteration_summary(run: Run, iteration: Iteration) -> str:
    """`#7 · 9/15 tasks (+1, 2 new) · 3 commits +212 −40 · 6m12s · $0.41`, and what was wrong."""  # noqa: RUF002
    turn, commits, after = iteration.turn, iteration.commits, iteration.after
    ticked, new = after.ticked - iteration.before.ticked, len(after.tasks) - len(iteration.before.tasks)
    changes = f"{f'{ticked:+d}, ' if ticked else ''}{f'{new} new' if new > 0 else ''}".removesuffix(", ")
    wrong = one_line(iteration.failed or turn.why, REASON_LENGTH)
    parts = [
        f"#{run.iteration.number}",
        run.iteration.task,
        f"{after.ticked_of_total}{changes and f' ({changes})'}",
        f"{plural(commits.count, 'commit')} +{commits.added} −{commits.removed}" if commits.count else "",  # noqa: RUF001 - a minus
        "waits to be merged" if iteration.is_queued else "merged" if iteration.is_merge and iteration.passed else "",
        format_duration(turn.took_s),
        turn.model if len(run.settings.model or ()) > 1 else "",
        usd_or_empty(turn.cost_usd, at_least=turn.at_least),
        wrong if turn.outcome is Outcome.OK else f"{turn.outcome.value}: {wrong}",
        f"done refused: {one_line('; '.join(iteration.refused), REASON_LENGTH)}" if iteration.refused else "",
    ]
    return " · ".join(filter(None, parts))


def send_notice(run: Run, event: str, *lines: str | None) -> None:
    """Sends a notice of that event, with these lines of its own, as far as they say something."""
    what = _TITLES.get(event, event.capitalize())
    # so that nobody takes a rehearsal for real
    title = f"Rehearsal: Ralph {what}" if run.prepared_mode.rehearsal else f"Ralph {what}"
    parts = [f"Plan: {run.prepared_mode.name}", f"Mode: {_mode_and_rounds(run)}", *lines, f"Repo: {run.top.name}"]
    run.outbox.send(Notice(event, title, "\n".join(filter(None, parts))))


def notify_started(run: Run) -> None:
    """Sends the notice that the first iteration begins."""
    red = run.tally.first_verify_failure
    send_notice(run, "started", red and f"Verify was red before the first task: {red}")


def notify_ended(run: Run, stop: Stop) -> None:
    """Sends the notice that the run is over: why, its result, and what the user can do."""
    code, move = stop.reason.code, stop.next_step_hint(run.file.path.name)
    event = "blocked" if code in (1, 4) else "stopped"
    if code == 0:
        event = "planned" if run.mode == "plan" else "done"
    send_notice(
        run,
        event,
        stop.why and f"Reason: {shorten(stop.why, 1000)}",
        move and f"To continue: {move}",
        run_figures(run),
        "Last:" if run.last_lines else "",
        *run.last_lines,
    )


def run_closing_line(run: Run, stop: Stop) -> str:
    """The last line of a run."""
    reason, move, settings = stop.reason, stop.next_step_hint(run.file.path.name), run.settings
    if reason is Reason.ONCE and settings.once and settings.next_mode_or_empty:
        next_step = f"next: ralph {shlex.quote(run.prepared_mode.asked.plan)} {settings.next_mode_or_empty}"
        return f"{run.mode} ready in {run.file.path} · {run_figures(run)} · {next_step}"
    why = f": {stop.why}" if stop.why and reason.code != 1 else ""  # an error is on stderr
    return f"{reason.label}{why} · {run_figures(run)}{move and f' · to continue, {move}'}"


def run_figures(run: Run) -> str:
    """The figures of the run so far: tasks, iterations, commits, time and cost."""
    tally, now, settings = run.tally, run.file.last, run.settings
    counts = f" · {plural(tally.iterations, 'iteration')} · {plural(tally.commits, 'commit')}"
    if settings.once and tally.iterations <= 1:
        counts = ""
    unchecked = " · not checked again" if now.done and settings.strict and not settings.evidence else ""
    waited = f" · {format_duration(tally.waited_s)} of it waiting" if tally.waited_s else ""
    cost = usd_or_empty(tally.cost_usd, at_least=tally.at_least)
    return (
        f"{now.ticked_of_total}{counts}{unchecked} · {format_duration(run.elapsed_s())}{waited}{cost and f' · {cost}'}"
    )


def status_lines(run: Run, width: int) -> str:
    """The status line, cut to `width` columns: the activity goes first, then cost, time and the others.

    Above it is a line for each task in progress, under `--jobs`.
    """
    tally, now, number = run.tally, run.file.last, run.iteration.number
    doing, silent_s = run.view.doing, time.monotonic() - run.view.heard_at
    clock = f" · idle {format_duration(silent_s)}" if silent_s >= _IDLE_S else ""
    if run.console.activity:
        doing, began = run.console.activity
        clock = f" · {format_duration(run.clock.boot_clock_s() - began)}"
    if progress.parse(files.read_or_empty(run.file.path)).stop:  # the run itself reads it after the iteration
        clock += " · then RALPH_STOP"
    works, count = number and not run.settings.once, len(now.tasks)  # planning works on no task
    figures = [
        f"task {min(now.ticked + 1, count)} of {count}" if works and count else "",
        f"iteration {number}" if works else "",
        format_duration(run.elapsed_s()),
        usd_or_empty(tally.cost_usd, at_least=tally.at_least),
        doing,
    ]
    line = clip(" · ".join(filter(None, figures)), width - display_width(clock)) + clock
    return "\n".join([*run.controller.parallel_activity, line])


def describe_last_iterations_for_prompt(state: State, *, already_told_task: str = "", figures: str = "") -> str:
    """Returns the last iterations, the handover of one cut short, the last change of mode, and sums; empty at first.

    `figures` are those of this run; failures of `already_told_task` are left out: the prompt has them.
    """
    newest = journal.newest_iterations(state.journal, _TAIL_BYTES)
    rows = [*islice(newest, _ITERATIONS)][::-1]
    cut, left = handover_if_cut(state, already_told_task), state.load_note(PreviousModeResults)
    if not (rows or cut):
        return ""
    lines = ["The last iterations, the newest last:"]
    for row in rows:
        begins = row.summary.removesuffix(one_line(row.message, REASON_LENGTH)).rstrip(" :·")
        lines.append(f"- {row.mode_and_round} · {row.summary if row.success else f'{begins} · it did not succeed'}")
        is_told = bool(already_told_task) and row.message.startswith(f"{already_told_task}, ")
        words = dict.fromkeys(filter(None, ("" if is_told else row.message, row.said)))
        lines += [f"  {one_line(message, _WORDS)}" for message in words]
    kept = left.lines if left else ()
    lines += [cut and f"One was cut short before it was ready: {cut}", *kept, figures and f"This run so far: {figures}"]
    return without_control_codes("\n".join(filter(None, lines)))


def handover_if_cut(state: State, task: str) -> str:
    """Returns the handover of the last iteration, or of the last one at this task; empty if it was not cut short."""
    for row in journal.newest_iterations(state.journal, _TAIL_BYTES):
        if row.requirement_id in (task, "") and (row.handover or row.ended == "ok"):  # else it did nothing
            return row.handover
    return os.environ.get(HANDOVER, "")


def record_files_changed_in_mode(state: State, mode: str, next_mode: str) -> None:
    """Records which files the mode changed that ends now, for the prompts of the next one."""
    changed = dict[str, None]()
    for row in journal.read(state.journal):
        if row.event == "mode":
            changed.clear()
        changed.update(dict.fromkeys(filter(None, row.files.split("\n"))))
    left = f"  changed by then: {join_names([*changed], 40) or 'nothing'}"
    state.save_note(PreviousModeResults(lines=[f"The last change of mode: {mode} -> {next_mode}", left]))
