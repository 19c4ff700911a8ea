"""What people are told: the summary line of an iteration, and the notices of a run. Pure text."""

from dataclasses import dataclass, replace

from ralph.agent.turn import Outcome
from ralph.channels import Notice
from ralph.judge import Iteration, Judgement
from ralph.progress import LARGE_BYTES, Progress
from ralph.verdict import OPENS, Reason, Stop
from ralph.waiting import Wait
from ralph.words import counted, duration, usd

_LAST_SUMMARIES = 5
_FAILED = 200
"""Characters of why a try failed, in a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run is, and what it has come to so far."""

    plan: str
    mode: str
    repo: str
    progress_file: str
    once: bool
    max_iterations: int | None
    began: bool = False
    """An iteration has begun."""
    task: str = ""
    """The id of the task that it works on, where ralph chose it."""
    iterations: int = 0
    """Of this start."""
    earlier: int = 0
    """Iterations of the plan before this start."""
    commits: int = 0
    took_s: float = 0.0
    waits: int = 0
    waited_s: float = 0.0
    cost_usd: float | None = None
    at_least: bool = False
    pays: str = ""
    """Where the API key that paid comes from; empty for a login."""
    failed: bool = False
    """The last iteration."""
    summaries: tuple[str, ...] = ()
    """The last ones."""

    @property
    def number(self) -> int:
        """The iteration's among all of the plan; 0 before the first of this start."""
        return self.earlier + self.iterations if self.iterations else 0


def with_iteration(run: Run, iteration: Iteration, judged: Judgement) -> Run:
    """The sums after one more iteration; one that is due again does not count, but what it cost and left does."""
    turn = iteration.turn
    costs = [cost for cost in (run.cost_usd, turn.cost_usd) if cost is not None]
    counts = not judged.again
    return replace(
        run,
        iterations=iteration.number - run.earlier - (not counts),
        commits=run.commits + iteration.commits.count,
        cost_usd=sum(costs) if costs else None,
        at_least=run.at_least or turn.at_least,
        pays=turn.pays or run.pays,
        failed=bool(judged.failed) if counts else run.failed,
        summaries=(*run.summaries, summary(iteration, judged))[-_LAST_SUMMARIES:] if counts else run.summaries,
    )


def summary(iteration: Iteration, judged: Judgement) -> str:
    """`#7 · 9/15 tasks (+1, 2 new) · 3 commits +212 −40 · 6m12s · $0.41`, and what was wrong."""  # noqa: RUF002
    turn, commits = iteration.turn, iteration.commits
    parts = [f"#{iteration.number}", *([iteration.task] if iteration.task else []), _tasks(iteration)]
    if commits.count:
        parts.append(f"{counted(commits.count, 'commit')} +{commits.added} −{commits.removed}")  # noqa: RUF001 - a minus
    parts.append(duration(turn.took_s))
    if turn.cost_usd is not None:
        parts.append(usd(turn.cost_usd, at_least=turn.at_least))
    if turn.outcome is not Outcome.OK:
        parts.append(f"{turn.outcome.value}: {turn.why}")
    if judged.refused:
        parts.append("done refused")
    if judged.tried:
        parts.append(judged.failed[:_FAILED])
    return " · ".join(parts)


def heading(run: Run, now: Progress) -> str:
    """The line that begins an iteration."""
    if run.once:
        return f"{run.mode} {run.plan}"
    at_most = f" of at most {run.max_iterations}" if run.max_iterations else ""
    if run.earlier:
        at_most = f" · {run.iterations}{at_most} in this start"
    task = f" · {run.task}" if run.task else ""
    return f"{run.mode} {run.plan} · iteration {run.number}{at_most} · {tasks(now)}{task}"


def _tasks(iteration: Iteration) -> str:
    before, after = iteration.before, iteration.after
    ticked, new = after.ticked - before.ticked, len(after.tasks) - len(before.tasks)
    changes = [f"{ticked:+d}"] * bool(ticked) + [f"{new} new"] * (new > 0)
    return tasks(after) + (f" ({', '.join(changes)})" if changes else "")


def tasks(progress: Progress) -> str:
    """`9/15 tasks`."""
    return f"{progress.ticked}/{len(progress.tasks)} tasks" if progress.tasks else "no tasks"


def oddities(file: str, now: Progress) -> dict[str, str]:
    """What in a progress file of that name deserves a word, by what it is: `fence`, `size`."""
    found = {}
    if now.unclosed_fence is not None:
        found["fence"] = f"{file}:{now.unclosed_fence}: this code fence is never closed; read as text"
    if now.size > LARGE_BYTES:
        found["size"] = f"{file} has {now.size // 1000} kB, and every iteration pays for reading it"
    return found


def started(run: Run) -> Notice:
    """The first iteration begins."""
    body = f"Plan: {run.plan}\nMode: {run.mode}\nRepo: {run.repo}"
    return Notice(event="started", title="Ralph Started", body=body, emoji_code=":rocket:")


def progressed(run: Run) -> Notice:
    """An iteration is over."""
    what = "failed" if run.failed else "completed"
    body = f"Plan: {run.plan}\nIteration {run.number} {what}\n{run.summaries[-1]}\nRepo: {run.repo}"
    return Notice(event="progress", title="Ralph Progress", body=body, emoji_code=":gear:")


def waiting(run: Run, wait: Wait) -> Notice:
    """Nothing happens for a while."""
    body = f"Plan: {run.plan}\n{str(wait).capitalize()}\nReason: {wait.turn.why[:1000]}\nRepo: {run.repo}"
    return Notice(event="waiting", title="Ralph Waiting", body=body, emoji_code=":hourglass:")


def ended(run: Run, stop: Stop, now: Progress) -> Notice:
    """The run is over: why, what it came to, and what a person can do."""
    event, title, emoji_code = _ENDINGS.get(stop.reason, ("stopped", "Ralph Stopped", ":warning:"))
    if stop.reason is Reason.ONCE and run.mode == "plan":
        event, title, emoji_code = "planned", "Ralph Planning Complete!", ":clipboard:"
    lines = [f"Plan: {run.plan}", f"Mode: {run.mode}"]
    lines += [f"Reason: {stop.why[:1000]}"] if stop.why else []
    lines += [f"To go on: {move}"] if (move := next_move(stop, run.progress_file)) else []
    lines += [f"Task list created in: {run.progress_file}"] if event == "planned" and now.tasks else []
    lines += [_tasks_left(now) if now.tasks else f"No task in {run.progress_file}"]
    lines += [f"Iterations: {run.iterations}", f"Commits: {run.commits}", f"Time: {duration(run.took_s)}"]
    lines += [f"Waited: {duration(run.waited_s)} ({counted(run.waits, 'time')})"] if run.waits else []
    lines += [f"Cost: {_cost(run)}"] if run.cost_usd is not None else []
    lines += ["Last:", *run.summaries] if run.summaries else []
    return Notice(event=event, title=title, body="\n".join([*lines, f"Repo: {run.repo}"]), emoji_code=emoji_code)


def _tasks_left(now: Progress) -> str:
    blocked = sum(task.mark == "!" for task in now.open)
    left = f", {len(now.open)} left" if now.open else ""
    return f"Tasks: {now.ticked} of {len(now.tasks)} done{left}" + (f", {blocked} of them blocked" if blocked else "")


def _cost(run: Run) -> str:
    cost = usd(run.cost_usd or 0.0, at_least=run.at_least)
    return cost + (f", paid by the API key in {run.pays}" if run.pays else "")


_ENDINGS = {
    Reason.DONE: ("done", "Ralph Complete!", ":white_check_mark:"),
    Reason.ONCE: ("done", "Ralph Complete!", ":white_check_mark:"),
    Reason.BLOCKED: ("blocked", "Ralph Blocked", ":raised_hand:"),
    Reason.REFUSED: ("blocked", "Ralph Blocked", ":raised_hand:"),
    Reason.FAILURES: ("blocked", "Ralph Blocked", ":raised_hand:"),
    Reason.STALLED: ("blocked", "Ralph Blocked", ":raised_hand:"),
    Reason.STUCK: ("blocked", "Ralph Blocked", ":raised_hand:"),
    Reason.TAMPERED: ("blocked", "Ralph Blocked", ":raised_hand:"),
}


def next_move(stop: Stop, progress_file: str) -> str:
    """What a person can do so that it goes on; empty when there is nothing."""
    if stop.reason is Reason.BLOCKED or stop.reason in OPENS:
        return f"mend it, then take RALPH_BLOCKED out of {progress_file}"
    if stop.reason is Reason.STUCK:
        return f"mend it, then change [!] to [ ] in {progress_file}" if " is blocked" in stop.why else ""
    if stop.reason is Reason.STOPPED:
        return f"take RALPH_STOP out of {progress_file}"
    return ""


def rehearsed(notice: Notice) -> Notice:
    """The same, so that nobody takes it for real."""
    return replace(notice, title=f"Rehearsal: {notice.title}")


def closing(run: Run, stop: Stop, now: Progress) -> str:
    """The last line of a run."""
    why = f": {stop.why}" if stop.why and stop.reason.code != 1 else ""  # what does not work is said on stderr
    planned = stop.reason is Reason.ONCE and run.mode == "plan"
    parts = ["planned" if planned else stop.reason.label + why, tasks(now)]
    if not run.once:
        parts += [counted(run.iterations, "iteration"), counted(run.commits, "commit")]
    parts.append(duration(run.took_s))
    if run.waits:
        parts.append(f"{duration(run.waited_s)} of it waiting")
    if run.cost_usd is not None:
        parts.append(usd(run.cost_usd, at_least=run.at_least))
    if move := next_move(stop, run.progress_file):
        parts.append(f"to go on, {move}")
    return " · ".join(parts)
