"""What somebody left of the progress file, with everything in it that is ralph's alone as it was.

The head, the Status, the Task List and the Verification are ralph's, all other sections the agent's, and words that
stop a run are anybody's. However tricky a text is, the result is only taken if it means the same to ralph as before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ralph import progress
from ralph.progress.edits import insert
from ralph.tasks.edits import lines
from ralph.tasks.order import unknown
from ralph.tasks.reading import Task, flat, read

_OURS = ("progress", "status", "task", "verification")
_STOPS = ("RALPH_STOP", "RALPH_BLOCKED")
_MOST_SAID = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """A text in which everything that is ralph's is as it was."""

    text: bytes
    what: Sequence[str] = ()
    """What was undone, a line each for people; proposals are none of it."""
    proposed: int = 0
    """How many new tasks were moved from the task list to Proposed."""


def mend(before: bytes, after: bytes) -> Mended:
    """The text `after` with what is ralph's alone as it is in `before`, but for a new RALPH_STOP or RALPH_BLOCKED."""
    wanted = _meaning(before)
    if _meaning(after) == wanted:
        return Mended(text=after)
    known = {key for task in flat(read(before)) for key in (task.id, task.text) if key}
    new = unknown(read(after), known)
    what = _undone(before, after, new)
    for quoted in (False, True) if after.strip() else ():  # quoted, nothing means anything
        text = _with_stops(_merged(before, after, new, quoted=quoted), after)
        if _meaning(text) == wanted:
            return Mended(text=text, what=what, proposed=len(new))
    return Mended(text=_with_stops(before, after), what=what or ("all of it, since it would mean something else",))


def _meaning(text: bytes) -> object:
    """What it says to ralph, and what ralph says in it, but for what stops a run."""
    now = progress.parse(text)
    refusal = [section.split() for title, _, section in _sections(text) if title.startswith("verification")]
    return now.done, now.verified, now.plan, now.spent_usd, "IN_PROGRESS" in now.words, refusal, lines(read(text))


def _sections(text: bytes) -> Iterator[tuple[str, bool, bytes]]:
    """From one heading of the upper two levels to the next: its title, whether it is ralph's, and its text."""
    now = progress.parse(text)
    places = [(0, "")]
    places += [(line.start, title.casefold()) for line, level, title in now.headings if level <= 2 and line.start]
    for (start, title), (end, _) in pairwise([*places, (len(text), "")]):
        is_ours = not title or title.startswith(_OURS)
        yield title, is_ours or any(start <= task.line.start < end for task in now.tasks), text[start:end]


def _undone(before: bytes, after: bytes, new: Sequence[Task]) -> tuple[str, ...]:
    """The lines in which ralph's sections differ, but for the new tasks, which are proposals."""
    was, now = _protected(before), _protected(after)
    for task in flat(new):
        for line in (task.line, *(note.line for note in task.notes)):
            now.pop(_decoded(line.body).strip(), None)
    said = [f'"{line}" removed' for line in was if line not in now]
    said += [f'"{line}" added' for line in now if line not in was]
    if not said and not new:
        said = ["what stands elsewhere or in another order means something else there"]
    return tuple(said[:_MOST_SAID])


def _protected(text: bytes) -> dict[str, None]:
    """The lines of ralph's sections that are not blank, but for words that stop a run."""
    ours = b"".join(section for _, is_ours, section in _sections(text) if is_ours)
    lines_of_it = [line.strip() for line in _decoded(ours).split("\n")]
    return {line: None for line in lines_of_it if line and not line.startswith(_STOPS)}


def _decoded(text: bytes) -> str:
    return text.decode(errors="surrogateescape")


def _merged(before: bytes, after: bytes, new: Sequence[Task], *, quoted: bool) -> bytes:
    """Ralph's sections as they were; all others as they are, the new tasks in Proposed, in the order that was."""
    ours = {title for title, is_ours, _ in _sections(before) if is_ours}
    theirs: dict[str, bytes] = {}
    for title, _, section in _sections(after):
        if title not in ours and not title.startswith(_OURS):
            heading, *rest = section.splitlines(keepends=True)
            theirs[title] = theirs.get(title, b"") + (b"> ".join([heading, *rest]) if quoted else section)
    if new:
        section = theirs.get("proposed", b"\n## Proposed\n\n")
        listed = [line.replace(b"- [x]", b"- [ ]", 1) for line in lines(new)]
        theirs["proposed"] = insert(section, len(section), listed)
    parts = [section if title in ours else theirs.pop(title, b"") for title, _, section in _sections(before)]
    parts += theirs.values()
    return b"".join(part if part.endswith(b"\n") else part + b"\n" for part in parts if part)


def _with_stops(text: bytes, after: bytes) -> bytes:
    """With every word that stops a run, where a person would look for it."""
    was, now = progress.parse(text).words, progress.parse(after).words
    there = {line.body for lines in was.values() for line in lines}
    stops = [line.body for word in _STOPS for line in now.get(word, ()) if line.body not in there]
    under_way = was.get("IN_PROGRESS")
    return insert(text, under_way[0].end if under_way else len(text), stops)
