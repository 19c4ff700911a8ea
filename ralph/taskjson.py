"""Plans that are task lists in JSON, or hold one in a fenced block: what they say, as tasks of the Task List."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from json.decoder import JSONObject  # type: ignore[attr-defined] # the stubs leave out what the library calls itself
from json.scanner import py_make_scanner  # type: ignore[attr-defined] # the same
from pathlib import Path
from typing import Any

from ralph import tasks
from ralph.errors import RalphError
from ralph.progress.reading import blocks
from ralph.tasks import Note, Task
from ralph.words import counted, named

_STORIES = ("userStories", "stories", "user_stories")
_LISTS = (*_STORIES, "tasks", "requirements")
_TITLE = ("title", "name")
_TEXT = ("requirement", "description")
_AFTER = ("dependencies", "dependsOn", "depends_on")
_CRITERIA = ("verification_criteria", "acceptanceCriteria", "acceptance_criteria")
_LIST = re.compile(rf'\s*\[|.*?"(?:{"|".join(_LISTS)})"\s*:\s*\[', re.DOTALL)
_TELLING = re.compile(
    rf'"(?:passes|requirement|{"|".join(_CRITERIA)})"\s*:|"(?:{"|".join(_AFTER)})"\s*:\s*\[',
)
"""What few examples have: a list with one of these is a task list, wherever it stands in markdown, broken or not."""
_MARKS = {
    **dict.fromkeys(("pending", "todo", "open", "not_started", "in_progress"), " "),
    **dict.fromkeys(("done", "complete", "completed"), "x"),
    "blocked": "!",
}
_STATUSES = "pending, in_progress, done, complete or blocked"
_PRIORITIES = {"critical": 1, "high": 2, "medium": 3, "low": 4}
_ID = re.compile(r"[^\W_][\w.-]{0,63}")
_NO_ID = "is no id: an id is one word of at most 64 letters, digits, _ . and -, and begins with a letter or digit"
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters but for the tab, and what turns the direction of writing."""
_LONGEST = 300
"""Characters of a task in the list; the whole text is in the plan, which the agent reads."""
_JSON = re.compile(rb"[^\n]*?[`~]{3,}[ \t]*json(?=\s)([^\n]*)\n", re.IGNORECASE)
_WANTED = (
    'a plan in JSON is an object with the list "requirements", "tasks" or "userStories", or a list of stories; '
    "write any other in markdown"
)
_NO_EXAMPLE = "a block that is only an example is begun with ```text"


class Object(dict[str, Any]):
    """A JSON object that knows where it stands in its text, and where the values of its members do."""

    start: int
    end: int
    spans: Mapping[str, tuple[int, int]]

    def first(self, *names: str) -> str:
        """The first of these names whose member says something; else ""."""
        return next((name for name in names if self.get(name) is not None), "")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A task list in JSON, untouched, with what it says."""

    form: str
    """requirements, plan or prd, as `ralph export --format` calls it."""
    tasks: Sequence[Task]
    nodes: Mapping[str, Object]
    """What stands there for the task of each id."""
    text: str
    """The JSON as it stands."""
    start: int
    end: int
    """Where in the plan's bytes it stands."""
    place: str
    """The same for people: `feature.md:12`, or the name of a plan that is nothing else."""


def of_plan(path: Path, data: bytes) -> Imported | None:
    """The task list that the plan is or holds; None for one in words. Raises RalphError with all that is wrong."""
    if path.name.endswith(".json"):
        return _imported(path.name, data, 0, len(data))
    found = [(start, end, named) for start, end, named in _blocks(data) if named or _tells(data[start:end])]
    found = [block for block in found if block[2]] or found
    if len(found) > 1:
        lines = ", ".join(str(data.count(b"\n", 0, start)) for start, *_ in found)
        what = f"{path.name}: holds {len(found)} task lists in JSON, at lines {lines}"
        raise RalphError(what, fix=f"leave one; {_NO_EXAMPLE}")
    return _imported(path.name, data, *found[0][:2], fix=_NO_EXAMPLE) if found else None


def _blocks(data: bytes) -> Iterator[tuple[int, int, bool]]:
    """Where what each block of JSON holds begins and ends, and whether the block says that it is a plan's."""
    for first, last in blocks(data).fences:
        if opening := _JSON.match(data, first.start):
            yield opening.end(), last.start, opening[1].split()[:1] == [b"ralph"]


def _tells(data: bytes) -> bool:
    """Whether it can be nothing but a task list, or one that is broken."""
    text = data.decode(errors="surrogateescape")
    return bool(_LIST.match(text) and _TELLING.search(text))


def _lists(root: Any) -> list[tuple[str, list[Any]]]:
    """Its lists that hold objects, as one of tasks does, each with its name."""
    named = [(name, root.get(name)) for name in _LISTS] if isinstance(root, Object) else [("", root)]
    return [
        (name, items)
        for name, items in named
        if isinstance(items, list) and any(isinstance(one, Object) for one in items)
    ]


def _imported(name: str, data: bytes, start: int, end: int, fix: str = "") -> Imported:
    text, line = data[start:end].decode(errors="surrogateescape"), data.count(b"\n", 0, start)
    place = f"{name}:{line}" if start else name
    try:
        root = _Decoder().decode(text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text)
    except json.JSONDecodeError as error:
        raise RalphError(f"{name}:{line + error.lineno}:{error.colno}: is no JSON: {error.msg}", fix=fix) from error
    except (ValueError, RecursionError) as error:
        raise RalphError(f"{place}: is no JSON: {error}", fix=fix) from error
    lists = _lists(root)
    if len(lists) != 1:
        names = ", ".join(one for one, _ in lists)
        what = f"holds {len(lists)} task lists: {names}; leave one" if lists else f"holds no task list; {_WANTED}"
        raise RalphError(f"{place}: {what}", fix=fix)
    ((list_name, items),) = lists
    reading = _Reading(text, line, list_name, items)
    found = reading.tasks(items, list_name)
    reading.wrong += [
        (at, f'{where}: unknown id "{one}"') for at, where, one in reading.waits if one not in reading.nodes
    ]
    wrong = [f"{name}:{reading.line(at)}: {what}" for at, what in sorted(reading.wrong)]
    if wrong := wrong or [f"{name}: {what}" for what in tasks.problems(found)]:
        raise RalphError.of(RalphError(what, fix=fix) for what in wrong)
    return Imported(form=reading.form, tasks=found, nodes=reading.nodes, text=text, start=start, end=end, place=place)


class _Reading:
    """A list while it is read, with what is wrong with it: where, and what."""

    def __init__(self, text: str, line: int, name: str, items: Sequence[Any]) -> None:
        self._text, self._first = text, line + 1
        self.form = _form(name, items)
        self._criteria = (*_CRITERIA, "steps") if name in ("", *_STORIES) else _CRITERIA
        self.nodes: dict[str, Object] = {}
        self.wrong: list[tuple[int, str]] = []
        self.waits: list[tuple[int, str, str]] = []
        """Where each dependency stands, its path, and the id that it names."""
        nodes = list(_walk(items))
        nameless = [node for node in nodes if not node.first("id")]
        texts = [_one_line(str(node.get(node.first(*_TITLE, *_TEXT)))) for node in nameless]
        names = tasks.new_ids(texts, [str(node["id"]) for node in nodes if node.first("id")])
        self._new_ids = {node.start: name for node, name in zip(nameless, names, strict=True)}

    def line(self, at: int) -> int:
        """The line of the plan."""
        return self._first + self._text.count("\n", 0, at)

    def tasks(self, items: Sequence[Any], path: str, at: int = 0) -> list[Task]:
        """The tasks of this list, which stands behind `at`; ids may be left out where all of them are."""
        with_ids = any(isinstance(item, Object) and item.first("id") for item in items)
        found = []
        for place, item in enumerate(items):
            if isinstance(item, Object):
                found.append(self._task(item, f"{path}[{place}]", with_ids))
            else:
                self.wrong.append((at, f"{path}[{place}]: must be an object, not {_kind(item)}"))
        return found

    def _task(self, node: Object, path: str, with_ids: bool) -> Task:
        before = len(self.wrong)
        title, text = (_one_line(self._member(node, path, names, str) or "") for names in (_TITLE, _TEXT))
        if not title and not text and len(self.wrong) == before:
            self.wrong.append((node.start, f"{path}: has no description; say what shall be built"))
        task_id, mark = self._own_id(node, path, with_ids), self._mark(node, path)
        said = [("after", ", ".join(self._after(node, path))), ("priority", self._priority(node, path))]
        said += [("verify", criterion) for criterion in self._criterion(node, path)]
        blockers = node["blockers"] if mark == "!" and isinstance(node.get("blockers"), list) else ()
        said += [("blocked", "; ".join(_one_line(one) for one in blockers if isinstance(one, str)))]
        return Task(
            id=task_id,
            text=_joined(title, text),
            mark=mark,
            line=self.line(node.start),
            notes=[Note(name=name, value=value) for name, value in said if value],
            subtasks=self.tasks(self._member(node, path, ("subtasks",), list) or (), f"{path}.subtasks", node.start),
        )

    def _odd(self, node: Object, path: str, name: str, what: str) -> None:
        self.wrong.append((node.spans[name.partition("[")[0]][0], f"{path}.{name}: {what}"))

    def _member(self, node: Object, path: str, names: Sequence[str], kind: type) -> Any:
        """What the first of these members says that says something."""
        if not (name := node.first(*names)) or isinstance(node[name], kind):
            return node[name] if name else None
        wanted = {str: "a string", list: "a list", bool: "true or false"}[kind]
        self._odd(node, path, name, f"must be {wanted}, not {_kind(node[name])}")
        return None

    def _own_id(self, node: Object, path: str, with_ids: bool) -> str:
        """Its id, which no other has."""
        said = self._new_ids.get(node.start, "")
        if said and with_ids:
            self.wrong.append((node.start, f"{path}.id: is missing, though others have one"))
        said = said or self._id(node, path, "id", node["id"])
        if self.nodes.setdefault(said, node) is not node and said:
            self._odd(node, path, "id", f'"{said}" is the id of line {self.line(self.nodes[said].start)} too')
        return said

    def _id(self, node: Object, path: str, name: str, value: Any) -> str:
        """An id, which is a word or a number."""
        if not isinstance(value, str | int) or isinstance(value, bool):
            self._odd(node, path, name, f"must be a string or a whole number, not {_kind(value)}")
        elif not _ID.fullmatch(str(value)):
            self._odd(node, path, name, f'"{_one_line(str(value))}" {_NO_ID}')
        else:
            return str(value)
        return ""

    def _after(self, node: Object, path: str) -> Iterator[str]:
        """The ids of those it waits for."""
        listed = node.first(*_AFTER)
        for place, value in enumerate(self._member(node, path, _AFTER, list) or ()):
            if one := self._id(node, path, f"{listed}[{place}]", value):
                self.waits.append((node.spans[listed][0], f"{path}.{listed}[{place}]", one))
                yield one

    def _mark(self, node: Object, path: str) -> str:
        """What stands between the brackets: done, blocked, or to do."""
        passes, status = self._member(node, path, ("passes",), bool), node.get("status")
        mark = mark_of(status)
        if status is not None and not mark and not (self.form == "prd" and passes is not None):
            self._odd(node, path, "status", f"{_kind(status)} is no status; write {_STATUSES}")
        other = node.first("done", "completed", "complete")
        if other and node[other] is True and status is None and passes is None:
            self._odd(node, path, other, 'does not say that it is done; write "status": "done"')
        if passes is None or (mark and self.form != "prd"):
            return mark or " "
        return "x" if passes else "!" if mark == "!" else " "

    def _priority(self, node: Object, path: str) -> str:
        """Its priority; 1 is the first."""
        said = str(node[node.first("priority")]).strip().casefold() if node.first("priority") else ""
        number = re.fullmatch(r"p?(-?\d{1,9})(\.0+)?", said, re.ASCII)
        if number or not said or said in _PRIORITIES:
            return number[1] if number else str(_PRIORITIES.get(said, ""))
        what = "is no priority; write a whole number, 1 for the first"
        self._odd(node, path, "priority", f"{_kind(node['priority'])} {what}")
        return ""

    def _criterion(self, node: Object, path: str) -> Iterator[str]:
        """Each that must hold for it to be done: a text, or an object that has one."""
        for place, one in enumerate(self._member(node, path, self._criteria, list) or ()):
            value = one.get(one.first("description", "text", "criterion")) if isinstance(one, Object) else one
            lines = value.splitlines() if isinstance(value, str) else ()
            said = _UNSEEN.sub("", " ".join(map(str.strip, lines))).strip()
            if not said:
                what = f"must be what has to hold, not {_kind(value)}"
                self._odd(node, path, f"{node.first(*self._criteria)}[{place}]", what)
            yield said


def _form(name: str, items: Sequence[Any]) -> str:
    has = {key for item in items if isinstance(item, Object) for key in item if item[key] is not None}
    if name == "requirements":
        return name
    return "plan" if name == "tasks" and not has & {"passes", "acceptanceCriteria"} else "prd"


def _walk(items: Sequence[Any]) -> Iterator[Object]:
    """All objects that stand for tasks, subtasks after their task."""
    for item in items:
        if isinstance(item, Object):
            yield item
            yield from _walk(item["subtasks"] if isinstance(item.get("subtasks"), list) else ())


def _kind(value: Any) -> str:
    """What stands there, for people."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return _UNSEEN.sub("", json.dumps(value, ensure_ascii=False))[:80]


def mark_of(status: Any) -> str | None:
    """The mark that a status means; None when it is none."""
    return _MARKS.get(re.sub(r"[\s-]+", "_", status.strip().casefold())) if isinstance(status, str) else None


def _one_line(text: str) -> str:
    return _UNSEEN.sub("", " ".join(text.split()))


def _joined(title: str, text: str) -> str:
    """Both as one, where the second does not say the first again."""
    if not text or not title or text.startswith(title.removesuffix("…")):
        return cut(text or title, _LONGEST)
    return cut(f"{title} ({text})", _LONGEST)


def cut(text: str, most: int) -> str:
    """At most so many characters, ending with a word."""
    if len(text) <= most:
        return text
    begun = text[: most - 1]
    return f"{(begun.rpartition(' ')[0] or begun).rstrip(' ,;:')}…"


def matched(imported: Imported, today: Sequence[Task]) -> dict[str, Task]:
    """Today's tasks by the file's ids: those of the same id, and where somebody took that away, of the same words."""
    left = {task.id: task for task in tasks.flat(today)}
    found = {task_id: left.pop(task_id) for task_id in imported.nodes if task_id in left}
    said = {task.text: task for task in reversed(left.values())}
    others = [one for one in tasks.flat(imported.tasks) if one.id not in found and one.text in said]
    return found | {one.id: said.pop(one.text) for one in others if one.text in said}


def taken_over(imported: Imported) -> str:
    """What a start says that has made a Task List of it; of a block, also how it would be no more than an example."""
    said = f"{counted(len(imported.nodes), 'task')} taken from {imported.place} into the Task List"
    return said + ("; were it only an example, ```text would begin it" if imported.start else "")


def left_out(imported: Imported, text: bytes, progress_path: Path) -> Sequence[str]:
    """Which of its open tasks the progress file has not, whose bytes `text` is, and how they get there; () for none."""
    known = matched(imported, tasks.read(tasks.with_ids(text)))
    missing = [one for one in tasks.flat(imported.tasks) if not one.done and one.id not in known]
    if not missing:
        return ()
    verb, them = ("is", "it") if len(missing) == 1 else ("are", "them")
    what = f"{counted(len(missing), 'task')} of {imported.place} {verb} not in the Task List, and not built: "
    line = f"`- [ ] {missing[0].id}: {cut(missing[0].text, 60)}`"
    shown = named([one.id for one in missing])
    return what + shown, f"to have {them} built, write {them} there, in {progress_path}, such as {line}"
