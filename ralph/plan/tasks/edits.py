"""Edits of the task list: each changes only the lines it means to change, and no other byte.

`restore_ralphs_sections` undoes an agent's: the head, the Status, the Task List and the Verification are ralph's, all
other sections the agent's, and anybody may add words that stop a run.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ralph.plan import progress
from ralph.plan.progress import encode_text, insert_lines, replace_ranges
from ralph.plan.tasks import Note, Task, find_task, format_task_lines, new_id, read_tasks
from ralph.words import one_line, timestamp, without_control_codes

# Most characters of a note: room for a whole review, and for the lines of output that `CheckResult.why` keeps.
_LONGEST = 5_000
# Indented lines that begin neither an item nor a fence: they continue the item above.
_GOES_ON = re.compile(rb"(?:[ \t]+(?!(?:[-*+]|\d{1,9}[.)])[ \t]|`{3}|~{3})[^\s#][^\n]*(?:\n|\Z))*")

_OF_ATTEMPTS = ("failed", "role", "blocked", "begun", "cannot run", "claimed", "reopened", "dismissed")
BY_AGENT = "by the agent: "
"""How the note on a task begins if an agent blocked the task."""
_OF_EVIDENCE = ("begun", "held", "cannot run", "claimed", "note")
_OURS = ("progress", "status", "task", "verification")
_STOPS = ("RALPH_STOP", "RALPH_BLOCKED")


def with_mark(
    text: bytes, mark: str, *ids: str, note: str = "", why: str = "", gone_notes: Sequence[str] = ()
) -> bytes:
    """The text with this mark on the tasks with these ids, and a note of this name and reason below the first of them.

    The note is one line, and ralph interprets nothing in its reason. Outdated notes are removed: from a finished task,
    all about its attempts; else why it is blocked, those of the same name, and those named in `gone_notes`.
    """
    gone_notes = _OF_ATTEMPTS if mark == "x" else ("blocked", note, *gone_notes)
    reason = one_line(without_control_codes(why), _LONGEST) or "no reason was given"
    notes = [Note(note, reason)] if note else []
    for task_id in ids:
        text = _with_mark_and_notes(text, task_id, mark, notes, gone_notes)
        notes = []
    return text


def _with_mark_and_notes(
    text: bytes, task_id: str, mark: str, notes: Sequence[Note], gone_notes: Sequence[str]
) -> bytes:
    """The text with these notes after the task's own, without its own ones named in `gone_notes`, and with this mark.

    Without a mark, that of the task stays.
    """
    if not (task := find_task(read_tasks(text), task_id)):
        return text
    last = task.notes[-1].line if task.notes else task.line
    indent = last.body[: -len(last.body.lstrip())] + b"  " * (not task.notes)
    goes_on = next(_GOES_ON.finditer(text, last.end))
    text = insert_lines(text, goes_on.end(), [indent + encode_text(f"- {one.name}: {one.value}") for one in notes])
    at = text.index(b"[", task.line.start) + 1
    outdated = [(one.line.start, one.line.end, b"") for one in task.notes if one.name in gone_notes]
    return replace_ranges(text, [(at, at + 1, (mark or task.mark).encode()), *outdated])


def with_evidence_replaced(text: bytes, task_id: str, notes: Sequence[Note]) -> bytes:
    """The text with those of the notes that are evidence, if any, in place of the task's older ones.

    Evidence is what the task's checks found before it was begun, and claims.
    """
    new = [one for one in notes if one.name in _OF_EVIDENCE]
    return _with_mark_and_notes(text, task_id, "", new, _OF_EVIDENCE) if new else text


def with_failure(
    text: bytes, task_id: str, why: str, max_tries: int | None = None, *, keep_claimed_note: bool = False
) -> bytes:
    """The text with one more failed: line, and the task pending, or blocked if that was the last of `max_tries`.

    Forgets a claim that nothing proved, unless that claim is the failure.
    """
    if (task := find_task(read_tasks(text), task_id)) is None:
        return text
    tries = task.failed_tries + 1
    note = f"failed: {timestamp()} attempt {tries}"
    text = with_mark(text, " ", task_id, note=note, why=why, gone_notes=() if keep_claimed_note else ("claimed",))
    if not task.is_last_try(max_tries):
        return text
    reason, *_ = why.split("\n")
    return with_mark(text, "!", task_id, note="blocked", why=f"given up after attempt {tries}: {reason}")


def with_tasks_reopened(text: bytes, broken: Mapping[str, str]) -> bytes:
    """The text with these tasks pending again, each with the reason, and the ticked tasks above them pending, too."""
    for task in read_tasks(text):
        if task.id in broken:
            text = with_mark(text, " ", *(one.id for one in task.above if one.mark == "x"))
            text = with_failure(text, task.id, broken[task.id])
    return text


def with_ticks_reopening_blocked(text: bytes, *newly_done: str, note: str = "", why: str = "") -> bytes:
    """The text with these tasks ticked; reopens, twice at most, what agents blocked, since it may depend on these."""
    text = with_mark(text, "x", *newly_done, note=note, why=why)
    for task in read_tasks(text):
        message = "".join(task.note_values("blocked"))
        if task.mark == "!" and message.startswith(BY_AGENT) and len(task.note_values("reopened")) < 2:
            text = with_mark(text, " ", task.id, note=f"reopened: {timestamp()}", why=f"it was blocked {message}")
    return text


def with_ids(text: bytes) -> bytes:
    """The text with an id for every task that had none, made from the words of the task."""
    listed = read_tasks(text)
    changes = []
    taken = [task.id for task in listed]
    for task in listed:
        if not task.id:
            taken.append(new_id(task.text, taken))
            at = text.index(b"]", task.line.start) + 1
            changes.append((at, at, encode_text(f" {taken[-1]}:")))
    return replace_ranges(text, changes)


def with_ids_and_tidy_marks(text: bytes, *still_in_progress: str) -> bytes:
    """The text with an id on each task, none but these in progress, and ticks on tasks that their subtasks complete."""
    text = with_ids(text)
    text = with_mark(
        text, " ", *(task.id for task in read_tasks(text) if task.mark == "~" and task.id not in still_in_progress)
    )
    done = [task.id for task in read_tasks(text) if task.is_done and task.mark != "x"]
    return with_mark(text, "x", *done)


def without_new_ticks(before: bytes, text: bytes) -> bytes:
    """The text, tidied, without the ticks that are not in `before`: a mode such as plan has checked nothing."""
    text = with_ids_and_tidy_marks(text)
    known = {one.text for one in read_tasks(before) if one.is_done}
    new = [one.id for one in read_tasks(text) if one.mark == "x" and one.text not in known]
    return with_mark(text, " ", *new)


class RestoredList(NamedTuple):
    """A text in which everything of ralph's is as it was before."""

    text: bytes
    what: tuple[str, ...] = ()
    """What was undone, one line each, for messages. Not included: new tasks moved under Proposed, and the order."""
    kinds: Mapping[str, int] = {}
    """How many changes were undone, by kind, such as `tick`; 0 for a kind that has no number."""


def restore_ralphs_sections(before: bytes, after: bytes) -> RestoredList:
    """The text `after` with what is ralph's alone as it is in `before`, except a new RALPH_STOP or RALPH_BLOCKED.

    If that is impossible, the text is `before`, with only those words added.
    """
    wanted = _control_and_task_lines(before)
    left = _control_and_task_lines(after)
    if left == wanted:
        return RestoredList(after)
    known = {name for task in read_tasks(before) for name in (task.id, task.text) if name}
    new = [task for task in read_tasks(after) if known.isdisjoint((task.id, task.text))]
    merged = _merge_ralphs_sections(before, after, new)
    text = merged if _control_and_task_lines(merged) == wanted else before
    stops = progress.parse(after).words
    for word in _STOPS:  # into Status, where the user would look for it
        if word in stops and word not in progress.parse(text).words:
            text = progress.with_lines_added(text, "Status", [stops[word][0].body])
    gone = [line for line in wanted if line not in left]
    free = {*wanted, *format_task_lines(new)}
    came = [line for line in left if line not in free]
    what = [*(f"{_quote_line(line)} added" for line in came), *(f"{_quote_line(line)} removed" for line in gone)]
    return RestoredList(text, tuple(what[:40]), _count_undone_kinds(gone, came, left) if what else {})


def _count_undone_kinds(gone: Sequence[bytes], came: Sequence[bytes], left: Sequence[bytes]) -> Mapping[str, int]:
    """Counts the ticks, checks and tasks that changed; 0 for a new RALPH_DONE, and for changes of any other kind."""
    titles = {line.partition(b"] ")[2] for line in left}
    kinds = Counter[str]()
    for line in gone:
        if line.lstrip().startswith(b"- verify:"):
            kinds["check"] += 1
        elif line.lstrip().startswith(b"- ["):
            kinds["tick" if line.partition(b"] ")[2] in titles else "task"] += 1
    if b"RALPH_DONE" in came:
        kinds["RALPH_DONE"] = 0
    return kinds or {"the task list": 0}


def _quote_line(line: bytes) -> str:
    return f'"{line.decode(errors="replace").strip()}"'


def _control_and_task_lines(text: bytes) -> list[bytes]:
    """The lines of the text that mean something to ralph, or that ralph wrote, except those that stop a run."""
    words = progress.parse(text).words
    lines = sorted(words[word][0].body.strip() for word in words if word not in _STOPS)
    return lines + progress.section_lines(text, "Verification") + format_task_lines(read_tasks(text))


def _merge_ralphs_sections(before: bytes, after: bytes, to_propose: Sequence[Task]) -> bytes:
    """Ralph's sections from `before`, then all others from `after`, and the new tasks, unticked, in Proposed."""
    parts = [section for is_ours, section in _split_ralphs_sections(before) if is_ours]
    parts += [section for is_ours, section in _split_ralphs_sections(after) if not is_ours]
    text = b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts)
    unticked = [line.replace(b"- [x]", b"- [ ]", 1) for line in format_task_lines(to_propose)]
    return progress.with_lines_added(text, "Proposed", unticked)


def _split_ralphs_sections(text: bytes) -> Iterator[tuple[bool, bytes]]:
    """Yields each section between headings of the top two levels: whether it is ralph's, and its text."""
    now = progress.parse(text)
    head = len(progress.BOM)  # a heading at the very beginning is within the first section
    tops = [(line.start, title.casefold()) for line, level, title in now.headings if level <= 2 and line.start > head]
    for (start, title), (end, _) in itertools.pairwise([(0, _OURS[0]), *tops, (len(text), "")]):
        has_tasks = any(start <= task.line.start < end for task in now.tasks)
        yield has_tasks or title.startswith(_OURS), text[start:end]
