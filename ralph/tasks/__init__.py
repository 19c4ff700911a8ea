"""The tasks of a progress file, for --strict: what each says, which is next, and what makes a list impossible."""

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from ralph.progress import Line, blocks, encoded, parse
from ralph.words import named

_BULLET = rb"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]"
_ITEM = re.compile(_BULLET)
_NOTE = re.compile(_BULLET + rb"[ \t]*(after|priority|verify|failed|blocked|role):(.*)", re.IGNORECASE)
_WORD = r"[^\W_][\w.-]{0,63}"
_ID = re.compile(rf"(?:({_WORD}):|\*\*({_WORD}):\*\*|\*\*({_WORD})\*\*:|`({_WORD})`:)\s+(?=\S)")
WHOLE = re.compile(r"[+-]?\d{1,9}", re.ASCII)
"""What a priority is."""
_TRY = re.compile(r".*?\btry (\d{1,9}):", re.ASCII)
_MOST_COLUMNS = 60
"""What is indented further is read as if it were not: such a text must not be deep for those who walk the tree."""
_NOWHERE = Line(0, 0, b"")
_MOST_NAMED = 6
_ARTICLES = {"a", "an", "the"}
_MOST_WORDS = 5
_LONGEST_ID = 56
"""Leaves room for `_2` within the 64 characters of an id."""


class Note(NamedTuple):
    """One line of metadata."""

    name: str
    value: str
    line: Line = _NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task with its metadata and subtasks; its text is without the id."""

    id: str
    """Empty when it has none yet."""
    text: str
    mark: str
    """What stands between the brackets."""
    line: Line = _NOWHERE
    number: int = 0
    """That of the line, for people."""
    notes: list[Note] = field(default_factory=list)
    subtasks: list["Task"] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether it is ticked, or everything below it is and nothing more is asked for."""
        return self.mark == "x" or (
            bool(self.subtasks) and not self.criteria and all(task.done for task in self.subtasks)
        )

    @property
    def after(self) -> tuple[str, ...]:
        """The ids of what it waits for."""
        return tuple(name for value in self._values("after") for name in re.findall(r"[^\s,`]+", value))

    @property
    def priority(self) -> int | None:
        """The lower, the sooner."""
        said = self._values("priority")
        return int(said[0]) if said and WHOLE.fullmatch(said[0]) else None

    @property
    def criteria(self) -> Sequence[str]:
        """What its verify: lines ask for."""
        return self._values("verify")

    @property
    def failed(self) -> Sequence[str]:
        """What the failed: lines say, oldest first."""
        return self._values("failed")

    @property
    def tries(self) -> int:
        """How often it failed; of the lines only the newest are kept."""
        said = _TRY.match(self.failed[-1]) if self.failed else None
        return int(said[1]) if said else len(self.failed)

    @property
    def blocked(self) -> str:
        """Why it is, if anything says so."""
        return "".join(self._values("blocked")[-1:])

    @property
    def role(self) -> str:
        """Which role it needs next, if anything says so."""
        return "".join(self._values("role")[-1:])

    def _values(self, name: str) -> Sequence[str]:
        return tuple(note.value for note in self.notes if note.name == name and note.value)


@functools.lru_cache(maxsize=4)  # of one text it is asked again and again
def read(text: bytes) -> tuple[Task, ...]:
    """The tasks of the task list in order, subtasks in their tasks; the very checkboxes `progress.parse` counts."""
    now = parse(text)
    listed = {task.line.start: task for task in now.tasks}
    headings = {line.start for line, _, _ in now.headings}
    found: list[Task] = []
    around: list[tuple[int, Task | None]] = []  # the open list items: column, and the innermost task they belong to
    at, number = 0, 1
    for line in blocks(text).lines:
        number += text.count(b"\n", at, line.start)
        at = line.start
        if line.start in headings:
            around = []
        if not _ITEM.match(line.body):
            continue
        column = min(_column(line.body), _MOST_COLUMNS)
        while around and around[-1][0] >= column:
            around.pop()
        owner = around[-1][1] if around else None
        if item := listed.get(line.start):
            bears = _ID.match(item.text)
            task_id = next(filter(None, bears.groups())) if bears else ""
            words = item.text[bears.end() :] if bears else item.text
            task = Task(id=task_id, text=words, mark=item.mark.lower(), line=line, number=number)
            (owner.subtasks if owner else found).append(task)
            owner = task
        elif owner and (note := _NOTE.fullmatch(line.body)):
            value = note[2].decode(errors="surrogateescape").strip()
            owner.notes.append(Note(note[1].decode().lower(), value, line))
        around.append((column, owner))
    return tuple(found)


def flat(tasks: Sequence[Task]) -> list[Task]:
    """All of them, subtasks behind their task."""
    return [one for task in tasks for one in (task, *flat(task.subtasks))]


def _column(body: bytes) -> int:
    """How far a line is indented, tabs counted to multiples of 4."""
    return len(body[: len(body) - len(body.lstrip(b" \t"))].expandtabs(4))


def lines(tasks: Iterable[Task], indent: str = "") -> list[bytes]:
    """The lines of these tasks in a list, with what belongs to each nested below."""
    said: list[bytes] = []
    for task in tasks:
        said.append(encoded(f"{indent}- [{task.mark}] {f'{task.id}: ' if task.id else ''}{task.text}"))
        said += [encoded(f"{indent}  - {note.name}: {note.value}") for note in task.notes]
        said += lines(task.subtasks, indent + "  ")
    return said


def new_ids(texts: Iterable[str], taken: Iterable[str]) -> list[str]:
    """An id for each of the texts, of its own words, none of them taken; capitals do not tell two apart."""
    used = {name.casefold() for name in taken}
    given = []
    for text in texts:
        words = [word for word in re.findall(r"[^\W_]+", text.casefold()) if word not in _ARTICLES]
        base = "_".join(words[:_MOST_WORDS])[:_LONGEST_ID].rstrip("_") or "task"
        name, number = base, 1
        while name in used:
            number += 1
            name = f"{base}_{number}"
        used.add(name)
        given.append(name)
    return given


def find(tasks: Sequence[Task], task_id: str) -> Task | None:
    """The task of this id."""
    return next((task for task in flat(tasks) if task.id == task_id), None)


def placed(tasks: Sequence[Task], above: tuple[Task, ...] = ()) -> Iterator[tuple[Task, tuple[Task, ...]]]:
    """All of them, each with the tasks that it is a part of, innermost first."""
    for task in tasks:
        yield task, above
        yield from placed(task.subtasks, (task, *above))


def unknown(tasks: Sequence[Task], known: Collection[str]) -> list[Task]:
    """Those of them whose id or words are not known, and below the others likewise."""
    found = []
    for task in tasks:
        below = unknown(task.subtasks, known)
        found += below if task.id in known or task.text in known else [replace(task, subtasks=below)]
    return found


def select(tasks: Sequence[Task], alone: str | None = None) -> Task | None:
    """What to do next: pending, nothing it comes after is open; by priority, then fewest tries, then order.

    Of all, or of this one alone.
    """
    ready: list[tuple[bool, list[int], int, int, Task]] = []
    for task, above, waits_for in _to_do(tasks):
        if task.mark != " " or waits_for or alone not in (None, task.id):
            continue
        said = [one.priority for one in (task, *above) if one.priority is not None]
        ready.append((not said, said[:1], task.tries, len(ready), task))
    return min(ready)[-1] if ready else None


def _to_do(tasks: Sequence[Task]) -> Iterator[tuple[Task, tuple[Task, ...], Sequence[str]]]:
    """What is worked on itself, as its parts are done and nothing above is blocked; with what it still waits for."""
    done = {task.id for task in flat(tasks) if task.done}
    for task, above in placed(tasks):
        if not task.done and all(part.done for part in task.subtasks) and all(one.mark != "!" for one in above):
            yield task, above, [name for one in (task, *above) for name in one.after if name not in done]


def chain(tasks: Sequence[Task], task_id: str) -> tuple[Task, ...]:
    """The task, then those above it that are done once it is, innermost first."""
    task, above = next(one for one in placed(tasks) if one[0].id == task_id)
    found = [task]
    for one in above:
        if not all(part.done or part is found[-1] for part in one.subtasks):
            break
        found.append(one)
    return tuple(found)


def stuck(tasks: Sequence[Task]) -> str:
    """For a person: what is blocked and what waits for what; empty when all is done."""
    left = [task for task in flat(tasks) if not task.done]
    said = [f"{task.id} is blocked{task.blocked and ': '}{task.blocked}" for task in left if task.mark == "!"]
    said += [f"{task.id} is in progress" for task in left if task.mark == "~"]
    for task, _, waits_for in _to_do(tasks):
        if task.mark == " " and waits_for:
            said.append(f"{task.id} waits for {', '.join(dict.fromkeys(waits_for))}")
    more = len(said) - _MOST_NAMED
    return "; ".join(said[:_MOST_NAMED] + ([f"and {more} more"] if more > 0 else []))


def problems(tasks: Sequence[Task]) -> list[str]:
    """Why it cannot be worked on: one message each, with its lines; none when every task can be reached."""
    same: dict[str, list[Task]] = {}
    for task in flat(tasks):
        same.setdefault(task.id, []).append(task)
    wrong = []
    for task_id, each in same.items():
        if task_id and len(each) > 1:
            wrong.append(f"{_lines(each)}: {task_id} is the id of {len(each)} tasks; each needs one of its own")
    for task in flat(tasks):
        gone = [name for name in task.after if name not in same]
        wrong += [f"line {task.number}: {task.id} comes after {name}, which is no task" for name in gone]
    return wrong or _ring(tasks)


def _lines(tasks: Sequence[Task]) -> str:
    numbers = sorted({task.number for task in tasks})
    return f"{'line' if len(numbers) == 1 else 'lines'} {named([str(one) for one in numbers], _MOST_NAMED)}"


def _ring(tasks: Sequence[Task]) -> list[str]:
    """The first tasks that wait for each other: a task waits for its parts, and a part for what its task comes after.

    Each has an id of its own.
    """
    order = TopologicalSorter[str]()
    for task, above in placed(tasks):
        after = [name for one in (task, *above) for name in one.after]
        order.add(task.id, *after, *(part.id for part in task.subtasks))
    try:
        order.prepare()
    except CycleError as error:
        around = [task for task in flat(tasks) if task.id in error.args[1]]
        names = named([task.id for task in around], _MOST_NAMED)
        return [f"{_lines(around)}: {names} {'waits for itself' if len(around) == 1 else 'wait for each other'}"]
    return []
