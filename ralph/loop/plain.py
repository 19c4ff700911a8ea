"""Plain work: the agent picks a task, ticks it and commits it."""

from ralph.loop.iteration import run_agent_once
from ralph.loop.modes import end_one_iteration_mode
from ralph.run.claims import refuse_done
from ralph.run.context import Run
from ralph.run.controllers import Controller, TreeGuard
from ralph.run.judge import Iteration


class PlainController(Controller):
    """The agent picks, ticks and commits; ralph checks the result."""

    def __init__(self, run: Run, guard: TreeGuard | None) -> None:
        self._run, self.guard = run, guard

    def run_iteration(self) -> Iteration:
        """Runs the next iteration and returns what is known of it once its agent has ended."""
        return run_agent_once(self._run)

    def conclude(self, iteration: Iteration) -> Iteration:
        """Refuses a RALPH_DONE that does not hold, and ends a mode of one iteration."""
        if self._run.settings.once:
            iteration = end_one_iteration_mode(self._run, iteration)
        if iteration.refused:
            refuse_done(self._run, iteration.refused, iteration.missing)
        return iteration
