"""How it stands: each plan of a folder in a line, or one with its tasks and last iterations. Only looks."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ralph.errors import RalphError
from ralph.judge import tasks
from ralph.look import plans
from ralph.look.plans import Plan, Seen, Standing
from ralph.screen.text import clipped, columns, is_terminal, terminal_size
from ralph.words import counted, moment, plain, since, usd

_LAST = 5
_WHY_COLUMNS, _NARROWEST = 60, 20


def status(word: str | None, *, progress_file: str | None, as_json: bool) -> int:
    """Prints how it stands; the exit code says it too: 0 done, 3 work remains, 4 a person is needed.

    Of several plans it is that of the one that needs most.
    """
    if word is None and progress_file is None:
        found = [_look_or_say(plan) for plan in plans.here()]
        if not found:
            raise RalphError(f"no progress file in {Path.cwd()}", fix="ralph PLAN starts one, -C DIR looks elsewhere")
        lines = [json.dumps([_told(seen) for seen in found], ensure_ascii=False)] if as_json else _table(found)
    else:
        found = [plans.look(plans.find(word, progress_file))]
        lines = [json.dumps(facts(found[0]), ensure_ascii=False)] if as_json else _whole(found[0])
    for line in lines:
        print(plain(line))
    return max(seen.standing.exit_code for seen in found)


def _look_or_say(plan: Plan) -> Seen:
    """One that cannot be read does not hide the others."""
    try:
        return plans.look(plan)
    except RalphError as error:
        return Seen(plan=plan, standing=Standing("unreadable", error.message))


def _table(found: Sequence[Seen]) -> list[str]:
    """A line each, the columns under each other; on a terminal the reason gives way to its width."""
    cells = [(plain(seen.plan.label), seen.standing.phrase(time.time())) for seen in found]
    names, states = (max(map(columns, column)) for column in zip(*cells, strict=True))
    width = terminal_size().columns if is_terminal(1) else None
    lines = []
    for seen, (name, state) in zip(found, cells, strict=True):
        line, why = f"{name}{' ' * (names - columns(name))}  {state:{states}}  ", seen.standing.why
        figures = " · ".join(_figures(seen))
        room = width - columns(line + figures) - 3 if width else _WHY_COLUMNS
        line += f"{clipped(why, max(room, _NARROWEST))} · {figures}" if why else figures
        lines.append(clipped(line, width) if width else line)
    return lines


def _figures(seen: Seen) -> list[str]:
    parts = [tasks(seen.progress)] if seen.progress else []
    if seen.iterations:
        parts.append(counted(seen.iterations, "iteration"))
    if seen.cost_usd is not None:
        parts.append(usd(seen.cost_usd, at_least=seen.cost_at_least))
    if seen.moved is not None:
        parts.append(since(seen.moved, time.time()))
    return parts


def _whole(seen: Seen) -> list[str]:
    standing, now = seen.standing, time.time()
    answer = f"{seen.plan.name} · {standing.phrase(now)}" + (f": {standing.why}" if standing.why else "")
    lines = [answer, " · ".join(_figures(seen))]
    if seen.holder:
        lines.append(f"held by ralph since {seen.holder.since} (pid {seen.holder.pid})")
    if seen.other:
        lines.append(f"another run works in this tree: {seen.other}")
    if standing.next_move:
        lines.append(f"to go on, {standing.next_move}")
    lines += [f"  [{task.mark}] {task.text}" for task in (seen.progress.tasks if seen.progress else ())]
    if rows := seen.rows[-_LAST:]:
        lines += ["", "The last iterations:"]
        lines += [f"  {moment(row.at, now)}  {row.summary}" for row in rows]
    if is_terminal(1) and len(lines) >= terminal_size().lines:
        lines += ["", answer]  # the first line has scrolled away
    return lines


def _told(seen: Seen) -> dict[str, Any]:
    """The same for a program. Times in seconds since 1970, but `since` as people here write it; costs in US dollars."""
    now = seen.progress
    return {
        "plan": seen.plan.name,
        "progress_file": str(seen.plan.progress_path),
        **seen.standing._asdict(),
        "tasks": {"done": now.ticked, "total": len(now.tasks)} if now else None,
        "iterations": seen.iterations,
        "cost_usd": seen.cost_usd,
        "cost_at_least": seen.cost_at_least,
        "moved": seen.moved,
        "holder": seen.holder and seen.holder._asdict(),
        "other_holder": seen.other and seen.other._asdict(),
    }


def facts(seen: Seen) -> dict[str, Any]:
    """All of that about one plan."""
    tasks = seen.progress.tasks if seen.progress else ()
    rows = seen.rows[-_LAST:]
    return {
        **_told(seen),
        "task_list": [{"text": task.text, "mark": task.mark, "done": task.done} for task in tasks],
        "last": [{"at": row.at, "summary": row.summary, "success": row.success} for row in rows],
    }
