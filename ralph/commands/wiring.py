"""Chooses the controller and the recovery of a run: the only module that knows plain, strict and parallel work."""

from ralph.loop.iteration import PlainController
from ralph.loop.session import Wiring
from ralph.process.lock import Lock
from ralph.run.context import Run
from ralph.run.judge import Controller
from ralph.store.state import State


def make_controller(run: Run) -> Controller:
    """Returns the controller for the mode of the run. Raises RalphError if it cannot work here."""
    start, settings = run.start, run.settings
    if not (settings.strict or settings.only):
        return PlainController(run, None)
    from ralph.strict import controller, guard  # noqa: PLC0415 - 20 ms that only --strict and --only pay

    tree_guard = guard.Guard(run)
    commits = settings.strict and settings.auto_commit
    will_build = start.is_strict_build or start.asked.mode == "all"
    if commits and will_build and not run.current.number:  # not again in the middle of a run
        tree_guard.check_can_commit()
    if not start.is_strict_build:
        return PlainController(run, tree_guard.around_turn if settings.only else None)
    if run.supervisors:
        from ralph.parallel.coordinator import ParallelController  # noqa: PLC0415 - 20 ms that only --jobs pays

        return ParallelController(run, tree_guard.wait_for_index)
    return controller.StrictController(run, tree_guard)


def recover(run: Run, held_lock: Lock) -> None:
    """Recovers from the death of an earlier run. Raises RalphError if the user has to decide."""
    from ralph.strict import recovery  # noqa: PLC0415 - 20 ms, after a death alone

    recovery.recover(run, held_lock)


def record_tree_after_death(state: State) -> None:
    """Writes the note of the tree once all of a run has ended; does nothing if ralph had judged the iteration."""
    from ralph.strict import shadow  # noqa: PLC0415 - only that process pays, after a death

    if state.unjudged_iteration():
        shadow.record_tree_after_death(state)


WIRING = Wiring(make_controller, recover, record_tree_after_death)
