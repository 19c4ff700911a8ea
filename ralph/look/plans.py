"""The plans that there are, and how each one stands. Nothing is changed."""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan, by what it left here."""

    name: str
    path: Path
    """The plan itself, which may be gone."""
    progress_path: Path

    @property
    def label(self) -> str:
        """Its name; that of its progress file where the two differ, as a copy's does."""
        return self.name if self.progress_path.name == self.name + _SUFFIX else self.progress_path.name

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
        return _of_progress_file(asked) if asked else _only()
    path = next((one for one in (Path(word), Path(f"{word}.md"), Path(f"{word}.json")) if one.is_file()), Path(word))
    if path.name.endswith(_SUFFIX) and path.is_file() and not asked:
        return _of_progress_file(path)
    name = files.plan_name(path)
    here, beside = Path(name + _SUFFIX), path.parent / (name + _SUFFIX)
    progress_path = asked or _by_settings(path) or (beside if beside.is_file() and not here.is_file() else here)
    if path.is_file():
        return Plan(name=name, path=path, progress_path=progress_path)
    if progress_path.is_file():
        return _of_progress_file(progress_path)
    what = f"{word}: there is no such plan here, and no {progress_path}"
    raise RalphError(what, fix="ralph status lists what there is")


def _only() -> Plan:
    found = here()
    if len(found) == 1:
        return found[0]
    if not found:
        raise RalphError(f"no progress file in {Path.cwd()}", fix="name the plan, or look elsewhere with -C DIR")
    raise RalphError(f"name one of the plans that are here: {', '.join(plan.label for plan in found)}")


def here() -> list[Plan]:
    """Those whose progress file lies in this folder, is named by the settings of this folder, or is worked on here."""
    found = {path for path in Path().glob(f"*{_SUFFIX}") if path.is_file()}
    if (named := _by_settings(Path())) and named.is_file():
        found.add(named)
    holder = lock.holder(lock.working_tree(Path.cwd()))
    if holder and Path(holder.progress).parent == Path.cwd():
        found.add(Path(Path(holder.progress).name))
    return [_of_progress_file(path) for path in sorted(found)]


def _of_progress_file(path: Path) -> Plan:
    """The plan that a progress file belongs to: the one it names, else the one of its own name."""
    plan = path.with_name(f"{path.name.removesuffix(_SUFFIX)}.md")
    with contextlib.suppress(OSError, ValueError):
        if said := progress.parse(path.read_bytes()).plan:
            beside = path.parent / said
            plan = beside if beside.exists() and not Path(said).exists() else Path(said)
    return Plan(name=files.plan_name(plan), path=plan, progress_path=path)


def _by_settings(plan: Path) -> Path | None:
    """The progress file that the settings name; what is wrong with other settings does no harm here."""
    given = [*directives(plan), *sources.in_environment(), *sources.in_files()[0]]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
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
    """Its journal, the oldest first."""
    moved: float | None = None
    """When something happened last, in seconds since 1970."""

    @property
    def rows(self) -> list[Record]:
        """Its iterations, the oldest first."""
        return journal.rows(self.records)

    @property
    def iterations(self) -> int:
        """How many of them counted."""
        return sum(row.counted for row in self.rows)

    @property
    def cost_usd(self) -> float | None:
        """What they cost, a lower bound where one of their costs is; None when none says."""
        costs = [row.cost_usd for row in self.rows if row.cost_usd is not None]
        return round(sum(costs), 6) if costs else None

    @property
    def cost_at_least(self) -> bool:
        """Whether that is a lower bound."""
        return any(row.cost_at_least for row in self.rows)


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
        settings = sources.everywhere([], directives(plan.path), "build")[0]
    last = records[-1] if records else None
    touched = [path, plan.state.journal, *([begun.record] if begun else [])]
    return Seen(
        plan=plan,
        standing=_running(last, begun) if holder else standing(now, last, begun, settings, path.name),
        progress=now,
        begun=begun,
        holder=holder,
        other=other,
        records=records,
        moved=max((one.stat().st_mtime for one in touched if one.exists()), default=None),
    )


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
    if stop and stop.reason is Reason.DONE and begun:
        return Standing("unchecked", "ralph was killed before it could look at RALPH_DONE")
    if stop:
        state = {Reason.DONE: "done", Reason.BLOCKED: "blocked"}.get(stop.reason, "stopped")
        return Standing(state, stop.why, stop.reason.code, next_move=stop.next_move(file))
    if progress.done:
        return Standing("unchecked", "RALPH_DONE counts once the verify command has passed")
    if begun:
        return Standing("stopped", f"ralph was killed in iteration {begun.iteration} of {begun.mode}")
    if last:
        return _after(last, progress)
    return Standing("stopped", "no run is on record here") if progress.ticked else Standing("new")


def _after(last: Record, progress: Progress) -> Standing:
    """Work remains and nobody works: how the last run ended."""
    reason = reason_of(last)
    if reason is None:
        return Standing("stopped", "ralph was killed between two iterations")
    if reason is Reason.ONCE and last.mode == "plan":
        return Standing("planned")
    if reason is Reason.STUCK and any(task.mark == "!" for task in progress.open):
        return Standing("blocked", last.message, reason.code)
    if reason in (Reason.DONE, Reason.BLOCKED, Reason.STOPPED):
        return Standing("stopped", f"the last run ended {reason.label}, which the file says no more")
    return Standing("stopped", ending(last))


def ending(run: Record) -> str:
    """How that run ended, in words."""
    reason = reason_of(run)
    return (reason.label if reason else "ended") + (f": {run.message}" if run.message else "")


def reason_of(run: Record) -> Reason | None:
    """Why that run ended; None when the record does not say."""
    return Reason.__members__.get(run.ended.upper()) if run.event == "run" else None
