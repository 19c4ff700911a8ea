"""A task that is tried: what its attempt was given, and what came of it."""

from concurrent.futures import Future
from dataclasses import dataclass

from ralph.agent.turn import Outcome, Turn
from ralph.parallel.attempt import Attempt, TaskJob
from ralph.plan import progress, tasks
from ralph.plan.progress import encode_text
from ralph.plan.tasks import Task, edits
from ralph.plan.tasks.mending import undo_list_edits
from ralph.store import journal


@dataclass(kw_only=True, eq=False)
class RunningTask:
    """A task that is being tried, or was."""

    job: TaskJob
    task: Task
    """As it was when that began."""
    began: float
    """By the run's clock."""
    share_usd: float | None
    """What it may cost."""
    result: Attempt = Attempt()  # noqa: RUF009 - nobody writes into it
    """What came of it."""

    def ends(self, future: Future[Attempt]) -> None:
        """Waits for what comes of it."""
        try:
            self.result = future.result()
        except Exception as error:  # noqa: BLE001 - a cluster has errors of its own
            self.result = Attempt(why=str(error) or type(error).__name__)

    @property
    def left(self) -> Task | None:
        """The task as the attempt left it."""
        return tasks.find_task(tasks.read_tasks(encode_text(self.result.progress)), self.task.id)

    @property
    def blocked(self) -> str | None:
        """Why the agent says that a person is needed; None where it does not."""
        left = self.left
        if left and left.mark == "!" and left.tries == self.task.tries:
            return "".join(left.note_values("blocked"))
        message = progress.parse(encode_text(self.result.progress))
        return None if message.blocked_by_ralph else message.blocked

    @property
    def has_messages(self) -> bool:
        """Whether its agent is told what a person wrote under Messages."""
        return bool(_lines(encode_text(self.job.progress), "Messages"))

    def is_taken_back(self, text: bytes) -> bool:
        """Whether a person marked the task otherwise in this progress file, or took it out."""
        task = tasks.find_task(tasks.read_tasks(text), self.task.id)
        return task is None or task.mark != "~"

    def taken_over(self, text: bytes) -> bytes:
        """The progress file with what the agent wrote into its sections, and without what it took out of them."""
        was = encode_text(self.job.progress)
        now = encode_text(self.result.progress)
        new = text
        for title in ("Messages", "Notes", "Proposed") if now else ():
            before = _lines(was, title)
            after = _lines(now, title)
            start, end = progress.section_range(new, title)
            gone = set(before).difference(after)
            left = [line for line in new[start:end].splitlines(keepends=True) if line.strip() not in gone]
            new = new[:start] + b"".join(left) + new[end:]
            new = progress.with_lines(new, title, [line for line in after if line not in before])
        evidence = edits.evidence_of(self.left) if self.left else ()
        return edits.with_evidence(undo_list_edits(text, new).text, self.task.id, evidence)

    def turn(self) -> Turn:
        """What its iterations came to, as one turn."""
        found = journal.parse_records(self.result.records)
        died = self.result.why
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
        )


def _lines(text: bytes, title: str) -> list[bytes]:
    """The lines below that heading which are not blank."""
    start, end = progress.section_range(text, title)
    return [line.strip() for line in text[start:end].splitlines() if line.strip()]
