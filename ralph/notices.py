"""What people are told: the summary line of an iteration, and the notices of a run. Pure text."""

from dataclasses import dataclass

from ralph.channels import Notice
from ralph.loop import Iteration, Judgement, Reason, Stop
from ralph.progress import Progress
from ralph.turn import Outcome
from ralph.view import duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run is, and what it has come to so far."""

    plan: str
    mode: str
    repo: str
    progress_file: str
    once: bool
    max_iterations: int | None
    iterations: int = 0
    commits: int = 0
    took_s: float = 0.0
    cost_usd: float | None = None
    at_least: bool = False
    failed: bool = False
    """The last iteration."""
    last_summary: str = ""


def summary(iteration: Iteration, judged: Judgement) -> str:
    """`#7 · 9/15 tasks (+1, 2 new) · 3 commits +212 −40 · 6m12s · $0.41`, and what was wrong."""  # noqa: RUF002
    turn, commits = iteration.turn, iteration.commits
    parts = [f"#{iteration.number}", _tasks(iteration)]
    if commits.count:
        parts.append(f"{counted(commits.count, 'commit')} +{commits.added} −{commits.removed}")  # noqa: RUF001 - a minus
    parts.append(duration(turn.took_s))
    if turn.cost_usd is not None:
        parts.append(_cost(turn.cost_usd, at_least=turn.at_least))
    if turn.outcome is not Outcome.OK:
        parts.append(f"{turn.outcome.value}: {turn.why}")
    if judged.refused:
        parts.append("done refused")
    return " · ".join(parts)


def heading(run: Run, now: Progress) -> str:
    """The line that begins an iteration."""
    if run.once:
        return f"{run.mode} {run.plan}"
    at_most = f" of at most {run.max_iterations}" if run.max_iterations else ""
    return f"{run.mode} {run.plan} · iteration {run.iterations}{at_most} · {tasks(now)}"


def _tasks(iteration: Iteration) -> str:
    before, after = iteration.before, iteration.after
    ticked, new = after.ticked - before.ticked, len(after.tasks) - len(before.tasks)
    changes = [f"{ticked:+d}"] * bool(ticked) + [f"{new} new"] * (new > 0)
    return tasks(after) + (f" ({', '.join(changes)})" if changes else "")


def tasks(progress: Progress) -> str:
    """`9/15 tasks`."""
    return f"{progress.ticked}/{len(progress.tasks)} tasks" if progress.tasks else "no tasks"


def counted(number: int, what: str) -> str:
    """`1 commit`, `2 commits`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def _cost(cost_usd: float, *, at_least: bool) -> str:
    return f"{'≥ ' if at_least else ''}${cost_usd:.2f}"


def started(run: Run) -> Notice:
    """The first iteration begins."""
    body = f"Plan: {run.plan}\nMode: {run.mode}\nRepo: {run.repo}"
    return Notice(event="started", title="Ralph Started", body=body, emoji_code=":rocket:")


def progressed(run: Run) -> Notice:
    """An iteration is over."""
    what = "failed" if run.failed else "completed"
    body = f"Plan: {run.plan}\nIteration {run.iterations} {what}\n{run.last_summary}\nRepo: {run.repo}"
    return Notice(event="progress", title="Ralph Progress", body=body, emoji_code=":gear:")


def ended(run: Run, stop: Stop, now: Progress) -> Notice:
    """The run is over: why, what it came to, and what a person can do."""
    event, title, emoji_code = _ENDINGS.get(stop.reason, ("stopped", "Ralph Stopped", ":warning:"))
    if stop.reason is Reason.ONCE and run.mode == "plan":
        event, title, emoji_code = "planned", "Ralph Planning Complete!", ":clipboard:"
    lines = [f"Plan: {run.plan}", f"Mode: {run.mode}"]
    lines += [f"Reason: {stop.why[:1000]}"] if stop.why else []
    lines += [f"To go on: {next_move}"] if (next_move := _next_move(run, stop)) else []
    lines += [f"Task list created in: {run.progress_file}"] if event == "planned" and now.tasks else []
    lines += [f"Tasks: {now.ticked} of {len(now.tasks)} done" if now.tasks else f"No task in {run.progress_file}"]
    lines += [f"Iterations: {run.iterations}", f"Commits: {run.commits}", f"Time: {duration(run.took_s)}"]
    lines += [f"Cost: {_cost(run.cost_usd, at_least=run.at_least)}"] if run.cost_usd is not None else []
    lines += [f"Last: {run.last_summary}"] if run.last_summary else []
    return Notice(event=event, title=title, body="\n".join([*lines, f"Repo: {run.repo}"]), emoji_code=emoji_code)


_ENDINGS = {
    Reason.DONE: ("done", "Ralph Complete!", ":white_check_mark:"),
    Reason.ONCE: ("done", "Ralph Complete!", ":white_check_mark:"),
    Reason.BLOCKED: ("blocked", "Ralph Blocked", ":raised_hand:"),
    Reason.REFUSED: ("blocked", "Ralph Blocked", ":raised_hand:"),
    Reason.FAILURES: ("blocked", "Ralph Blocked", ":raised_hand:"),
}


def _next_move(run: Run, stop: Stop) -> str:
    if stop.reason in (Reason.BLOCKED, Reason.REFUSED, Reason.FAILURES):
        return f"mend it, then take RALPH_BLOCKED out of {run.progress_file}"
    if stop.reason is Reason.STOPPED:
        return f"take RALPH_STOP out of {run.progress_file}"
    return ""


def closing(run: Run, stop: Stop, now: Progress) -> str:
    """The last line of a run."""
    why = f": {stop.why}" if stop.why and stop.reason.code != 1 else ""  # what does not work is said on stderr
    planned = stop.reason is Reason.ONCE and run.mode == "plan"
    parts = ["planned" if planned else stop.reason.label + why, tasks(now)]
    if not run.once:
        parts += [counted(run.iterations, "iteration"), counted(run.commits, "commit")]
    parts.append(duration(run.took_s))
    if run.cost_usd is not None:
        parts.append(_cost(run.cost_usd, at_least=run.at_least))
    if next_move := _next_move(run, stop):
        parts.append(f"to go on, {next_move}")
    return " · ".join(parts)
