"""`ralph report`: what a plan came to, as one HTML file that needs no network and no script.

A bar is HTML, and each of its parts so many percent high: here are sums, all else is the template's.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import click

from ralph import __version__, files
from ralph.agent.turn import Outcome
from ralph.errors import RalphError
from ralph.journal import Record
from ralph.look import plans
from ralph.look.plans import Seen, ending
from ralph.screen.text import is_terminal
from ralph.words import duration, plain, usd

_MOST_ROWS = 300
"""The newest: more bars would be thinner than a dot, and `ralph log` has them all."""
_TOKENS = ("input", "output", "cache_read", "cache_write")


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
            files.replace(path, made, mode=0o600)
        else:
            path.write_bytes(made)
    except OSError as error:
        raise RalphError(f"{path}: cannot be written: {error.strerror}", 1) from error
    print(plain(str(path)) + "  (--open shows it in the browser)" * (is_terminal(1) and not opens))
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
    says: str
    """The picture in a few words."""
    series: Mapping[str, Sequence[float]]
    """By kind a value for each iteration; the first kind stands at the foot."""
    top: float
    """What the highest bar comes to."""
    shown: Callable[[float], str]
    """How a value is written."""


def charts(rows: Sequence[Record]) -> list[Chart]:
    """All for which there is something to show."""
    found: list[Chart] = []

    def values(value: Callable[[Record], float]) -> list[float]:
        return [max(0.0, value(row)) for row in rows]  # a journal may hold negative numbers, a bar cannot

    def draw(title: str, shown: Callable[[float], str], series: dict[str, list[float]], says: str = "") -> None:
        newest = {kind: its[-_MOST_ROWS:] for kind, its in series.items()}
        top = max(map(sum, zip(*newest.values(), strict=True)), default=0.0)
        said = says or f"{shown(sum(map(sum, series.values())))} in all"
        if top > 0:
            found.append(Chart(title, said, newest, top, shown))

    left, done = [0.0], [0.0]
    for row in rows:
        known = row.total is not None  # what nobody looked at is as it was
        left.append(max(0, (row.total or 0) - (row.done or 0)) if known else left[-1])
        done.append(max(0, row.done or 0) if known else done[-1])
    cost = values(lambda row: row.cost_usd or 0.0)
    draw("Tasks", _compact, {"left": left[1:], "done": done[1:]}, f"{_compact(left[-1])} left")
    draw("Cost", usd, {"cost": cost})
    draw("Cost so far", usd, {"spent": list(accumulate(cost))}, usd(sum(cost)))
    for kind in _TOKENS:
        its = values(lambda row, kind=kind: (row.tokens or {}).get(kind, 0))  # type: ignore[misc]
        draw(f"{kind} tokens".replace("_", " ").capitalize(), _compact, {kind: its})
    took = {
        "agent": values(lambda row: row.duration_s),
        "verifying": values(lambda row: row.verified_s),
        "waiting": values(lambda row: row.waited_s),
    }
    draw("Time", duration, took)
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
        tasks=seen.progress.tasks if seen.progress else (),
        now=now,
        version=__version__,
        zone=time.strftime("%Z", time.localtime(now)),
    )
    return text.encode(errors="replace")
