"""Plans that are task lists in JSON, or hold one in a fenced block: what they say, as lines of the Task List."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from json.decoder import JSONObject  # type: ignore[attr-defined] # the stubs leave out what the library calls itself
from json.scanner import py_make_scanner  # type: ignore[attr-defined] # the same
from pathlib import Path
from typing import Any, Self

from ralph import tasks
from ralph.errors import RalphError
from ralph.progress.edits import encoded
from ralph.progress.reading import outside_fences
from ralph.tasks import Task, new_ids
from ralph.words import counted

_STORIES = ("userStories", "stories", "user_stories")
_LISTS = (*_STORIES, "tasks", "requirements")
_TITLE = ("title", "name")
_TEXT = ("requirement", "description")
_AFTER = ("dependencies", "dependsOn", "depends_on")
_CRITERIA = ("verification_criteria", "acceptanceCriteria", "acceptance_criteria")
_TELLING = {"requirements": ("requirement",), "tasks": ("passes", *_CRITERIA, *_AFTER), "": ("passes",)}
_TELLING |= dict.fromkeys(_STORIES, ("passes", *_CRITERIA))
"""What few examples have: a list of this name with one of these is a task list, wherever it stands in markdown."""
_MARKS = {
    **dict.fromkeys(("pending", "todo", "open", "not_started", "in_progress"), " "),
    **dict.fromkeys(("done", "complete", "completed"), "x"),
    "blocked": "!",
}
_STATUS_WORDS = "pending, in_progress, done, complete or blocked"
_PRIORITIES = {"critical": 1, "high": 2, "medium": 3, "low": 4}
_ID = re.compile(r"[^\W_][\w.-]{0,63}")
_NO_ID = "is no id: an id is one word of at most 64 letters, digits, _ . and -, and begins with a letter or digit"
_BREAKS = re.compile(r"\s*[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]\s*")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters but for the tab, and what turns the direction of writing."""
_HALF = re.compile("[\ud800-\udc7f\udd00-\udfff]")
_LONGEST = 300
"""Characters of a task in the list; the whole text is in the plan, which the agent reads."""
_OPENING = re.compile(
    rb"^(?:\xef\xbb\xbf)?(?:[ \t]|[-*+][ \t]|\d{1,9}[.)][ \t])*(`{3,}|~{3,})[ \t]*json(?=\s)([^\n]*)\n",
    re.MULTILINE | re.IGNORECASE,
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


class _Number(float):
    """A number with a point, as it is spelled: 1.1 and 1.10 are two ids."""

    spelled: str

    def __new__(cls, spelled: str) -> Self:
        self = super().__new__(cls, spelled)
        self.spelled = spelled
        return self

    def __str__(self) -> str:
        return self.spelled


class _Decoder(json.JSONDecoder):
    """The library's own, in Python, with objects that know where they stand."""

    def __init__(self) -> None:
        super().__init__(parse_float=_Number, parse_constant=_refuse_constant)
        self.parse_object = self._object
        self.scan_once = py_make_scanner(self)

    def _object(self, where: tuple[str, int], strict: bool, scan: Callable[..., Any], *_: Any) -> tuple[Object, int]:
        text, at = where
        spans: list[tuple[int, int]] = []

        def value(text: str, start: int) -> tuple[Any, int]:
            found, end = scan(text, start)
            spans.append((start, end))
            return found, end

        pairs, end = JSONObject(where, strict, value, None, list)
        found = Object(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(place for place, name in enumerate(names) if name in names[:place])
            raise json.JSONDecodeError(f'"{names[twice]}" stands there twice', text, spans[twice][0])
        found.start, found.end, found.spans = at - 1, end, dict(zip(found, spans, strict=True))
        return found, end


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is no number")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTask:
    """A task of it."""

    id: str
    title: str
    """One line, perhaps empty."""
    text: str
    """One line: title and description."""
    mark: str
    after: tuple[str, ...]
    priority: int | None
    criteria: tuple[str, ...]
    blocked: str
    subtasks: "tuple[ImportedTask, ...]"
    node: Object

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.mark == "x" or (bool(self.subtasks) and all(task.done for task in self.subtasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A task list in JSON, untouched, with what it says."""

    form: str
    """requirements, plan or prd, as `ralph export --format` calls it."""
    tasks: tuple[ImportedTask, ...]
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
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise RalphError(f"{path.name}: is not UTF-8", fix="save it as UTF-8")
        return _imported(path.name, data, 0, len(data))
    found = [(start, end, named) for start, end, named in _blocks(data) if named or _tells(data[start:end])]
    found = [block for block in found if block[2]] or found
    if len(found) > 1:
        lines = ", ".join(str(data.count(b"\n", 0, start)) for start, *_ in found)
        what = f"{path.name}: holds {len(found)} task lists in JSON, at lines {lines}"
        raise RalphError(what, fix=f"leave one; {_NO_EXAMPLE}")
    try:
        return _imported(path.name, data, *found[0][:2]) if found else None
    except RalphError as error:
        fixes = (f"{one.fix}; {_NO_EXAMPLE}" if one.fix else _NO_EXAMPLE for one in error.problems)
        told = (RalphError(one.what, fix=fix) for one, fix in zip(error.problems, fixes, strict=True))
        raise RalphError.of(told) from error


def _blocks(data: bytes) -> Iterator[tuple[int, int, bool]]:
    """Where each block of JSON that is in no other block begins and ends, and whether it says that it is a plan's."""
    for opening in _OPENING.finditer(data):
        closing = re.compile(rb"^[ \t]*" + opening[1] + rb"+[ \t]*\r?$", re.MULTILINE).search(data, opening.end())
        if closing and not (opening[1][:1] == b"`" and b"`" in opening[2]):
            with_probe = data[: opening.start()] + b"\0probe\n" + data[opening.start() :]
            if outside_fences(with_probe, b"\0probe")[0]:
                yield opening.end(), closing.start(), opening[2].split()[:1] == [b"ralph"]


def _tells(data: bytes) -> bool:
    """Whether it can be nothing but a task list, or one that is broken."""
    text = data.decode(errors="surrogateescape")
    try:
        root = _Decoder().decode(text)
    except (ValueError, RecursionError):
        named = re.match(r"\s*\[", text) or re.search(rf'"(?:{"|".join(_LISTS)})"\s*:\s*\[', text)
        telling = rf'"(?:{"|".join(("requirement", "passes", *_CRITERIA))})"\s*:'
        return named is not None and re.search(telling, text) is not None
    listed = ((name, item) for name, items in _lists(root) for item in items)
    return any(isinstance(item, Object) and item.first(*_TELLING[name]) for name, item in listed)


def _lists(root: Any) -> list[tuple[str, list[Any]]]:
    """Its lists that hold objects, as one of tasks does, each with its name."""
    named = root.items() if isinstance(root, Object) else [("", root)]
    return [
        (name, items)
        for name, items in named
        if (name in _LISTS or items is root) and isinstance(items, list)
        if any(isinstance(item, Object) for item in items)
    ]


def _imported(name: str, data: bytes, start: int, end: int) -> Imported:
    text, line = data[start:end].decode(errors="surrogateescape"), data.count(b"\n", 0, start)
    place = f"{name}:{line}" if start else name
    try:
        root = _Decoder().decode(text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text)
    except json.JSONDecodeError as error:
        raise RalphError(f"{name}:{line + error.lineno}:{error.colno}: is no JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise RalphError(f"{place}: is no JSON: {error}") from error
    lists = _lists(root)
    if len(lists) > 1:
        names = ", ".join(one for one, _ in lists)
        raise RalphError(f"{place}: holds {len(lists)} task lists: {names}", fix="leave one")
    if not lists:
        what = 'an object with the list "requirements", "tasks" or "userStories", or a list of stories'
        raise RalphError(f"{place}: holds no task list", fix=f"a plan in JSON is {what}; write any other in markdown")
    ((list_name, items),) = lists
    form = _form(list_name, items)
    reading = _Reading(form=form, stories=list_name in ("", *_STORIES))
    found = _with_ids(reading.tasks(items, list_name, 0))
    reading.check_order(found)
    if reading.wrong:
        lines = ((line + 1 + text.count("\n", 0, at), what) for at, what in sorted(reading.wrong))
        raise RalphError.of(RalphError(f"{name}:{number}: {what}") for number, what in lines)
    return Imported(form=form, tasks=found, text=text, start=start, end=end, place=place)


def _form(name: str, items: Sequence[Any]) -> str:
    has = {key for item in items if isinstance(item, Object) for key in item if item[key] is not None}
    if name != "tasks":
        return "requirements" if name == "requirements" else "prd"
    if "verification_criteria" in has or ("status" in has and "passes" not in has):
        return "plan"
    return "prd" if has & {"passes", "acceptanceCriteria"} else "plan"


@dataclass(slots=True, kw_only=True)
class _Reading:
    """A list while it is read, with what is wrong with it: where, and what."""

    form: str
    stories: bool
    """Their steps count as criteria."""
    wrong: list[tuple[int, str]] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    """The path of each id."""
    waits: list[tuple[int, str, str]] = field(default_factory=list)
    """Where each dependency stands, its path, and the id that it names."""

    def tasks(self, items: Sequence[Any], path: str, at: int) -> tuple[ImportedTask, ...]:
        """The tasks of this list, which begins there; ids may be left out where all of them are."""
        with_ids = any(isinstance(item, Object) and item.first("id") for item in items)
        found = []
        for place, item in enumerate(items):
            if isinstance(item, Object):
                found.append(self.task(item, f"{path}[{place}]", with_ids))
                at = item.start
            else:
                self.wrong.append((at, f"{path}[{place}]: must be an object, not {_kind(item)}"))
        return tuple(found)

    def task(self, node: Object, path: str, with_id: bool) -> ImportedTask:
        """One of them."""
        before = len(self.wrong)
        title, text = (_one_line(self.member(node, path, names, str) or "") for names in (_TITLE, _TEXT))
        if not title and not text and len(self.wrong) == before:
            name = "requirement" if self.form == "requirements" else "title" if self.stories else "description"
            self.wrong.append((node.start, f"{path}.{name}: is missing; say what shall be built"))
        criteria = (*_CRITERIA, "steps") if self.stories else _CRITERIA
        blockers = node["blockers"] if isinstance(node.get("blockers"), list) else ()
        return ImportedTask(
            id=self.own_id(node, path) if with_id else "",
            title=title,
            text=_joined(title, text),
            mark=self.mark(node, path),
            after=self.after(node, path),
            priority=self.priority(node, path),
            criteria=tuple(self.criterion(node, path, criteria)),
            blocked="; ".join(_one_line(one) for one in blockers if isinstance(one, str)),
            subtasks=self.tasks(self.member(node, path, ("subtasks",), list) or (), f"{path}.subtasks", node.start),
            node=node,
        )

    def odd(self, node: Object, path: str, name: str, what: str) -> None:
        """Takes down what is wrong with a member."""
        self.wrong.append((node.spans[name.partition("[")[0]][0], f"{path}.{name}: {what}"))

    def member(self, node: Object, path: str, names: Sequence[str], kind: type) -> Any:
        """What the first of these members says that says something."""
        if not (name := node.first(*names)) or isinstance(node[name], kind):
            return node[name] if name else None
        wanted = {str: "a string", list: "a list", bool: "true or false"}[kind]
        self.odd(node, path, name, f"must be {wanted}, not {_kind(node[name])}")
        return None

    def own_id(self, node: Object, path: str) -> str:
        """Its id, which no other has."""
        if not node.first("id"):
            self.wrong.append((node.start, f"{path}.id: is missing, though others have one"))
            return ""
        said = self.id(node, path, "id", node["id"])
        if said and self.places.setdefault(said, path) != path:
            self.odd(node, path, "id", f'"{said}" is the id of {self.places[said]} too')
        return said

    def id(self, node: Object, path: str, name: str, value: Any) -> str:
        """An id, which is a word or a whole number."""
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            self.odd(node, path, name, f"must be a string or a whole number, not {_kind(value)}")
        elif not _ID.fullmatch(str(value)):
            self.odd(node, path, name, f'"{_one_line(str(value))}" {_NO_ID}')
        else:
            return str(value)
        return ""

    def after(self, node: Object, path: str) -> tuple[str, ...]:
        """The ids of those it waits for."""
        listed = node.first(*_AFTER)
        found = []
        for place, value in enumerate(self.member(node, path, _AFTER, list) or ()):
            if one := self.id(node, path, f"{listed}[{place}]", value):
                self.waits.append((node.spans[listed][0], f"{path}.{listed}[{place}]", one))
                found.append(one)
        return tuple(dict.fromkeys(found))

    def mark(self, node: Object, path: str) -> str:
        """What stands between the brackets: done, blocked, or to do."""
        passes, status = self.member(node, path, ("passes",), bool), node.get("status")
        mark = mark_of(status)
        if status is not None and mark is None and not (self.form == "prd" and node.first("passes")):
            said = f'"{_one_line(status)}"' if isinstance(status, str) else _kind(status)
            self.odd(
                node, path, "status", f"{said} is no status; write pending, in_progress, done, complete or blocked"
            )
        other = node.first("done", "completed", "complete")
        if other and node[other] is True and status is None and passes is None:
            self.odd(node, path, other, 'does not say that it is done; write "status": "done"')
        if passes is None or (mark and self.form != "prd"):
            return mark or " "
        return "x" if passes else "!" if mark == "!" else " "

    def priority(self, node: Object, path: str) -> int | None:
        """Its priority; 1 is the first."""
        if not node.first("priority"):
            return None
        value = node["priority"]
        said = str(value).strip().casefold()
        number = re.fullmatch(r"p?(-?\d{1,9})(\.0+)?", said, re.ASCII)
        if (number or said in _PRIORITIES) and isinstance(value, str | int | float):
            return int(number[1]) if number else _PRIORITIES[said]
        shown = f'"{_one_line(value)}"' if isinstance(value, str) else json.dumps(value)[:40]
        self.odd(node, path, "priority", f"{shown} is no priority; write a whole number, 1 for the first")
        return None

    def criterion(self, node: Object, path: str, names: Sequence[str]) -> Iterator[str]:
        """Each that must hold for it to be done: a text, or an object that has one."""
        for place, one in enumerate(self.member(node, path, names, list) or ()):
            named = one.first("description", "text", "criterion") if isinstance(one, Object) else ""
            value, where = (one[named], f".{named}") if named else (one, "")
            said = _shown(_BREAKS.sub(" ", value.strip())).strip() if isinstance(value, str) else ""
            if not said:
                what = (
                    "is empty; say what must hold"
                    if isinstance(value, str)
                    else f"must be a string, not {_kind(value)}"
                )
                self.odd(node, path, f"{node.first(*names)}[{place}]{where}", what)
            yield said

    def check_order(self, found: Sequence[ImportedTask]) -> None:
        """Takes down dependencies that are no task; and where all else is right, those that wait for each other."""
        known = {one.id: one.node.start for one in flat(found)}
        self.wrong += [(at, f'{path}: unknown id "{one}"') for at, path, one in self.waits if one not in known]
        for odd in tasks.problems(as_list(found)) if not self.wrong else ():
            said = odd.partition(": ")[2]
            first = re.split("[ ,]", said)[0]
            path = self.places.get(first, "the list")
            self.wrong.append((known.get(first, 0), f"{path}: nothing could begin: {said}"))


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return {"str": "a string", "list": "a list", "Object": "an object"}.get(type(value).__name__, "a number")


def mark_of(status: Any) -> str | None:
    """The mark that a status means; None when it is none."""
    return _MARKS.get(_plain(status)) if isinstance(status, str) else None


def _plain(status: str) -> str:
    return re.sub(r"[\s-]+", "_", status.strip().casefold())


def _one_line(text: str) -> str:
    return _shown(" ".join(text.split()))


def _shown(text: str) -> str:
    return _HALF.sub("\N{REPLACEMENT CHARACTER}", _UNSEEN.sub("", text))


def _joined(title: str, text: str) -> str:
    """Both as one: the first whole if it can be, then the second in brackets."""
    if not title or _begins_with(text, title):
        return cut(text, _LONGEST)
    if not text or len(title) > _LONGEST - 23 or _begins_with(title, text):
        return cut(title, _LONGEST)
    return f"{title} ({cut(text, _LONGEST - 3 - len(title))})"


def _begins_with(text: str, words: str) -> bool:
    """Whether the text says these words first; what was cut ends with an ellipsis."""
    said = words.removesuffix("…")
    return text.startswith(said) and (said != words or not text[len(said) :][:1].isalnum())


def cut(text: str, most: int) -> str:
    """At most so many characters, ending with a word."""
    if len(text) <= most:
        return text
    begun = text[: most - 1]
    words = begun[: begun.rfind(" ")] if " " in begun[most // 2 :] else begun
    return f"{words.rstrip(' ,;:')}…"


def _with_ids(found: tuple[ImportedTask, ...]) -> tuple[ImportedTask, ...]:
    """The same with an id for each, made of its own words; the same file always gives the same ids."""
    nameless = [task.title or task.text for task in flat(found) if not task.id]
    given = iter(new_ids(nameless, [task.id for task in flat(found) if task.id]))

    def named(task: ImportedTask) -> ImportedTask:
        return replace(task, id=task.id or next(given), subtasks=tuple(named(part) for part in task.subtasks))

    return tuple(named(task) for task in found)


def flat(found: Sequence[ImportedTask]) -> Iterator[ImportedTask]:
    """All of them, subtasks after their task."""
    for task in found:
        yield task
        yield from flat(task.subtasks)


def lines(found: Sequence[ImportedTask], indent: str = "") -> list[bytes]:
    """The lines of these tasks in the Task List, with what belongs to each nested below."""
    said: list[bytes] = []
    for task in found:
        below = [f"after: {', '.join(task.after)}"] if task.after else []
        below += [f"priority: {task.priority}"] if task.priority is not None else []
        below += [f"verify: {criterion}" for criterion in task.criteria]
        below += [f"blocked: {task.blocked}"] if task.mark == "!" and task.blocked else []
        said.append(encoded(f"{indent}- [{task.mark}] {task.id}: {task.text}"))
        said += [encoded(f"{indent}  - {one}") for one in below] + lines(task.subtasks, indent + "  ")
    return said


def as_list(found: Sequence[ImportedTask]) -> tuple[Task, ...]:
    """The same as the Task List would say it."""
    return tasks.read(b"\n".join([b"# Tasks", b"", *lines(found), b""]))


def matched(imported: Imported, today: Sequence[Task]) -> dict[str, Task]:
    """Today's tasks by the file's ids: those of the same id, and where somebody took that away, of the same words."""
    left = {task.id: task for task in tasks.flat(today)}
    found = {one.id: left.pop(one.id) for one in flat(imported.tasks) if one.id in left}
    said = {task.text: task for task in reversed(left.values())}
    others = [one for one in flat(imported.tasks) if one.id not in found and one.text in said]
    return found | {one.id: said.pop(one.text) for one in others if one.text in said}


def missing(imported: Imported, text: bytes) -> tuple[str, ...]:
    """The ids of its open tasks that the progress file has not, whose bytes `text` is, in their order."""
    known = matched(imported, tasks.read(tasks.with_ids(text)))
    return tuple(one.id for one in flat(imported.tasks) if not one.done and one.id not in known)


def taken_over(imported: Imported) -> str:
    """What a start says that has made a Task List of it; of a block, also how it would be no more than an example."""
    said = f"{counted(len(list(flat(imported.tasks))), 'task')} taken from {imported.place} into the Task List"
    return said + ("; were it only an example, ```text would begin it" if imported.start else "")


def left_out(imported: Imported, names: Sequence[str], progress_path: Path) -> tuple[str, str]:
    """What a start says of tasks that are `missing` in its progress file, and how they get there."""
    first = next(one for one in flat(imported.tasks) if one.id == names[0])
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    what = f"{counted(len(names), 'task')} of {imported.place} {verb} not in the Task List, and not built: {shown}"
    line = f"`- [ ] {first.id}: {cut(first.text, 60)}`"
    return what, f"to have {them} built, write {them} there, in {progress_path}, such as {line}"
