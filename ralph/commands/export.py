"""`ralph export`: the task list of a plan as JSON for other programs, with current statuses."""

import json
import os
import sys
from pathlib import Path

from ralph import files
from ralph.commands import plans, run
from ralph.errors import RalphError
from ralph.plan import progress, taskjson, tasks
from ralph.plan.tasks import edits


def export_tasks(plan_word: str | None, *, form: str | None, output: str | None, progress_file: str | None) -> None:
    """Prints or writes the tasks of the Task List, or before the first run those of the plan.

    If the output is the plan itself, updates its statuses in place. Raises RalphError if there are no tasks, or if the
    plan was changed meanwhile.
    """
    plan = plans.find_plan(plan_word, progress_file)
    data, listed = files.read_or_empty(plan.path), files.read_or_empty(plan.progress_path)
    imported = taskjson.find_task_list(plan.path, data)
    if listed or not imported:
        run.check_names_plan(plan.path, plan.progress_path, progress.parse(listed))
        today = tasks.read_tasks(edits.with_ids(listed))
    else:
        today = imported.tasks
    if not today:
        raise RalphError(f"{plan.progress_path}: has no task")
    whole = b""
    if imported and form in (None, imported.form):
        made = taskjson.with_statuses_and_new_tasks(imported, today)
        whole = progress.replace_ranges(data, [(*imported.span, made)])
    else:
        name = "requirements" if form == "requirements" else "tasks"
        wanted = {name: [taskjson.task_as_json(task, form or "plan") for task in today]}
        made = json.dumps(wanted, indent=2).encode() + b"\n"
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
