"""The controller picks, checks and ticks tasks: the interface that plain, strict and parallel work share."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ralph.run.judge import Iteration, TurnFindings
from ralph.run.stop_rules import Stop


class TreeGuard(Protocol):
    """Watches over the working tree while an agent works."""

    def around_turn(self) -> AbstractContextManager[TurnFindings]:
        """Surrounds a turn of the agent; the findings are complete when it is over."""
        ...


class Controller:
    """Picks, checks and ticks tasks around the turns of the agent. This one does nothing, and runs no agent."""

    guard: TreeGuard | None = None
    """What watches over the working tree, if anything does."""
    picks_tasks = False
    """Whether ralph picks the tasks and ticks them."""
    is_parallel = False
    """Whether several agents work at the same time."""

    @property
    def is_busy(self) -> bool:
        """Whether agents are at work between two iterations."""
        return False

    @property
    def activity(self) -> Sequence[str]:
        """A line for each agent at work besides the one of the iteration."""
        return ()

    @property
    def last_attempt_began_at(self) -> float:
        """When the attempt began that ended last, by `pace.uptime_s()`."""
        return math.inf

    def tidy_task_list(self) -> None:
        """Brings the task list into the form that the next choice needs."""

    def choose_next(self) -> Stop | None:
        """Chooses the next task. Returns why none can be begun, or None."""

    def run_iteration(self) -> Iteration:
        """Runs the next iteration and returns what is known of it once its agent has ended."""
        raise NotImplementedError

    def conclude(self, iteration: Iteration) -> Iteration:
        """Returns the judged iteration with its result, which is in the progress file too by then."""
        return iteration

    def recheck(self) -> Mapping[str, str] | None:
        """Unticks tasks whose checks fail now. Returns why, by task id; None if that could not be found out."""
        return {}

    def wait_for_running_work(self, stop: Stop | None) -> Stop | None:
        """Returns why to stop now; None if running work ends first."""
        return stop

    def pause_new_work_until(self, until: float) -> bool:  # noqa: ARG002 - of the interface
        """Begins no agent before that moment, in seconds since 1970. Returns whether other work continues."""
        return False

    def close(self) -> None:
        """Ends all work, even after an error."""
