"""Edits of the task list: each changes the lines it means to change and no other byte."""

import re
from collections.abc import Mapping, Sequence

from ralph.plan.progress import encode_text, insert_lines, replace_ranges, without_control_characters
from ralph.plan.tasks import Note, find_task, new_id, read_tasks
from ralph.words import one_line, timestamp

_LONGEST = 5_000
"""Characters of a note: a reviewer's whole word, and of a check's output the lines that `CommandRun.why` leaves."""
_GOES_ON = re.compile(rb"(?:[ \t]+(?!(?:[-*+]|\d{1,9}[.)])[ \t]|`{3}|~{3})[^\s#][^\n]*(?:\n|\Z))*")
"""Indented lines that begin no item and no fence: they continue the item above."""


_OF_ATTEMPTS = ("failed", "role", "blocked", "begun", "cannot run", "claimed", "reopened", "dismissed")
BY_AGENT = "by the agent: "
"""Begins the note on a task that an agent blocked."""
_OF_EVIDENCE = ("begun", "held", "cannot run", "claimed", "note")


def with_mark(text: bytes, mark: str, *ids: str, note: str = "", why: str = "", gone: Sequence[str] = ()) -> bytes:
    """The text with this mark for the tasks of these ids, and a note of that name below the first of them.

    It is one line in which nothing means anything. Notes go that hold no more: of what is done all that say how it
    went, of all else why it is blocked, what the new one replaces, and those that are `gone`.
    """
    gone = _OF_ATTEMPTS if mark == "x" else ("blocked", note, *gone)
    changes = []
    for task in read_tasks(text):
        if task.id and task.id in ids:
            at = text.index(b"[", task.line.start) + 1
            changes.append((at, at + 1, mark.encode()))
            changes += [(one.line.start, one.line.end, b"") for one in task.notes if one.name in gone]
    text = replace_ranges(text, changes)
    if not note:
        return text
    reason = one_line(without_control_characters(why), _LONGEST) or "no reason was given"
    return _with_notes(text, ids[0], [Note(note, reason)])


def _with_notes(text: bytes, task_id: str, notes: Sequence[Note]) -> bytes:
    """The text with these notes as the last ones of the task."""
    if not (task := find_task(read_tasks(text), task_id)):
        return text
    last = task.notes[-1].line if task.notes else task.line
    indent = last.body[: -len(last.body.lstrip())] + b"  " * (not task.notes)
    goes_on = next(_GOES_ON.finditer(text, last.end))
    return insert_lines(text, goes_on.end(), [indent + encode_text(f"- {one.name}: {one.value}") for one in notes])


def with_evidence(text: bytes, task_id: str, notes: Sequence[Note]) -> bytes:
    """The text with these notes, as far as they say what the checks of the task said, and who claimed it.

    Those that it had go.
    """
    task = find_task(read_tasks(text), task_id)
    gone = [(one.line.start, one.line.end, b"") for one in task.notes if one.name in _OF_EVIDENCE] if task else []
    return _with_notes(replace_ranges(text, gone), task_id, [one for one in notes if one.name in _OF_EVIDENCE])


def with_task_begun(text: bytes, task_id: str, notes: Sequence[Note]) -> bytes:
    """The text with the task in progress, and with these notes where its checks were looked at now."""
    text = with_mark(text, "~", task_id)
    return with_evidence(text, task_id, notes) if notes else text


def with_failure(text: bytes, task_id: str, why: str, most: int | None = None, *, is_claimed: bool = False) -> bytes:
    """The text with one more failed: line, and the task to be done, or blocked where that was the last of so many.

    A claim that nothing proved is forgotten, unless that is the failure.
    """
    if (task := find_task(read_tasks(text), task_id)) is None:
        return text
    tries = task.tries + 1
    when = timestamp()
    gone = () if is_claimed else ("claimed",)
    text = with_mark(text, " ", task_id, note=f"failed: {when} attempt {tries}", why=why, gone=gone)
    if task.has_attempts_left(most):
        return text
    reason = why.partition("\n")[0]
    return with_mark(text, "!", task_id, note="blocked", why=f"given up after attempt {tries}: {reason}")


def with_broken_tasks(text: bytes, broken: Mapping[str, str]) -> bytes:
    """The text with these tasks to be done again, each with why, and those that they had completed."""
    for task_id, why in broken.items():
        task = find_task(read_tasks(text), task_id)
        text = with_mark(text, " ", *(one.id for one in task.above if one.mark == "x") if task else ())
        text = with_failure(text, task_id, why)
    return text


def with_task_done(text: bytes, *ids: str, note: str = "", why: str = "") -> bytes:
    """The text with these tasks ticked; and open once more, twice at most, what agents blocked: it may need them."""
    text = with_mark(text, "x", *ids, note=note, why=why)
    for task in read_tasks(text) if BY_AGENT.encode() in text else ():
        message = "".join(task.note_values("blocked"))
        if task.mark == "!" and message.startswith(BY_AGENT) and len(task.note_values("reopened")) < 2:
            text = with_mark(text, " ", task.id, note=f"reopened: {timestamp()}", why=f"it was blocked {message}")
    return text


def with_none_in_progress(text: bytes, *but: str) -> bytes:
    """The text with nothing in progress but these: what was, waits again."""
    going = [task.id for task in read_tasks(text) if task.mark == "~" and task.id not in but]
    return with_mark(text, " ", *going)


def with_ids(text: bytes) -> bytes:
    """The text with an id for every task that had none, from its own words."""
    listed = read_tasks(text)
    changes = []
    taken = [task.id for task in listed]
    for task in listed:
        if not task.id:
            taken.append(new_id(task.text, taken))
            at = text.index(b"]", task.line.start) + 1
            changes.append((at, at, encode_text(f" {taken[-1]}:")))
    return replace_ranges(text, changes)


def with_tidy_list(text: bytes, *but: str) -> bytes:
    """The text with an id for each task, none in progress but these, and ticks where all subtasks have one."""
    text = with_none_in_progress(with_ids(text), *but)
    done = [task.id for task in read_tasks(text) if task.done and task.mark != "x"]
    return with_mark(text, "x", *done)


def without_new_ticks(before: bytes, text: bytes) -> bytes:
    """The text after planning, without the ticks that it made, since nobody has checked anything."""
    text = with_tidy_list(text)
    known = {(one.id, one.text) for one in read_tasks(with_tidy_list(before)) if one.mark == "x"}
    new = [one.id for one in read_tasks(text) if one.mark == "x" and (one.id, one.text) not in known]
    return with_mark(text, " ", *new)
