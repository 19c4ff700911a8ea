"""The status line: what goes on right now, in one row of a terminal."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from ralph.channels.notices import Run
from ralph.clock import Clock
from ralph.progress import Progress
from ralph.screen.text import clipped, columns
from ralph.screen.view import View
from ralph.words import duration, usd

_IDLE_S = 2.0
"""Seconds of silence that are worth a word."""
_DOING_COLUMNS = 16
"""Columns for what is done now, before figures have to give way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What there is to say; an empty text or None is not said."""

    doing: str
    clock: str = ""
    """How long it has been silent, or how long it will still take."""
    task: int = 0
    tasks: int = 0
    iteration: int = 0
    elapsed_s: float | None = None
    cost: str = ""


def status_line(now: Now, width: int) -> str:
    """The most telling line that fits into so many columns."""
    for before, after in _layouts(now):
        room = width - columns(_joined(*before, "?", *after)) + 1
        if room >= min(_DOING_COLUMNS, columns(now.doing)):
            break
    return _joined(*before, clipped(now.doing, room), *after)


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _layouts(now: Now) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What stands before and after the words of what is done now: the longest first, nothing in the end."""
    elapsed = "" if now.elapsed_s is None else duration(now.elapsed_s)
    tasks, number = f"{now.task}/{now.tasks}" * bool(now.tasks), f"#{now.iteration}" * bool(now.iteration)
    task = f"task {tasks}" * bool(tasks)
    long = f"task {now.task} of {now.tasks}" * bool(tasks), f"iteration {now.iteration}" * bool(number)
    yield (*long, elapsed, now.cost), (now.clock,)
    yield (task, number, elapsed, now.cost), (now.clock,)
    yield (tasks, number, elapsed, now.cost), (now.clock,)
    yield (tasks, number), (now.clock.removeprefix("idle ").removesuffix(" left"),)
    yield (tasks, number), ()
    yield (), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Phase:
    """Something that ralph itself does."""

    doing: str
    began: float
    until: float | None
    """On the clock that runs; None when nobody knows."""


class Status:
    """What goes on in a run; the run says it, and the screen's thread asks for the line."""

    def __init__(self, view: View, clock: Clock) -> None:
        self._view, self._clock = view, clock
        self._began = clock.running()
        self._run: Run | None = None
        self._task = self._tasks = 0
        self._phase: _Phase | None = None
        self.does("starting")

    def iterates(self, run: Run, now: Progress) -> None:
        """An iteration begins, and the agent with it."""
        self.knows(run, now)
        self._phase = None

    def knows(self, run: Run, now: Progress) -> None:
        """What the run has come to by now."""
        self._run, self._tasks = run, 0 if run.once else len(now.tasks)  # who plans works on none of them
        self._task = min(now.ticked + 1, self._tasks)

    def does(self, doing: str, seconds: float | None = None) -> None:
        """Says what ralph itself does from now on, and how long it takes where that is known."""
        began = self._clock.running()
        self._phase = _Phase(doing=doing, began=began, until=None if seconds is None else began + seconds)

    def line(self, width: int) -> str:
        """The line as it is now."""
        run, phase = self._run, self._phase
        running = self._clock.running()
        return status_line(
            Now(
                doing=phase.doing if phase else self._view.doing,
                clock=_clock_of(phase, running) if phase else _silence(self._view.heard_at),
                task=self._task,
                tasks=self._tasks,
                iteration=run.number if run and not run.once else 0,
                elapsed_s=running - self._began,
                cost="" if run is None or run.cost_usd is None else usd(run.cost_usd, at_least=run.at_least),
            ),
            width,
        )


def _clock_of(phase: _Phase, now: float) -> str:
    if phase.until is not None:
        return f"{duration(max(0.0, phase.until - now))} left"
    return duration(now - phase.began)


def _silence(heard_at: float) -> str:
    silent_s = time.monotonic() - heard_at
    return f"idle {duration(silent_s)}" if silent_s >= _IDLE_S else ""
