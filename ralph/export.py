"""`ralph export`: the task list of a plan as a file for other programs, with today's statuses."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ralph import files, progress, taskjson, tasks
from ralph.errors import RalphError
from ralph.look import plans
from ralph.look.plans import Plan
from ralph.progress import spliced
from ralph.taskjson import PASSES, Imported, mark_of
from ralph.tasks import Task, edits


def export(word: str | None, *, form: str | None, output: str | None, progress_file: str | None) -> int:
    """Prints or writes it; 0. Onto the plan itself, that is brought up to date.

    Raises RalphError when there are no tasks, or when somebody wrote to the plan meanwhile.
    """
    plan = plans.find(word, progress_file)
    data = files.held(plan.path)
    imported = taskjson.of_plan(plan.path, data)
    today = _today(plan, imported)
    whole = b""
    if imported and form in (None, imported.form):
        made = updated(imported, today).encode(errors="surrogateescape")
        whole = spliced(data, [(*imported.span, made)])
    else:
        made = json.dumps(converted(today, form or "plan"), indent=2).encode() + b"\n"
    if not output or output == "-":
        sys.stdout.buffer.write(made)
        return 0
    target = os.path.realpath(output)
    is_plan = target == os.path.realpath(plan.path)
    if target == os.path.realpath(plan.progress_path) or (is_plan and not whole):
        raise RalphError(f"{output}: would not be what it is any more", fix="name another file")
    with files.told(output, "written"):
        if not is_plan:
            files.replace(Path(output), made)
        elif not files.replace_unchanged(plan.path, data, whole):
            raise RalphError(f"{output}: somebody wrote to it meanwhile, and theirs stands", fix="run it again")
    return 0


def _today(plan: Plan, imported: Imported | None) -> Sequence[Task]:
    """The tasks of the Task List; before the first run, those of the plan."""
    listed = files.held(plan.progress_path)
    if imported and not listed:
        return imported.tasks
    other = Path(progress.parse(listed).plan or plan.path)
    if other.exists() and not other.samefile(plan.path):
        what = f"{plan.progress_path} belongs to another plan, {other}"
        raise RalphError(what, fix="name the right one: --progress-file")
    if found := tasks.read(edits.with_ids(listed)):
        return found
    raise RalphError(f"{plan.progress_path}: has no task")


def updated(imported: Imported, today: Sequence[Task]) -> str:
    """The plan's JSON with today's statuses, every other byte as it was, and new tasks last in the list."""
    nodes = imported.nodes
    form = imported.form
    said = [node["status"].value for node in nodes.values() if "status" in node]
    own_words = {mark_of(one): one for one in said}
    last = max(node[""].end for node in nodes.values())
    puts = []
    for task in today:
        node = nodes.get(task.id)
        mark = "x" if task.done else task.mark
        new = _object(task, form)
        if node is None:
            puts.append((last, last, f",\n    {json.dumps(new, ensure_ascii=False)}"))
            continue
        word = own_words.get(mark) or new["status"]
        wanted = dict.fromkeys(PASSES, (mark_of(task.done), task.done)) | {"status": (mark, word)}
        is_told = mark == " "
        for one in node.values():
            if one.name in wanted and (was := mark_of(one.value)):
                is_told = True
                now, value = wanted[one.name]
                if was != now:
                    puts.append((one.start, one.end, json.dumps(value)))
        if not is_told:
            end = max(one.end for one in node.values() if one.name)
            puts.append((end, end, f', "status": {json.dumps(word)}'))
    return spliced(imported.text, puts)


def converted(today: Sequence[Task], form: str) -> dict[str, Any]:
    """The Task List in one of the forms."""
    return {"requirements" if form == "requirements" else "tasks": [_object(task, form) for task in today]}


def _object(task: Task, form: str) -> dict[str, Any]:
    """A task, which waits for its parts."""
    said: dict[str, Any] = {"id": task.id, "requirement" if form == "requirements" else "description": task.text}
    if form == "prd":
        said |= {"title": task.text, "passes": task.done, "acceptanceCriteria": task.said("verify")}
    else:
        said["verification_criteria"] = task.said("verify")
    said["status"] = "done" if task.done and form != "plan" else task.status
    said["dependencies"] = task.after + [part.id for part in task.subtasks]
    if task.priority is not None:
        said["priority"] = task.priority
    return said
