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
from itertools import accumulate, islice
from pathlib import Path

import click

from ralph import __version__, files, journal
from ralph.agent.turn import Outcome
from ralph.errors import RalphError
from ralph.journal import Record
from ralph.look import plans, status
from ralph.look.standing import ending
from ralph.look.status import Seen
from ralph.screen.text import is_terminal, plain
from ralph.words import counted, duration, usd

_STDOUT = "-"
_MOST_ROWS, _MOST_TASKS = 2_000, 1_000
_MOST_BARS = 400
_MOST_GROUPS = 250
_MOST_ENDS = 40
"""Ends of runs that are marked; more would be a fence."""
_MOST_LABELS = 4
"""So that they have room on a phone."""
_INTERVALS = 4
"""Of an axis."""
_DAY_S = 86_400
_CLOCK_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, _DAY_S)
_TOKENS = ("input", "output", "cache_read", "cache_write")
_FROM_SMALL = ("output", "input", "cache_write", "cache_read")
"""Those first that a chart would hide on top of the others."""


def report(word: str, *, output: str | None, opens: bool, progress_file: str | None) -> int:
    """Writes the report and prints where; 0. By default outside of the working directory, where the agent would see it.

    Raises RalphError when there is nothing to tell, or no place for it.
    """
    if opens and output == _STDOUT:
        raise RalphError("--open shows a file; leave out -o -")
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
        raise RalphError(f"{path}: no program here shows it; open it in a browser", 1)
    return 0


def _round(least: float) -> float:
    """The first of 1, 2, 5, 10, 20, ... and of their tenths that is no smaller."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step for factor in (1, 2, 5, 10, 20) if (step := factor * power) >= least * (1 - 1e-9))


def _whole(least: float) -> float:
    return _round(max(1.0, least))


def _clock(least_s: float) -> float:
    return next((float(step) for step in _CLOCK_S if step >= least_s), _DAY_S * _round(least_s / _DAY_S))


def compact(number: float) -> str:
    """`512`, `41.2k`, `1.5M`."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size * 0.9995:  # 999,950 is written 1M, not 1000k
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


@dataclass(frozen=True, slots=True)
class Unit:
    """What an axis measures: how values and ticks are written, and the first round step that is no smaller."""

    exact: Callable[[float], str]
    tick: Callable[[float], str]
    step: Callable[[float], float]


TASKS = Unit(lambda number: counted(int(number), "task"), compact, _whole)
USD = Unit(
    usd,
    lambda cost: usd(cost).removesuffix(".00") if cost < 1000 else f"${compact(cost)}",
    lambda cost: _round(max(0.01, cost)),
)
TOKENS = Unit(lambda number: f"{number:,.0f}", compact, _whole)
SECONDS = Unit(duration, lambda seconds: duration(seconds).removesuffix("00s").removesuffix("00m"), _clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Iterations that share a bar."""

    rows: Sequence[Record]
    wrong: str
    """What did not go well."""
    mark: str
    """`bad`, or `again` when none of that counted."""
    marked: float
    """How many did not go well, in percent."""
    ended: str
    """How a run ended there, unless it is the last."""

    @property
    def name(self) -> str:
        """`#7`, `#51 to 100`: the numbers that `ralph log` takes."""
        first, last = self.rows[0].number, self.rows[-1].number
        return f"#{first}" + f" to {last}" * (last > first)


def groups(records: Sequence[Record]) -> list[Group]:
    """A bar for each iteration; from 400 on for equal groups of a round size, but for what is left at the end."""
    rows = journal.rows(records)
    size = 1 if len(rows) <= _MOST_BARS else int(_whole(len(rows) / _MOST_GROUPS))
    ends = {record.run: f"run ended: {ending(record)}" for record in records if record.event == "run"}
    lasts = {row.run: row for row in rows}
    lasts = {row.run: row for row in lasts.values() if row is not rows[-1] and len(lasts) <= _MOST_ENDS}
    found = []
    for at in range(0, len(rows), size):
        part = rows[at : at + size]
        bad = [row for row in part if not row.success]
        words = Counter(verdict(row) for row in bad)
        group = Group(
            rows=part,
            wrong=", ".join(f"{count} {word}" if size > 1 else word for word, count in words.items()),
            mark="bad" if any(row.counted for row in bad) else "again" if bad else "",
            marked=round(100 * len(bad) / len(part), 1),
            ended=", ".join(ends.get(row.run, "ralph was killed") for row in part if lasts.get(row.run) is row),
        )
        found.append(group)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What the template draws."""

    title: str
    says: str
    """The picture in a sentence."""
    unit: Unit
    groups: Sequence[Group]
    series: Mapping[str, Sequence[float]]
    """By kind a value for each group, not all zero; the first kind stands at the foot."""
    style: str = ""
    """`touching`, without gaps, for what lasts until the next; `marked` with what went wrong; `small`."""

    @property
    def axis(self) -> list[float]:
        """From zero in equal round steps to the first that no bar is above; at least two."""
        most = max(map(sum, zip(*self.series.values(), strict=True)))
        step = self.unit.step(most / _INTERVALS)
        return [step * count for count in range(math.ceil(most / step - 1e-9) + 1)]

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """In percent from the foot, and what they say."""
        axis = self.axis
        return [(round(100 * tick / axis[-1], 2), self.unit.tick(tick)) for tick in axis]

    @property
    def bars(self) -> Iterator[tuple[Group, str, list[tuple[str, float]], str]]:
        """Their numbers in words, parts by kind with heights in percent, and the label below, which most have not."""
        exact, top = self.unit.exact, self.axis[-1]
        every = int(_whole(len(self.groups) / _MOST_LABELS))
        for at, group in enumerate(self.groups):
            values = {kind: values[at] for kind, values in self.series.items() if values[at] > 0 or kind == "left"}
            said = [f"{called(kind)} {exact(value)}" for kind, value in values.items()] if len(self.series) > 1 else []
            said += [why for why in (group.wrong, group.ended) if why and "marked" in self.style]
            tip = f"{group.name}: {' · '.join([exact(sum(values.values())), *said])}"
            parts = [(kind, round(100 * value / top, 2)) for kind, value in values.items()]
            yield group, tip, parts, "" if (at + 1) % every else f"#{group.rows[-1].number:,}"


def called(kind: str) -> str:
    """Its name for people."""
    return kind.replace("_", " ")


def charts(records: Sequence[Record], times: Mapping[str, float]) -> list[Chart]:
    """All for which there is something to show; `times` are the sums of each kind of time."""
    found, parts = [], groups(records)

    def sums(value: Callable[[Record], float]) -> list[float]:
        """By group; a journal may hold negative numbers, a bar cannot."""
        return [round(sum(max(0.0, value(row)) for row in part.rows), 6) for part in parts]

    def draw(title: str, says: str, unit: Unit, series: Mapping[str, Sequence[float]], style: str = "") -> None:
        if any(map(any, series.values())):
            found.append(Chart(title=title, says=says, unit=unit, groups=parts, series=series, style=style))

    says, left = _left(parts)
    draw("Tasks left", says, TASKS, left, "touching marked")
    cost = sums(lambda row: row.cost_usd or 0.0)
    most = max(range(len(parts)), key=cost.__getitem__)
    draw("Cost", f"{usd(cost[most])} at most, in {parts[most].name}", USD, {"cost": cost})
    draw("Cost in all", usd(sum(cost)), USD, {"cost": list(accumulate(cost))}, "touching")
    tokens = {kind: sums(lambda row, kind=kind: row.tokens.get(kind, 0)) for kind in _TOKENS}  # type: ignore[misc]
    for kind in _TOKENS:
        says = f"{compact(sum(tokens[kind]))} in all"
        draw(f"{called(kind).capitalize()} tokens", says, TOKENS, {kind: tokens[kind]}, "small")
    in_all = {kind: list(accumulate(tokens[kind])) for kind in _FROM_SMALL}
    draw("Tokens in all", f"{compact(sum(map(sum, tokens.values())))} tokens", TOKENS, in_all, "touching")
    agent, verifying = sums(lambda row: row.took_s), sums(lambda row: row.verified_s)
    by_kind = {"agent": agent, "verifying": verifying, "waiting": sums(lambda row: row.waited_s)}
    draw("Time", f"{duration(sum(times.values()))} in all", SECONDS, by_kind)
    return found


def _left(parts: Sequence[Group]) -> tuple[str, Mapping[str, Sequence[float]]]:
    """The tasks that are left after each group, and those that are done, in words too; none where nobody looked."""
    looked = [row for part in parts for row in part.rows if row.total is not None]
    if not looked:
        return "", {}
    done, total = (looked[0].done or 0) - looked[0].ticked, (looked[0].total or 0) - looked[0].new
    says = f"{counted(max(0, total - done), 'task')} left before the first iteration"
    series: dict[str, list[int]] = {"left": [], "done": []}
    for part in parts:
        for row in part.rows:
            if row.total is not None:
                done, total = row.done or 0, row.total
        series["left"].append(max(0, total - done))
        series["done"].append(max(0, done))
    return f"{says}, {series['left'][-1]} after the last", series


def verdict(row: Record) -> str:
    """The word for how an iteration ended."""
    if row.ended == "ok" and not row.success:
        return "done refused" if row.refused else "failed"
    outcome = Outcome.__members__.get(row.ended.upper())
    return outcome.value if outcome else row.ended or "unknown"


def _runs(records: Sequence[Record]) -> list[tuple[Record | None, list[Record]]]:
    """The newest iterations, and those of each run together behind the record of its end; the newest first."""
    newest = (record for record in reversed(records) if record.event in ("iteration", "run"))
    runs: dict[str, list[Record]] = {}
    for record in islice(newest, _MOST_ROWS):
        runs.setdefault(record.run, []).append(record)
    return [(next((one for one in its if one.event == "run"), None), journal.rows(its)) for its in runs.values()]


def _times(records: Sequence[Record]) -> dict[str, float]:
    """Seconds by kind, with waits and verifications that no iteration followed."""
    rows = journal.rows(records)
    of_runs = {record.run: record.waited_s for record in records if record.event == "run"}
    of_others = [row.waited_s for row in rows if row.run not in of_runs]
    return {
        "agent": sum(row.took_s for row in rows),
        "verifying": sum(record.took_s for record in records if record.event == "verify"),
        "waiting": max(sum(row.waited_s for row in rows), sum(of_runs.values()) + sum(of_others)),
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
    rows, runs, times = journal.rows(seen.last), _runs(seen.last), _times(seen.last)
    tasks = seen.progress.tasks if seen.progress else ()
    looked = next((row for row in reversed(rows) if row.total), None)
    drawn = charts(seen.last, times) if rows else []
    text = environment.get_template("report.html").render(
        seen=seen,
        rows=rows,
        runs=runs,
        hidden=len(rows) - sum(len(its) for _, its in runs),
        charts=drawn,
        each=len(drawn[0].groups[0].rows) if drawn else 1,
        tasks=tasks if len(tasks) <= _MOST_TASKS else sorted(tasks, key=lambda task: task.done)[:_MOST_TASKS],
        unlisted=max(0, len(tasks) - _MOST_TASKS),
        done=seen.progress.ticked if seen.progress and tasks else looked.done if looked else None,
        total=len(tasks) if tasks else looked.total if looked else None,
        times=times,
        now=now,
        version=__version__,
        zone=time.strftime("%Z", time.localtime(now)),
    )
    return text.encode(errors="replace")
