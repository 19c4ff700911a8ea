"""After a death: what a ralph that was killed has left behind is ended, removed and written down."""

import contextlib
import time

from ralph import git, journal
from ralph.lock import Lock
from ralph.process import Patience, end_strays
from ralph.state import Death, State
from ralph.world import Told


def after_death(held: Lock, state: State, told: Told, patience: Patience) -> None:
    """Sweeps what carries the dead run's mark and removes git's orphaned locks, and says so; nothing after a good end.

    The lock is held, so whoever still carries the mark of its last holder has lost both its ralph and its keeper.
    """
    if run := held.dead_run():
        if (errors := state.keepers_error(run)).exists():
            told.screen.complain(f"ralph: the keeper of the run before failed: {errors}")
        for command in end_strays(run, patience):
            told.screen.complain(f"ralph: ended what the run before left running: {command}")
        for lock in git.remove_orphaned_locks(git.locks_since(held.dead_since()), held.tree):
            told.screen.complain(f"ralph: removed {lock}, left behind by the run before")
    held.begin("")
    if (death := state.died()) and not _is_written_down(death, state):
        _mourn(death, told)


def _is_written_down(death: Death, state: State) -> bool:
    """Whether a start that came to nothing has said it already; such starts write lines of their own."""
    newest = [record for record in journal.read(state.journal) if record.event != "run"][-1:]
    return [(record.run, record.ended) for record in newest] == [(death.run, "died")]


def _last_words_at(death: Death) -> float:
    """When it died, as far as anybody knows."""
    try:
        return death.record.stat().st_mtime
    except OSError:
        return time.time()


def _mourn(death: Death, told: Told) -> None:
    told.screen.complain(
        f"ralph: the run before was killed in iteration {death.iteration}; its record is {death.record}"
    )
    by = journal.Identity(run=death.run, mode=death.mode, iteration=death.iteration, now=_last_words_at(death))
    with contextlib.suppress(OSError):  # a full disk is said where it matters
        told.journal.append(journal.of_death(by, death.record.name))
