"""Restores what is ralph's alone in a progress file that somebody else has edited, and keeps the rest.

The head, the Status, the Task List and the Verification are ralph's, all other sections the agent's, and anybody may
add words that stop a run. However tricky a text is, the result is used only if it means the same to ralph as before.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ralph.plan import progress
from ralph.plan.tasks import Task, read_tasks, task_lines

_OURS = ("progress", "status", "task", "verification")
_STOPS = ("RALPH_STOP", "RALPH_BLOCKED")


class MendedList(NamedTuple):
    """A text in which everything of ralph's is as it was before."""

    text: bytes
    what: tuple[str, ...] = ()
    """What was undone, one line each, for messages. Not included: new tasks moved under Proposed, and the order."""
    kinds: Mapping[str, int] = {}
    """How many changes were undone, by kind, such as `tick`; 0 for a kind that has no number."""


def restore_own_sections(before: bytes, after: bytes) -> MendedList:
    """The text `after` with what is ralph's alone as it is in `before`, except a new RALPH_STOP or RALPH_BLOCKED.

    If that is impossible, the text is `before`, with only those words added.
    """
    wanted = _parsed_tasks_and_status(before)
    left = _parsed_tasks_and_status(after)
    if left == wanted:
        return MendedList(after)
    known = {name for task in read_tasks(before) for name in (task.id, task.text) if name}
    new = [task for task in read_tasks(after) if known.isdisjoint((task.id, task.text))]
    text = before
    for quote in (b"", b"> ") if after.strip() else ():  # ralph ignores quoted lines
        merged = _merge_sections(before, after, new, quote)
        if _parsed_tasks_and_status(merged) == wanted:
            text = merged
            break
    stops = progress.parse(after).words
    for word in _STOPS:  # into Status, where the user would look for it
        if word in stops and word not in progress.parse(text).words:
            text = progress.with_status_line(text, stops[word][0].body.decode(errors="surrogateescape"))
    free = {*wanted, *task_lines(new)}
    changes = [(line, "added") for line in left if line not in free]
    changes += [(line, "removed") for line in wanted if line not in left]
    what = [f'"{line.decode(errors="replace").strip()}" {how}' for line, how in changes[:40]]
    kinds = _count_changes(before, after)
    if (b"RALPH_DONE", "added") in changes:
        kinds["RALPH_DONE"] = 0
    return MendedList(text, tuple(what), (kinds or {"the task list": 0}) if what else {})


def _count_changes(before: bytes, after: bytes) -> dict[str, int]:
    """How many ticks, checks and tasks of `before` are no longer as they were."""
    was, now = ({task.id or task.text: task for task in read_tasks(text)} for text in (before, after))
    both = [(task, now[name]) for name, task in was.items() if name in now]
    counts = {
        "tick": sum(one.mark != other.mark for one, other in both),
        "check": sum(len({*one.note_values("verify")}.difference(other.note_values("verify"))) for one, other in both),
        "task": len(was.keys() - now.keys()),
    }
    return {kind: count for kind, count in counts.items() if count}


def _parsed_tasks_and_status(text: bytes) -> list[bytes]:
    """The lines of the text that mean something to ralph, or that ralph wrote, except those that stop a run."""
    words = progress.parse(text).words
    message = sorted(words[word][0].body.strip() for word in words if word not in _STOPS)
    for title, _, section in _split_sections(text):
        if title.startswith("verification"):
            message += [line.strip() for line in section.splitlines() if line.strip()]
    return message + task_lines(read_tasks(text))


def _split_sections(text: bytes) -> Iterator[tuple[str, bool, bytes]]:
    """Yields each section between headings of the top two levels: its title, whether it is ralph's, and its text."""
    now = progress.parse(text)
    tops = [(0, "")]
    first = len(progress.BOM) if text.startswith(progress.BOM) else 0
    for line, level, title in now.headings:
        if level <= 2 and line.start > first:
            tops.append((line.start, title.casefold()))
    for (start, title), (end, _) in itertools.pairwise([*tops, (len(text), "")]):
        has_tasks = any(start <= task.line.start < end for task in now.tasks)
        yield title, has_tasks or not title or title.startswith(_OURS), text[start:end]


def _merge_sections(before: bytes, after: bytes, new: Sequence[Task], quote: bytes) -> bytes:
    """Ralph's sections from `before`, then all others from `after`, and the new tasks, unticked, in Proposed.

    `quote` is put in front of each line of the others, except their first.
    """
    sections = [*_split_sections(before)]
    ours = {title for title, is_ours, _ in sections if is_ours}
    parts = [section for title, _, section in sections if title in ours]
    for title, is_ours, section in _split_sections(after):
        if title not in ours and not is_ours:
            parts.append(quote.join(section.splitlines(keepends=True)))
    text = b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts)
    proposed = [line.replace(b"- [x]", b"- [ ]", 1) for line in task_lines(new)]
    return progress.with_section_lines(text, "Proposed", proposed)
