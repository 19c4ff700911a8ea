"""`ralph report`: the summary of a plan as one HTML file that needs no network and no script.

The bars of its charts are HTML elements. This module computes the figures; the template does the rest.
"""

import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import jinja2

from ralph import __version__, files
from ralph.commands import plans
from ralph.commands.plans import PlanDetails, describe_record
from ralph.errors import RalphError
from ralph.store import journal
from ralph.store.journal import Record
from ralph.words import format_duration, format_moment, format_usd, without_control_codes

_MOST_ROWS = 300
"""The newest iterations, since more bars would be thinner than a pixel; `ralph log` has all of them."""


def write_report(word: str | None, *, output: str | None, opens: bool, progress_file: str | None) -> int:
    """Writes the report and prints its path; returns 0. By default it goes outside the tree, out of the agent's sight.

    Raises RalphError if it cannot be written.
    """
    plan = plans.find_plan(word, progress_file)
    made = render_page(plans.inspect_plan(plan), time.time())
    if output == "-":
        sys.stdout.buffer.write(made)
        return 0
    path = Path(output or plan.state.folder / "report.html")
    with files.os_errors_as_ralph_errors(path, "written"):
        if not output:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # it may be a link of an agent's
        path.write_bytes(made)
    print(without_control_codes(str(path)) + "  (--open shows it in the browser)" * (os.isatty(1) and not opens))
    if opens and click.launch(os.path.realpath(path)) != 0:
        raise RalphError(f"{path}: no program here shows it", 1, fix="open it in a browser")
    return 0


def _format_count(number: float) -> str:
    """`512`, `41.2k`, `1.5M`."""
    for letter in ("", "k", "M"):
        if number < 999.5:  # above this, three digits are not enough
            return f"{number:.3g}{letter}"
        number /= 1000
    return f"{number:.3g}B"


_CHARTS = (
    ("Tasks", "in the list after each iteration", _format_count, ("done", "left")),
    ("Cost", "of each iteration, in US dollars", format_usd, ("cost",)),
    ("Tokens written", "by the agent in each iteration", _format_count, ("output",)),
    ("Tokens read", "by the agent in each iteration", _format_count, ("cache_read", "cache_write", "input")),
    ("Time", "of each iteration", format_duration, ("agent", "verifying", "waiting")),
)
"""For each chart: title, subtitle, how a value is written, and the parts of a bar, from the bottom up."""


def _cost_parts(row: Record) -> dict[str, Any]:
    """The figures of an iteration by kind; those of tokens have the names that they have in the journal."""
    done = row.done or 0
    found = {"left": (row.total or 0) - done, "done": done, "cost": row.cost_usd or 0.0}
    found |= {"agent": row.duration_s, "verifying": row.verified_s, "waiting": row.waited_s}
    return vars(row) | found


def _model_figures(rows: Sequence[Record]) -> dict[str, Any]:
    """For each model: cost, tasks first attempted, passed at first attempt, done, and attempts at the tasks done."""
    found, tried = defaultdict[str, Any](Counter), Counter[str]()
    for row in (one for one in rows if one.counted):
        of_model = found[row.model or "Model not reported"]
        of_model.update(cost=row.cost_usd or 0.0)
        if row.requirement_id or row.mode == "build":
            nth = tried[row.requirement_id] + 1
            tried[row.requirement_id] = 0 if row.success else nth
            done = {"done": 1, "took": nth, "passed": int(nth == 1)} if row.success else {}
            of_model.update(first=int(nth == 1), **done)
    return found


def _parallel_rows(rows: Sequence[Record]) -> list[list[Record]]:
    """Distributes the iterations over rows in which none overlap: one row per agent at work at a time."""
    found: list[list[Record]] = []
    for row in sorted(rows, key=lambda row: row.began_at):
        for lane in found:
            if lane[-1].written_at <= row.began_at + 1:  # timestamps are whole seconds
                lane.append(row)
                break
        else:
            found.append([row])
    return found


def render_page(seen: PlanDetails, now: float) -> bytes:
    """Renders the page. All inserted text is escaped, and stripped of control and direction codes."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: without_control_codes(value) if type(value) is str else value,
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
    )
    rows, charts = seen.iterations[-_MOST_ROWS:], []
    bars = [(row, _cost_parts(row)) for row in rows]
    for title, what, shown, kinds in _CHARTS:
        top = max((sum(parts[kind] for kind in kinds) for _, parts in bars), default=0.0)
        charts.append((title, what, shown, kinds, top))
    text = environment.get_template("report.html").render(
        plan=seen.plan,
        standing=seen.standing,
        progress=seen.progress,
        sums=seen.sums,
        queue=journal.describe_merges(seen.records),
        bars=bars,
        charts=charts,
        models=_model_figures(seen.iterations),
        attempts=Counter(row.requirement_id for row in seen.iterations if row.counted),
        lanes=_parallel_rows([row for row in rows if row.run == rows[-1].run]),
        tasks=seen.progress.tasks if seen.progress else (),
        records=list(filter(describe_record, seen.records))[-_MOST_ROWS:],
        told=describe_record,
        when=lambda at: format_moment(at, 0),
        duration=format_duration,
        usd=format_usd,
        compact=_format_count,
        now=now,
        version=__version__,
        zone=time.strftime("%Z", time.localtime(now)),
    )
    return text.encode(errors="replace")
