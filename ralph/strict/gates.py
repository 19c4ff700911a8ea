"""The gates that a task has to pass under --strict, in their order: what the agent did, its criteria, verify."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import criteria, progress
from ralph.agent.turn import Outcome
from ralph.claim import heard
from ralph.criteria import Around, Kind, Met
from ralph.judge import Iteration
from ralph.tasks import Task
from ralph.verify import CommandRun
from ralph.words import named

_LAST_LINES = 20
"""Of an output, for the next try; what is too long for a line of the progress file loses its middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What came of a try of a task; a pass when nothing is set."""

    failed: str = ""
    output: str = ""
    blocked: str = ""
    """The agent says that the task cannot go on without a person, and why."""
    unfinished: str = ""
    """How it was cut short after it had done something: no try, the next iteration goes on with it."""

    @property
    def why(self) -> str:
        """The reason, and on further lines the end of the output."""
        lines = [line.strip() for line in progress.harmless_output(self.output).splitlines() if line.strip()]
        return "\n".join([self.failed, *lines[-_LAST_LINES:]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """What checks a task. `run` runs a criterion's command, `verify` the verify command; None when a signal came."""

    token: str
    project: Path
    base_url: str | None
    run: Callable[[str], CommandRun | None]
    verify: Callable[[], CommandRun | None] | None
    over: Callable[[], bool]
    """Whether a signal came."""
    say: Callable[[str], None]
    rehearsal: bool = False
    """Criteria are only listed: no stand-in can meet them."""

    def finding(self, iteration: Iteration, failed: str, chain: Sequence[Task]) -> Finding | None:
        """What came of the try of the first of these tasks; the others are done with it. None when a signal came."""
        turn = iteration.turn
        if failed:
            return Finding(failed=failed)
        if iteration.outside:
            return Finding(failed=f"{named(iteration.outside)} changed, which --only does not allow: put back")
        if turn.outcome is Outcome.CONTEXT_FULL:
            return Finding(unfinished=turn.why)
        if turn.outcome is not Outcome.OK:
            return Finding(failed=turn.why)
        claim = heard(turn.said, token=self.token, task_id=chain[0].id)
        if not claim.done:
            return Finding(failed=claim.rejected, blocked=claim.blocked)
        return self._checked(iteration, chain)

    def _checked(self, iteration: Iteration, chain: Sequence[Task]) -> Finding | None:
        wanted = [criteria.parse(text) for task in chain for text in task.criteria]
        has_own = any(one.kind is not Kind.UNCHECKED for one in wanted)
        if not has_own and not self.verify and not iteration.changed and iteration.before.size == iteration.after.size:
            return Finding(failed="it changed nothing, and nothing checks it: give it a `verify:` line")
        if not has_own and not iteration.changed:
            self.say(f"{chain[0].id} changed no file, and no criterion of its own says that it is done")
        around = Around(project=self.project, base_url=self.base_url, run=self.run, over=self.over)
        for met in self._met(wanted, around):
            if met is None:
                return None
            if not met.met:
                return Finding(failed=met.why, output=met.output)
        if not self.verify:
            return Finding()
        verified = self.verify()
        if verified is not None and not verified.failed:
            return Finding()  # whatever it printed
        return None if verified is None else Finding(failed=verified.failed, output=verified.output)

    def _met(self, wanted: Sequence[criteria.Criterion], around: Around) -> Iterator[Met | None]:
        for one in wanted if self.rehearsal else ():
            self.say(f"not checked in a rehearsal: {one.text}")
        for met in criteria.check_each(() if self.rehearsal else wanted, around):
            if met and (met.criterion.kind is Kind.UNCHECKED or not met.met):
                self.say(met.why)
            yield met
