"""`ralph export`: the task list of a plan as a file for other programs, with today's statuses."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ralph import files, progress, taskjson, tasks
from ralph.errors import RalphError
from ralph.look import plans
from ralph.look.plans import Plan
from ralph.taskjson import PASSES, Imported, Object, mark_of
from ralph.tasks import Task, edits


def export(word: str, *, form: str | None, output: str | None, progress_file: str | None) -> int:
    """Prints or writes it; 0. Onto the plan itself, that is brought up to date.

    Raises RalphError when there are no tasks, or when somebody wrote to the plan meanwhile.
    """
    plan = plans.find(word, progress_file)
    data = _bytes(plan.path)
    imported = taskjson.of_plan(plan.path, data)
    today = _today(plan, imported)
    if imported and form in (None, imported.form):
        made, start, end = updated(imported, today), imported.start, imported.end
    else:
        made, start, end = json.dumps(converted(today, form or "plan", plan.name), indent=2) + "\n", 0, 0
    encoded = made.encode(errors="surrogateescape")
    if output in (None, "-"):
        sys.stdout.buffer.write(encoded)
        return 0
    path = Path(output or "")
    if _is_same(path, plan.progress_path):
        raise RalphError(f"{path}: is the progress file, which is the state", fix="name another file")
    try:
        if not _is_same(path, plan.path):
            files.replace(path, encoded)
        elif not end:
            raise RalphError(f"{path}: is the plan, and no task list in that form", fix="name another file")
        elif not files.replace_unchanged(path, data, data[:start] + encoded + data[end:]):
            raise RalphError(f"{path}: somebody wrote to it meanwhile, and theirs stands", fix="run it again")
    except OSError as error:
        raise RalphError(f"{path}: cannot be written: {error.strerror}") from error
    return 0


def _is_same(path: Path, other: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RalphError(f"{path}: cannot be read: {error.strerror}") from error


def _today(plan: Plan, imported: Imported | None) -> Sequence[Task]:
    """The tasks of the Task List, each with an id of its own; before the first run, those of the plan."""
    path = plan.progress_path
    if imported and not path.exists():
        return imported.tasks
    listed = _bytes(path)
    other = Path(progress.parse(listed).plan or plan.path)
    if other.exists() and not other.samefile(plan.path):
        raise RalphError(f"{path} belongs to another plan, {other}", fix="name the right one: --progress-file")
    today = tasks.read(edits.with_ids(listed))
    if odd := tasks.problems(today):
        raise RalphError.of(RalphError(f"{path}: {one}") for one in odd)
    return today


def updated(imported: Imported, today: Sequence[Task]) -> str:
    """The plan's JSON with today's statuses, every other byte as it was, and new tasks last in the list."""
    by_id = {task.id: task for task in tasks.flat(today)}
    words = {mark_of(node.get("status")): node.get("status") for node in imported.nodes.values()}
    puts: list[tuple[int, int, str]] = []
    for one in tasks.flat(imported.tasks):
        node = imported.nodes[one.id]
        if now := by_id.get(one.id):
            changes = _changes(node, one, now, imported.form, words)
            puts += [_member(imported.text, node, name, value) for name, value in changes]
    last = imported.nodes[imported.tasks[-1].id]
    lead = imported.text[len(imported.text[: last.start].rstrip()) : last.start] or " "
    new = [_object(task, imported.form) for task in tasks.unknown(today, imported.nodes)]
    puts.append((last.end, last.end, "".join(f",{lead}{json.dumps(one, ensure_ascii=False)}" for one in new)))
    text = imported.text
    for start, end, put in sorted(puts, reverse=True):
        text = text[:start] + put + text[end:]
    return text


def _changes(node: Object, one: Task, now: Task, form: str, words: Mapping[Any, Any]) -> Iterator[tuple[str, object]]:
    """The members that have to say something else now, with what; the file's own `words` for statuses are used."""
    state = _state(now)
    names = [name for name in node if name in PASSES or (name == "status" and mark_of(node[name]))]
    if state != (one.mark if names else _state(one)):
        for name in names or ["passes" if form == "prd" else "status"]:
            yield name, (words.get(state) or _word(state, form)) if name == "status" else state == "x"
    why = now.blocked if state == "!" else ""
    if "blockers" in node and why != one.blocked:
        yield "blockers", [why] if why else []


def _state(task: Task) -> str:
    """Its mark; a task is also done when all its subtasks are."""
    return "x" if task.done else task.mark


def _word(state: str, form: str) -> str:
    """What a form calls a status."""
    return {" ": "pending", "~": "in_progress", "x": "complete" if form == "plan" else "done", "!": "blocked"}[state]


def _member(text: str, node: Object, name: str, value: object) -> tuple[int, int, str]:
    """The edit that gives a member this value; a new one comes last."""
    said = json.dumps(value, ensure_ascii=False)
    if name in node:
        return (*node.spans[name], said)
    end = max(end for _, end in node.spans.values())
    lead = re.match(r"\s*", text[node.start + 1 :])
    return end, end, f",{lead[0] if lead and lead[0] else ' '}{json.dumps(name)}: {said}"


def converted(today: Sequence[Task], form: str, name: str) -> dict[str, Any]:
    """The Task List in one of the forms; `name` is the plan's."""
    listed = [_object(task, form) for task in today]
    if form == "prd":
        return {"project": name, "description": name, "tasks": listed}
    return {"requirements" if form == "requirements" else "tasks": listed}


def _object(task: Task, form: str) -> dict[str, Any]:
    state = _state(task)
    said: dict[str, Any] = {"id": task.id}
    if form == "prd":
        said |= {"title": task.text, "description": task.text, "passes": state == "x"}
        said["acceptanceCriteria"] = list(task.criteria)
    else:
        said |= {"requirement" if form == "requirements" else "description": task.text}
        said |= {"status": _word(state, form), "verification_criteria": list(task.criteria)}
    if task.priority is not None:
        said["priority"] = task.priority
    if task.after:
        said["dependencies"] = list(task.after)
    if state == "!":
        said |= {"status": "blocked", "blockers": [task.blocked] if task.blocked else []}
    if task.subtasks:
        said["subtasks"] = [_object(part, form) for part in task.subtasks]
    return said
