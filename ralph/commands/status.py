"""`ralph status`: a line for each plan in a folder, or one plan with tasks and last iterations; changes nothing."""

import json
import sys
import time
from typing import Any

from ralph.commands import plans
from ralph.commands.plans import PlanDetails
from ralph.screen.text import clip, terminal_width
from ralph.words import format_age, format_moment, plural, usd_or_empty, without_control_codes


def print_status(plan_word: str | None, *, progress_file: str | None, as_json: bool) -> int:
    """Prints the status; returns it as the exit code, too: 0 done, 3 work remains, 4 needs you.

    With several plans it is the highest of their codes.
    """
    is_list = plan_word is None and progress_file is None
    listed = plans.plans_with_progress_here() if is_list else [plans.find_plan(plan_word, progress_file)]
    found = [*map(plans.inspect_plan, listed)]
    if as_json:
        facts = [status_facts(seen) for seen in found]
        print(json.dumps(facts if is_list else facts[0], ensure_ascii=False))
    elif is_list:
        _print_table(found)
    else:
        _print_plan(found[0])
    return max(seen.exit_code for seen in found)


def _print_table(found: list[PlanDetails]) -> None:
    """Prints a line for each plan, with the states in a column, cut at the width of the terminal."""
    edge = terminal_width() or sys.maxsize
    name_width = max(len(seen.plan.unique_name) for seen in found)
    for seen in found:
        why = f"{clip(seen.why, 50)} · " if seen.why else ""
        print(clip(f"{seen.plan.unique_name:{name_width}}  {seen.state:9}  {why}{_plan_figures(seen)}", edge))


def _plan_figures(seen: PlanDetails) -> str:
    sums, now = seen.sums, seen.progress
    parts = (
        f"{now.mode} {now.rounds}".strip(),
        now.ticked_of_total,
        plural(sums.iterations, "iteration") if sums.iterations else "",
        usd_or_empty(sums.cost_usd, at_least=sums.cost_at_least),
        format_age(seen.records[-1].written_at, time.time()) if seen.records else "",
    )
    return " · ".join(filter(None, parts))


def _print_plan(seen: PlanDetails) -> None:
    lines = [
        f"{seen.plan.name} · {seen.state}: {seen.why}".removesuffix(": "),
        _plan_figures(seen),
        *seen.more_facts,
    ]
    lines += [f"  [{task.mark}] {task.whole}" for task in seen.progress.tasks]
    rows = seen.iterations[-5:]
    lines += ["", "The last iterations:"] if rows else []
    lines += [f"  {format_moment(row.written_at, time.time())}  {plans.describe_record(row)}" for row in rows]
    print(without_control_codes("\n".join(lines)))


def status_facts(seen: PlanDetails) -> dict[str, Any]:
    """The status of a plan for JSON; costs in US dollars."""
    sums, now = seen.sums, seen.progress
    return {
        "plan": seen.plan.name,
        "progress_file": str(seen.plan.progress_path),
        "state": seen.state,
        "why": seen.why,
        "next_step_hint": seen.next_step_hint,
        "exit_code": seen.exit_code,
        "mode": now.mode or "build",
        "rounds": now.rounds,
        "tasks": {"done": now.ticked, "total": len(now.tasks), "unproved": now.unproved},
        "iterations": sums.iterations,
        "cost_usd": sums.cost_usd,
        "cost_at_least": sums.cost_at_least,
        "holder": seen.holder and seen.holder._asdict(),
        "task_list": [{"text": task.whole, "mark": task.mark, "done": task.mark == "x"} for task in now.tasks],
    }
