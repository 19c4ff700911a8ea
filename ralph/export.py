"""`ralph export`: the task list of a plan as a file for other programs, with today's statuses."""

import json
import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ralph import files, progress, taskjson, tasks
from ralph.errors import RalphError
from ralph.look import plans
from ralph.look.plans import Plan
from ralph.taskjson import Imported, Object
from ralph.tasks import Task
from ralph.words import plain


def export(word: str, *, form: str | None, output: str | None, progress_file: str | None) -> int:
    """Prints or writes it; 0. Onto the plan itself, that is brought up to date.

    Raises RalphError when there are no tasks, or when somebody wrote to the plan meanwhile.
    """
    plan = plans.find(word, progress_file)
    data, listed = _bytes(plan.path), _bytes(plan.progress_path)
    imported = taskjson.of_plan(plan.path, data) if data else None
    if data is None and form is None:
        raise RalphError(
            f"{plan.path} is gone, and with it what only it says", fix="bring it back, or name a form with --format"
        )
    if data is None:
        _say(f"{plan.path} is gone: this is made of the Task List alone")
    today = _today(plan, listed, imported)
    same_form = imported if imported and form in (None, imported.form) else None
    if same_form:
        made = updated(same_form, today)
    else:
        made = json.dumps(converted(today, form or "plan", plan.name), indent=2, ensure_ascii=False) + "\n"
    encoded = made.encode(errors="surrogateescape")
    if output in (None, "-"):
        _print(encoded)
        return 0
    path = Path(output or "")
    if _is_same(path, plan.progress_path):
        raise RalphError(f"{path}: is the progress file, which is the state", fix="name another file")
    try:
        if data is None or not _is_same(path, plan.path):
            files.replace(path, encoded)
        elif same_form is None:
            what = f"has another form than {form}" if imported else "holds no tasks in JSON"
            raise RalphError(f"{path}: is the plan, and {what}", fix="name another file, or leave --format out")
        elif not files.replace_unchanged(path, data, data[: same_form.start] + encoded + data[same_form.end :]):
            raise RalphError(f"{path}: somebody wrote to it meanwhile, and theirs stands", fix="run it again")
    except OSError as error:
        raise RalphError(f"{path}: cannot be written: {error.strerror}") from error
    return 0


def _print(made: bytes) -> None:
    try:
        with open(1, "wb", closefd=False) as out:
            out.write(made)
    except BrokenPipeError:
        raise  # who reads has enough
    except OSError as error:
        raise RalphError(f"standard output: cannot be written: {error.strerror}", 1) from error


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RalphError(f"{path}: cannot be read: {error.strerror}") from error


def _today(plan: Plan, listed: bytes | None, imported: Imported | None) -> Sequence[Task]:
    """The tasks of the Task List, each with an id of its own; before the first run, those of the plan."""
    where = plan.progress_path
    if listed is None and imported:
        _say(f"there is no {where} yet: the statuses are those of {plan.path.name}")
        return imported.tasks
    if listed is None:
        raise RalphError(f"{plan.name}: no tasks: there is no {where}, and the plan holds none in JSON")
    other = Path(progress.parse(listed).plan or plan.path)
    if plan.path.exists() and other.exists() and not plan.path.samefile(other):
        raise RalphError(f"{where} belongs to another plan, {other}", fix="name the right one: --progress-file")
    today = tasks.read(tasks.with_ids(listed))
    if odd := tasks.problems(today):
        raise RalphError.of(RalphError(f"{where}: {one}") for one in odd)
    if not today and imported is None:
        raise RalphError(f"{where}: there is no task in its list")
    return today


def _is_same(path: Path, other: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def _say(what: str) -> None:
    print(f"ralph: {plain(what)}", file=sys.stderr)


def updated(imported: Imported, today: Sequence[Task]) -> str:
    """The plan's JSON with today's statuses, every other byte as it was, and new tasks last in their list."""
    text, nodes, now = imported.text, imported.nodes, taskjson.matched(imported, today)
    known = {task.id for task in now.values()}
    here = [(one, now[one.id]) for one in tasks.flat(imported.tasks) if one.id in now]
    said = {taskjson.mark_of(node.get("status")): str(node.get("status")) for node in reversed([*nodes.values()])}
    edits: list[tuple[int, int, str]] = []
    for siblings, listed in ((imported.tasks, today), *((one.subtasks, task.subtasks) for one, task in here)):
        if siblings and (new := _new(listed, known)):
            edits.append(_appended(text, nodes[siblings[-1].id], [_object(task, imported.form) for task in new]))
    for one, task in here:
        values = _changes(nodes[one.id], one, task, imported.form, said)
        if not one.subtasks and (new := _new(task.subtasks, known)):
            values["subtasks"] = [_object(part, imported.form) for part in new]
        edits += [_member(text, nodes[one.id], name, value) for name, value in values.items()]
    for start, end, new_text in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + new_text + text[end:]
    return text


def _new(listed: Sequence[Task], known: Collection[str]) -> list[Task]:
    """Those of them that only the Task List has, and below them likewise."""
    return [replace(task, subtasks=_new(task.subtasks, known)) for task in listed if task.id not in known]


def _changes(node: Object, one: Task, now: Task, form: str, said: Mapping[str | None, str]) -> dict[str, Any]:
    """The members that have to say something else now, with what; the file's own word for a status is used again."""
    state, says_itself = _state(now), {"passes", "status"} & node.keys()  # else it stands as its subtasks do
    by_status = taskjson.mark_of(node.get("status")) or ("passes" not in node and form != "prd")
    values: dict[str, Any] = {}
    if state != (one.mark if says_itself else _state(one)):
        values |= {"passes": state == "x"} if "passes" in node or not by_status else {}
        values |= {"status": said.get(state) or _word(state, form)} if by_status else {}
    why = now.blocked if state == "!" else ""
    if "blockers" in node and why != one.blocked:
        values["blockers"] = [why] if why else []
    return values


def _state(task: Task) -> str:
    """Its mark; a task is also done when all its subtasks are."""
    return "x" if task.done else task.mark


def _word(state: str, form: str) -> str:
    """What a form calls a status."""
    return {" ": "pending", "~": "in_progress", "x": "complete" if form == "plan" else "done", "!": "blocked"}[state]


def _member(text: str, node: Object, name: str, value: Any) -> tuple[int, int, str]:
    """The edit that gives a member this value; a new one comes last."""
    said = json.dumps(value, ensure_ascii=False)
    if name in node:
        return (*node.spans[name], said)
    end = max(end for _, end in node.spans.values())
    lead = re.match(r"\s*", text[node.start + 1 :])
    return end, end, f",{lead[0] if lead and lead[0] else ' '}{json.dumps(name)}: {said}"


def _appended(text: str, last: Object, new: Sequence[Mapping[str, Any]]) -> tuple[int, int, str]:
    """The edit that puts tasks behind the last of a list; where the others have no ids, they get none."""
    lead = text[len(text[: last.start].rstrip()) : last.start] or " "
    leave_out = () if last.first("id") else ("id", "dependencies")
    kept = ({name: value for name, value in one.items() if name not in leave_out} for one in new)
    return last.end, last.end, "".join(f",{lead}{json.dumps(one, ensure_ascii=False)}" for one in kept)


def converted(today: Sequence[Task], form: str, name: str) -> dict[str, Any]:
    """The Task List in one of the forms; `name` is the plan's."""
    head = {"project": name, "description": name} if form == "prd" else {}
    return {**head, "requirements" if form == "requirements" else "tasks": [_object(task, form) for task in today]}


def _object(task: Task, form: str) -> dict[str, Any]:
    state, criteria = _state(task), "acceptanceCriteria" if form == "prd" else "verification_criteria"
    said: dict[str, Any] = {"id": task.id}
    if form == "prd":
        said |= {"title": taskjson.cut(task.text, 100), "description": task.text, "passes": state == "x"}
    else:
        said |= {"requirement" if form == "requirements" else "description": task.text}
    said |= {"status": _word(state, form)} if form != "prd" or state == "!" else {}
    said |= {"priority": task.priority} if task.priority is not None else {}
    said |= {"dependencies": list(task.after)} if task.after else {}
    said |= {criteria: list(task.criteria)} if task.criteria or form != "requirements" else {}
    said |= {"blockers": [task.blocked]} if task.blocked and state == "!" else {}
    return said | ({"subtasks": [_object(part, form) for part in task.subtasks]} if task.subtasks else {})
