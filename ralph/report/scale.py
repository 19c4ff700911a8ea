"""Axes: round steps from zero, and how what is measured is written. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ralph.words import counted, duration, usd

_INTERVALS = 4
_SIZES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
_DAY_S = 86_400
_CLOCK_S = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, _DAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What an axis measures."""

    step: Callable[[float], float]
    """The round step that is no smaller than this."""
    tick: Callable[[float], str]
    """How a multiple of a step is written on the axis."""
    exact: Callable[[float], str]
    """How a value is written beside its bar."""


def ticks(largest: float, unit: Unit) -> Sequence[float]:
    """From zero in equal round steps to the first that is no less than `largest`; at least two."""
    step = unit.step(largest / _INTERVALS) if largest > 0 else unit.step(1)
    return [step * count for count in range(max(1, math.ceil(largest / step - 1e-9)) + 1)]


def round_step(least: float) -> float:
    """The first of 1, 2, 5, 10, 20, ... and of their tenths that is no smaller."""
    power = math.floor(math.log10(least))
    return next(step for factor in (1, 2, 5, 10, 20) if (step := _times_ten(factor, power)) >= least)


def _times_ten(factor: int, power: int) -> float:
    """Without the 0.30000000000000004 that multiplying by a tenth makes."""
    return float(factor * 10**power) if power >= 0 else factor / 10**-power


def whole_step(least: float) -> float:
    """The same for what is counted."""
    return max(1.0, round_step(least))


def _clock_step(least_s: float) -> float:
    if least_s < _CLOCK_S[0]:
        return round_step(least_s)
    return next((float(step) for step in _CLOCK_S if step >= least_s), _DAY_S * round_step(least_s / _DAY_S))


def compact(number: float) -> str:
    """`512`, `41.2k`, `1.5M`."""
    for size, letter in _SIZES:
        if abs(number) >= size * 0.9995:  # 999,950 is written 1M, not 1000k
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}" if number % 1 else f"{number:.0f}"


def _clock(seconds: float) -> str:
    """`30s`, `5m`, `1h30m`: as `duration`, without zeros."""
    if seconds < 60:
        return f"{seconds:.3g}s"
    return duration(seconds).removesuffix("00s" if seconds < 3600 else "00m")


def _dollars(cost: float) -> str:
    if cost >= 1000:
        return f"${compact(cost)}"
    return usd(cost) if cost * 100 % 1 < 1e-6 else f"${cost:.3g}"


def _exact_dollars(cost: float) -> str:
    return usd(cost) if cost >= 0.01 or not cost else f"${cost:.2g}"


TASKS = Unit(step=whole_step, tick=compact, exact=lambda number: counted(int(number), "task"))
USD = Unit(step=round_step, tick=_dollars, exact=_exact_dollars)
TOKENS = Unit(step=whole_step, tick=compact, exact=lambda number: f"{number:,.0f}")
SECONDS = Unit(step=_clock_step, tick=_clock, exact=duration)
