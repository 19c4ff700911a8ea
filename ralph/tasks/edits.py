"""Edits of the task list: each changes the lines it means to change and no other byte."""

import re
from collections.abc import Iterable, Mapping

from ralph.progress import Change, encoded, harmless_output, insert, spliced
from ralph.tasks import Task, find, flat, new_ids, read

_FAILURES_KEPT = 3
_LONGEST_WHY = 600
_BOX = re.compile(rb"[^\[]*\[.\][ \t]+", re.DOTALL)
_GOES_ON = re.compile(rb"(?:[ \t]+(?!(?:[-*+]|\d{1,9}[.)])[ \t]|`{3}|~{3})[^\s#][^\n]*(?:\n|\Z))*")
"""Indented lines that begin no item and no fence: they go on with the item above."""


def with_ids(text: bytes) -> bytes:
    """The same with an id for every task that had none, from its own words."""
    listed = flat(read(text))
    nameless = [task for task in listed if not task.id]
    names = new_ids((task.text for task in nameless), (task.id for task in listed if task.id))
    changes = []
    for task, name in zip(nameless, names, strict=True):
        box = _BOX.match(text, task.line.start)
        at = box.end() if box else task.line.end
        changes.append((at, at, encoded(f"{name}: ")))
    return spliced(text, changes)


def unticked(text: bytes, ids: Iterable[str]) -> bytes:
    """The same with these to do."""
    return _marked(text, ids, b" ", {})


def taken_up(text: bytes, task_id: str) -> bytes:
    """The same with the task in progress, and no reason why it would be blocked."""
    return _marked(text, [task_id], b"~", {"blocked": 0})


def put_down(text: bytes) -> bytes:
    """The same with nothing in progress: what was, waits again."""
    return spliced(text, [_mark(text, task, b" ") for task in flat(read(text)) if task.mark == "~"])


def with_done(text: bytes, ids: Iterable[str]) -> bytes:
    """The same with these ticked, and without what kept them from it."""
    return _marked(text, ids, b"x", {"failed": 0, "blocked": 0, "role": 0})


def with_failure(text: bytes, task_id: str, when: str, why: str, most: int | None = None) -> bytes:
    """The same with one more failed: line, of which the newest three are kept.

    The task waits again, or is blocked where that was the last of so many tries.
    """
    task = find(read(text), task_id)
    tries = task.tries + 1 if task else 1
    text = _noted(text, task, f"failed: {_one_line(when)} try {tries}: {_one_line(why)}")
    text = _marked(text, [task_id], b" ", {"failed": _FAILURES_KEPT})
    reason, *_ = why.split("\n")
    is_last = most is not None and tries >= most
    return with_block(text, task_id, f"given up after try {tries}: {reason}") if is_last else text


def with_block(text: bytes, task_id: str, why: str) -> bytes:
    """The same with the task blocked, and the reason in place of an older one."""
    text = _noted(text, find(read(text), task_id), f"blocked: {_one_line(why)}")
    return _marked(text, [task_id], b"!", {"blocked": 1})


def with_role(text: bytes, task_id: str, role: str) -> bytes:
    """The same with the task waiting for this role, in place of an older one."""
    text = _noted(text, find(read(text), task_id), f"role: {role}")
    return _marked(text, [task_id], b" ", {"role": 1})


def _marked(text: bytes, ids: Iterable[str], mark: bytes, kept: Mapping[str, int]) -> bytes:
    """The same with this mark for the first task of each id; of metadata of a name so many of the newest are kept."""
    left = set(ids) - {""}
    changes = []
    for task in flat(read(text)):
        if task.id not in left:
            continue
        left.remove(task.id)
        changes.append(_mark(text, task, mark))
        for name, most in kept.items():
            found = [note.line for note in task.notes if note.name == name]
            changes += [(line.start, line.end, b"") for line in found[: max(0, len(found) - most)]]
    return spliced(text, changes)


def _mark(text: bytes, task: Task, mark: bytes) -> Change:
    at = text.index(b"[", task.line.start) + 1
    return at, at + 1, mark


def _noted(text: bytes, task: Task | None, said: str) -> bytes:
    """The same with one more line of metadata below those the task has."""
    if task is None:
        return text
    last = task.notes[-1].line if task.notes else task.line
    more = _GOES_ON.match(text, last.end)
    blank = last.body[: len(last.body) - len(last.body.lstrip(b" \t"))]
    lead = blank if task.notes else blank + b"  "
    return insert(text, more.end() if more else last.end, [lead + b"- " + encoded(said)])


def _one_line(raw: str) -> str:
    """What was said or printed, its beginning and its end, as one line in which nothing means anything."""
    half = _LONGEST_WHY // 2
    plain = " ".join(harmless_output(raw).split()) or "no reason was given"
    return plain if len(plain) <= _LONGEST_WHY else f"{plain[:half]} … {plain[-half:]}"
