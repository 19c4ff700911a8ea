"""Time: what the clock on the wall says, how long it has been, and sleep."""

import time
from dataclasses import dataclass, field

from ralph.process import Patience, signals

_RUNNING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine sleeps, and nobody sets it; macOS' CLOCK_MONOTONIC is like that."""


class Clock:
    """The machine's clocks; all in seconds."""

    def now(self) -> float:
        """The time since 1970; it may jump."""
        return time.time()

    def running(self) -> float:
        """The time since some moment; it never jumps, and a suspended machine's sleep counts."""
        return time.clock_gettime(_RUNNING)

    def sleep(self, seconds: float) -> None:
        """Waits up to that long; a signal ends it."""
        signals.wait(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast time goes for a run, how long it waits for what shall end, and how much an agent may print."""

    clock: Clock = field(default_factory=Clock)
    patience: Patience = field(default_factory=Patience)
    transcript_bytes: int = 2_000_000_000
    """Of one iteration; a disk is not endless."""
