"""The gates that a task has to pass under --strict, in their order: what the agent did, its criteria, verify."""

from ralph import criteria, progress
from ralph.agent.turn import Outcome
from ralph.claims import verify
from ralph.criteria import Kind
from ralph.judge import Iteration
from ralph.run import Run
from ralph.strict.signal import Finding, heard, proposed
from ralph.tasks import Task
from ralph.verify import run_shell
from ralph.words import named

_LAST_LINES = 20
"""Of an output, for the next try; what is too long for a line of the progress file loses its middle."""


def finding(run: Run, iteration: Iteration, task: Task, token: str, *, is_checked: bool) -> Finding | None:
    """What came of the try of this task. None when a signal came.

    It `is_checked` unless another role goes on with it.
    """
    turn, outside = iteration.turn, iteration.watched.outside
    if iteration.failed:
        return Finding(failed=iteration.failed)
    if outside:
        return Finding(failed=f"{named(outside)} changed, which --only does not allow: put back")
    if turn.outcome is not Outcome.OK:
        return Finding(failed=turn.why)
    claim = heard(proposed(turn.proposal or {}, token) + turn.said, token=token, task_id=task.id)
    return _checked(run, iteration, task) if is_checked and claim == Finding() else claim


def _checked(run: Run, iteration: Iteration, task: Task) -> Finding | None:
    settings = run.settings
    wanted = [criteria.parse(text) for one in task.chain for text in one.said("verify")]
    if not iteration.changed and all(one.kind is Kind.UNCHECKED for one in wanted):
        if not settings.verify and iteration.before.size == iteration.after.size:
            return Finding(failed="it changed nothing, and nothing checks it: give it a `verify:` line")
        _say(run, f"{task.id} changed no file, and no criterion of its own says that it is done")
    for one in criteria.in_one_browser(wanted):
        if run.start.rehearsal:  # no stand-in can meet them
            _say(run, f"not checked in a rehearsal: {one.text}")
            continue
        met = criteria.check(
            one,
            project=run.top,
            base_url=settings.base_url,
            run=lambda command: run_shell(run, "checking", "the check", command),
        )
        if met is None or run.interrupted():
            return None
        if one.kind is Kind.UNCHECKED or not met.met:
            _say(run, met.why)
        if not met.met:
            return _failed(met.why, met.output)
    if not settings.verify:
        return Finding()
    verified = verify(run)
    if verified is None:
        return None
    return _failed(verified.failed, verified.output) if verified.failed else Finding()


def _failed(why: str, output: str) -> Finding:
    lines = [line.strip() for line in progress.harmless_output(output).splitlines() if line.strip()]
    return Finding(failed="\n".join([why, *lines[-_LAST_LINES:]]), red=True)


def _say(run: Run, line: str) -> None:
    run.screen.remark(f"ralph: {line}")
