"""A clock for waits of hours: sleeping takes no time, and what the agent takes stays what it is."""

import sys
from pathlib import Path

from stories import Agent

LEAPING = """
import glob, os, sys
from ralph.cli import main
from ralph.run import Clock, Pace
from ralph.process import Patience

class Leaping(Clock):
    def __init__(self, times, wall_s, running_s, when, awake_s, marks):
        self.times, self.wall_s, self.running_s, self.when = float(times), float(wall_s), float(running_s), when
        self.awake_s, self.marks, self.slept = float(awake_s), marks, 0.0

    def jumped(self):
        return os.path.exists(self.when) if self.when else self.slept > 0

    def now(self):
        return super().now() + self.slept + self.jumped() * self.wall_s

    def running(self):
        return super().running() + self.slept + self.jumped() * self.running_s

    def awake(self):
        return super().awake() + self.awake_s * len(glob.glob(self.marks + "/mark-*"))

    def sleep(self, seconds):
        super().sleep(0)
        self.slept += max(0, seconds) * self.times

given = sys.argv[1:7]
sys.argv[1:7] = []
main(Pace(clock=Leaping(*given), patience=Patience(interrupt_s=1, terminate_s=1)))
"""


def leaping(
    *,
    times: float = 1,
    wall_s: float = 0,
    running_s: float = 0,
    when: Path | None = None,
    awake_s: float = 0,
    marks: Path | None = None,
) -> tuple[str, ...]:
    """A `command` for ralph whose clock leaps over every sleep, `times` as far as it was asked to.

    Besides, the clock on the wall and the one that nobody sets jump once, at the first sleep or when a file is there:
    the first alone has been set, both together have seen the machine asleep. The one that watches over an agent jumps
    by `awake_s` with each mark that the agent in the folder `marks` makes.
    """
    given = map(str, (times, wall_s, running_s, when or "", awake_s, marks or ""))
    return (sys.executable, "-P", "-c", LEAPING, *given)


def leaping_at_marks(agent: Agent) -> tuple[str, ...]:
    """A `command` for ralph for which a quarter of an hour goes by at each mark: nobody waits for a watchdog."""
    return leaping(awake_s=1000, marks=agent.folder)
