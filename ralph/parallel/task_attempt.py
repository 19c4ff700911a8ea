"""A task that is being tried: what its attempt was given, how far it is, and its result."""

from concurrent.futures import Future
from dataclasses import dataclass
from difflib import SequenceMatcher

from ralph.parallel.attempt import AttemptResult
from ralph.plan import progress, tasks
from ralph.plan.tasks import Task, edits
from ralph.run.context import CurrentIteration


@dataclass(kw_only=True, eq=False)
class TaskAttempt:
    """A task that is being tried: first an agent works on it, then its commit waits to be merged."""

    task: Task
    """The task as it was when the attempt began."""
    base: str
    """The commit on top of which its agent works, or its check runs, or ran last; empty if no check counts."""
    given: bytes
    """The progress file that its agent got."""
    iteration: CurrentIteration
    """When it began; and once it has ended, its number, and the file with what its agent printed."""
    share_usd: float | None
    """What the attempt may cost; None for no limit."""
    work: Future[AttemptResult] | None = None
    """What runs now, if anything: its agent, or a check of its commit."""
    doing: str = ""
    """The last message of that work."""
    is_canceled: bool = False
    """Whether that work has to end, with everything that it started."""
    result: AttemptResult = AttemptResult()  # noqa: RUF009 - nobody writes into it
    """The result of the agent's work, later of the last check; empty before."""
    commit: str = ""
    """The commit that passed and waits to be merged."""
    conflict: str = ""
    """Why it cannot be applied on top of its base, if it cannot."""

    @property
    def why_blocked(self) -> str | None:
        """Why the agent says that it needs the user; None if it does not say so."""
        left = progress.parse(progress.encode_text(self.result.progress))
        task = tasks.find_task(left.tasks, self.task.id)
        if task and task.mark == "!" and task.failed_tries == self.task.failed_tries:
            return "".join(task.note_values("blocked"))
        return None if left.blocked_by_ralph else left.blocked

    def with_agents_edits(self, text: bytes) -> bytes:
        """Returns the progress file with the agent's changes to the sections it may edit, and the task's evidence."""
        now = progress.encode_text(self.result.progress)
        new = text
        for title in ("Messages", "Notes", "Proposed") if now else ():
            before, theirs = (one[slice(*progress.section_range(one, title))] for one in (self.given, now))
            start, end = progress.section_range(new, title)
            if start < end:
                new = new[:start] + merge_lines(before, new[start:end], theirs) + new[end:]
            elif theirs != before:
                new = progress.with_lines_added(new, title, theirs.strip(b"\n").split(b"\n"))
        task = tasks.find_task(tasks.read_tasks(now), self.task.id)
        return edits.with_evidence_replaced(
            edits.restore_ralphs_sections(text, new).text, self.task.id, task.notes if task else ()
        )


def merge_lines(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """Applies the changes of both to the base: what one added stays together, what one removed goes."""
    old, *sides = (text.removesuffix(b"\n").split(b"\n") for text in (base, ours, theirs))
    # each line of the base, and before, between and after them what was added there
    pieces = [list[bytes](), *(piece for line in old for piece in ([line], list[bytes]()))]
    for side in sides:
        for kind, start, end, first, last in SequenceMatcher(None, old, side, autojunk=False).get_opcodes():
            if kind != "equal":
                pieces[2 * start] += side[first:last]
                pieces[2 * start + 1 : 2 * end : 2] = [[]] * (end - start)
    return b"\n".join(line for piece in pieces for line in piece) + b"\n"
