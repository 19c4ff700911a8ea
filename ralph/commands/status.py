"""`ralph status`: a line for each plan in a folder, or one plan with tasks and last iterations; changes nothing."""

import json
import time
from collections.abc import Sequence
from typing import Any

from ralph.commands import plans
from ralph.commands.plans import PlanDetails, PlanStatus
from ralph.errors import RalphError
from ralph.screen.text import clip, terminal_width
from ralph.store import journal
from ralph.words import format_age, format_moment, format_usd, plural, without_control_codes

_LAST = 5
_WHY_COLUMNS = 50


def print_status(word: str | None, *, progress_file: str | None, as_json: bool) -> int:
    """Prints the status; returns it as the exit code, too: 0 done, 3 work remains, 4 needs you.

    With several plans it is the highest of their codes.
    """
    is_list = word is None and progress_file is None
    found: list[PlanDetails] = []
    for plan in plans.plans_here() if is_list else [plans.find_plan(word, progress_file)]:
        try:
            found.append(plans.inspect_plan(plan))
        except RalphError as error:
            if not is_list:
                raise
            found.append(PlanDetails(plan, PlanStatus("unreadable", error.message)))  # it does not hide the others
    if as_json:
        facts = [status_facts(seen) for seen in found]
        print(json.dumps(facts if is_list else facts[0], ensure_ascii=False))
    elif is_list:
        _print_table(found)
    else:
        print(without_control_codes("\n".join(_plan_lines(found[0]))))
    return max(seen.standing.exit_code for seen in found)


def _print_table(found: Sequence[PlanDetails]) -> None:
    """Prints a line for each plan, with the states in a column, cut at the width of the terminal."""
    edge = terminal_width()
    names = [without_control_codes(plans.plan_label(seen.plan)) for seen in found]
    longest = max(map(len, names))
    longest_state = max(len(seen.standing.state) for seen in found)
    for name, seen in zip(names, found, strict=True):
        line = f"{name:{longest}}  {seen.standing.state:{longest_state}}  "
        if seen.standing.why:
            line += f"{clip(seen.standing.why, _WHY_COLUMNS)} · "
        line += _format_sums(seen)
        print(clip(line, edge) if edge else line)


def _format_sums(seen: PlanDetails) -> str:
    sums = seen.sums
    parts = []
    if now := seen.progress:
        parts = [f"{now.mode} {now.rounds}".strip(), now.task_counts]
    if sums.iterations:
        parts.append(plural(sums.iterations, "iteration"))
    if sums.cost_usd is not None:
        parts.append(format_usd(sums.cost_usd, at_least=sums.cost_at_least))
    if seen.records:
        parts.append(format_age(seen.records[-1].written_at, time.time()))
    return " · ".join(filter(None, parts))


def _plan_lines(seen: PlanDetails) -> list[str]:
    standing = seen.standing
    lines = [f"{seen.plan.name} · {standing.state}" + f": {standing.why}" * bool(standing.why), _format_sums(seen)]
    if seen.holder:
        lines.append(f"held by ralph since {seen.holder.since} (pid {seen.holder.pid})")
    if standing.next_step_hint:
        lines.append(f"to continue, {standing.next_step_hint}")
    if queue := journal.describe_merges(seen.records):
        lines.append(f"merge queue: {queue}")
    if seen.progress:
        lines += [f"  [{task.mark}] {task.whole}" for task in seen.progress.tasks]
    if rows := seen.iterations[-_LAST:]:
        lines += ["", "The last iterations:"]
        lines += [f"  {format_moment(row.written_at, time.time())}  {plans.describe_record(row)}" for row in rows]
    return lines


def status_facts(seen: PlanDetails) -> dict[str, Any]:
    """The status of a plan for JSON; costs in US dollars."""
    sums = seen.sums
    now = seen.progress
    listed = now.tasks if now else ()
    return {
        "plan": seen.plan.name,
        "progress_file": str(seen.plan.progress_path),
        **seen.standing._asdict(),
        "exit_code": seen.standing.exit_code,
        "mode": (now.mode or "build") if now else None,
        "rounds": now.rounds if now else "",
        "tasks": {"done": now.ticked, "total": len(listed), "unproved": now.unproved} if now else None,
        "iterations": sums.iterations,
        "cost_usd": sums.cost_usd,
        "cost_at_least": sums.cost_at_least,
        "holder": seen.holder and seen.holder._asdict(),
        "task_list": [{"text": task.whole, "mark": task.mark, "done": task.mark == "x"} for task in listed],
    }
