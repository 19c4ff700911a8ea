"""What people are told of a run: its heading, its notices, its last line. Pure text."""

from typing import TYPE_CHECKING

from ralph.channels import Notice
from ralph.judge import Iteration, tasks
from ralph.progress import LARGE_BYTES, Progress
from ralph.verdict import Reason, Stop
from ralph.words import counted, duration, shortened, usd

if TYPE_CHECKING:
    from ralph.run import Run


def _mode(run: "Run") -> str:
    return f"{run.mode} {run.file.last.rounds}".strip()


def heading(run: "Run", now: Progress) -> str:
    """The line that begins an iteration."""
    what = f"{_mode(run)} {run.start.name}"
    if run.settings.once:
        return what
    at_most = f" of at most {run.settings.max_iterations}" if run.settings.max_iterations else ""
    if run.earlier:
        at_most = f" · {run.number - run.earlier}{at_most} in this start"
    task = f" · {run.task}" if run.task else ""
    return f"{what} · iteration {run.number}{at_most} · {tasks(now)}{task}"


def oddities(file: str, now: Progress) -> dict[str, str]:
    """What in a progress file of that name deserves a word, by what it is: `fence`, `size`."""
    found = {}
    if now.unclosed_fence is not None:
        found["fence"] = f"{file}:{now.unclosed_fence}: this code fence is never closed; read as text"
    if now.size > LARGE_BYTES:
        found["size"] = f"{file} has {now.size // 1000} kB, and every iteration pays for reading it"
    return found


def started(run: "Run") -> Notice:
    """The first iteration begins."""
    return _notice(run, "started", "Started", f"Mode: {_mode(run)}")


def progressed(run: "Run", iteration: Iteration) -> Notice:
    """An iteration is over."""
    what = "failed" if iteration.failed else "completed"
    mode = "" if run.mode == "build" else f"Mode: {_mode(run)}"
    return _notice(run, "progress", "Progress", mode, f"Iteration {run.number} {what}", run.summaries[-1])


def waiting(run: "Run", what: str, why: str) -> Notice:
    """Nothing happens for a while."""
    return _notice(run, "waiting", "Waiting", what.capitalize(), f"Reason: {shortened(why, 1000)}")


def ended(run: "Run", stop: Stop, now: Progress) -> Notice:
    """The run is over: why, what it came to, and what a person can do."""
    file, move, pays = run.file.path.name, stop.next_move(run.file.path.name), run.tally.pays
    event, what = "stopped", "Stopped"
    if _planned(run, stop):
        event, what = "planned", "Planning Complete!"
    elif stop.reason.code == 0:
        event, what = "done", "Complete!"
    elif stop.reason.code == 4 or stop.reason is Reason.FAILURES:
        event, what = "blocked", "Blocked"
    return _notice(
        run,
        event,
        what,
        f"Mode: {_mode(run)}",
        f"Reason: {shortened(stop.why, 1000)}" if stop.why else "",
        f"To go on: {move}" if move else "",
        run.todo,
        f"Task list: {file}" if event == "planned" else "",
        came_to(run, now) + (f", paid by the API key in {pays}" if pays else ""),
        *(["Last:", *run.summaries] if run.summaries else []),
    )


def _planned(run: "Run", stop: Stop) -> bool:
    return stop.reason is Reason.ONCE and run.mode == "plan"


def _notice(run: "Run", event: str, what: str, *lines: str) -> Notice:
    title = f"Rehearsal: Ralph {what}" if run.start.rehearsal else f"Ralph {what}"  # nobody shall take one for real
    body = "\n".join(filter(None, (f"Plan: {run.start.name}", *lines, f"Repo: {run.top.name}")))
    return Notice(event, title, body)


def closing(run: "Run", stop: Stop, now: Progress) -> str:
    """The last line of a run."""
    why = f": {stop.why}" if stop.why and stop.reason.code != 1 else ""  # what does not work is said on stderr
    move = stop.next_move(run.file.path.name)
    what = "planned" if _planned(run, stop) else stop.reason.label + why
    return " · ".join(filter(None, [what, came_to(run, now), f"to go on, {move}" if move else "", run.todo]))


def came_to(run: "Run", now: Progress) -> str:
    """Tasks, iterations, commits, time and cost of a run so far."""
    tally, parts = run.tally, [tasks(now)]
    if tally.iterations > 1 or not run.settings.once:
        parts += [counted(tally.iterations, "iteration"), counted(tally.commits, "commit")]
    parts.append(duration(run.elapsed_s()))
    if tally.waits:
        parts.append(f"{duration(tally.waited_s)} of it waiting")
    if tally.cost_usd is not None:
        parts.append(usd(tally.cost_usd, at_least=tally.at_least))
    return " · ".join(parts)
