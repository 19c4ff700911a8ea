"""How it stands: each plan of a folder in a line, or one with its tasks and last iterations. Only looks."""

import contextlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralph import history, journal, lock, plans
from ralph.display.rows import clipped
from ralph.errors import RalphError
from ralph.history import Row, Sums
from ralph.lock import Holder
from ralph.plans import Plan
from ralph.progress import Progress
from ralph.standing import Evidence, Standing, standing
from ralph.terminal import is_terminal, plain, size
from ralph.verdict import Limits
from ralph.words import counted, moment, since, usd

_TAIL = 30
"""Newest records that are looked at; among them is how the last run ended, unless a newer one goes on."""
_LAST = 5
_CODES = (4, 3, 0)
"""Of several plans the first of these that one has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All there is to say about a plan at a moment."""

    plan: Plan
    progress: Progress | None
    standing: Standing
    holder: Holder | None
    sums: Sums
    rows: Sequence[Row]
    moved: float | None
    """When something happened last, in seconds since 1970."""


def status(word: str | None, *, progress_file: str | None, as_json: bool) -> int:
    """Prints how it stands; the exit code says it too: 0 done, 3 work remains, 4 a person is needed."""
    now = time.time()
    holder = lock.holder(lock.working_tree(Path.cwd()))
    if word is not None or progress_file is not None:
        seen = look(plans.find(word or "", progress_file), holder, now)
        _print([json.dumps(_told(seen, whole=True), ensure_ascii=False)] if as_json else _whole(seen, now))
        return seen.standing.code
    found = [look(plan, holder, now) for plan in plans.here()]
    if not found:
        raise RalphError(f"no progress file in {Path.cwd()}; ralph PLAN starts one, -C DIR looks elsewhere")
    if as_json:
        _print([json.dumps([_told(seen, whole=False) for seen in found], ensure_ascii=False)])
    else:
        _print(_table(found, now))
    return next((code for code in _CODES if any(seen.standing.code == code for seen in found)), 0)


def look(plan: Plan, holder: Holder | None, now: float) -> Seen:
    """What there is to say about a plan; `holder` is who holds the lock of its working tree."""
    progress, state = plan.read(), plan.state
    last = journal.last(state.journal, _TAIL)
    if holder is not None and holder.progress != os.path.realpath(plan.progress_path):
        holder = None
    unjudged = state.died()
    evidence = Evidence(
        progress=progress,
        last=last,
        holder=holder,
        unjudged=unjudged,
        limits=_limits(plan, progress, last),
    )
    return Seen(
        plan=plan,
        progress=progress,
        standing=standing(evidence, now),
        holder=holder,
        sums=history.sums(state.journal),
        rows=list(history.rows(last)),
        moved=_moved(last, plan.progress_path, *([unjudged.record] if unjudged else [])),
    )


def _limits(plan: Plan, progress: Progress | None, last: Iterable[history.Record]) -> Limits:
    """What decides whether the next start would have anything to do; looked up only where it matters."""
    if progress is None or not (progress.done or progress.spent_usd):
        return Limits()
    verified = any(record.get("event") == "verify" for record in last)  # the command line may have asked for it
    with contextlib.suppress(RalphError):
        said = plans.settings(plan.path, ["RALPH_VERIFY", "RALPH_MAX_TOTAL_COST"])
        return Limits(verify=verified or said.verify is not None, max_total_cost_usd=said.max_total_cost)
    return Limits(verify=verified)


def _moved(last: Sequence[history.Record], *touched: Path) -> float | None:
    times = [history.stamp(record) for record in last[-1:]]
    for path in touched:
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times, default=None)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(plain(line))


def _table(found: Sequence[Seen], now: float) -> list[str]:
    """A line each, the columns under each other; on a terminal cut to its width."""
    names = max(len(seen.plan.name) for seen in found)
    states = max(len(seen.standing.phrase(now)) for seen in found)
    width = size().columns if is_terminal(1) else None
    lines = (
        f"{seen.plan.name:<{names}}  {seen.standing.phrase(now):<{states}}  {' · '.join(_parts(seen, now))}".rstrip()
        for seen in found
    )
    return [line if width is None else clipped(plain(line), width) for line in lines]


def _parts(seen: Seen, now: float) -> list[str]:
    parts = [_tasks(seen.progress)]
    if seen.sums.iterations:
        parts.append(counted(seen.sums.iterations, "iteration"))
    if seen.sums.cost_usd is not None:
        parts.append(usd(seen.sums.cost_usd, at_least=seen.sums.cost_at_least))
    if seen.moved is not None:
        parts.append(since(seen.moved, now))
    return [*parts, *([seen.standing.why] if seen.standing.why else [])]


def _tasks(progress: Progress | None) -> str:
    return f"{progress.ticked}/{len(progress.tasks)} tasks" if progress and progress.tasks else "no tasks"


def _whole(seen: Seen, now: float) -> list[str]:
    why = f": {seen.standing.why}" if seen.standing.why else ""
    parts = [part for part in _parts(seen, now) if part != seen.standing.why]
    lines = [f"{seen.plan.name} · {seen.standing.phrase(now)}{why}", " · ".join(parts)]
    if seen.holder:
        lines.append(f"held by ralph since {seen.holder.since} (pid {seen.holder.pid})")
    lines += [f"  [{task.mark}] {task.text}" for task in (seen.progress.tasks if seen.progress else ())]
    if seen.rows:
        lines += ["", "The last iterations:"]
        lines += [f"  {moment(row.at, now)}  {row.summary}" for row in seen.rows[-_LAST:]]
    return lines


def _told(seen: Seen, *, whole: bool) -> dict[str, Any]:
    """The same for a program. Times in seconds since 1970, costs in US dollars."""
    progress = seen.progress
    told: dict[str, Any] = {
        "plan": seen.plan.name,
        "progress_file": str(seen.plan.progress_path),
        "state": seen.standing.state,
        "why": seen.standing.why,
        "until": seen.standing.until,
        "exit_code": seen.standing.code,
        "tasks": {"done": progress.ticked, "total": len(progress.tasks)} if progress else None,
        "iterations": seen.sums.iterations,
        "cost_usd": seen.sums.cost_usd,
        "cost_at_least": seen.sums.cost_at_least,
        "moved": seen.moved,
        "holder": {"pid": seen.holder.pid, "since": seen.holder.since} if seen.holder else None,
    }
    if whole:
        told["task_list"] = (
            [{"text": task.text, "mark": task.mark, "done": task.done} for task in progress.tasks] if progress else []
        )
        told["last"] = [{"at": row.at, "summary": row.summary, "success": row.success} for row in seen.rows[-_LAST:]]
    return told
