"""How it stands: each plan of a folder in a line, or one with its tasks and last iterations. Only looks."""

import contextlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ralph import files, journal, lock, sources
from ralph.errors import RalphError
from ralph.journal import Record, Sums
from ralph.judge import tasks
from ralph.lock import Holder
from ralph.look import plans
from ralph.look.plans import Plan
from ralph.look.standing import Standing, standing
from ralph.progress import Progress
from ralph.screen.text import clipped, columns, is_terminal, terminal_size
from ralph.settings import Settings
from ralph.words import counted, moment, plain, since, usd

_LAST = 5
_UNREADABLE = "unreadable"
_WHY_COLUMNS = 60
_CODES = (4, 3, 0)
"""Of several plans the first of these that one has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All there is to say about a plan at a moment."""

    plan: Plan
    progress: Progress | None
    standing: Standing
    holder: Holder | None = None
    """Who works on it."""
    other: Holder | None = None
    """Who else works in its tree, so that no run of it can start."""
    sums: Sums = field(default_factory=Sums)
    last: Sequence[Record] = ()
    """The records of its journal."""
    moved: float | None = None
    """When something happened last, in seconds since 1970."""

    @property
    def rows(self) -> list[Record]:
        """Its last iterations."""
        return journal.rows(self.last)[-_LAST:]


def status(word: str | None, *, progress_file: str | None, as_json: bool) -> int:
    """Prints how it stands; the exit code says it too: 0 done, 3 work remains, 4 a person is needed."""
    now = time.time()
    if word is not None or progress_file is not None:
        seen = look(plans.find(word or "", progress_file), now)
        _print([json.dumps(_told(seen, whole=True), ensure_ascii=False)] if as_json else _whole(seen, now))
        return seen.standing.code
    found = [_look_or_say(plan, now) for plan in _all()]
    if not found:
        raise RalphError(f"no progress file in {Path.cwd()}", fix="ralph PLAN starts one, -C DIR looks elsewhere")
    if as_json:
        _print([json.dumps([_told(seen, whole=False) for seen in found], ensure_ascii=False)])
    else:
        _print(_table(found, now))
    return next(code for code in _CODES if any(seen.standing.code == code for seen in found))


def _all() -> list[Plan]:
    """The plans of this folder, with the one that is worked on here, whose progress file may be missing just now."""
    found = plans.here()
    holder = lock.holder(lock.working_tree(Path.cwd()))
    if holder and holder.progress and Path(holder.progress) not in {plan.progress_path.resolve() for plan in found}:
        path = Path(holder.progress)
        if path.parent == Path.cwd() or not path.name.endswith("_PROGRESS.md"):
            name = files.plan_name(Path(holder.plan))
            found.append(Plan(name=name, path=Path(holder.plan), progress_path=Path(os.path.relpath(path))))
    return found


def _look_or_say(plan: Plan, now: float) -> Seen:
    """One that cannot be read does not hide the others."""
    try:
        return look(plan, now)
    except RalphError as error:
        return Seen(plan=plan, progress=None, standing=Standing(state=_UNREADABLE, why=error.message))


def look(plan: Plan, now: float) -> Seen:
    """What there is to say about a plan. Raises RalphError when its files cannot be read."""
    progress = plan.read()
    holder, other = plan.holders()
    unjudged = plan.state.died()
    last = plan.records()
    verifying = unjudged is not None and unjudged.record.with_suffix(".verify.log").exists()
    settings = _settings(plan, progress, last)
    how = standing(progress, last, settings, now, runs=bool(holder), unjudged=unjudged, verifying=verifying)
    return Seen(
        plan=plan,
        progress=progress,
        standing=how,
        holder=holder,
        other=other,
        sums=journal.sums(last),
        last=last,
        moved=_moved(last, plan.progress_path, *([unjudged.record] if unjudged else [])),
    )


def _settings(plan: Plan, progress: Progress | None, last: Sequence[Record]) -> Settings:
    """What decides whether the next start would have anything to do; looked up only where it matters."""
    if progress is None or not (progress.done or progress.spent_usd):
        return Settings()
    verified = any(record.event == "verify" and record.run == last[-1].run for record in last)
    run_with = "of the last run" if verified else None
    with contextlib.suppress(RalphError, OSError):
        said = sources.everywhere([], sources.of_plan(plan.path.read_bytes(), plan.path.name), "build")[0]
        return Settings(verify=said.verify or run_with, max_total_cost=said.max_total_cost)
    return Settings(verify=run_with)  # the command line of the last run may have asked for it


def _moved(last: Sequence[Record], *touched: Path) -> float | None:
    times = [record.at for record in last[-1:]]
    for path in touched:
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times, default=None)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(plain(line))


def _table(found: Sequence[Seen], now: float) -> list[str]:
    """A line each, the columns under each other; on a terminal cut to its width."""
    cells = [(plain(seen.plan.label), seen.standing.phrase(now)) for seen in found]
    names, states = (max(map(columns, column)) for column in zip(*cells, strict=True))
    width = terminal_size().columns if is_terminal(1) else None
    lines = []
    for seen, (name, state) in zip(found, cells, strict=True):
        why = [clipped(seen.standing.why, _WHY_COLUMNS)] if seen.standing.why else []
        before = f"{name}{' ' * (names - columns(name))}  {state}{' ' * (states - columns(state))}"
        line = plain(f"{before}  {' · '.join([*why, *_figures(seen, now)])}")
        lines.append(line if width is None else clipped(line, width))
    return lines


def _figures(seen: Seen, now: float) -> list[str]:
    parts = [tasks(seen.progress)] if seen.progress else ["no progress file"] * (seen.standing.state != _UNREADABLE)
    if seen.sums.iterations:
        parts.append(counted(seen.sums.iterations, "iteration"))
    if seen.sums.cost_usd is not None:
        parts.append(usd(seen.sums.cost_usd, at_least=seen.sums.cost_at_least))
    return [*parts, *([since(seen.moved, now)] if seen.moved is not None else [])]


def _whole(seen: Seen, now: float) -> list[str]:
    why = f": {seen.standing.why}" if seen.standing.why else ""
    lines = [f"{seen.plan.name} · {seen.standing.phrase(now)}{why}", " · ".join(_figures(seen, now))]
    if seen.holder:
        lines.append(f"held by ralph since {seen.holder.since} (pid {seen.holder.pid})")
    if seen.other:
        lines.append(f"another run works in this tree: {seen.other}")
    if seen.standing.stop and (move := seen.standing.stop.next_move(seen.plan.progress_path.name)):
        lines.append(f"to go on, {move}")
    answer = lines[0]
    lines += [f"  [{task.mark}] {task.text}" for task in (seen.progress.tasks if seen.progress else ())]
    if rows := seen.rows:
        lines += ["", "The last iterations:"]
        lines += [f"  {moment(row.at, now)}  {row.summary}" for row in rows]
    if is_terminal(1) and len(lines) >= terminal_size().lines:
        lines += ["", answer]  # the first line has scrolled away
    return lines


def _told(seen: Seen, *, whole: bool) -> dict[str, Any]:
    """The same for a program. Times in seconds since 1970, but `since` as people here write it; costs in US dollars."""
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
        "holder": _holder(seen.holder),
        "other_holder": _holder(seen.other),
    }
    if whole:
        told["task_list"] = (
            [{"text": task.text, "mark": task.mark, "done": task.done} for task in progress.tasks] if progress else []
        )
        told["last"] = [{"at": row.at, "summary": row.summary, "success": row.success} for row in seen.rows]
    return told


def _holder(holder: Holder | None) -> dict[str, Any] | None:
    return {"pid": holder.pid, "plan": holder.plan, "since": holder.since} if holder else None
