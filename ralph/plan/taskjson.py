"""Plans that are task lists in JSON, or contain one in a fenced block: read as tasks, and updated with statuses."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ralph.errors import RalphError
from ralph.files import read_or_empty, replace_unchanged
from ralph.plan import tasks
from ralph.plan.progress import BOM, read_lines_and_fences, replace_ranges
from ralph.plan.tasks import WHOLE_NUMBER, Note, Task
from ralph.words import join_names, plural, shorten

_LISTS = ("userStories", "stories", "user_stories", "tasks", "requirements")
PASSES = ("passes", "done", "completed", "complete")
_MARKS = {
    **dict.fromkeys(("pending", "todo", "open", "not_started", "in_progress", "false", ""), " "),
    **dict.fromkeys(("done", "complete", "completed", "true"), "x"),
    "blocked": "!",
}
_PRIORITIES = {"critical": "1", "high": "2", "medium": "3", "low": "4"}
_ID = re.compile(r"[^\W_][\w.-]{0,63}")
_OPENING = re.compile(rb"[^\n]*?[`~]{3,}[ \t]*json(?=\s)(?:[ \t]+(ralph)(?=\s))?[^\n]*\n", re.IGNORECASE)
_TELLING = re.compile(
    rb'"(passes|requirement|verification_criteria|acceptanceCriteria|acceptance_criteria|dependencies|dependsOn)"'
    rb"\s*:\s*[^\s{]"
)
"""Names that few examples have: a JSON block with one of these is a task list, wherever it is, valid or not."""
_LONGEST = 300
"""Most characters of a task in the list; the whole text is in the plan, which the agent reads."""
_DECODER = json.JSONDecoder(parse_float=str, parse_constant=str)
"""Keeps fractional numbers, and constants such as NaN, as they are spelled."""
_LEAD = re.compile(r'[\s,]*(?:("(?:[^"\\]|\\.)*")\s*:\s*)?')
"""What comes before a value: in an object, this includes its name."""


class JsonPart(NamedTuple):
    """A value in a list or an object, and its position in the text."""

    name: str
    """Empty in a list."""
    value: Any
    start: int
    end: int


def _parse_parts(text: str, at: int) -> list[JsonPart]:
    """The values in the list or object that begins at `at`."""
    found = []
    end = at + 1
    while (lead := _LEAD.match(text, end)) and text[lead.end()] not in "]}":
        start = lead.end()
        name = _DECODER.decode(lead[1] or '""')
        value, end = _DECODER.raw_decode(text, start)
        found.append(JsonPart(name, value, start, end))
    return found


def mark_of(status: Any) -> str | None:
    """The mark that a status means; None if it is not a known status."""
    word = str(status or "").strip().casefold()
    return _MARKS.get(re.sub(r"[\s-]+", "_", word))


def _read_line(value: Any) -> str | None:
    """A text or a number as one line, with the blanks inside its lines unchanged; None for anything else."""
    if not isinstance(value, str | int):
        return None
    return " ".join(line.strip() for line in str(value).splitlines()).strip()


def _read_lines(value: Any) -> list[str] | None:
    """The lines of a list of texts, or of objects with a description each; None for anything else."""
    found = []
    for one in value if isinstance(value, list) else [None]:
        line = _read_line(one.get("description") if isinstance(one, dict) else one)
        if not line:
            return None
        found.append(line)
    return found


def _as_id(value: Any) -> str | None:
    return str(value) if _ID.fullmatch(str(value)) else None


def _read_priority(value: Any) -> list[str] | None:
    word = str(value).strip().casefold()
    found = _PRIORITIES.get(word, word)
    return [found] if WHOLE_NUMBER.fullmatch(found) else None


def _as_objects(value: Any) -> list[Any] | None:
    return value if isinstance(value, list) and all(isinstance(one, dict) for one in value) else None


_MEMBERS: Mapping[str, tuple[Sequence[str], Callable[[Any], Any], str]] = {
    "text": (("title", "name", "requirement", "description"), _read_line, "a string"),
    "id": (("id",), _as_id, "one word of at most 64 letters, digits, _ . and -, that begins with a letter or digit"),
    "mark": ((*PASSES, "status"), mark_of, "true, false, pending, in_progress, done, complete or blocked"),
    "after": (("dependencies", "dependsOn", "depends_on"), _read_lines, "a list of ids"),
    "priority": (("priority",), _read_priority, "a whole number, 1 for the first"),
    "verify": (
        ("verification_criteria", "acceptanceCriteria", "acceptance_criteria", "steps"),
        _read_lines,
        "a list of what has to hold",
    ),
    "subtasks": (("subtasks",), _as_objects, "a list of tasks"),
}
"""The fields of a task: their possible names in JSON, of which the first one present counts; the function that reads
the value; and, for messages, what the value must be."""


class ImportedTasks:
    """A task list in JSON, unchanged, with the tasks in it. Raises RalphError with all that is wrong with it."""

    def __init__(self, name: str, data: bytes, start: int, end: int) -> None:
        self.span = start, end
        """The start and end of the JSON in the plan's bytes."""
        self.text = data[start:end].decode(errors="surrogateescape")
        """The JSON as it is in the plan."""
        self._name = name
        self._first_line = data.count(b"\n", 0, start)
        self.place = f"{name}:{self._first_line}" if self._first_line else name
        """Where the JSON is, for messages: the plan's name, with a line number if it is in a block."""
        try:
            root = _DECODER.decode("\n" * self._first_line + self.text)
        except (ValueError, RecursionError) as error:
            raise RalphError(f"{name}: not JSON that can be read: {error}") from error
        content = [JsonPart("", root, self.text.find("["), 0)]
        if isinstance(root, dict):
            content = _parse_parts(self.text, self.text.index("{"))
        lists = [one for one in content if one.name in ("", *_LISTS) and _as_objects(one.value)]
        if len(lists) != 1:
            what = "holds no task list, or several; one is a list of objects, alone or called requirements, tasks"
            raise RalphError(f"{self.place}: {what} or userStories")
        self.tasks: list[Task] = []
        self.nodes: dict[str, dict[str, JsonPart]] = {}
        """The JSON parts of each task, by its id and their names; the whole task has the empty name."""
        self._wrong: list[str] = []
        self._read(lists[0], lists[0].name, ())
        if wrong := [*self._wrong, *(f"{name}: {what}" for what in tasks.find_problems(self.tasks))]:
            raise RalphError.of(map(RalphError, wrong))
        form = {"tasks": "plan", "requirements": "requirements"}.get(lists[0].name, "prd")
        self.form = "prd" if '"passes"' in self.text else form
        """The format of the list, as `ralph export --format` names it."""

    def _read(self, listed: JsonPart, path: str, above: tuple[Task, ...]) -> None:
        """Adds the tasks of this list, with their subtasks, to `tasks` and `nodes`."""
        for place, whole in enumerate(_parse_parts(self.text, listed.start)):
            where = f"{path}[{place}]"
            number = self._first_line + 1 + self.text.count("\n", 0, whole.start)
            message = self._fields_of(whole.value, f"{self._name}:{number}: {where}")
            text = message["text"] or ""
            is_blocked = message["mark"] == " " and mark_of(whole.value.get("status")) == "!"
            notes = []
            for name in ("after", "priority", "verify"):
                notes += [Note(name, one) for one in message[name] or ()]
            task = Task(
                id=message["id"] or tasks.new_id(text, self.nodes),
                text=shorten(text, _LONGEST),
                mark="!" if is_blocked else message["mark"] or " ",
                number=number,
                notes=notes,
                above=above,
            )
            if above:
                above[0].subtasks.append(task)
            self.tasks.append(task)
            parts = [whole, *_parse_parts(self.text, whole.start)]
            self.nodes[task.id] = node = {one.name: one for one in parts}
            if message["subtasks"]:
                self._read(node["subtasks"], f"{where}.subtasks", (task, *above))

    def _fields_of(self, node: Mapping[str, Any], where: str) -> Mapping[str, Any]:
        """The value of each field; None if it is missing, or invalid, which is noted in `_wrong`."""
        message = dict[str, Any]()
        for key, (names, read, wanted) in _MEMBERS.items():
            name = next((name for name in names if node.get(name) not in (None, "")), "")
            message[key] = read(node[name]) if name else None
            if name and message[key] is None:
                self._wrong.append(f"{where}.{name}: must be {wanted}")
        if not message["text"]:
            self._wrong.append(f"{where}: has no description; say what to build")
        return message

    def lines(self) -> list[bytes]:
        """Its tasks as lines of a Task List."""
        return tasks.task_lines(self.tasks)

    def missing_from(self, text: bytes) -> str:
        """Says which open tasks the progress file `text` lacks, and how to add them; empty if it lacks none."""
        known = {task.id for task in tasks.read_tasks(text)}
        missing = [one.id for one in self.tasks if not one.done and one.id not in known]
        if not missing:
            return ""
        what = f"{plural(len(missing), 'task')} of {self.place} not in the Task List, and so not built"
        return f"{what}: {join_names(missing)}; describe there what to build, such as `- [ ] {missing[0]}: …`"


def import_tasks(path: Path, data: bytes) -> ImportedTasks | None:
    """The task list that the plan is or contains; None for one in prose. Raises RalphError with all that is wrong."""
    if path.name.endswith(".json"):
        begin = len(BOM) if data.startswith(BOM) else 0
        return ImportedTasks(path.name, data, begin, len(data))
    found = []
    for first, last in read_lines_and_fences(data).fences:
        opening = _OPENING.match(data, first.start)
        if opening and (opening[1] or _TELLING.search(data, opening.end(), last.start)):
            found.append(ImportedTasks(path.name, data, opening.end(), last.start))
    if len(found) > 1:
        places = ", ".join(one.place for one in found)
        raise RalphError(f"{places}: are several task lists in JSON", fix="leave one; an example is begun with ```text")
    return found[0] if found else None


def with_statuses(imported: ImportedTasks, today: Sequence[Task]) -> str:
    """The plan's JSON with today's statuses, and new tasks last in the list; every other byte is as it was."""
    nodes = imported.nodes
    form = imported.form
    message = [node["status"].value for node in nodes.values() if "status" in node]
    own_words = {mark_of(one): one for one in message}
    last = max(node[""].end for node in nodes.values())
    puts = []
    for task in today:
        node = nodes.get(task.id)
        mark = "x" if task.done else task.mark
        new = task_as_json(task, form)
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
    return replace_ranges(imported.text, puts)


def task_as_json(task: Task, form: str) -> dict[str, Any]:
    """A task as JSON in this format; it depends on its subtasks."""
    message: dict[str, Any] = {"id": task.id, "requirement" if form == "requirements" else "description": task.text}
    if form == "prd":
        message |= {"title": task.text, "passes": task.done, "acceptanceCriteria": task.note_values("verify")}
    else:
        message["verification_criteria"] = task.note_values("verify")
    message["status"] = "done" if task.done and form != "plan" else task.status
    message["dependencies"] = task.after + [part.id for part in task.subtasks]
    if task.priority is not None:
        message["priority"] = task.priority
    return message


def update_statuses(plan: Path, text: bytes) -> None:
    """Updates which tasks are done in a plan in JSON, from the progress file `text`; no other byte changes."""
    data = read_or_empty(plan)
    imported = import_tasks(plan, data)
    done = {task.id: task.done for task in imported.tasks} if imported else {}
    today = [task for task in tasks.read_tasks(text) if done.get(task.id, task.done) != task.done]
    if imported and today:
        made = with_statuses(imported, today).encode(errors="surrogateescape")
        replace_unchanged(plan, data, replace_ranges(data, [(*imported.span, made)]))
