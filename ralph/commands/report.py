"""`ralph report`: the summary of a plan as one HTML file that needs no network and no script.

This module computes the figures and writes the words; the template lays them out, and draws bars as HTML elements.
"""

import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
import jinja2

from ralph import __version__
from ralph.commands import plans
from ralph.commands.plans import PlanDetails
from ralph.errors import RalphError
from ralph.store.journal import Record
from ralph.words import format_duration, format_moment, plural, shorten, usd_or_empty, without_control_codes

# The newest iterations, since more bars would be thinner than a pixel; `ralph log` has all of them.
_MOST_ROWS = 300
Rows = Iterator[tuple[Any, ...]]
"""What the template goes through."""


def write_report(plan_word: str | None, *, output: str | None, opens: bool, progress_file: str | None) -> None:
    """Writes the report and prints its path. By default it goes outside the tree, out of the agent's sight."""
    plan = plans.find_plan(plan_word, progress_file)
    made = render_page(plans.inspect_plan(plan))
    if output == "-":
        sys.stdout.buffer.write(made)
        return
    path = Path(output or plan.state_folder.folder / "report.html")
    if not output:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # it may be a link of an agent's
    path.write_bytes(made)
    print(without_control_codes(str(path)))
    if opens and click.launch(os.path.realpath(path)):
        raise RalphError(f"{path}: no program here shows it", 1, fix="open it in a browser")


# For each chart: its title, how a value is written, and the parts of a bar, from the bottom up, with the fields of the
# record that have their values.
_CHARTS = (
    ("Tasks", str, {"done": "done", "left": "left"}),
    ("Cost", usd_or_empty, {"cost": "cost_usd"}),
    ("Tokens written", "{:,}".format, {"output": "output"}),
    ("Tokens read", "{:,}".format, {"cache read": "cache_read", "cache write": "cache_write", "input": "input"}),
    ("Time", format_duration, {"agent": "duration_s", "verifying": "verified_s", "waiting": "waited_s"}),
)


def _charts_by_iteration(rows: list[Record]) -> Rows:
    """Yields the title, a legend, the kinds of parts, the highest value and the bars of each chart that has any.

    A bar is its iteration's numbers in words, and the kinds and values of its parts.
    """
    for title, shown, kinds in _CHARTS:
        bars = []
        for row in rows:
            figures = vars(row) | {"left": row.total - row.done}
            parts = [(kind, figures[name]) for kind, name in kinds.items() if figures[name]]
            numbers = " · ".join([row.summary, *(f"{kind} {shown(value)}" for kind, value in parts)])
            bars.append((numbers, parts))
        if top := max((sum(value for _, value in parts) for _, parts in bars), default=0):
            yield title, f"By iteration, at most {shown(top)}:", kinds, top, bars


def _sums(seen: PlanDetails) -> Rows:
    """Yields the look and the text of each sum, and more about it."""
    sums = seen.sums
    yield "", f"Done: {seen.progress.ticked_of_total}", ""
    yield "", f"Iterations: {sums.iterations}", ""
    yield "", f"Cost: {usd_or_empty(sums.cost_usd, at_least=sums.cost_at_least) or 'not reported'}", ""
    read = sums.input + sums.cache_read + sums.cache_write
    tokens = f"{read:,} read, {sums.output:,} written" if read else "not reported"
    yield "", f"Tokens: {tokens}", ""
    yield "", f"Commits: {sums.commits}", f"+{sums.added:,} −{sums.removed:,}"  # noqa: RUF001 - a minus
    more = f"{format_duration(sums.verified_s)} of verifying, {format_duration(sums.waited_s)} of waiting"
    yield "", f"Agent's time: {format_duration(sums.duration_s)}", more
    tried = Counter[str]()
    models = defaultdict(list)
    for row in seen.iterations:
        if row.counted:
            tried[row.requirement_id] += bool(row.requirement_id) or row.mode == "build"
            models[row.model or "Model not reported"].append((row, tried[row.requirement_id]))
            if row.success:
                tried[row.requirement_id] = 0
    for model, rows in models.items():
        firsts = [row.success for row, nth in rows if nth == 1]
        took = [nth for row, nth in rows if nth and row.success]
        done = f"{plural(sum(took), 'attempt')} for {plural(len(took), 'done task')}"
        more = f"{sum(firsts)} of {len(firsts)} first attempts passed, {done}"
        yield "", f"{model}: {usd_or_empty(sum(row.cost_usd or 0 for row, _ in rows))}", more


def _row_per_task(seen: PlanDetails) -> Rows:
    """Yields the look and the text of each task, and how many attempts it took if it was more than one."""
    attempts = Counter(row.requirement_id for row in seen.iterations if row.counted and row.requirement_id)
    for one in seen.progress.tasks:
        tried = attempts[one.id]
        yield "done" * one.is_done, f"[{one.mark}] {shorten(one.whole, 200)}", f"{tried} attempts" * (tried > 1)


def _row_per_event(seen: PlanDetails) -> Rows:
    """Yields the look and the text of each event, the newest first, and the agent's last words."""
    for record in reversed(seen.records):
        if message := plans.describe_record(record):
            outcome = "good" if record.success else "bad" if record.counted else "again"
            text = f"{format_moment(record.written_at, 0)} {shorten(message, 300)}"
            yield f"{record.event} {outcome}", text, record.message * (record.event == "iteration")


def render_page(seen: PlanDetails) -> bytes:
    """Renders the page. All inserted text is escaped, and stripped of control and direction codes."""
    template = jinja2.Template(
        Path(__file__).with_suffix(".html").read_text("utf-8"),
        autoescape=True,
        finalize=lambda value: without_control_codes(str(value)),
    )
    name, rows = seen.plan.name, seen.iterations[-_MOST_ROWS:]
    legend = (
        f"At most the newest {_MOST_ROWS} iterations; `ralph log {name}` has all of them. "
        "Point at a bar for its numbers."
    )
    about = f"The newest first. `ralph log {name} N` shows what the agent said and did in iteration N."
    text: str = template.render(
        name=name,
        state=seen.state,
        remarks=[seen.why, *seen.more_facts],
        sections=[
            ("Figures", legend, _sums(seen) if rows else (), _charts_by_iteration(rows)),
            ("Tasks", f"In {seen.plan.progress_path}.", _row_per_task(seen), ()),
            ("What happened", about, islice(_row_per_event(seen), _MOST_ROWS), ()),
        ],
        made=time.strftime(f"Made by ralph {__version__} on %Y-%m-%d %H:%M. Times are in %Z."),
    )
    return text.encode(errors="replace")
