"""Edits of the task list: each changes the lines it means to change and no other byte."""

import re
from collections.abc import Collection, Iterable, Sequence

from ralph.progress.edits import encoded, harmless_output, insert
from ralph.tasks.naming import new_ids
from ralph.tasks.reading import Item, column_of, items, tries

Change = tuple[int, int, bytes]
"""What to put in place of `text[start:end]`."""

_FAILURES_KEPT = 3
_LONGEST_WHY = 600
_MARKER = re.compile(rb"([ \t]*)([-*+]|\d{1,9}[.)])[ \t]+(?:\[[^\]]\][ \t]+)?")
_GOES_ON = re.compile(rb"[ \t]+(?!(?:[-*+]|\d{1,9}[.)])[ \t]|`{3}|~{3})[^\s#]")
"""An indented line that begins no item and no fence: it goes on with the item above."""


def with_ids(text: bytes) -> bytes:
    """The same with an id for every task that had none, from its own words."""
    listed = items(text)
    nameless = [item for item in listed if not item.id]
    names = new_ids((item.text for item in nameless), (item.id for item in listed if item.id))
    return spliced(text, (_named(text, item, name) for item, name in zip(nameless, names, strict=True)))


def _named(text: bytes, item: Item, name: str) -> Change:
    at = _mark_place(text, item) + 2
    while text[at : at + 1] in (b" ", b"\t"):
        at += 1
    return at, at, encoded(f"{name}: ")


def with_mark(text: bytes, task_id: str, mark: str) -> bytes:
    """The same with this between the brackets of that task."""
    return spliced(text, (_marked(text, item, mark) for item in _of(items(text), [task_id])))


def taken_up(text: bytes, task_id: str) -> bytes:
    """The same with the task in progress, and no reason why it would be blocked."""
    return _cleared(text, [task_id], "~", ["blocked"])


def put_down(text: bytes) -> bytes:
    """The same with nothing in progress: what was, waits again."""
    return spliced(text, (_marked(text, item, " ") for item in items(text) if item.mark == "~"))


def with_done(text: bytes, ids: Iterable[str]) -> bytes:
    """The same with these ticked, and without what kept them from it."""
    return _cleared(text, ids, "x", ["failed", "blocked"])


def with_failure(text: bytes, task_id: str, when: str, why: str) -> bytes:
    """The same with one more failed: line, of which the newest three are kept; the task waits again."""
    for item in _of(items(text), [task_id]):
        failed = [note for note in item.notes if note.name == "failed"]
        number = tries([note.value for note in failed if note.value]) + 1
        line = _note(text, item, f"failed: {_one_line(when)} try {number}: {_one_line(why)}")
        dropped = [(note.line.start, note.line.end, b"") for note in failed[: 1 - _FAILURES_KEPT]]
        return spliced(text, [_marked(text, item, " "), *dropped, line])
    return text


def with_block(text: bytes, task_id: str, why: str) -> bytes:
    """The same with the task blocked, and the reason in place of an older one."""
    for item in _of(items(text), [task_id]):
        old = [(note.line.start, note.line.end, b"") for note in item.notes if note.name == "blocked"]
        return spliced(text, [_marked(text, item, "!"), *old, _note(text, item, f"blocked: {_one_line(why)}")])
    return text


def inserted(text: bytes, at: int, lines: Sequence[bytes]) -> Change:
    """These whole lines at the start of a line, with the line ends the text has."""
    longer = insert(text, at, lines)
    return at, at, longer[at : at + len(longer) - len(text)]


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
    for item in _of(items(text), ids):
        changes.append(_marked(text, item, mark))
        changes += [(note.line.start, note.line.end, b"") for note in item.notes if note.name in names]
    return spliced(text, changes)


def _of(listed: Sequence[Item], ids: Iterable[str]) -> list[Item]:
    """The first task of each of these ids; none for an id that is not there."""
    first = {item.id: item for item in reversed(listed) if item.id}
    return [first[task_id] for task_id in dict.fromkeys(ids) if task_id in first]


def _marked(text: bytes, item: Item, mark: str) -> Change:
    at = _mark_place(text, item)
    return at, at + 1, text[at : at + 1] if item.mark == mark else mark.encode()


def _mark_place(text: bytes, item: Item) -> int:
    return text.index(b"[", item.line.start) + 1


def _note(text: bytes, item: Item, said: str) -> Change:
    """One more line of metadata below those the task has."""
    last = item.notes[-1].line if item.notes else item.line
    at = last.end
    while _GOES_ON.match(text, at) and column_of(text[at : at + 200]) > item.column:
        at = text.find(b"\n", at) + 1 or len(text)
    like = item.notes[0].line.body if item.notes else item.line.body
    found = _MARKER.match(like)
    blank, marker = found.groups() if found else (b"", b"-")
    lead = blank if item.notes else blank + b" " * (len(marker) + 1)
    return inserted(text, at, [lead + b"- " + encoded(said)])


def _one_line(raw: str) -> str:
    """What was said or printed, its beginning and its end, as one line in which nothing means anything."""
    half = _LONGEST_WHY // 2
    if len(raw) > 10 * _LONGEST_WHY:
        raw = f"{raw[:half]} … {raw[-5 * half :]}"
    lines = [harmless_output(line) for line in raw.split("\n")]
    plain = " ".join(" ".join(lines).split()) or "no reason was given"
    return plain if len(plain) <= _LONGEST_WHY else f"{plain[:half]} … {plain[-half:]}"
