"""How a plan stands, in a word, a reason and an exit code. A function of values."""

from collections.abc import Sequence
from dataclasses import dataclass

from ralph.journal import Record
from ralph.progress import Progress
from ralph.settings import Settings
from ralph.state import Death
from ralph.verdict import Reason, Stop, Tally, verdict
from ralph.words import moment

_WORK_REMAINS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a plan stands."""

    state: str
    """`new`, `planned`, `running`, `waiting`, `stopped`, `blocked`, `done`; `unchecked` when done is a claim."""
    why: str = ""
    code: int = _WORK_REMAINS
    """As a run's: 0 done, 3 work remains, 4 a person is needed."""
    until: float | None = None
    """Until when it waits, in seconds since 1970."""
    stop: Stop | None = None
    """Why the next start ends at once."""

    def phrase(self, now: float) -> str:
        """The state, with the time where it waits for one."""
        return self.state if self.until is None else f"{self.state} until {moment(self.until, now)}"


def standing(  # noqa: PLR0913 - what tells it
    progress: Progress | None,
    last: Sequence[Record],
    settings: Settings,
    now: float,
    *,
    runs: bool,
    unjudged: Death | None,
    verifying: bool,
) -> Standing:
    """How it stands at this time, in seconds since 1970, by its progress file and the records of its journal.

    `runs` says that a run works on it. `unjudged` is the iteration that was begun and not judged, while a run works the
    running one, and `verifying` that what it did is being verified, or was when ralph died.
    """
    if runs:
        return _running(last[-1] if last else None, unjudged, now, verifying=verifying)
    if progress is None:
        return Standing(state="new", why="there is no progress file yet")
    stop = verdict(progress, Tally(), settings)
    if stop and stop.reason is Reason.DONE and unjudged:
        return Standing(state="unchecked", why="ralph was killed before it could look at RALPH_DONE")
    if stop:
        state = {Reason.DONE: "done", Reason.BLOCKED: "blocked"}.get(stop.reason, "stopped")
        return Standing(state=state, why=stop.why, code=stop.reason.code, stop=stop)
    if progress.done:
        return Standing(state="unchecked", why="RALPH_DONE counts once the verify command has passed")
    if unjudged:
        why = f"ralph was killed in iteration {unjudged.iteration} of {unjudged.mode}"
        return Standing(state="stopped", why=why + ", while it was verified" * verifying)
    if last:
        return _ended(last[-1], progress)
    return Standing(state="stopped", why="no run is on record here") if progress.ticked else Standing(state="new")


def _running(last: Record | None, unjudged: Death | None, now: float, *, verifying: bool) -> Standing:
    if unjudged:
        what = f"{unjudged.mode}, iteration {unjudged.iteration}" + ", verifying" * verifying
        return Standing(state="running", why=what)
    if last and last.event == "wait" and last.until > now:
        return Standing(state="waiting", why=last.message, until=last.until)
    return Standing(state="running")


def _ended(run: Record, now: Progress) -> Standing:
    """Work remains and nobody works: how the last run ended, by the last record."""
    reason = reason_of(run)
    if reason is None:
        return Standing(state="stopped", why=f"ralph was killed {_when_killed(run)}")
    if reason is Reason.ONCE and run.mode == "plan":
        return Standing(state="planned")
    if reason is Reason.STUCK and _needs_person(now):
        return Standing(state="blocked", why=run.message, code=reason.code)
    if reason in (Reason.DONE, Reason.BLOCKED, Reason.STOPPED):
        return Standing(state="stopped", why=f"the last run ended {reason.label}, which the file says no more")
    return Standing(state="stopped", why=ending(run))


def _needs_person(now: Progress) -> bool:
    """Whether what a strict run was stuck at still stands there, as far as marks show it."""
    return not now.open or any(task.mark == "!" for task in now.open)


def _when_killed(last: Record) -> str:
    if last.ended == "died":
        return f"in iteration {last.iteration} of {last.mode}"
    return "while it waited" if last.event == "wait" else "between two iterations"


def ending(run: Record) -> str:
    """How that run ended, in words."""
    reason = reason_of(run)
    return (reason.label if reason else "ended") + (f": {run.message}" if run.message else "")


def reason_of(run: Record) -> Reason | None:
    """Why that run ended; None when the record does not say."""
    return Reason.__members__.get(run.ended.upper()) if run.event == "run" else None
