"""Restores what is ralph's alone in a progress file that somebody else has edited, and keeps the rest.

The head, the Status, the Task List and the Verification are ralph's, all other sections the agent's, and anybody may
add words that stop a run. However tricky a text is, the result is used only if it means the same to ralph as before.
"""

import itertools
from collections import Counter
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
    merged = _merge_sections(before, after, new)
    text = merged if _parsed_tasks_and_status(merged) == wanted else before
    stops = progress.parse(after).words
    for word in _STOPS:  # into Status, where the user would look for it
        if word in stops and word not in progress.parse(text).words:
            text = progress.with_section_lines(text, "Status", [stops[word][0].body])
    gone = [line for line in wanted if line not in left]
    free = {*wanted, *task_lines(new)}
    came = [line for line in left if line not in free]
    what = [*(f"{_quote_line(line)} added" for line in came), *(f"{_quote_line(line)} removed" for line in gone)]
    return MendedList(text, tuple(what[:40]), _count_changes(gone, came, left) if what else {})


def _count_changes(gone: Sequence[bytes], came: Sequence[bytes], left: Sequence[bytes]) -> Mapping[str, int]:
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


def _parsed_tasks_and_status(text: bytes) -> list[bytes]:
    """The lines of the text that mean something to ralph, or that ralph wrote, except those that stop a run."""
    words = progress.parse(text).words
    lines = sorted(words[word][0].body.strip() for word in words if word not in _STOPS)
    return lines + progress.section_lines(text, "Verification") + task_lines(read_tasks(text))


def _merge_sections(before: bytes, after: bytes, new: Sequence[Task]) -> bytes:
    """Ralph's sections from `before`, then all others from `after`, and the new tasks, unticked, in Proposed."""
    parts = [section for is_ours, section in _split_sections(before) if is_ours]
    parts += [section for is_ours, section in _split_sections(after) if not is_ours]
    text = b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts)
    proposed = [line.replace(b"- [x]", b"- [ ]", 1) for line in task_lines(new)]
    return progress.with_section_lines(text, "Proposed", proposed)


def _split_sections(text: bytes) -> Iterator[tuple[bool, bytes]]:
    """Yields each section between headings of the top two levels: whether it is ralph's, and its text."""
    now = progress.parse(text)
    head = len(progress.BOM)  # a heading at the very beginning is within the first section
    tops = [(line.start, title.casefold()) for line, level, title in now.headings if level <= 2 and line.start > head]
    for (start, title), (end, _) in itertools.pairwise([(0, _OURS[0]), *tops, (len(text), "")]):
        has_tasks = any(start <= task.line.start < end for task in now.tasks)
        yield has_tasks or title.startswith(_OURS), text[start:end]
