"""`ralph export`: the task list of a plan as a file for other programs, with today's statuses."""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ralph import files, progress, taskjson, tasks
from ralph.errors import RalphError
from ralph.look import plans
from ralph.look.plans import Plan
from ralph.screen.text import plain
from ralph.taskjson import Imported, ImportedTask, Object
from ralph.tasks import Task


def export(word: str, *, form: str | None, output: str | None, progress_file: str | None) -> int:
    """Prints or writes it; 0. Onto the plan itself, that is brought up to date.

    Raises RalphError when there are no tasks, or when somebody wrote to the plan meanwhile.
    """
    plan = plans.find(word, progress_file)
    data = _bytes(plan.path)
    imported = taskjson.of_plan(plan.path, data) if data else None
    today = _today(plan, imported)
    if data is None and form is None:
        what = "bring it back, or name a form with --format"
        raise RalphError(f"{plan.path} is gone, and with it what only it says; {what}")
    if data is None:
        _say(f"{plan.path} is gone: this is made of the Task List alone")
    if imported and form in (None, imported.form):
        made, unsaid = updated(imported, today)
        if unsaid:
            names = ", ".join(unsaid)
            _say(f"{names}: blocked, for which {plan.path.name} has no word; stands there as not passing")
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
        else:
            _bring_up_to_date(path, data, imported, form, encoded)
    except OSError as error:
        raise RalphError(f"{path}: cannot be written: {error.strerror}") from error
    return 0


def _bring_up_to_date(path: Path, data: bytes, imported: Imported | None, form: str | None, made: bytes) -> None:
    """Puts it into the plan, in the place of what was read."""
    if imported is None:
        raise RalphError(f"{path}: is the plan, and holds no tasks in JSON", fix="name another file")
    if form not in (None, imported.form):
        what = f"is the plan, and has another form than {form}"
        raise RalphError(f"{path}: {what}", fix="name another file, or leave --format out")
    new = data[: imported.start] + made + data[imported.end :]
    if new != data and not files.replace_unchanged(path, data, new):
        raise RalphError(f"{path}: somebody wrote to it meanwhile, and theirs stands", fix="run it again")


def _print(made: bytes) -> None:
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(made)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # who reads has enough
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left of it goes nowhere
        raise RalphError(f"standard output: cannot be written: {error.strerror}", 1) from error


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RalphError(f"{path}: cannot be read: {error.strerror}") from error


def _today(plan: Plan, imported: Imported | None) -> Sequence[Task]:
    """The tasks of the Task List, each with an id of its own; before the first run, those of the plan."""
    listed = _bytes(plan.progress_path)
    if listed is None and imported is None:
        raise RalphError(f"{plan.name}: no tasks: there is no {plan.progress_path}, and the plan holds none in JSON")
    if listed is None and imported:
        _say(f"there is no {plan.progress_path} yet: the statuses are those of {plan.path.name}")
        return taskjson.as_list(imported.tasks)
    assert listed is not None
    other = progress.parse(listed).plan
    if other is not None and plan.path.exists() and Path(other).exists() and not plan.path.samefile(other):
        raise RalphError(
            f"{plan.progress_path} belongs to another plan, {other}", fix="name the right one: --progress-file"
        )
    today = tasks.read(tasks.with_ids(listed))
    if odd := tasks.problems(today):
        raise RalphError.of(RalphError(f"{plan.progress_path}: {one}") for one in odd)
    if not today and imported is None:
        raise RalphError(f"{plan.progress_path}: there is no task in its list")
    return today


def _is_same(path: Path, other: Path) -> bool:
    """Whether both lead to one file; also before there is one."""
    return os.path.realpath(path) == os.path.realpath(other) or (
        path.exists() and other.exists() and path.samefile(other)
    )


def _say(what: str) -> None:
    print(f"ralph: {plain(what)}", file=sys.stderr)


def updated(imported: Imported, today: Sequence[Task]) -> tuple[str, list[str]]:
    """The plan's JSON with today's statuses, every other byte as it was, and new tasks last in their list.

    And the ids of blocked tasks for which the file has no word.
    """
    now = taskjson.matched(imported, today)
    known = {task.id for task in now.values()}
    here = [(one, now[one.id]) for one in taskjson.flat(imported.tasks) if one.id in now]
    said = reversed([*taskjson.flat(imported.tasks)])
    words = {mark: one.node["status"] for one in said if (mark := _mark(one)) and not _in_progress(one)}
    edits: list[tuple[int, int, str]] = []
    for siblings, listed in ((imported.tasks, today), *((one.subtasks, task.subtasks) for one, task in here)):
        if (new := _new(listed, known)) and siblings:
            edits.append(_appended(imported.text, siblings, [_object(task, imported.form) for task in new]))
    for one, task in here:
        values = _changes(one, task, imported.form, words)
        if (new := _new(task.subtasks, known)) and not one.subtasks:
            values["subtasks"] = [_object(part, imported.form) for part in new]
        edits += [_member(imported.text, one.node, name, value) for name, value in values.items()]
    text = imported.text
    for start, end, new_text in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + new_text + text[end:]
    return text, [task.id for one, task in here if _state(task) == "!" and not _by_status(one, imported.form)]


def _new(listed: Sequence[Task], known: set[str]) -> list[Task]:
    """Those of them that only the Task List has, and below them likewise."""
    return [replace(task, subtasks=_new(task.subtasks, known)) for task in listed if task.id not in known]


def _state(task: Task) -> str:
    """Its mark; a task is also done when all its subtasks are."""
    return "x" if task.done else task.mark


def _mark(one: ImportedTask) -> str | None:
    return taskjson.mark_of(one.node.get("status"))


def _in_progress(one: ImportedTask) -> bool:
    return re.sub(r"[\s-]", "_", str(one.node.get("status")).casefold()) == "in_progress"


def _by_status(one: ImportedTask, form: str) -> bool:
    """Whether `status` is what says how it stands; somebody else's word stays, and then `passes` does."""
    if "status" in one.node:
        return one.node["status"] is None or _mark(one) is not None
    return form != "prd" and "passes" not in one.node


def _changes(one: ImportedTask, now: Task, form: str, words: Mapping[str, str]) -> dict[str, Any]:
    """The members of the file's task that have to say something else, with what."""
    state, says_itself = _state(now), {"passes", "status"} & one.node.keys()  # else it stands as its subtasks do
    changed = state != ("x" if one.done and not says_itself else one.mark)
    if (state, one.mark) == ("~", " "):  # only a plan has a word for it
        changed = form == "plan" and not _in_progress(one)
    values: dict[str, Any] = {}
    if changed and ("passes" in one.node or not _by_status(one, form)):
        values["passes"] = state == "x"
    if changed and _by_status(one, form):
        values["status"] = words.get(state) or _word(state, form)
    was, why = (each.blocked if each.mark == "!" else "" for each in (one, now))
    if "blockers" in one.node and was != why:
        values["blockers"] = [why] if why else []
    if "retry_count" in one.node and now.tries:
        values["retry_count"] = now.tries
    return values


def _word(state: str, form: str) -> str:
    """What a form calls a status."""
    done = "complete" if form == "plan" else "done"
    return {" ": "pending", "~": "in_progress" if form == "plan" else "pending", "x": done, "!": "blocked"}[state]


def _member(text: str, node: Object, name: str, value: Any) -> tuple[int, int, str]:
    """The edit that gives a member this value; a new one comes last."""
    said = json.dumps(value, ensure_ascii=False)
    if name in node:
        return (*node.spans[name], said)
    end = max(end for _, end in node.spans.values())
    lead = re.match(r"\s*", text[node.start + 1 :])
    return end, end, f",{lead[0] if lead and lead[0] else ' '}{json.dumps(name)}: {said}"


def _appended(text: str, siblings: Sequence[ImportedTask], new: Sequence[dict[str, Any]]) -> tuple[int, int, str]:
    """The edit that puts tasks at the end of a list; where the others have no ids, they get none."""
    last = siblings[-1].node
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
        said |= {"requirement" if form == "requirements" else "description": task.text, "status": _word(state, form)}
    if form == "prd" and state == "!":
        said["status"] = "blocked"
    if task.priority is not None:
        said["priority"] = task.priority
    if task.after:
        said["dependencies"] = list(task.after)
    if task.criteria or form != "requirements":
        said[criteria] = list(task.criteria)
    if task.blocked and state == "!":
        said["blockers"] = [task.blocked]
    if task.subtasks:
        said["subtasks"] = [_object(part, form) for part in task.subtasks]
    return said
