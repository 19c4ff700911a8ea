"""The status line: what goes on right now, in one row of a terminal."""

import time

from ralph.clock import Clock
from ralph.progress import Progress
from ralph.screen.text import clipped, columns
from ralph.screen.view import View
from ralph.verdict import Tally
from ralph.words import duration, usd

_IDLE_S = 2.0
"""Seconds of silence that are worth a word."""
_DOING_COLUMNS = 16
"""Columns for what is done now, before figures have to give way."""


class Status:
    """What goes on in a run; the run says it, and the screen's thread asks for the line."""

    def __init__(self, view: View, clock: Clock) -> None:
        self._view, self._clock = view, clock
        self._began = clock.running()
        self._tally = Tally()
        self._number = self._task = self._tasks = 0
        self._phase: tuple[str, float, float | None] | None = None
        """What ralph itself does, since when, and how long where that is known."""
        self.does("starting")

    def iterates(self, tally: Tally, now: Progress, number: int) -> None:
        """An iteration begins, and the agent with it; its number is 0 in a mode that is only one."""
        self.knows(tally, now, number)
        self._phase = None

    def knows(self, tally: Tally, now: Progress, number: int) -> None:
        """What the run has come to by now."""
        self._tally, self._number = tally, number
        self._tasks = len(now.tasks) if number else 0  # who plans works on none of them
        self._task = min(now.ticked + 1, self._tasks)

    def does(self, doing: str, seconds: float | None = None) -> None:
        """Says what ralph itself does from now on, and how long it takes where that is known."""
        self._phase = doing, self._clock.running(), seconds

    def line(self, width: int) -> str:
        """The most telling line that fits into so many columns."""
        tally, (doing, clock) = self._tally, self._doing()
        elapsed = duration(self._clock.running() - self._began)
        cost = "" if tally.cost_usd is None else usd(tally.cost_usd, at_least=tally.at_least)
        tasks, task = f"{self._task}/{self._tasks}", f"task {self._task} of {self._tasks}"
        number = self._number
        layouts = (
            (task * bool(self._tasks), f"iteration {number}" * bool(number), elapsed, cost, clock),
            (tasks * bool(self._tasks), f"#{number}" * bool(number), elapsed, cost, clock),
            (tasks * bool(self._tasks), f"#{number}" * bool(number), clock.removeprefix("idle ").removesuffix(" left")),
            ("",),
        )
        for *before, after in layouts:
            room = width - columns(_joined(*before, "?", after)) + 1
            if room >= min(_DOING_COLUMNS, columns(doing)):
                break
        return _joined(*before, clipped(doing, room), after)

    def _doing(self) -> tuple[str, str]:
        """What is done now; and how long it has been silent, or has taken, or will still take."""
        if self._phase is None:
            silent_s = time.monotonic() - self._view.heard_at
            return self._view.doing, f"idle {duration(silent_s)}" if silent_s >= _IDLE_S else ""
        doing, began, seconds = self._phase
        took_s = self._clock.running() - began
        return doing, duration(took_s) if seconds is None else f"{duration(max(0.0, seconds - took_s))} left"


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)
