"""Plans that are task lists in JSON, or hold one in a fenced block: what they say, as tasks of the Task List."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
_TITLE = ("title", "name")
_TEXT = ("requirement", "description")
_AFTER = ("dependencies", "dependsOn", "depends_on")
_CRITERIA = ("verification_criteria", "acceptanceCriteria", "acceptance_criteria", "steps")
_MARKS = {
    **dict.fromkeys(("pending", "todo", "open", "not_started", "in_progress"), " "),
    **dict.fromkeys(("done", "complete", "completed"), "x"),
    "blocked": "!",
}
_A_STATUS = "pending, in_progress, done, complete or blocked"
_A_BOOL = "true or false"
_AN_ID = "one word of at most 64 letters, digits, _ . and -, that begins with a letter or digit"
_PRIORITIES = {"critical": "1", "high": "2", "medium": "3", "low": "4"}
_ID = re.compile(r"[^\W_][\w.-]{0,63}")
_OPENING = re.compile(rb"[^\n]*?[`~]{3,}[ \t]*json(?=\s)([^\n]*)\n", re.IGNORECASE)
_TELLING = re.compile(
    rf'\s*(?:\[|.*?"(?:{"|".join(_LISTS)})"\s*:\s*\[).*?'
    rf'"(?:passes|requirement|{"|".join((*_CRITERIA[:3], *_AFTER))})"\s*:\s*(?!\{{)'.encode(),
    re.DOTALL,
)
"""What few examples have: a list with one of these is a task list, wherever it stands in markdown, broken or not."""
_NO_EXAMPLE = "a block that is only an example is begun with ```text"
_LONGEST = 300
"""Characters of a task in the list; the whole text is in the plan, which the agent reads."""


class Object(dict[str, Any]):
    """A JSON object that knows where it stands in its text, and where the values of its members do."""

    start: int
    end: int
    spans: Mapping[str, tuple[int, int]]

    def first(self, *names: str) -> str:
        """The first of these names whose member says something; else ""."""
        return next((name for name in names if self.get(name) not in (None, "")), "")


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
    found = []
    for first, last in blocks(data).fences:
        opening = _OPENING.match(data, first.start)
        is_said = opening is not None and opening[1].split()[:1] == [b"ralph"]
        if opening and (is_said or _TELLING.match(data, opening.end(), last.start)):
            found.append((is_said, opening.end(), last.start))
    found = [block for block in found if block[0]] or found
    if len(found) > 1:
        lines = ", ".join(str(data.count(b"\n", 0, start)) for _, start, _ in found)
        what = f"{path.name}: holds {len(found)} task lists in JSON, at lines {lines}"
        raise RalphError(what, fix=f"leave one; {_NO_EXAMPLE}")
    return _imported(path.name, data, *found[0][1:], fix=_NO_EXAMPLE) if found else None


def _imported(name: str, data: bytes, start: int, end: int, fix: str = "") -> Imported:
    text, line = data[start:end].decode(errors="surrogateescape"), data.count(b"\n", 0, start)
    place = f"{name}:{line}" if start else name
    try:
        root = _Decoder().decode(text.replace("\ufeff", " "))
    except (ValueError, RecursionError) as error:
        at = f":{line + error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise RalphError(f"{name}{at}: is no JSON: {getattr(error, 'msg', error)}", fix=fix) from error
    held = root if isinstance(root, Object) else {"": root}
    lists = [key for key in ("", *_LISTS) if _objects(held.get(key))]
    if len(lists) != 1:
        what = f"{place}: holds {len(lists) or 'no'} task lists; one is a list of objects, or called"
        raise RalphError(f'{what} "requirements", "tasks" or "userStories"', fix=fix or "have one there")
    reading = _Reading(text, line + 1)
    found = reading.tasks(held[lists[0]], lists[0])
    for waits in reading.waits:
        if waits[2] not in reading.nodes:
            reading.wrong.append((waits[0], f'{waits[1]}: unknown id "{waits[2]}"'))
    wrong = [f"{name}:{at}: {what}" for at, what in sorted(reading.wrong)]
    if wrong := wrong or [f"{name}: {what}" for what in tasks.problems(found)]:
        raise RalphError.of(RalphError(what, fix=fix) for what in wrong)
    has = {key for item in held[lists[0]] for key in item}
    is_plan = lists == ["tasks"] and not has & {"passes", "acceptanceCriteria"}
    form = "requirements" if lists == ["requirements"] else "plan" if is_plan else "prd"
    return Imported(form=form, tasks=found, nodes=reading.nodes, text=text, start=start, end=end, place=place)


def _objects(value: Any) -> list[Object] | None:
    return value if isinstance(value, list) and value and all(isinstance(one, Object) for one in value) else None


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


def mark_of(status: Any) -> str | None:
    """The mark that a status means; None when it is none."""
    return _MARKS.get(re.sub(r"[\s-]+", "_", str(status).strip().casefold()))


class _Reading:
    """A list while it is read, with what is wrong with it: in which line, and what."""

    def __init__(self, text: str, line: int) -> None:
        self._text, self._first = text, line
        self.nodes: dict[str, Object] = {}
        """What stands there for the task of each id."""
        self.waits: list[tuple[int, str, str]] = []
        """Where each id stands that something waits for: its line, and its path."""
        self.wrong: list[tuple[int, str]] = []

    def tasks(self, items: Sequence[Object], path: str) -> list[Task]:
        """The tasks of this list."""
        return [self._task(node, f"{path}[{place}]") for place, node in enumerate(items)]

    def _task(self, node: Object, path: str) -> Task:
        line, passes = self._line(node.start), node.first(*PASSES)
        title = self._said(node, path, _line, "a string", *_TITLE) or ""
        text = self._said(node, path, _line, "a string", *_TEXT) or ""
        if not title and not text:
            self.wrong.append((line, f"{path}: has no description; say what shall be built"))
        if title and not text.startswith(title.removesuffix("…")):
            text = f"{title} ({text})" if text else title
        mark = mark_of(node.get("status")) if passes else self._said(node, path, mark_of, _A_STATUS, "status")
        if passes:
            ticked = self._said(node, path, lambda value: value if isinstance(value, bool) else None, _A_BOOL, passes)
            mark = "x" if ticked else "!" if mark == "!" else " "
        task_id = self._said(node, path, _id, _AN_ID, "id") or tasks.new_ids([text], self.nodes)[0]
        self.nodes[task_id] = node
        notes = []
        if after := self._said(node, path, _lines, "a list of ids", *_AFTER):
            name = node.first(*_AFTER)
            at = self._line(node.spans[name][0])
            self.waits += [(at, f"{path}.{name}[{place}]", one) for place, one in enumerate(after)]
            notes.append(Note("after", ", ".join(after)))
        if priority := self._said(node, path, _priority, "a whole number, 1 for the first", "priority"):
            notes.append(Note("priority", priority))
        wanted = self._said(node, path, _lines, "a list of what has to hold", *_CRITERIA) or ()
        notes += [Note("verify", one) for one in wanted]
        blockers = self._said(node, path, _lines, "a list of reasons", "blockers")
        if blockers and mark == "!":
            notes.append(Note("blocked", "; ".join(blockers)))
        below = self._said(node, path, lambda value: value and _objects(value), "a list of tasks", "subtasks")
        parts = self.tasks(below or (), f"{path}.subtasks")
        text = shortened(text, _LONGEST)
        return Task(id=task_id, text=text, mark=mark or " ", number=line, notes=notes, subtasks=parts)

    def _said(self, node: Object, path: str, read: Callable[[Any], Any], wanted: str, *names: str) -> Any:
        """What the first of these members that is there says; None where none is, or where it cannot be that."""
        if not (name := node.first(*names)):
            return None
        if (found := read(node[name])) is None:
            shown = shortened(json.dumps(node[name], ensure_ascii=False), 80)
            self.wrong.append((self._line(node.spans[name][0]), f"{path}.{name}: must be {wanted}, not {shown}"))
        return found

    def _line(self, at: int) -> int:
        return self._first + self._text.count("\n", 0, at)


def taken_over(imported: Imported) -> str:
    """What a start says that has made a Task List of it; of a block, also how it would be no more than an example."""
    said = f"{counted(len(imported.nodes), 'task')} taken from {imported.place} into the Task List"
    return said + ("; were it only an example, ```text would begin it" if imported.start else "")


def left_out(imported: Imported, text: bytes, progress_path: Path) -> Sequence[str]:
    """Which of its open tasks the progress file has not, whose bytes `text` is, and how they get there; () for none."""
    known = {task.id for task in tasks.flat(tasks.read(text))}
    missing = [one for one in tasks.flat(imported.tasks) if not one.done and one.id not in known]
    if not missing:
        return ()
    some = f"{counted(len(missing), 'task')} of {imported.place} {'is' if len(missing) == 1 else 'are'}"
    what = f"{some} not in the Task List, and not built: {named([one.id for one in missing])}"
    line = f"`- [ ] {missing[0].id}: {shortened(missing[0].text, 60)}`"
    how = f"what shall be built has to stand there, in {progress_path}, such as {line}"
    return what, how
