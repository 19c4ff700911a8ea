"""The task list as --strict needs it: checked, made ready, and told to the agent. Pure, but for a new token."""

import secrets
import time
from collections.abc import Sequence

from ralph import criteria, tasks
from ralph.criteria import Kind
from ralph.errors import RalphError
from ralph.prompt import Value
from ralph.settings import Settings
from ralph.tasks import Task, edits
from ralph.verdict import Reason, Stop


def token() -> str:
    """A session token, new for each run: whoever says it has read this run's prompt."""
    return time.strftime("ralph-%Y%m%d-%H%M%S-") + secrets.token_hex(6)


def check(text: bytes, name: str, settings: Settings) -> Sequence[Task]:
    """The tasks of the progress file of that name, tidied. Raises RalphError with all that is wrong with them."""
    listed = tasks.read(tidied(text))
    wrong = tasks.problems(listed)
    for task in tasks.flat(listed):
        for one in () if task.done else map(criteria.parse, task.criteria):
            if one.kind is Kind.UNCHECKED and settings.criteria == "strict":
                wrong.append(f"line {task.number}: {one.text}: no machine can check this, and --criteria is strict")
            if one.kind is Kind.HTTP and settings.base_url is None:
                wrong.append(f"line {task.number}: {one.text}: needs to know where: set --base-url")
    if wrong:
        raise RalphError.of(RalphError(f"{name}: {line}") for line in wrong)
    return listed


def is_checked(text: bytes, settings: Settings) -> bool:
    """Whether a machine has checked anything of what these tasks claim."""
    lines = [criteria.parse(line) for task in tasks.flat(tasks.read(text)) for line in task.criteria]
    return bool(settings.verify) or any(one.kind is not Kind.UNCHECKED for one in lines)


def planned(before: bytes, text: bytes) -> bytes:
    """The same after planning: with ids, and without the ticks that it made, since nobody has checked anything."""
    text = edits.put_down(edits.with_ids(text))
    known = {(one.id, one.text) for one in tasks.flat(tasks.read(edits.with_ids(before))) if one.mark == "x"}
    new = [one.id for one in tasks.flat(tasks.read(text)) if one.mark == "x" and (one.id, one.text) not in known]
    return edits.unticked(text, new)


def tidied(text: bytes) -> bytes:
    """The same with an id for each task, none in progress, and ticks where all subtasks have one."""
    text = edits.with_ids(edits.put_down(text))
    return edits.with_done(text, [one.id for one in tasks.flat(tasks.read(text)) if one.done and one.mark != "x"])


def stuck(listed: Sequence[Task], name: str) -> Stop | None:
    """Why none of the tasks of the file of that name can be begun; None when one can, or when all are done."""
    if not listed:
        return Stop(Reason.STUCK, f"there is no task in {name}; write some, or let ralph PLAN plan --strict do it")
    return None if tasks.select(listed) or not (why := tasks.stuck(listed)) else Stop(Reason.STUCK, why)


def nothing_to_begin(listed: Sequence[Task], name: str) -> Stop:
    """Why nothing begins where nothing can: what is stuck, or that all is ticked and still not done."""
    all_ticked = "every task is ticked, and yet done does not hold; untick what is not, or add a task"
    return stuck(listed, name) or Stop(Reason.STUCK, all_ticked)


def values(task: Task, listed: Sequence[Task], session: str) -> dict[str, Value]:
    """What a prompt may say of this one of the tasks."""
    wanted = [criteria.parse(text) for one in tasks.chain(listed, task.id) for text in one.criteria]
    above = next(above for one, above in tasks.placed(listed) if one.id == task.id)
    return {
        "TASK_ID": task.id,
        "TASK": task.text + "".join(f" (a part of {one.id}: {one.text})" for one in above),
        "CRITERIA": [one.text for one in wanted if one.kind is not Kind.UNCHECKED],
        "UNCHECKED": [one.text for one in wanted if one.kind is Kind.UNCHECKED],
        "FAILURES": list(task.failed),
        "TRY": task.tries + 1,
        "SESSION": session,
    }
