"""How time goes for a run: a clock that can be another one, so that tests wait an hour in a moment."""

import time
from dataclasses import dataclass, field

from ralph.process import signals
from ralph.process.programs import Patience

_RUNNING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Runs on while the machine sleeps, and nobody sets it; macOS' CLOCK_MONOTONIC is like that."""


@dataclass(kw_only=True)
class Pace:
    """How time goes for a run, in seconds, how long it waits for what is to end, and how much an agent may print."""

    patience: Patience = field(default_factory=Patience)
    after_result_s: float = 30.0
    """What the agent has to leave by itself after its `result` event."""
    send_s: float = 10.0
    """How long the end of a run waits for notices still on their way."""
    transcript_bytes: int = 2_000_000_000
    """Of one iteration; a disk is not endless."""

    def now(self) -> float:
        """The time since 1970; it may jump."""
        return time.time()

    def uptime_s(self) -> float:
        """The time since some moment; it never jumps, and a suspended machine's sleep counts."""
        return time.clock_gettime(_RUNNING)

    def awake(self) -> float:
        """The time since some moment, without a suspended machine's sleep."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Waits up to that long; a signal ends it."""
        signals.wait(seconds)
