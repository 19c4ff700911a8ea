"""A run's clock and time limits; a test can replace the clock, and so wait an hour in a moment."""

import time
from dataclasses import dataclass, field

from ralph.process import signals
from ralph.process.programs import Patience


@dataclass(kw_only=True)
class ClockAndLimits:
    """A run's clock, in seconds; how long the run waits for what has to end; and how much an agent may print."""

    patience: Patience = field(default_factory=Patience)
    after_result_s: float = 30.0
    """Seconds that the agent has to exit by itself after its `result` event."""
    notices_wait_s: float = 10.0
    """Seconds that a run waits at its end for notices still being sent."""
    max_printed_bytes: int = 2_000_000_000
    """The most bytes that one iteration may print; disks are finite."""

    def unix_time_s(self) -> float:
        """Seconds since 1970; may jump."""
        return time.time()

    def boot_clock_s(self) -> float:
        """Seconds since some fixed moment, including the time that the machine was suspended; never jumps."""
        # A clock that runs on while the machine sleeps, and that nobody sets; macOS's CLOCK_MONOTONIC is like that.
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    def awake_clock_s(self) -> float:
        """Seconds since some fixed moment, without the time that the machine was suspended."""
        return time.monotonic()

    def sleep_until_signal(self, seconds: float) -> None:
        """Waits up to that long; a signal ends the wait."""
        signals.sleep_until_signal(seconds)
