"""A chart: from numbers to what is drawn. A plot is one wide per bar, and its height is in pixels. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from ralph.report.figures import Group
from ralph.report.scale import Unit, ticks, whole_step

TALL, SMALL = 170, 90
"""Heights of plots."""
_MOST_LABELS = 6
"""Of iterations, so that they have room on a phone."""
_NEAR_EDGE = 95.0
"""Hundredths of the width; a label there would stick out if it were centred."""
_WIDEST = 0.06
"""A bar, as a part of its plot."""
_GAPS_UP_TO = 120
"""Bars; between more of them gaps would be less than a pixel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A value for each group of iterations."""

    kind: str
    """What the style sheet knows it by."""
    label: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a bar."""

    kind: str
    y: float
    """Its upper end, from the top."""
    height: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A bar, and what there is to say about it."""

    group: Group
    x: float
    """Its left side."""
    value: float
    """Of all its parts."""
    parts: Sequence[Part]
    tip: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something at a place."""

    at: float
    label: str
    kind: str = ""
    width: float = 0.0
    height: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What the template draws."""

    name: str
    title: str
    says: str
    """The picture in a sentence."""
    height: int
    top: float
    """The value at the upper edge."""
    columns: Sequence[Column]
    width: float
    """Of a bar."""
    y_axis: Sequence[Mark]
    """From the top."""
    x_axis: Sequence[Mark]
    """In hundredths of the width."""
    legend: Sequence[tuple[str, str]]
    """Kinds and their labels."""
    lines: Sequence[tuple[str, str]] = ()
    """Kinds, and paths."""
    ends: Sequence[Mark] = ()
    """Where runs ended."""
    bad: Sequence[Mark] = ()
    """Bars with iterations that did not go well, in hundredths of the width."""

    def y(self, value: float) -> float:
        """How far from the top it is."""
        return _y(value, self.top, self.height)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a chart is about, and how it is drawn."""

    name: str
    """Its own on the page."""
    title: str
    says: str
    """The picture in a sentence."""
    unit: Unit
    height: int = TALL
    touching: bool = False
    """Without gaps: for what lasts from one iteration to the next."""
    most: float = 0.0
    """What the scale has to reach."""


def chart(about: Subject, groups: Sequence[Group], series: Sequence[Series]) -> Chart:
    """A chart of these series, on top of each other. There has to be a group."""
    stacks = list(zip(*(one.values for one in series), strict=True))
    axis = ticks(max(about.most, *map(sum, stacks)), about.unit)
    labels = [one.label.lower() for one in series]
    inset = 0.0 if about.touching else _inset(len(groups))
    columns = [
        Column(
            group=group,
            x=_short(at + inset),
            value=round(sum(stack), 6),
            parts=_parts(series, stack, axis[-1], about.height),
            tip=f"{group.name}: {_tip(labels, stack, about.unit)}",
        )
        for at, (group, stack) in enumerate(zip(groups, stacks, strict=True))
    ]
    return Chart(
        name=about.name,
        title=about.title,
        says=about.says,
        height=about.height,
        top=axis[-1],
        columns=columns,
        width=_short(1 - 2 * inset),
        y_axis=[Mark(at=_y(value, axis[-1], about.height), label=about.unit.tick(value)) for value in axis],
        x_axis=_x_axis(groups),
        legend=[(one.kind, one.label) for one in series] if len(series) > 1 else [],
    )


def steps(chart: Chart, before: float, after: Sequence[float]) -> str:
    """A path that begins on `before` at the left edge, then is one wide on each value."""
    return f"M0 {chart.y(before)}" + "".join(f"V{chart.y(value)}H{at}" for at, value in enumerate(after, 1))


def _short(number: float) -> float:
    """Without the tail that binary fractions have, and whole numbers without their `.0`."""
    rounded = round(number, 4)
    return int(rounded) if rounded == int(rounded) else rounded


def _y(value: float, top: float, height: int) -> float:
    return _short(round(height * (1 - value / top), 2))


def _inset(count: int) -> float:
    """The room at either side of a bar; a few are no walls, and many touch."""
    return round(max(0.1 if count <= _GAPS_UP_TO else 0.0, 0.5 - _WIDEST * count / 2), 4)


def _parts(series: Sequence[Series], stack: Sequence[float], top: float, height: int) -> list[Part]:
    below, parts = 0.0, []
    for one, value in zip(series, stack, strict=True):
        if value > 0:
            below += value
            part = Part(
                kind=one.kind,
                y=_y(below, top, height),
                height=_short(round(height * value / top, 2)),
                value=_short(value),
            )
            parts.append(part)
    return parts


def _tip(labels: Sequence[str], stack: Sequence[float], unit: Unit) -> str:
    said = [f"{label} {unit.exact(value)}" for label, value in zip(labels, stack, strict=True) if value > 0]
    return " · ".join([unit.exact(sum(stack)), *(said if len(labels) > 1 else [])])


def _x_axis(groups: Sequence[Group]) -> list[Mark]:
    """Round numbers of iterations, each below the middle of its place."""
    last, size = groups[-1].last, len(groups[0].rows)
    step = int(whole_step(last / _MOST_LABELS))
    width = len(groups) * size
    places = [(n, round((n - 0.5) / width * 100, 3)) for n in range(step, last + 1, step)]
    return [Mark(at=at, label=f"#{n:,}", kind="last" if at > _NEAR_EDGE else "") for n, at in places]
