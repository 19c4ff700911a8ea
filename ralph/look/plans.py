"""The plans that there are, and how each one stands. Nothing is changed."""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ralph import files, journal, lock, progress, sources
from ralph.errors import RalphError
from ralph.journal import Record
from ralph.lock import Holder
from ralph.progress import Progress
from ralph.settings import Given, Settings, resolve
from ralph.state import Death, State
from ralph.verdict import Reason, Tally, verdict
from ralph.words import moment

_SUFFIX = "_PROGRESS.md"
_WORK_REMAINS = 3


class Plan(NamedTuple):
    """A plan, by what it left here."""

    name: str
    path: Path
    """The plan itself, which may be gone."""
    progress_path: Path

    @property
    def label(self) -> str:
        """By what name it is found here: that of its progress file, which a copy does not share."""
        return self.progress_path.name.removesuffix(_SUFFIX)

    @property
    def state(self) -> State:
        """Its state folder, which may not be there."""
        return State(self.name, self.progress_path)

    def holders(self) -> tuple[Holder | None, Holder | None]:
        """The run that works on it, and one on something else in its tree, or in the one that we are in."""
        me = os.path.realpath(self.progress_path)
        trees = {lock.working_tree(place) for place in (Path.cwd(), Path(me).parent)}
        found = [holder for tree in trees if (holder := lock.holder(tree))]
        mine = next((holder for holder in found if holder.progress == me), None)
        return mine, None if mine else next(iter(found), None)


def find(word: str | None, progress_file: str | None = None) -> Plan:
    """The plan that is meant by its file, by its name, or by its progress file; without a word the only one here.

    Unlike a run it also looks beside the plan: who only wants to know may be anywhere. Raises RalphError.
    """
    asked = Path(progress_file) if progress_file is not None else None
    if not word:
        found = [_of_progress_file(asked)] if asked else here()
        if len(found) > 1:
            raise RalphError(f"name one of the plans that are here: {', '.join(plan.label for plan in found)}")
        return found[0]
    path = next((one for one in (Path(word), Path(f"{word}.md"), Path(f"{word}.json")) if one.is_file()), Path(word))
    if path.name.endswith(_SUFFIX) and path.is_file() and not asked:
        return _of_progress_file(path)
    name = files.plan_name(path)
    here_it_is, beside = Path(name + _SUFFIX), path.parent / (name + _SUFFIX)
    usual = beside if beside.is_file() and not here_it_is.is_file() else here_it_is
    progress_path = asked or _by_settings(path) or usual
    if path.is_file():
        return Plan(name, path, progress_path)
    if progress_path.is_file():
        return _of_progress_file(progress_path)
    what = f"{word}: there is no such plan here, and no {progress_path}"
    raise RalphError(what, fix="ralph status lists what there is")


def here() -> list[Plan]:
    """Those whose progress file lies in this folder. Raises RalphError where there is none."""
    if found := [_of_progress_file(path) for path in sorted(Path().glob(f"*{_SUFFIX}")) if path.is_file()]:
        return found
    raise RalphError(f"no progress file in {Path.cwd()}", fix="ralph PLAN starts one, -C DIR looks elsewhere")


def _of_progress_file(path: Path) -> Plan:
    """The plan that a progress file belongs to: the one it names, else the one of its own name."""
    plan = path.with_name(f"{path.name.removesuffix(_SUFFIX)}.md")
    with contextlib.suppress(OSError, ValueError):
        if said := progress.parse(path.read_bytes()).plan:
            beside = path.parent / said
            plan = beside if beside.exists() and not Path(said).exists() else Path(said)
    return Plan(files.plan_name(plan), plan, path)


def _by_settings(plan: Path) -> Path | None:
    """The progress file that the settings name; what is wrong with other settings does no harm here."""
    given = sources.collected([], directives(plan))[0]
    return resolve([one for one in given if one.variable == "RALPH_PROGRESS_FILE"]).progress_file


def directives(plan: Path) -> Sequence[Given]:
    """What it says of settings; nothing when it cannot be read."""
    return sources.of_plan(files.held(plan), plan.name)


class Standing(NamedTuple):
    """How a plan stands."""

    state: str
    """`new`, `planned`, `running`, `waiting`, `stopped`, `blocked`, `done`; `unchecked` when done is a claim."""
    why: str = ""
    exit_code: int = _WORK_REMAINS
    """As a run's: 0 done, 3 work remains, 4 a person is needed."""
    until: float | None = None
    """Until when it waits, in seconds since 1970."""
    next_move: str = ""
    """What a person can do so that it goes on, where a start alone does not."""

    def phrase(self, now: float) -> str:
        """The state, with the time where it waits for one."""
        return self.state if self.until is None else f"{self.state} until {moment(self.until, now)}"


class Seen(NamedTuple):
    """All there is to say about a plan at a moment."""

    plan: Plan
    standing: Standing
    progress: Progress | None = None
    begun: Death | None = None
    """The iteration that runs, or in which ralph was killed."""
    holder: Holder | None = None
    """Who works on it."""
    other: Holder | None = None
    """Who else works in its tree, so that no run of it can start."""
    records: Sequence[Record] = ()
    """Its journal, the oldest first, with the iteration that runs now, or in which ralph was killed just now."""
    moved: float | None = None
    """When something happened last, in seconds since 1970."""

    @property
    def rows(self) -> list[Record]:
        """Its iterations, the oldest first."""
        return journal.rows(self.records)

    @property
    def sums(self) -> Record:
        """What all of them came to, also those that are no longer on record."""
        return journal.sums(self.records)


def look(plan: Plan) -> Seen:
    """What there is to say about a plan now. Raises RalphError when its files cannot be read."""
    holder, other = plan.holders()
    begun, path = plan.state.died(), plan.progress_path
    try:
        now = progress.parse(path.read_bytes()) if path.exists() else None
        records = journal.read(plan.state.journal)
    except OSError as error:
        raise RalphError(f"{error.filename}: cannot be read: {error.strerror}", 1) from error
    settings = Settings()
    with contextlib.suppress(RalphError):  # what is wrong with them, a start says
        settings = sources.everywhere([], directives(plan.path), "build")
    last = records[-1] if records else None
    how = _running(last, begun) if holder else standing(now, last, begun, settings, path.name)
    if begun and not journal.tells_of(records, begun):
        ended, said = ("running", "runs now") if holder else ("died", "ralph was killed")
        records += journal.records([{**journal.unfinished(begun, said), "ended": ended}])
    touched = [path, plan.state.journal, *([begun.record] if begun else [])]
    moved = max((one.stat().st_mtime for one in touched if one.exists()), default=None)
    return Seen(plan, how, now, begun, holder, other, records, moved)


def _running(last: Record | None, begun: Death | None) -> Standing:
    if begun:
        verifying = ", verifying" if begun.record.with_suffix(".verify.log").exists() else ""
        return Standing("running", f"{begun.mode}, iteration {begun.iteration}{verifying}")
    if last and last.event == "wait" and last.until > time.time():
        return Standing("waiting", last.message, until=last.until)
    return Standing("running")


def standing(
    progress: Progress | None, last: Record | None, begun: Death | None, settings: Settings, file: str
) -> Standing:
    """How a plan stands on which nobody works: by its progress file, its last record, and what no run has judged."""
    if progress is None:
        return Standing("new", "there is no progress file yet")
    stop = verdict(progress, Tally(), settings)
    if progress.done and begun:
        return Standing("unchecked", "ralph was killed before it could look at RALPH_DONE")
    if stop:
        state = {Reason.DONE: "done", Reason.BLOCKED: "blocked"}.get(stop.reason, "stopped")
        return Standing(state, stop.why, stop.reason.code, next_move=stop.next_move(file))
    if progress.done:
        return Standing("unchecked", "RALPH_DONE counts once the verify command has passed")
    if begun:
        return Standing("stopped", f"ralph was killed in iteration {begun.iteration} of {begun.mode}")
    reason = reason_of(last) if last else None
    if last is None or (reason is Reason.ONCE and last.mode == "plan"):
        return Standing("planned" if last else "stopped" if progress.ticked else "new")
    if reason is None:
        return Standing("stopped", "ralph was killed between two iterations")
    is_stuck = reason is Reason.STUCK and any(task.mark == "!" for task in progress.open)
    return Standing("blocked" if is_stuck else "stopped", ending(last), reason.code if is_stuck else _WORK_REMAINS)


def ending(run: Record) -> str:
    """How that run ended, in words."""
    reason = reason_of(run)
    return (reason.label if reason else "ended") + (f": {run.message}" if run.message else "")


def reason_of(run: Record) -> Reason | None:
    """Why that run ended; None when the record does not say."""
    return Reason.__members__.get(run.ended.upper()) if run.event == "run" else None
