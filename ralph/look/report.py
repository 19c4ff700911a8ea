"""`ralph report`: what a plan came to, as one HTML file that needs no network and no script.

A bar is HTML, and each of its parts so many percent high: here are sums, ticks and percents, all else is CSS.
"""

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import click

from ralph import __version__, files, journal
from ralph.agent.turn import Outcome
from ralph.errors import RalphError
from ralph.journal import Record
from ralph.look import plans, status
from ralph.look.standing import ending
from ralph.look.status import Seen
from ralph.screen.text import is_terminal
from ralph.words import counted, duration, plain, usd

_STDOUT = "-"
_MOST_ROWS, _MOST_TASKS, _MOST_BARS = 2_000, 1_000, 250
_MOST_LABELS = 4
"""So that they have room on a phone."""
_CLOCK_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_TOKENS = ("input", "output", "cache_read", "cache_write")


def report(word: str, *, output: str | None, opens: bool, progress_file: str | None) -> int:
    """Writes the report and prints where; 0. By default outside of the working directory, where the agent would see it.

    Raises RalphError when there is nothing to tell, or no place for it.
    """
    if opens and output == _STDOUT:
        raise RalphError("--open shows a file", fix="leave out -o -")
    plan, now = plans.find(word, progress_file), time.time()
    seen = status.look(plan, now)
    if not seen.last and seen.progress is None:
        raise RalphError(f"{plan.name}: nothing to report: no {plan.progress_path}, and no run that is recorded here")
    made = page(seen, now)
    if output == _STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(made)
        return 0
    path = Path(output) if output is not None else plan.state.folder / "report.html"
    try:
        if output is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(made)  # a pipe or a device: only a file is replaced
        else:
            files.replace(path, made, mode=None if output is not None else 0o600)
    except OSError as error:
        raise RalphError(f"{path}: cannot be written: {error.strerror}", 1) from error
    print(plain(str(path)) + "  (--open shows it in the browser)" * (is_terminal(1) and not opens))
    if opens and click.launch(os.path.realpath(path)) != 0:
        raise RalphError(f"{path}: no program here shows it", 1, fix="open it in a browser")
    return 0


def _round(least: float) -> float:
    """The first of 1, 2, 5, 10, 20, ... and of their tenths that is no smaller."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step for factor in (1, 2, 5, 10, 20) if (step := factor * power) >= least * (1 - 1e-9))


def compact(number: float) -> str:
    """`512`, `41.2k`, `1.5M`."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size * 0.9995:  # 999,950 is written 1M, not 1000k
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What the template draws: a bar for each group of iterations."""

    title: str
    says: str
    """The picture in a sentence."""
    groups: Sequence[Sequence[Record]]
    series: Mapping[str, Sequence[float]]
    """By kind a value for each group, not all zero; the first kind stands at the foot."""
    shown: Callable[[float], str]
    """How a value is written."""
    style: str = ""
    """`touching`, without gaps, for what lasts until the next."""

    @property
    def axis(self) -> list[float]:
        """From zero in equal round steps to the first that no bar is above; at least two."""
        most = max(map(sum, zip(*self.series.values(), strict=True)))
        least = most / 4
        if self.shown is duration and least <= _CLOCK_S[-1]:
            step = float(next(one for one in _CLOCK_S if one >= least))
        else:
            step = _round(max(0.01 if self.shown is usd else 1.0, least))
        return [step * count for count in range(math.ceil(most / step - 1e-9) + 1)]

    def tick(self, value: float) -> str:
        """What is written beside the axis."""
        return f"${compact(value)}" if self.shown is usd and value >= 1000 else self.shown(value)

    @property
    def bars(self) -> Iterator[tuple[str, str, list[tuple[str, float]], str]]:
        """Numbers in words, how they ended, parts by kind with heights in percent, the label below, which few have."""
        top, every = self.axis[-1], math.ceil(_round(len(self.groups) / _MOST_LABELS))
        for at, group in enumerate(self.groups):
            values = {kind: its[at] for kind, its in self.series.items() if its[at] > 0}
            said = [f"{called(kind)} {self.shown(value)}" for kind, value in values.items()]
            wrong = Counter(verdict(row) for row in group if not row.success)
            said += [f"{count} {word}" if len(group) > 1 else word for word, count in wrong.items()]
            mark = "bad" if any(row.counted and not row.success for row in group) else "again" if wrong else ""
            parts = [(kind, round(100 * value / top, 2)) for kind, value in values.items()]
            yield (
                f"{name(group)}: {' · '.join(said)}",
                mark,
                parts,
                "" if (at + 1) % every else f"#{group[-1].iteration}",
            )


def name(group: Sequence[Record]) -> str:
    """`#7`, `#51 to 100`: the numbers that `ralph log` takes."""
    first, last = group[0].iteration, group[-1].iteration
    return f"#{first}" + f" to {last}" * (last > first)


def called(kind: str) -> str:
    """Its name for people."""
    return kind.replace("_", " ")


def charts(rows: Sequence[Record]) -> list[Chart]:
    """All for which there is something to show. Of very many iterations several share a bar."""
    size = 1 if len(rows) <= _MOST_BARS else int(_round(len(rows) / _MOST_BARS))
    groups = [rows[at : at + size] for at in range(0, len(rows), size)]
    found: list[Chart] = []

    def sums(value: Callable[[Record], float]) -> list[float]:
        """By group; a journal may hold negative numbers, a bar cannot."""
        return [round(sum(max(0.0, value(row)) for row in group), 6) for group in groups]

    def draw(
        title: str, says: str, series: Mapping[str, Sequence[float]], shown: Callable[[float], str], style: str = ""
    ) -> None:
        if any(map(any, series.values())):
            found.append(Chart(title=title, says=says, groups=groups, series=series, shown=shown, style=style))

    left = _left(groups)
    draw("Tasks", f"{counted(int(left['left'][-1]), 'task')} left", left, compact, "touching")
    cost = sums(lambda row: row.cost_usd or 0.0)
    most = max(range(len(groups)), key=cost.__getitem__)
    draw("Cost", f"{usd(cost[most])} at most, in {name(groups[most])}", {"cost": cost}, usd)
    draw("Cost in all", usd(sum(cost)), {"cost": list(accumulate(cost))}, usd, "touching")
    for kind in _TOKENS:
        its = sums(lambda row, kind=kind: (row.tokens or {}).get(kind, 0))  # type: ignore[misc]
        draw(f"{called(kind).capitalize()} tokens", f"{compact(sum(its))} in all", {kind: its}, compact)
    agent, verifying = sums(lambda row: row.duration_s), sums(lambda row: row.verified_s)
    time = {"agent": agent, "verifying": verifying, "waiting": sums(lambda row: row.waited_s)}
    draw("Time", f"{duration(sum(map(sum, time.values())))} in all", time, duration)
    return found


def _left(groups: Sequence[Sequence[Record]]) -> Mapping[str, Sequence[float]]:
    """The tasks that are left after each group, and those that are done; what nobody looked at is as it was."""
    series: dict[str, list[float]] = {"left": [], "done": []}
    done = total = 0
    for group in groups:
        for row in group:
            done, total = (row.done or 0, row.total) if row.total is not None else (done, total)
        series["left"].append(max(0, total - done))
        series["done"].append(max(0, done))
    return series


def verdict(row: Record) -> str:
    """The word for how an iteration ended."""
    if row.ended == "ok" and not row.success:
        return "done refused" if row.refused else "failed"
    outcome = Outcome.__members__.get(row.ended.upper())
    return outcome.value if outcome else row.ended or "unknown"


def _runs(records: Sequence[Record]) -> list[tuple[Record | None, list[Record]]]:
    """The newest iterations, and those of each run together behind the record of its end; the newest first."""
    runs: dict[str, list[Record]] = {}
    for record in [one for one in records if one.event in ("iteration", "run")][: -_MOST_ROWS - 1 : -1]:
        runs.setdefault(record.run, []).append(record)
    return [(next((one for one in its if one.event == "run"), None), journal.rows(its)) for its in runs.values()]


def _times(records: Sequence[Record]) -> dict[str, float]:
    """Seconds by kind, with waits and verifications that no iteration followed."""
    runs = {record.run: record.waited_s for record in records if record.event == "run"}
    rows = journal.rows(records)
    return {
        "agent": sum(row.duration_s for row in rows),
        "verifying": sum(record.duration_s for record in records if record.event == "verify"),
        "waiting": sum(runs.values()) + sum(row.waited_s for row in rows if row.run not in runs),
    }


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
        "called": called,
        "duration": duration,
        "ending": ending,
        "moment": lambda at: time.strftime("%Y-%m-%d %H:%M", time.localtime(at)),
        "number": "{:,}".format,
        "usd": usd,
        "verdict": verdict,
    }
    rows, runs = journal.rows(seen.last), _runs(seen.last)
    tasks = list(seen.progress.tasks) if seen.progress else []
    listed = tasks if len(tasks) <= _MOST_TASKS else sorted(tasks, key=lambda task: task.done)[:_MOST_TASKS]
    text = environment.get_template("report.html").render(
        seen=seen,
        rows=rows,
        runs=runs,
        hidden=len(rows) - sum(len(its) for _, its in runs),
        charts=charts(rows) if rows else [],
        tasks=listed,
        total=len(tasks),
        times=_times(seen.last),
        now=now,
        version=__version__,
        zone=time.strftime("%Z", time.localtime(now)),
    )
    return text.encode(errors="replace")
