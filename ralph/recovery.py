"""After a death: what a ralph that was killed has left behind is ended, removed and written down."""

import contextlib
import time

from ralph import git, records
from ralph.lock import Lock
from ralph.process import Patience, end_left_over
from ralph.state import Death, State
from ralph.world import Told


def after_death(held: Lock, state: State, told: Told, patience: Patience, *, mode: str) -> None:
    """Sweeps what carries the dead run's mark and removes git's orphaned lock, and says so; nothing after a good end.

    The lock is held, so whoever still carries the mark of its last holder has lost both its ralph and the guardian.
    """
    if run := held.dead_run():
        for command in end_left_over(run, patience):
            told.screen.complain(f"ralph: ended what the run before left running: {command}")
    if death := state.died():
        _mourn(death, told, mode)
    held.begin("")


def _mourn(death: Death, told: Told, mode: str) -> None:
    told.screen.complain(
        f"ralph: the run before was killed in iteration {death.iteration}; its record is {death.record}"
    )
    if lock := git.remove_lock_since(death.began):
        told.screen.complain(f"ralph: removed {lock}, left behind by that iteration")
    by = records.Identity(run=death.run, mode=mode, iteration=death.iteration, now=time.time())
    with contextlib.suppress(OSError):  # a full disk is said where it matters
        told.journal.append(records.of_death(by))
