"""Plans that are task lists in JSON, or hold one in a fenced block: what they say, as tasks of the Task List."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from json.decoder import JSONObject  # type: ignore[attr-defined] # the stubs leave out what the library calls itself
from json.scanner import py_make_scanner  # type: ignore[attr-defined] # the same
from pathlib import Path
from typing import Any

from ralph import tasks
from ralph.errors import RalphError
from ralph.progress.reading import blocks
from ralph.tasks import WHOLE, Note, Task
from ralph.words import counted, named, shortened

_LISTS = ("userStories", "stories", "user_stories", "tasks", "requirements")
PASSES = ("passes", "done", "completed", "complete")
_MARKS = {
    **dict.fromkeys(("pending", "todo", "open", "not_started", "in_progress", "false"), " "),
    **dict.fromkeys(("done", "complete", "completed", "true"), "x"),
    "blocked": "!",
}
_PRIORITIES = {"critical": "1", "high": "2", "medium": "3", "low": "4"}
_ID = re.compile(r"[^\W_][\w.-]{0,63}")
_OPENING = re.compile(rb"[^\n]*?[`~]{3,}[ \t]*json(?=\s)([^\n]*)\n", re.IGNORECASE)
_TELLING = re.compile(
    rb'"(passes|requirement|verification_criteria|acceptanceCriteria|acceptance_criteria|dependencies|dependsOn)"'
    rb"\s*:\s*[^\s{]"
)
"""What few examples have: a block with one of these is a task list, wherever it stands in markdown, broken or not."""
_EXAMPLE = "an example is begun with ```text"
_LONGEST = 300
"""Characters of a task in the list; the whole text is in the plan, which the agent reads."""


class Object(dict[str, Any]):
    """A JSON object that knows where it stands in its text, and where the values of its members do."""

    start: int
    end: int
    spans: Mapping[str, tuple[int, int]]


class _Decoder(json.JSONDecoder):
    """The library's own, in Python, with objects that know where they stand, and numbers as they are spelled."""

    def __init__(self) -> None:
        super().__init__(parse_float=str, parse_constant=str)
        self.parse_object = self._object
        self.scan_once = py_make_scanner(self)

    def _object(self, where: tuple[str, int], strict: bool, scan: Callable[..., Any], *_: Any) -> tuple[Object, int]:
        spans: list[tuple[int, int]] = []

        def value(text: str, start: int) -> tuple[Any, int]:
            found, end = scan(text, start)
            spans.append((start, end))
            return found, end

        pairs, end = JSONObject(where, strict, value, None, list)
        found = Object(pairs)
        found.start, found.end = where[1] - 1, end
        found.spans = dict(zip((name for name, _ in pairs), spans, strict=True))
        return found, end


def mark_of(said: Any) -> str | None:
    """The mark that a status means; None when it is none."""
    return _MARKS.get(re.sub(r"[\s-]+", "_", str(said).strip().casefold()))


def _line(value: Any) -> str | None:
    """A text or a number as one line, the blanks within it as they are."""
    if not isinstance(value, str | int):
        return None
    return " ".join(line.strip() for line in str(value).splitlines()).strip()


def _lines(value: Any) -> list[Any] | None:
    """Those of a list of texts, or of objects that have a description each."""
    items = value if isinstance(value, list) else [None]
    found = [_line(one.get("description") if isinstance(one, Object) else one) for one in items]
    return found if all(found) else None


def _id(value: Any) -> str | None:
    return str(value) if _ID.fullmatch(_line(value) or "") else None


def _priority(value: Any) -> str | None:
    word = str(value).strip().casefold()
    found = _PRIORITIES.get(word, word)
    return found if WHOLE.fullmatch(found) else None


def _objects(value: Any) -> list[Object] | None:
    return value if isinstance(value, list) and all(isinstance(one, Object) for one in value) else None


_MEMBERS: Mapping[str, tuple[Sequence[str], Callable[[Any], Any], str]] = {
    "title": (("title", "name"), _line, "a string"),
    "text": (("requirement", "description"), _line, "a string"),
    "id": (("id",), _id, "one word of at most 64 letters, digits, _ . and -, that begins with a letter or digit"),
    "mark": ((*PASSES, "status"), mark_of, "true, false, pending, in_progress, done, complete or blocked"),
    "after": (("dependencies", "dependsOn", "depends_on"), _lines, "a list of ids"),
    "priority": (("priority",), _priority, "a whole number, 1 for the first"),
    "verify": (
        ("verification_criteria", "acceptanceCriteria", "acceptance_criteria", "steps"),
        _lines,
        "a list of what has to hold",
    ),
    "subtasks": (("subtasks",), _objects, "a list of tasks"),
}
"""What a task says: the names that it may have, of which the first that is there counts; how it is read, what it is."""


class Imported:
    """A task list in JSON, untouched, with what it says. Raises RalphError with all that is wrong with it."""

    def __init__(self, name: str, data: bytes, start: int, end: int) -> None:
        self.start, self.end = start, end
        """Where in the plan's bytes it stands."""
        self.text = data[start:end].decode(errors="surrogateescape")
        """The JSON as it stands."""
        self._name, self._line = name, data.count(b"\n", 0, start)
        self.place = f"{name}:{self._line}" if start else name
        """Where it is, for people."""
        fix = _EXAMPLE if start else ""
        try:
            root = _Decoder().decode(self.text.replace("\ufeff", " "))
        except json.JSONDecodeError as error:
            at = f"{name}:{self._line + error.lineno}:{error.colno}"
            raise RalphError(f"{at}: is no JSON: {error.msg}", fix=fix) from error
        held = root if isinstance(root, Object) else {"": root}
        lists = [key for key in ("", *_LISTS) if _objects(held.get(key))]
        if len(lists) != 1:
            what = "holds no task list, or several; one is a list of objects, alone or called requirements, tasks"
            raise RalphError(f"{self.place}: {what} or userStories", fix=fix)
        self.tasks: list[Task] = []
        self.nodes: dict[str, Object] = {}
        """What stands there for the task of each id."""
        self._wrong: list[str] = []
        key, items = lists[0], held[lists[0]]
        self._read(items, key, ())
        wrong = self._wrong or [f"{name}: {what}" for what in tasks.problems(self.tasks)]
        if wrong:
            raise RalphError.of(RalphError(what, fix=fix) for what in wrong)
        is_plan = key == "tasks" and not any("passes" in item for item in items)
        self.form = key if key == "requirements" else "plan" if is_plan else "prd"
        """requirements, plan or prd, as `ralph export --format` calls it."""

    def _read(self, items: Sequence[Object], path: str, above: tuple[Task, ...]) -> None:
        """Takes down the tasks of this list."""
        for place, node in enumerate(items):
            where = f"{path}[{place}]"
            line = self._line + 1 + self.text.count("\n", 0, node.start)
            said = self._said(node, f"{self._name}:{line}: {where}")
            text = said["text"] or ""
            if (title := said["title"] or "") and not text.startswith(title):
                text = f"{title} ({text})" if text else title
            notes = [Note("after", ", ".join(said["after"]))] if said["after"] else []
            notes += [Note("priority", said["priority"])] if said["priority"] else []
            notes += [Note("verify", one) for one in said["verify"] or ()]
            is_blocked = said["mark"] == " " and mark_of(node.get("status")) == "!"
            task = Task(
                id=said["id"] or tasks.new_ids([text], self.nodes)[0],
                text=shortened(text, _LONGEST),
                mark="!" if is_blocked else said["mark"] or " ",
                number=line,
                notes=notes,
                above=above,
            )
            if above:
                above[0].subtasks.append(task)
            self.nodes[task.id] = node
            self.tasks.append(task)
            self._read(said["subtasks"] or (), f"{where}.subtasks", (task, *above))

    def _said(self, node: Object, where: str) -> Mapping[str, Any]:
        """What each member says; None where it is not there, or where it cannot be what it should be."""
        said = dict[str, Any]()
        for key, (names, read, wanted) in _MEMBERS.items():
            name = next((name for name in names if node.get(name) not in (None, "")), "")
            said[key] = read(node[name]) if name else None
            if name and said[key] is None:
                shown = shortened(json.dumps(node[name], ensure_ascii=False), 80)
                self._wrong.append(f"{where}.{name}: must be {wanted}, not {shown}")
        if not said["title"] and not said["text"]:
            self._wrong.append(f"{where}: has no description; say what shall be built")
        return said


def of_plan(path: Path, data: bytes) -> Imported | None:
    """The task list that the plan is or holds; None for one in words. Raises RalphError with all that is wrong."""
    if path.name.endswith(".json"):
        return Imported(path.name, data, 0, len(data))
    found = []
    for first, last in blocks(data).fences:
        opening = _OPENING.match(data, first.start)
        if not opening:
            continue
        start, end = opening.end(), last.start
        if opening[1].split()[:1] == [b"ralph"] or _TELLING.search(data, start, end):
            found.append(Imported(path.name, data, start, end))
    if len(found) > 1:
        places = ", ".join(one.place for one in found)
        raise RalphError(f"{places}: are several task lists in JSON", fix=f"leave one; {_EXAMPLE}")
    return found[0] if found else None


def left_out(imported: Imported, text: bytes, progress_path: Path) -> list[str]:
    """Which of its open tasks the progress file has not, whose bytes `text` is, and how they get there; in a line."""
    known = {task.id for task in tasks.read(text)}
    missing = [one for one in imported.tasks if not one.done and one.id not in known]
    if not missing:
        return []
    line = f"`- [ ] {missing[0].id}: {shortened(missing[0].text, 60)}`"
    names = named([one.id for one in missing])
    what = f"{counted(len(missing), 'task')} of {imported.place} not in the Task List, and so not built: {names}"
    return [f"{what}; write what shall be built there, in {progress_path}, such as {line}"]
