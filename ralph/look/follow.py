"""A run that goes on in another terminal, seen from here."""

import sys
import time
from pathlib import Path

from ralph import journal
from ralph.errors import RalphError
from ralph.journal import Record
from ralph.look.plans import Plan
from ralph.look.replay import Replay, say, view
from ralph.look.standing import ending
from ralph.state import Death
from ralph.words import moment

_LOOK_S = 0.1
_LOOKS_FOR_RUN = 10
"""Looks at what is new to each look at whether the run still goes on, which takes its lock for an instant."""


def follow(plan: Plan, *, verbose: bool) -> int:
    """Shows the running iteration and those after it until the run ends; 0. Raises RalphError when nothing runs."""
    if not plan.holders()[0]:
        raise RalphError(f"{plan.name}: no run works on it now; `ralph log {plan.name}` shows what was", 1)
    follower = _Follower(plan, verbose=verbose)
    while plan.holders()[0]:
        for _ in range(_LOOKS_FOR_RUN):
            follower.look()
            time.sleep(_LOOK_S)
    follower.look()
    follower.end()
    if unjudged := plan.state.died():
        say(f"ended: ralph was killed in iteration {unjudged.iteration}")
    return 0


class _Follower:
    """Shows what is new since the last look, of the transcript that grows and of the journal."""

    def __init__(self, plan: Plan, *, verbose: bool) -> None:
        self._name, self._state = plan.name, plan.state
        self._view = view(verbose=verbose, pays=False)  # who pays was said where it runs
        self._journal = plan.state.journal
        self._at = self._journal.stat().st_size if self._journal.exists() else 0
        self._replay: Replay | None = None
        self._begun: Path | None = None
        self._verifying: Path | None = None
        if not self._state.died():
            for record in journal.read(self._journal)[-1:]:
                self._tell(record)

    def look(self) -> None:
        """One look. What the journal says of an iteration was written after its last word."""
        news, self._at = journal.since(self._journal, self._at)
        running = self._state.died()
        if self._replay:
            self._replay.more()
            self._replay.quiet()
            if running is None or running.record != self._replay.path:
                self.end()
        for record in news:
            self._tell(record)
        if running:
            self._show(running)
        sys.stdout.flush()

    def _show(self, running: Death) -> None:
        if running.record != self._begun and running.record.is_file():
            self._begun = running.record
            say(f"{running.mode} {self._name} · iteration {running.iteration}")
            self._replay = Replay(running.record, self._view)
            self._replay.more()
        verifying = running.record.with_suffix(".verify.log")
        if verifying != self._verifying and verifying.exists():
            self._verifying = verifying
            say("verifying")

    def end(self) -> None:
        """Nothing more comes of this iteration."""
        if self._replay:
            self._replay.rest()
        self._replay = None

    def _tell(self, record: Record) -> None:
        if record.event == "iteration":
            self.end()
            say(record.summary)
        elif record.event == "verify" and not record.success:
            say(record.message)
        elif record.event == "wait" and record.until > time.time():
            say(f"waiting until {moment(record.until, time.time())}: {record.message}")
        elif record.event == "run":
            say(f"ended: {ending(record)}")
