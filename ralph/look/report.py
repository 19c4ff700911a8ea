"""`ralph report`: what a plan came to, as one HTML file that needs no network and no script.

A bar is HTML, and each of its parts so many percent high: here are sums, all else is the template's.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from ralph import __version__
from ralph.agent.turn import Outcome
from ralph.errors import RalphError
from ralph.journal import Record
from ralph.look import plans
from ralph.look.plans import Seen, ending
from ralph.words import duration, plain, usd

_MOST_ROWS = 300
"""The newest: more bars would be thinner than a dot, and `ralph log` has them all."""


def report(word: str, *, output: str | None, opens: bool, progress_file: str | None) -> int:
    """Writes the report and prints where; 0. By default outside of the working directory, where the agent would see it.

    Raises RalphError when there is no place for it.
    """
    plan = plans.find(word, progress_file)
    made = page(plans.look(plan), time.time())
    if output == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(made)
        return 0
    path = Path(output) if output is not None else plan.state.folder / "report.html"
    try:
        if output is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # it may be a link of an agent's
        path.write_bytes(made)
    except OSError as error:
        raise RalphError(f"{path}: cannot be written: {error.strerror}", 1) from error
    print(plain(str(path)) + "  (--open shows it in the browser)" * (os.isatty(1) and not opens))
    if opens and click.launch(os.path.realpath(path)) != 0:
        raise RalphError(f"{path}: no program here shows it", 1, fix="open it in a browser")
    return 0


def _compact(number: float) -> str:
    """`512`, `41.2k`, `1.5M`."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size * 0.9995:  # 999,950 is written 1M, not 1000k
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


class Chart(NamedTuple):
    """What the template draws: a bar for each of the newest iterations."""

    title: str
    shown: Callable[[float], str]
    """How a value is written."""
    kinds: Sequence[str]
    """The parts of a bar; the first stands at the foot."""
    is_sum: bool = True
    """What is said of it is the sum of all values, else the last of the first kind."""


_CHARTS = (
    Chart("Tasks", _compact, ("left", "done"), is_sum=False),
    Chart("Cost", usd, ("cost",)),
    Chart("Cost so far", usd, ("spent",), is_sum=False),
    Chart("Input tokens", _compact, ("input",)),
    Chart("Output tokens", _compact, ("output",)),
    Chart("Cache read tokens", _compact, ("cache_read",)),
    Chart("Cache write tokens", _compact, ("cache_write",)),
    Chart("Time", duration, ("agent", "verifying", "waiting")),
)


def _values(rows: Sequence[Record]) -> Iterator[dict[str, float]]:
    """By kind the value of each iteration. A journal may hold negative numbers, a bar cannot."""
    left = done = spent = 0.0
    for row in rows:
        if row.total is not None:  # what nobody looked at is as it was
            left, done = row.total - (row.done or 0), row.done or 0
        cost = max(0.0, row.cost_usd or 0.0)
        spent += cost
        found = {"left": left, "done": done, "cost": cost, "spent": spent, "agent": row.duration_s}
        found |= {"verifying": row.verified_s, "waiting": row.waited_s, **(row.tokens or {})}
        yield {kind: max(0.0, value) for kind, value in found.items()}


def charts(rows: Sequence[Record]) -> Iterator[tuple[Chart, str, float, list[dict[str, float]]]]:
    """All for which there is something to show: what is said of them, the highest bar, the parts of each bar."""
    values = list(_values(rows))
    for chart in _CHARTS:
        its = [{kind: one.get(kind, 0.0) for kind in chart.kinds} for one in values]
        newest = its[-_MOST_ROWS:]
        if top := max((sum(one.values()) for one in newest), default=0.0):
            total = sum(sum(one.values()) for one in its) if chart.is_sum else its[-1][chart.kinds[0]]
            yield chart, f"{chart.shown(total)} {'in all' if chart.is_sum else chart.kinds[0]}", top, newest


def lanes(rows: Sequence[Record]) -> list[list[Record]]:
    """The iterations in as many rows as agents were at work at the same time: in none of them do two overlap."""
    found = list[list[Record]]()
    for row in sorted(rows, key=lambda row: row.began):
        free = [lane for lane in found if lane[-1].at <= row.began + 1]  # timestamps are whole seconds
        if free:
            free[0].append(row)
        else:
            found.append([row])
    return found


def verdict(row: Record) -> str:
    """The word for how an iteration ended."""
    if row.ended == "ok" and not row.success:
        return "done refused" if row.refused else "failed"
    outcome = Outcome.__members__.get(row.ended.upper())
    return outcome.value if outcome else row.ended or "unknown"


def page(seen: Seen, now: float) -> bytes:
    """The page. Whatever is put into it is escaped, and cannot steer a terminal or turn the direction of writing."""
    import jinja2  # noqa: PLC0415 - 33 ms that whoever cannot be reported on need not pay

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: plain(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
    )
    environment.filters |= {
        "duration": duration,
        "ending": ending,
        "moment": lambda at: time.strftime("%Y-%m-%d %H:%M", time.localtime(at)),
        "number": "{:,}".format,
        "usd": usd,
        "verdict": verdict,
    }
    text = environment.get_template("report.html").render(
        seen=seen,
        newest=seen.rows[-_MOST_ROWS:],
        records=[one for one in seen.records if one.event in ("iteration", "run")][-_MOST_ROWS:],
        charts=charts(seen.rows),
        lanes=lanes([row for row in seen.rows[-_MOST_ROWS:] if row.run == seen.rows[-1].run]),
        tasks=seen.progress.tasks if seen.progress else (),
        now=now,
        version=__version__,
        zone=time.strftime("%Z", time.localtime(now)),
    )
    return text.encode(errors="replace")
