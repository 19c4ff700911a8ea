"""A task that is being tried: what its attempt was given, and the result."""

import re
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from ralph.agent.turn import Outcome, Turn
from ralph.parallel.attempt import AttemptResult, TaskJob
from ralph.plan import progress, tasks
from ralph.plan.progress import encode_text
from ralph.plan.tasks import Task, edits
from ralph.plan.tasks.mending import restore_own_sections
from ralph.store import journal


@dataclass(kw_only=True, eq=False)
class TaskAttempt:
    """A task that is being tried, or was."""

    job: TaskJob
    task: Task
    """The task as it was when the attempt began."""
    began: float
    """When the attempt began, in seconds by the run's clock (`Pace.uptime_s`)."""
    share_usd: float | None
    """What the attempt may cost; None for no limit."""
    result: AttemptResult = AttemptResult()  # noqa: RUF009 - nobody writes into it
    """The attempt's result; empty before it has ended."""
    number: int = 0
    """The number of its iteration; 0 before there is one."""
    transcript: Path = Path()
    """The file with what its agent printed."""

    @property
    def task_afterwards(self) -> Task | None:
        """The task as the attempt left it."""
        return tasks.find_task(tasks.read_tasks(encode_text(self.result.progress)), self.task.id)

    @property
    def why_blocked(self) -> str | None:
        """Why the agent says that it needs the user; None if it does not say so."""
        left = self.task_afterwards
        if left and left.mark == "!" and left.tries == self.task.tries:
            return "".join(left.note_values("blocked"))
        message = progress.parse(encode_text(self.result.progress))
        return None if message.blocked_by_ralph else message.blocked

    @property
    def has_messages(self) -> bool:
        """Whether its agent got what the user wrote under Messages."""
        return bool(progress.section_lines(encode_text(self.job.progress), "Messages"))

    def is_taken_back(self, text: bytes) -> bool:
        """Whether the user marked the task differently in this progress file, or deleted it."""
        task = tasks.find_task(tasks.read_tasks(text), self.task.id)
        return task is None or task.mark != "~"

    def with_agents_edits(self, text: bytes) -> bytes:
        """Returns the progress file with the agent's changes to the sections it may edit, and the task's evidence."""
        was, now = encode_text(self.job.progress), encode_text(self.result.progress)
        new = text
        for title in ("Messages", "Notes", "Proposed") if now else ():
            before, theirs, ours = (_section_lines(one, title) for one in (was, now, new))
            start, end = progress.section_range(new, title)
            if start < end:
                new = new[:start] + b"".join(merge_lines(before, ours, theirs)) + new[end:]
            elif theirs != before:
                new = progress.with_section_lines(new, title, b"".join(theirs).strip(b"\n").split(b"\n"))
        notes = self.task_afterwards.notes if self.task_afterwards else ()
        return edits.with_evidence(restore_own_sections(text, new).text, self.task.id, notes)


def result_of_future(future: Future[AttemptResult]) -> AttemptResult:
    """Returns the result of a job; if its executor failed, one that says why."""
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001 - a cluster has errors of its own
        return AttemptResult(why=str(error) or type(error).__name__)


def turn_of_attempt(result: AttemptResult) -> Turn:
    """Sums up the iterations of an attempt as one turn."""
    found = journal.parse_records(result.records)
    died = result.why
    if not found:
        return Turn(outcome=Outcome.FAILED, why=died)
    last = found[-1]
    total = journal.sum_up(found)
    return Turn(
        outcome=Outcome.FAILED if died else Outcome[last.ended.upper()],
        why=died or ("" if last.success else last.message),
        final_words=last.said,
        handover=last.handover,
        cost_usd=total.cost_usd,
        at_least=total.cost_at_least or bool(died),
        tokens={kind: getattr(total, kind) for kind in journal.TOKENS},
        resets_at=int(last.until) or None,
        took_s=total.duration_s,
        model=last.model,
    )


def why_failed(result: AttemptResult) -> str:
    """Why an attempt failed, without the prefix that its own ralph adds."""
    return re.sub(r"^.*?, attempt \d+: ", "", turn_of_attempt(result).why) or "it came to nothing"


def _section_lines(text: bytes, title: str) -> list[bytes]:
    """The lines below that heading, each with its line end."""
    start, end = progress.section_range(text, title)
    return [line if line.endswith(b"\n") else line + b"\n" for line in text[start:end].splitlines(keepends=True)]


def merge_lines(base: Sequence[bytes], ours: Sequence[bytes], theirs: Sequence[bytes]) -> list[bytes]:
    """Applies their changes to the base to our lines: what they added stays together, what they removed goes."""
    place_of = dict[int, int]()  # for each line of the base that we still have, where it is in ours
    for at, place, size in SequenceMatcher(None, base, ours, autojunk=False).get_matching_blocks():
        place_of |= {at + number: place + number for number in range(size)}
    added, removed = defaultdict[int, list[bytes]](list), set[int]()
    for kind, start, end, first, last in SequenceMatcher(None, base, theirs, autojunk=False).get_opcodes():
        if kind != "equal":
            above = max((place + 1 for at, place in place_of.items() if at < start), default=0)
            added[above] += theirs[first:last]
            removed |= {place_of[at] for at in range(start, end) if at in place_of}
    merged = list[bytes]()
    for number, line in enumerate([*ours, b""]):
        merged += [*added[number], *([] if number in removed else [line])]
    return merged
