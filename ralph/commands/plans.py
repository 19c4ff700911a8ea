"""Finds plans and their status; changes nothing."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ralph import files
from ralph.errors import RalphError
from ralph.plan import progress
from ralph.plan.progress import Progress
from ralph.process import lock
from ralph.run.stop_rules import Reason, Tally, stop_reason
from ralph.settings import sources, table
from ralph.store import journal
from ralph.store.journal import Record
from ralph.store.state import State, UnfinishedIteration
from ralph.words import format_moment, one_line

_SUFFIX = "_PROGRESS.md"


class Plan(NamedTuple):
    """A plan, found by its progress file or its own."""

    name: str
    path: Path
    """The plan itself, which may no longer exist."""
    progress_path: Path

    @property
    def unique_name(self) -> str:
        """The name by which it is found here: that of its progress file, which is unique in a folder."""
        return self.progress_path.name.removesuffix(_SUFFIX)

    @property
    def state_folder(self) -> State:
        """Its state folder, which may not exist."""
        return State(self.name, self.progress_path)

    @property
    def holder(self) -> lock.Holder | None:
        """The run that works on it, in the tree of its progress file or in the current one; None if there is none."""
        me = os.path.realpath(self.progress_path)
        for place in (Path.cwd(), Path(me).parent):
            holder = lock.read_holder(lock.working_tree(place))
            if holder and holder.progress == me:
                return holder
        return None


def find_plan(plan_word: str | None, progress_file: str | None) -> Plan:
    """Finds a plan by its file, its name or its progress file; without a word, the only plan in this folder.

    Unlike a run it also looks in the folder of the plan. Raises RalphError if it finds none, or several.
    """
    if not plan_word:
        found = [_plan_of_progress_file(Path(progress_file))] if progress_file else plans_with_progress_here()
        if len(found) > 1:
            raise RalphError(f"name one of the plans that are here: {', '.join(one.unique_name for one in found)}")
        return found[0]
    named = Path(plan_word)
    usual = Path(files.plan_name(named) + _SUFFIX)
    if not files.is_file(usual):
        usual = named.parent / usual
    path = next(filter(files.is_file, (Path(plan_word + end) for end in ("", ".md", ".json"))), named)
    set_path = sources.resolve_only(sources.collect_settings(path), "RALPH_PROGRESS_FILE").progress_file
    progress_path = Path(progress_file or set_path or usual)
    if path.name.endswith(_SUFFIX):
        progress_path = path
    elif files.is_file(path):
        return Plan(files.plan_name(path), path, progress_path)
    if files.is_file(progress_path):
        return _plan_of_progress_file(progress_path)
    raise RalphError(
        f"{plan_word}: there is no such plan here, and no {progress_path}", fix="ralph status lists what there is"
    )


def plans_with_progress_here() -> list[Plan]:
    """Returns the plans with a progress file in this folder. Raises RalphError if there is none."""
    if found := [_plan_of_progress_file(path) for path in sorted(Path().glob(f"*{_SUFFIX}"))]:
        return found
    raise RalphError(f"no progress file in {Path.cwd()}", fix="ralph PLAN starts one, -C DIR looks elsewhere")


def _plan_of_progress_file(path: Path) -> Plan:
    """Returns the plan of a progress file: the one that the file names, else the one of the same name."""
    named = progress.parse(files.read_or_empty(path)).plan or f"{path.name.removesuffix(_SUFFIX)}.md"
    plan = path.parent / named
    return Plan(files.plan_name(plan), plan, path)


class PlanDetails(NamedTuple):
    """Everything known about a plan at a moment."""

    plan: Plan
    state: str
    """`new`, `planned`, `running`, `waiting`, `stopped`, `blocked`, `done`; `unchecked`: RALPH_DONE is not verified."""
    why: str
    next_step_hint: str
    """What the user can do to continue, if another run alone does not."""
    progress: Progress
    """The progress file, as if it were empty when there is none."""
    holder: lock.Holder | None
    """The run that works on it."""
    records: list[Record]
    """Its journal, the oldest record first, with one for an iteration that is running, or in which ralph was killed."""

    @property
    def exit_code(self) -> int:
        """The exit code, like a run's: 0 done, 3 work remains, 4 needs you."""
        return {"done": 0, "blocked": 4}.get(self.state, 3)

    @property
    def iterations(self) -> list[Record]:
        """Its iterations, the oldest first."""
        return journal.iterations_in(self.records)

    @property
    def sums(self) -> Record:
        """The sums of all iterations, including those no longer in the journal."""
        return journal.sum_up(self.records)

    @property
    def more_facts(self) -> Iterator[str]:
        """Who works on it, what the user can do, and what became of the merge queue."""
        if self.holder:
            yield f"held by ralph since {self.holder.since} (pid {self.holder.pid})"
        if self.next_step_hint:
            yield f"to continue, {self.next_step_hint}"
        if again := sum(one.merge == "queued" for one in self.records):
            merged = [one.success for one in self.records if one.merge == "checked" and one.ended in ("ok", "failed")]
            ended = f"{merged.count(True)} merged, {merged.count(False)} failed there"
            yield f"merge queue: {again} checked again on top of others, {ended}"


def inspect_plan(plan: Plan) -> PlanDetails:
    """Reads everything about a plan. Raises OSError if its files cannot be read."""
    holder, begun, path = plan.holder, plan.state_folder.unfinished_iteration(), plan.progress_path
    now = progress.parse(path.read_bytes() if path.exists() else b"")
    records = journal.read(plan.state_folder.journal)
    last, hint = records[-1] if records else None, ""
    if not holder:
        state, why, hint = _state_between_runs(plan, now, last, begun)
    elif not begun and last and last.event == "wait" and last.until > time.time():
        state, why = "waiting", f"until {format_moment(last.until, time.time())}: {last.message}"
    else:
        what = [begun.mode, f"iteration {begun.iteration}"] if begun else []
        what += ["then RALPH_STOP"] if now.stop else []
        state, why = "running", ", ".join(what)
    if begun and not journal.is_iteration_recorded(records, begun):
        message = "runs now" if holder else "ralph was killed"
        records += journal.parse_all_records([journal.unfinished_line(begun, message)])
    return PlanDetails(plan, state, why, hint, now, holder, records)


def _state_between_runs(
    plan: Plan, now: Progress, last: Record | None, begun: UnfinishedIteration | None
) -> tuple[str, str, str]:
    """Returns the state, why it is so, and what the user can do to continue."""
    if not now.size:
        return "new", "there is no progress file yet", f"run `ralph {plan.path} plan`"
    settings = table.Settings()
    with contextlib.suppress(RalphError):  # what is wrong with them, a start says
        settings = sources.collect_settings_of_mode(plan.path)
    stop = stop_reason(now, Tally(), settings)
    if now.done and (begun or not stop):
        return "unchecked", "the next run checks RALPH_DONE", ""
    if stop:
        state = {Reason.DONE: "done", Reason.BLOCKED: "blocked"}.get(stop.reason, "stopped")
        return state, stop.why, stop.next_step_hint(plan.progress_path.name)
    if begun and (last is None or (last.event, last.run) != ("run", begun.run)):
        return "stopped", f"ralph was killed in iteration {begun.iteration} of {begun.mode}", ""
    if last is None:
        return "stopped" if now.ticked else "new", "", ""
    if last.event != "run":
        return "stopped", "ralph was killed between two iterations", ""
    if last.ended == "once" and last.mode == "plan":
        return "planned", "", ""
    is_stuck = last.ended == "stuck" and any(task.mark == "!" for task in now.tasks)
    return "blocked" if is_stuck else "stopped", last.summary, ""


def describe_record(record: Record) -> str:
    """Describes a record in one line; empty if the line of its iteration says the same."""
    match record.event:
        case "iteration":
            return f"{record.mode_and_round} {record.summary}" + " · not counted" * (not record.counted)
        case "run":
            return f"{record.mode_and_round} ended: {record.summary}"
        case "wait":
            until = format_moment(record.until, record.written_at)
            return f"{record.mode_and_round} waits until {until}: {record.message}"
        case "verify" if not (record.iteration and record.success):
            return f"verify: {one_line(record.message, 300) or 'passed'}"
        case "tamper":
            return f"put back in #{record.iteration}: {record.message}"
        case "mode":
            return record.message
    return ""
