"""A run that goes on in another terminal, seen from here."""

import os
import sys
import time
from pathlib import Path

from ralph import history, journal, lock
from ralph.errors import RalphError
from ralph.plans import Plan
from ralph.replay import Replay, say
from ralph.standing import ending
from ralph.words import moment

_LOOK_S = 0.1


def follow(plan: Plan, *, verbose: bool) -> int:
    """Shows the running iteration and those after it until the run ends; 0. Raises RalphError when nothing runs."""
    tree, me = lock.working_tree(Path.cwd()), os.path.realpath(plan.progress_path)
    if not _runs(tree, me):
        raise RalphError(f"{plan.name}: no run works on it now; `ralph log {plan.name}` shows what was", 1)
    follower = _Follower(plan, verbose=verbose)
    while _runs(tree, me):
        follower.look()
        time.sleep(_LOOK_S)
    follower.look()
    follower.end()
    return 0


def _runs(tree: Path, progress_path: str) -> bool:
    holder = lock.holder(tree)
    return holder is not None and holder.progress == progress_path


class _Follower:
    """Shows what is new since the last look, of the transcript that grows and of the journal."""

    def __init__(self, plan: Plan, *, verbose: bool) -> None:
        self._name, self._state, self._verbose = plan.name, plan.state, verbose
        self._journal = plan.state.journal
        self._at = self._journal.stat().st_size if self._journal.exists() else 0
        self._replay: Replay | None = None
        for record in journal.last(self._journal, 1):
            if record.get("event") == "wait":
                _tell(record)

    def look(self) -> None:
        """One look; the end of an iteration comes before its summary."""
        running = self._state.died()
        if self._replay and (running is None or running.record != self._replay.path):
            self.end()
        for record, end in journal.read_from(self._journal, self._at):
            self._at = end
            _tell(record)
        if running and self._replay is None and running.record.is_file():
            say(f"{running.mode} {self._name} · iteration {running.iteration}")
            self._replay = Replay(running.record, verbose=self._verbose)
        if self._replay:
            self._replay.more()
        sys.stdout.flush()

    def end(self) -> None:
        """Nothing more comes of this iteration."""
        if self._replay:
            self._replay.rest()
        self._replay = None


def _tell(record: history.Record) -> None:
    if record.get("event") == "wait":
        until = moment(history.stamp(record, "until"), time.time())
        say(f"waiting until {until}: {history.text(record, 'message')}")
    for row in history.rows([record]):
        say(row.summary)
    if record.get("event") == "run":
        say(f"ended: {ending(record)}")
