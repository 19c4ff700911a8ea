"""How it stands: each plan of a folder in a line, or one with its tasks and last iterations. Only looks."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ralph.errors import RalphError
from ralph.judge import tasks
from ralph.look import plans
from ralph.look.plans import Plan, Seen, Standing
from ralph.screen.text import clipped, columns, terminal_size, width
from ralph.words import counted, moment, plain, since, usd

_LAST = 5
_NARROWEST = 20


def status(word: str | None, *, progress_file: str | None, as_json: bool) -> int:
    """Prints how it stands; the exit code says it too: 0 done, 3 work remains, 4 a person is needed.

    Of several plans it is that of the one that needs most.
    """
    is_list = word is None and progress_file is None
    found = [_look_or_say(plan) for plan in plans.here()] if is_list else [plans.look(plans.find(word, progress_file))]
    if as_json:
        told = [facts(seen) for seen in found]
        print(json.dumps(told if is_list else told[0], ensure_ascii=False))
    else:
        for line in _table(found) if is_list else _whole(found[0]):
            print(plain(line))
    return max(seen.standing.exit_code for seen in found)


def _look_or_say(plan: Plan) -> Seen:
    """One that cannot be read does not hide the others."""
    try:
        return plans.look(plan)
    except RalphError as error:
        return Seen(plan, Standing("unreadable", error.message))


def _table(found: Sequence[Seen]) -> Iterator[str]:
    """A line each, the columns under each other; on a terminal the reason gives way to its width."""
    cells = [(plain(seen.plan.label), seen.standing.phrase(time.time())) for seen in found]
    names, states = (max(map(columns, column)) for column in zip(*cells, strict=True))
    edge = width()
    for seen, (name, state) in zip(found, cells, strict=True):
        line, why = f"{name}{' ' * (names - columns(name))}  {state:{states}}  ", seen.standing.why
        room = edge - columns(line + _figures(seen)) - 3 if edge else len(why)
        line += f"{clipped(why, max(room, _NARROWEST))} · " * bool(why) + _figures(seen)
        yield clipped(line, edge) if edge else line


def _figures(seen: Seen) -> str:
    sums = seen.sums
    parts = [
        f"{seen.progress.mode} {seen.progress.rounds}".strip() if seen.progress else "",
        tasks(seen.progress) if seen.progress else "",
        counted(sums.iterations, "iteration") if sums.iterations else "",
        usd(sums.cost_usd, at_least=sums.cost_at_least) if sums.cost_usd is not None else "",
        since(seen.moved, time.time()) if seen.moved else "",
    ]
    return " · ".join(filter(None, parts))


def _whole(seen: Seen) -> list[str]:
    standing, now = seen.standing, time.time()
    answer = f"{seen.plan.name} · {standing.phrase(now)}" + (f": {standing.why}" if standing.why else "")
    lines = [answer, _figures(seen)]
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
    size = terminal_size()
    return [*lines, "", answer] if size and len(lines) >= size.lines else lines  # the first line has scrolled away


def facts(seen: Seen) -> dict[str, Any]:
    """The same for a program. Times in seconds since 1970, but `since` as people here write it; costs in US dollars."""
    now, sums = seen.progress, seen.sums
    listed = now.tasks if now else ()
    return {
        "plan": seen.plan.name,
        "progress_file": str(seen.plan.progress_path),
        **seen.standing._asdict(),
        "mode": (now.mode or "build") if now else None,
        "rounds": now.rounds if now else "",
        "tasks": {"done": now.ticked, "total": len(listed)} if now else None,
        "iterations": sums.iterations,
        "cost_usd": sums.cost_usd,
        "cost_at_least": sums.cost_at_least,
        "moved": seen.moved,
        "holder": seen.holder and seen.holder._asdict(),
        "other_holder": seen.other and seen.other._asdict(),
        "task_list": [{"text": task.text, "mark": task.mark, "done": task.done} for task in listed],
        "last": [{"at": row.at, "summary": row.summary, "success": row.success} for row in seen.rows[-_LAST:]],
    }
