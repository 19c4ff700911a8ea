"""Edits of the task list: each changes the lines it means to change and no other byte."""

import re
from collections.abc import Collection, Iterable

from ralph.progress.edits import encoded, harmless_output, insert
from ralph.progress.reading import Line
from ralph.tasks.reading import Task, column_of, flat, read

Change = tuple[int, int, bytes]
"""What to put in place of `text[start:end]`."""

_FAILURES_KEPT = 3
_LONGEST_WHY = 600
_ARTICLES = {"a", "an", "the"}
_MOST_WORDS = 5
_LONGEST_ID = 56
"""Leaves room for `_2` within the 64 characters of an id."""
_MARKER = re.compile(rb"([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+(?:\[[^\]]\][ \t]+)?")
_GOES_ON = re.compile(rb"[ \t]+(?!(?:[-*+]|\d{1,9}[.)])[ \t]|`{3}|~{3})[^\s#]")
"""An indented line that begins no item and no fence: it goes on with the item above."""


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
    last: dict[str, int] = {}
    given = []
    for text in texts:
        words = [word for word in re.findall(r"[^\W_]+", text.casefold()) if word not in _ARTICLES]
        name = base = "_".join(words[:_MOST_WORDS])[:_LONGEST_ID].rstrip("_") or "task"
        while name in used:
            last[base] = last.get(base, 1) + 1
            name = f"{base}_{last[base]}"
        used.add(name)
        given.append(name)
    return given


def with_ids(text: bytes) -> bytes:
    """The same with an id for every task that had none, from its own words."""
    listed = flat(read(text))
    nameless = [task for task in listed if not task.id]
    places = []
    for task in nameless:
        marker = re.compile(rb"[^\[]*\[.\][ \t]+", re.DOTALL).match(text, task.place.start)
        places.append(marker.end() if marker else task.place.end)
    names = new_ids((task.text for task in nameless), (task.id for task in listed if task.id))
    return spliced(text, ((at, at, encoded(f"{name}: ")) for at, name in zip(places, names, strict=True)))


def unticked(text: bytes, ids: Iterable[str]) -> bytes:
    """The same with these to do."""
    return _cleared(text, ids, " ", ())


def taken_up(text: bytes, task_id: str) -> bytes:
    """The same with the task in progress, and no reason why it would be blocked."""
    return _cleared(text, [task_id], "~", ["blocked"])


def put_down(text: bytes) -> bytes:
    """The same with nothing in progress: what was, waits again."""
    return spliced(text, (_marked(text, task, " ") for task in flat(read(text)) if task.mark == "~"))


def with_done(text: bytes, ids: Iterable[str]) -> bytes:
    """The same with these ticked, and without what kept them from it."""
    return _cleared(text, ids, "x", ["failed", "blocked"])


def with_failure(text: bytes, task_id: str, when: str, why: str) -> bytes:
    """The same with one more failed: line, of which the newest three are kept; the task waits again."""
    for task in _of(text, [task_id]):
        failed = [note.place for note in task.notes if note.name == "failed"]
        line = _note(text, task, f"failed: {_one_line(when)} try {task.tries + 1}: {_one_line(why)}")
        return spliced(text, [_marked(text, task, " "), *_without(failed[: 1 - _FAILURES_KEPT]), line])
    return text


def with_block(text: bytes, task_id: str, why: str) -> bytes:
    """The same with the task blocked, and the reason in place of an older one."""
    for task in _of(text, [task_id]):
        old = _without(note.place for note in task.notes if note.name == "blocked")
        return spliced(text, [_marked(text, task, "!"), *old, _note(text, task, f"blocked: {_one_line(why)}")])
    return text


def spliced(text: bytes, changes: Iterable[Change]) -> bytes:
    """The text with these changes, of which no two overlap."""
    parts, at = [], 0
    for start, end, new in sorted(changes, key=lambda change: change[:2]):
        parts += [text[at:start], new]
        at = end
    return b"".join([*parts, text[at:]])


def _cleared(text: bytes, ids: Iterable[str], mark: str, names: Collection[str]) -> bytes:
    """The same with this mark, and without the metadata of these names."""
    changes: list[Change] = []
    for task in _of(text, ids):
        changes.append(_marked(text, task, mark))
        changes += _without(note.place for note in task.notes if note.name in names)
    return spliced(text, changes)


def _without(places: Iterable[Line]) -> list[Change]:
    return [(line.start, line.end, b"") for line in places]


def _of(text: bytes, ids: Iterable[str]) -> list[Task]:
    """The first task of each of these ids; none for an id that is not there."""
    first = {task.id: task for task in reversed(flat(read(text))) if task.id}
    return [first[task_id] for task_id in dict.fromkeys(ids) if task_id in first]


def _marked(text: bytes, task: Task, mark: str) -> Change:
    at = text.index(b"[", task.place.start) + 1
    return at, at + 1, text[at : at + 1] if task.mark == mark else mark.encode()


def _note(text: bytes, task: Task, said: str) -> Change:
    """One more line of metadata below those the task has."""
    at = (task.notes[-1].place if task.notes else task.place).end
    while _GOES_ON.match(text, at) and column_of(text[at : at + 200]) > column_of(task.place.body):
        at = text.find(b"\n", at) + 1 or len(text)
    found = _MARKER.match(task.notes[0].place.body if task.notes else task.place.body)
    blank, marker = found.groups() if found else (b"", b"-")
    lead = blank if task.notes else blank + b" " * (len(marker) + 1)
    longer = insert(text, at, [lead + b"- " + encoded(said)])
    return at, at, longer[at : at + len(longer) - len(text)]


def _one_line(raw: str) -> str:
    """What was said or printed, its beginning and its end, as one line in which nothing means anything."""
    half = _LONGEST_WHY // 2
    if len(raw) > 10 * _LONGEST_WHY:
        raw = f"{raw[:half]} … {raw[-5 * half :]}"
    lines = [harmless_output(line) for line in raw.split("\n")]
    plain = " ".join(" ".join(lines).split()) or "no reason was given"
    return plain if len(plain) <= _LONGEST_WHY else f"{plain[:half]} … {plain[-half:]}"
