"""A clock for waits of hours: sleeping takes no time, and what the agent takes stays what it is."""

from typing import Any

from ralph_driver import paced
from stories import Agent


def leaping(**how: Any) -> tuple[str, ...]:
    """A `command` for ralph whose clock leaps over every sleep; see `paced`."""
    return paced(**{"times": 1, "interrupt_s": 1, "terminate_s": 1, **how})


def leaping_at_marks(agent: Agent) -> tuple[str, ...]:
    """A `command` for ralph for which a quarter of an hour goes by at each mark: nobody waits for a watchdog."""
    return leaping(awake_s=1000, marks=agent.folder)
