"""The charts of a report: what each shows, and what it says in a sentence; none where there is nothing to show."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ralph.journal import Record, Sums
from ralph.report.charts import SMALL, Chart, Mark, Series, Subject, chart, steps
from ralph.report.figures import KINDS, Group, Run, Totals, burn_down, verdict
from ralph.report.scale import SECONDS, TASKS, TOKENS, USD, compact
from ralph.words import counted, duration, usd

_MOST_ENDS = 40
"""Ends of runs that are marked; more would be a fence."""
_BAD_HEIGHT = 5.0
_FROM_SMALL = ("output", "input", "cache_write", "cache_read")
"""Kinds of tokens, those first that a chart would hide on top of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """All of them."""

    tasks: Chart | None
    cost: Sequence[Chart]
    """By iteration, and in all; as two, since one picture with two scales would show a relation that is none."""
    tokens: Sequence[Chart]
    """Each kind on a scale of its own: what is read from the cache is a hundred times the rest. Then all in sum."""
    time: Chart | None


def pictures(rows: Sequence[Record], parts: Sequence[Group], runs: Sequence[Run], sums: Sums, all_: Totals) -> Pictures:
    """The charts of these iterations, a bar for each of the groups."""
    return Pictures(
        tasks=_tasks(rows, parts, runs),
        cost=_cost(parts, sums),
        tokens=_tokens(parts, all_),
        time=_time(parts, all_),
    )


def _tasks(rows: Sequence[Record], parts: Sequence[Group], runs: Sequence[Run]) -> Chart | None:
    found = burn_down(rows, parts)
    if found is None:
        return None
    before, after = found
    says = f"{counted(before.left, 'task')} left before the first iteration, {after[-1].left} after the last"
    left = Series(kind="left", label="left", values=[one.left for one in after])
    most = max(one.total for one in (before, *after))
    about = Subject(name="tasks", title="Tasks left", says=says, unit=TASKS, touching=True, most=most)
    made = chart(about, parts, [left])
    bad = [mark for at, part in enumerate(parts) if (mark := _bad(at, part, 100 / len(parts)))]
    return replace(
        made,
        legend=[("left", "left"), ("total", "all"), *_bad_ones(bad)],
        lines=[
            ("total", steps(made, before.total, [one.total for one in after])),
            ("left", steps(made, before.left, [one.left for one in after])),
        ],
        ends=_ends(runs, len(parts[0].rows)),
        bad=bad,
    )


def _ends(runs: Sequence[Run], size: int) -> list[Mark]:
    """Where one run ended and another began."""
    counts = itertools.accumulate(len(run.rows) for run in runs)
    places = [(count / size, run) for count, run in zip(counts, runs[:-1], strict=False) if run.rows]
    marks = [Mark(at=at, label=f"run ended: {run.ended or 'killed'}") for at, run in places]
    return marks if len(marks) <= _MOST_ENDS else []


def _bad(at: int, part: Group, width: float) -> Mark | None:
    """The higher, the more of the group went wrong."""
    bad = [row for row in part.rows if not row.success]
    if not bad:
        return None
    words = Counter(verdict(row) for row in bad)
    said = ", ".join(f"{count} {word}" if len(part.rows) > 1 else word for word, count in words.items())
    return Mark(
        at=round((at + 0.1) * width, 3),
        width=round(0.8 * width, 3),
        height=max(1.0, round(_BAD_HEIGHT * len(bad) / len(part.rows), 1)),
        kind="bad" if any(row.counted for row in bad) else "again",
        label=f"{part.name}: {said}",
    )


def _bad_ones(marks: Sequence[Mark]) -> list[tuple[str, str]]:
    words = {"bad": "went wrong", "again": "did not count"}
    return [(kind, label) for kind, label in words.items() if any(mark.kind == kind for mark in marks)]


def _by(parts: Sequence[Group], value: Callable[[Record], float]) -> list[float]:
    """The sums by group; a journal may hold negative numbers, a bar cannot."""
    return [round(sum(max(0.0, value(row)) for row in part.rows), 6) for part in parts]


def _running(values: Sequence[float]) -> list[float]:
    return [round(value, 6) for value in itertools.accumulate(values)]


def _cost(parts: Sequence[Group], sums: Sums) -> list[Chart]:
    if not sums.cost_usd:
        return []
    costs = _by(parts, lambda row: row.cost_usd or 0.0)
    most = max(range(len(parts)), key=costs.__getitem__)
    says = f"{USD.exact(costs[most])} at most, in {parts[most].name}"
    in_all = f"{usd(sums.cost_usd, at_least=sums.cost_at_least)} after {counted(parts[-1].last, 'iteration')}"
    each, running = (Series(kind="cost", label="cost", values=values) for values in (costs, _running(costs)))
    about = Subject(name="cost", title="Cost", says=says, unit=USD)
    about_all = Subject(name="cost-sum", title="Cost in all", says=in_all, unit=USD, touching=True)
    return [chart(about, parts, [each]), chart(about_all, parts, [running])]


def _tokens(parts: Sequence[Group], all_: Totals) -> list[Chart]:
    if not any(all_.tokens.values()):
        return []
    by = {kind: _by(parts, lambda row, kind=kind: row.tokens.get(kind, 0)) for kind in KINDS}  # type: ignore[misc]
    charts = [_of_kind(kind, by[kind], parts, all_) for kind in KINDS]
    sums = [Series(kind=kind, label=KINDS[kind], values=_running(by[kind])) for kind in _FROM_SMALL]
    in_all = f"{compact(sum(all_.tokens.values()))} tokens after {counted(parts[-1].last, 'iteration')}"
    about = Subject(name="tokens-sum", title="Tokens in all", says=in_all, unit=TOKENS, touching=True)
    return [*charts, chart(about, parts, sums)]


def _of_kind(kind: str, values: Sequence[float], parts: Sequence[Group], all_: Totals) -> Chart:
    about = Subject(
        name=f"tokens-{kind}",
        title=f"{KINDS[kind]} tokens",
        says=f"{compact(all_.tokens[kind])} in all",
        unit=TOKENS,
        height=SMALL,
    )
    return chart(about, parts, [Series(kind=kind, label=KINDS[kind], values=values)])


def _time(parts: Sequence[Group], all_: Totals) -> Chart | None:
    if all_.all_s <= 0:
        return None
    series = [
        Series(kind="agent", label="agent", values=_by(parts, lambda row: row.took_s)),
        Series(kind="verifying", label="verifying", values=_by(parts, lambda row: row.verified_s)),
        Series(kind="waiting", label="waiting", values=_by(parts, lambda row: row.waited_s)),
    ]
    about = Subject(name="time", title="Time", says=f"{duration(all_.all_s)} in all", unit=SECONDS)
    made = chart(about, parts, series)
    of = {"agent": all_.agent_s, "verifying": all_.verifying_s, "waiting": all_.waiting_s}
    return replace(made, legend=[(kind, f"{kind} {duration(seconds)}") for kind, seconds in of.items()])
