"""`ralph export`: the task list of a plan as JSON for other programs, with current statuses."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ralph import files
from ralph.commands import plans
from ralph.commands.plans import Plan
from ralph.commands.run import check_owner
from ralph.errors import RalphError
from ralph.plan import progress, taskjson, tasks
from ralph.plan.progress import replace_ranges
from ralph.plan.taskjson import ImportedTasks
from ralph.plan.tasks import Task, edits


def print_export(word: str | None, *, form: str | None, output: str | None, progress_file: str | None) -> None:
    """Prints or writes the tasks. If the output is the plan itself, updates its statuses in place.

    Raises RalphError if there are no tasks, or if the plan was changed meanwhile.
    """
    plan = plans.find_plan(word, progress_file)
    data = files.read_or_empty(plan.path)
    imported = taskjson.import_tasks(plan.path, data)
    today = _current_tasks(plan, imported)
    whole = b""
    if imported and form in (None, imported.form):
        made = taskjson.with_statuses(imported, today).encode(errors="surrogateescape")
        whole = replace_ranges(data, [(*imported.span, made)])
    else:
        made = json.dumps(tasks_as_json(today, form or "plan"), indent=2).encode() + b"\n"
    if not output or output == "-":
        sys.stdout.buffer.write(made)
        return
    target = os.path.realpath(output)
    is_plan = target == os.path.realpath(plan.path)
    if target == os.path.realpath(plan.progress_path) or (is_plan and not whole):
        raise RalphError(f"{output}: would not be what it is any more", fix="name another file")
    with files.os_errors_as_ralph_errors(output, "written"):
        if not is_plan:
            files.replace_file(Path(output), made)
        elif not files.replace_unchanged(plan.path, data, whole):
            raise RalphError(f"{output}: somebody wrote to it meanwhile, and theirs stands", fix="run it again")


def _current_tasks(plan: Plan, imported: ImportedTasks | None) -> Sequence[Task]:
    """Returns the tasks of the Task List, or before the first run those of the plan."""
    listed = files.read_or_empty(plan.progress_path)
    if imported and not listed:
        return imported.tasks
    check_owner(plan.path, plan.progress_path, progress.parse(listed))
    if found := tasks.read_tasks(edits.with_ids(listed)):
        return found
    raise RalphError(f"{plan.progress_path}: has no task")


def tasks_as_json(today: Sequence[Task], form: str) -> dict[str, Any]:
    """The tasks in one of the forms."""
    return {
        "requirements" if form == "requirements" else "tasks": [taskjson.task_as_json(task, form) for task in today]
    }
