"""The task list for --strict: validates it, and prepares what the prompt says about a task."""

import os
import time
from collections.abc import Sequence

from ralph.errors import RalphError
from ralph.plan import tasks
from ralph.plan.prompt import Value
from ralph.plan.tasks import Task, edits
from ralph.run.acceptance import checks_of_tasks
from ralph.run.stop_rules import Reason, Stop
from ralph.settings.table import Settings
from ralph.store.notes import UncommittedFiles
from ralph.store.state import State
from ralph.words import join_names


def new_session_token() -> str:
    """Returns a run token: an agent that repeats it has read this run's prompt."""
    return time.strftime("ralph-%Y%m%d-%H%M%S-") + os.urandom(6).hex()


def validate_list(text: bytes, name: str, settings: Settings) -> Sequence[Task]:
    """Returns the tidied tasks of this progress file. Raises RalphError with all that is wrong with them."""
    listed = tasks.read_tasks(edits.with_tidy_list(text))
    wrong = tasks.find_problems(listed)
    for task in listed:
        for one in () if task.done else checks_of_tasks([task]):
            if not one.fields and settings.criteria == "strict":
                wrong.append(f"line {task.number}: {one.text}: no machine can check this, and --criteria is strict")
            if "url" in one.fields and settings.base_url is None:
                wrong.append(f"line {task.number}: {one.text}: needs to know where: set --base-url")
    if wrong:
        raise RalphError.of(RalphError(f"{name}: {line}") for line in wrong)
    return listed


def nothing_to_begin(listed: Sequence[Task], alone: str | None = None) -> Stop:
    """Returns why no task can be begun: they wait for others, or all are ticked and the plan is still not done."""
    all_ticked = "every task is ticked, and yet done does not hold; untick what is not, or add a task"
    return Stop(Reason.STUCK, tasks.why_stuck(listed, alone) or all_ticked)


def touched_files(state: State, task_id: str) -> Sequence[str]:
    """Returns the files that attempts at this task changed and that are in no commit."""
    noted = state.load_note(UncommittedFiles) or UncommittedFiles()
    return noted.names.get(task_id, ())


def prompt_values(task: Task, session: str, state: State) -> dict[str, Value]:
    """Returns the variables with which a prompt describes this task."""
    asked = checks_of_tasks(task.chain)
    own = [message.partition(": ")[2] for message in task.note_values("role") if ": " in message]
    return {
        "TASK_ID": task.id,
        "TASK": task.text + "".join(f" (a part of {one.id}: {one.text})" for one in task.above),
        "CRITERIA": [one.text for one in asked if one.fields],
        "UNCHECKED": [one.text for one in asked if not one.fields],
        "HELD": [one.text for one in asked if one.text in task.note_values("held")],
        "CLAIMED": "".join(task.note_values("claimed")),
        "FAILURES": [*task.note_values("failed"), *own][-3:],  # the newest
        "TOUCHED": join_names(touched_files(state, task.id), 20),
        "TRY": task.tries + 1,
        "SESSION": session,
    }
