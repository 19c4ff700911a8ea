"""Plans that are task lists in JSON, or contain one in a fenced block: read as tasks, and updated with statuses."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ralph.errors import RalphError
from ralph.files import read_or_empty, replace_unchanged
from ralph.plan import tasks
from ralph.plan.progress import BOM, encode_text, read_unfenced_lines_and_fences, replace_ranges
from ralph.plan.tasks import Note, Task
from ralph.words import join_names, plural, shorten

_LISTS = ("userStories", "stories", "user_stories", "tasks", "requirements")
PASSES = ("passes", "done", "completed", "complete")
_MARKS = {
    **dict.fromkeys(("pending", "todo", "open", "not_started", "false", ""), " "),
    **dict.fromkeys(("done", "complete", "completed", "true"), "x"),
    "in_progress": "~",
    "blocked": "!",
}
_PRIORITIES = {"critical": "1", "high": "2", "medium": "3", "low": "4"}
_PRIORITY = re.compile(r"critical|high|medium|low|[+-]?\d{1,9}", re.ASCII | re.IGNORECASE)
_ID = re.compile(r"[^\W_][\w.-]{0,63}")
_OPENING = re.compile(rb"[^\n]*?[`~]{3,}[ \t]*json(?=\s)(?:[ \t]+(ralph)(?=\s))?[^\n]*\n", re.IGNORECASE)
# Names that few examples have: a JSON block with one of these is a task list, wherever it is, valid or not.
_TELLING = re.compile(
    rb'"(passes|requirement|verification_criteria|acceptanceCriteria|acceptance_criteria|dependencies|dependsOn)"'
    rb"\s*:\s*[^\s{]"
)
# Most characters of a task in the list; the whole text is in the plan, which the agent reads.
_LONGEST = 300
_CRITERIA = ("verification_criteria", "acceptanceCriteria", "acceptance_criteria", "steps")
_ID_FORM = "one word of at most 64 letters, digits, _ . and -, that begins with a letter or digit"
_MARK_FORM = "true, false, pending, in_progress, done, complete or blocked"
# Keeps fractional numbers as they are spelled.
_DECODER = json.JSONDecoder(parse_float=str)
# What comes before a value: in an object, this includes its name.
_LEAD = re.compile(r'[\s,]*(?:("(?:[^"\\]|\\.)*")\s*:\s*)?')


class JsonPart(NamedTuple):
    """A value in JSON, its position in the text, and the values in it."""

    value: Any
    start: int
    end: int
    parts: Mapping[str, "JsonPart"]
    """Those of an object by their names, those of a list by their numbers."""


def _read_part(text: str, start: int) -> JsonPart:
    """The value that begins at `start`."""
    value, end = _DECODER.raw_decode(text, start)
    parts = dict[str, JsonPart]()
    at = start + 1
    while isinstance(value, dict | list) and (lead := _LEAD.match(text, at)) and text[lead.end()] not in "]}":
        part = _read_part(text, lead.end())
        parts[json.loads(lead[1]) if lead[1] else str(len(parts))] = part
        at = part.end
    return JsonPart(value, start, end, parts)


def mark_of(status: Any) -> str:
    """The mark that a status means; empty if it is not a known status."""
    return _MARKS.get(str(status or "").strip().casefold(), "")


def _is_task_list(value: Any) -> bool:
    return isinstance(value, list) and value != [] and all(isinstance(one, dict) for one in value)


class ImportedTasks:
    """A task list in JSON, unchanged, with the tasks in it. Raises RalphError with all that is wrong with it."""

    def __init__(self, name: str, data: bytes, start: int, end: int):
        self.span = start, end
        """The start and end of the JSON in the plan's bytes."""
        self.text = data[start:end].decode(errors="surrogateescape")
        """The JSON as it is in the plan."""
        self._name = name
        self._lines_above = data.count(b"\n", 0, start)
        self.place = f"{name}:{self._lines_above}" if self._lines_above else name
        """Where the JSON is, for messages: the plan's name, with a line number if it is in a block."""
        try:
            _DECODER.decode("\n" * self._lines_above + self.text)
            whole = _read_part(self.text, len(self.text) - len(self.text.lstrip()))
        except ValueError as error:
            raise RalphError(f"{name}: not JSON that can be read: {error}") from error
        parts = {**whole.parts, "": whole}
        lists = [one for one in ("", *_LISTS) if one in parts and _is_task_list(parts[one].value)]
        if len(lists) != 1:
            what = "holds no task list, or several; one is a list of objects, alone or called requirements, tasks"
            raise RalphError(f"{self.place}: {what} or userStories")
        form = {"tasks": "plan", "requirements": "requirements"}.get(lists[0], "prd")
        self.form = "prd" if '"passes"' in self.text else form
        """The format of the list, as `ralph export --format` names it."""
        self.tasks: list[Task] = []
        self.parts: dict[str, JsonPart] = {}
        """The JSON of each task, by its id."""
        self._wrong: list[str] = []
        self._read(parts[lists[0]], lists[0], ())
        self._wrong += [f"{name}: {what}" for what in tasks.find_problems(self.tasks)]
        if self._wrong:
            raise RalphError.of(map(RalphError, self._wrong))
        self.lines = tasks.format_task_lines(self.tasks)
        """Its tasks as lines of a Task List."""

    def _read(self, listed: JsonPart, path: str, above: tuple[Task, ...]) -> None:
        """Adds the tasks of this list, with their subtasks, to `tasks` and `parts`."""
        for place, part in listed.parts.items():
            node = part.value
            number = self._lines_above + 1 + self.text.count("\n", 0, part.start)
            where = f"{self._name}:{number}: {path}[{place}]"
            field = partial(self._read_field_or_note_error, node, where)
            text = "".join(field("a string", bool, "title", "name", "requirement", "description"))
            task_id = "".join(field(_ID_FORM, _ID.fullmatch, "id")) or tasks.new_id(text, self.parts)
            mark = mark_of("".join(field(_MARK_FORM, mark_of, *PASSES, "status")))
            if mark == " " and mark_of(node.get("status")) == "!":
                mark = "!"
            priority = field("a whole number, 1 for the first", _PRIORITY.fullmatch, "priority")
            notes = {
                "after": field("a list of ids", bool, "dependencies", "dependsOn", "depends_on"),
                "priority": [_PRIORITIES.get(word.casefold(), word) for word in priority],
                "verify": field("a list of what has to hold", bool, *_CRITERIA),
            }
            task = Task(
                id=task_id,
                text=shorten(text, _LONGEST),
                mark=mark.replace("~", " "),
                number=number,
                notes=[Note(name, line) for name, lines in notes.items() for line in lines],
                above=above,
            )
            for parent in above[:1]:
                parent.subtasks.append(task)
            self.tasks.append(task)
            self.parts[task.id] = part
            if not text:
                self._wrong.append(f"{where}: has no description; say what to build")
            if _is_task_list(node.get("subtasks")):
                self._read(part.parts["subtasks"], f"{path}[{place}].subtasks", (task, *above))
            elif node.get("subtasks"):
                self._wrong.append(f"{where}.subtasks: must be a list of tasks")

    def _read_field_or_note_error(
        self, node: Any, where: str, form: str, is_right: Callable[[str], object], *names: str
    ) -> Sequence[str]:
        """The lines of the first of these members that is there; none if it is missing, or wrong, which is noted.

        A text or number is a line, also in a list, or as the description of an object there.
        """
        name = next((name for name in names if node.get(name) not in (None, "")), "")
        value = node.get(name, [])
        items = value if isinstance(value, list) else [value]
        texts = [one.get("description") if isinstance(one, dict) else one for one in items]
        found = [str(text) if isinstance(text, str | int) else "" for text in texts]
        lines = [re.sub(r"\s*[\r\n]\s*", " ", text).strip() for text in found]
        if all(map(is_right, lines)):
            return lines
        self._wrong.append(f"{where}.{name}: must be {form}")
        return []

    def error_about_missing_tasks(self, progress_text: bytes) -> RalphError | None:
        """Says which open tasks the progress file lacks, and how to add them; None if it lacks none."""
        known = {task.id for task in tasks.read_tasks(progress_text)}
        missing = [one.id for one in self.tasks if not one.is_done and one.id not in known]
        if not missing:
            return None
        what = f"{plural(len(missing), 'task')} of {self.place} not in the Task List, and so not built"
        fix = f"describe there what to build, such as `- [ ] {missing[0]}: …`"
        return RalphError(f"{what}: {join_names(missing)}", fix=fix)


def find_task_list(plan: Path, data: bytes) -> ImportedTasks | None:
    """The task list that the plan is or contains; None for one in prose. Raises RalphError with all that is wrong."""
    spans = []
    if plan.name.endswith(".json"):
        spans.append((len(BOM) if data.startswith(BOM) else 0, len(data)))
    else:
        for first, last in read_unfenced_lines_and_fences(data).fences:
            opening = _OPENING.match(data, first.start)
            if opening and (opening[1] or _TELLING.search(data, opening.end(), last.start)):
                spans.append((opening.end(), last.start))
    found = [ImportedTasks(plan.name, data, *span) for span in spans]
    if len(found) > 1:
        places = ", ".join(one.place for one in found)
        raise RalphError(f"{places}: are several task lists in JSON", fix="leave one; an example is begun with ```text")
    return found[0] if found else None


def with_statuses_and_new_tasks(imported: ImportedTasks, today: Sequence[Task]) -> bytes:
    """The plan's JSON with today's statuses, and new tasks last in the list; every other byte is as it was."""
    last = max(node.end for node in imported.parts.values())
    puts = []
    for task in today:
        new = task_as_json(task, imported.form)
        node = imported.parts.get(task.id)
        if node is None:
            puts.append((last, last, f",\n    {json.dumps(new, ensure_ascii=False)}"))
            continue
        wanted = {**dict.fromkeys(PASSES, task.is_done), "status": new["status"]}
        known = [(one, wanted[name]) for name, one in node.parts.items() if name in wanted and mark_of(one.value)]
        for one, value in known:
            if mark_of(one.value) != mark_of(value):
                puts.append((one.start, one.end, json.dumps(value)))
        if not known and mark_of(new["status"]) != " ":
            end = max(one.end for one in node.parts.values())
            puts.append((end, end, f', "status": {json.dumps(new["status"])}'))
    return encode_text(replace_ranges(imported.text, puts))


def task_as_json(task: Task, file_format: str) -> dict[str, Any]:
    """A task as JSON in this format; it depends on its subtasks."""
    data: dict[str, Any] = {"id": task.id, "requirement" if file_format == "requirements" else "description": task.text}
    if file_format == "prd":
        data |= {"title": task.text, "passes": task.is_done, "acceptanceCriteria": task.note_values("verify")}
    else:
        data["verification_criteria"] = task.note_values("verify")
    data["status"] = "done" if task.is_done and file_format != "plan" else task.status
    data["dependencies"] = task.after + [part.id for part in task.subtasks]
    if task.priority is not None:
        data["priority"] = task.priority
    return data


def update_statuses(json_plan: Path, progress_text: bytes) -> None:
    """Updates which tasks are done in a plan in JSON from the progress file; no other byte changes."""
    data = read_or_empty(json_plan)
    if imported := find_task_list(json_plan, data):
        today = [task for task in tasks.read_tasks(progress_text) if task.mark in " x" and task.id in imported.parts]
        updated = replace_ranges(data, [(*imported.span, with_statuses_and_new_tasks(imported, today))])
        if updated != data:
            replace_unchanged(json_plan, data, updated)
