"""Who picks the tasks, checks and ticks them: the interface that plain, strict and parallel work have in common."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ralph.run.judge import Iteration, TurnFindings
from ralph.run.verdict import Stop


class TreeGuard(Protocol):
    """Watches over the working tree while an agent works."""

    def watching(self) -> AbstractContextManager[TurnFindings]:
        """Around a turn of the agent; what was seen is complete when it is over."""
        ...


class Controller:
    """Stands around the turns of the agent. This one leaves everything to it, and runs none."""

    guard: TreeGuard | None = None
    """Who watches over the working tree, if somebody does."""
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
        """A line for each agent that is at work besides the one of the iteration."""
        return ()

    @property
    def last_attempt_began_at(self) -> float:
        """When the attempt began that was over last, in seconds since some moment."""
        return math.inf

    def tidy_task_list(self) -> None:
        """Brings the task list into the form that the next choice needs."""

    def choose_next(self) -> Stop | None:
        """Chooses what is worked on next; why nothing can be begun, or None."""

    def run_iteration(self) -> Iteration:
        """What is known of the next iteration once its agent has ended."""
        raise NotImplementedError

    def conclude(self, iteration: Iteration) -> Iteration:
        """The judged iteration with its result; the progress file says so too."""
        return iteration

    def recheck(self) -> Mapping[str, str] | None:
        """Why ticked tasks are not done any more, by their ids, and unticked now; None where nobody could say."""
        return {}

    def wait_for_running_work(self, stop: Stop | None) -> Stop | None:
        """Why to stop now; None where what is at work ends first."""
        return stop

    def pause_new_work_until(self, until: float) -> bool:  # noqa: ARG002 - of the interface
        """Whether work continues though no agent can begin before that moment, in seconds since 1970."""
        return False

    def close(self) -> None:
        """Nobody works any more, also after an error."""
