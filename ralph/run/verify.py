"""A command of the project: run to its end with all that it starts, and what came of it."""

import time

from ralph.errors import RalphError
from ralph.files import read_or_empty
from ralph.process import signals
from ralph.process.supervisor import Command
from ralph.run.context import Run
from ralph.run.criteria import CheckResult
from ralph.words import format_duration

_TAIL_BYTES = 20_000
_OUTPUT_BYTES = 1 << 30


def run_shell(run: Run, doing: str, what: str, command: str) -> CheckResult | None:
    """What came of a shell command that says whether something is done, as `run_program` does."""
    run.screen.remark(f"ralph: {doing}: {command}")
    run.set_activity(f"{doing}: {command}")
    job = Command(["sh", "-c", f"exec 2>&1\n{command}"], run.env, run.state.new_record(run.id, run.current.number))
    return run_program(run, what, job, run.settings.verify_timeout)


def run_program(run: Run, what: str, job: Command, timeout_s: float | None) -> CheckResult | None:
    """How a program of the project ended, and all that it started with it; `what` people call it.

    None when a signal ended it. What it left is ended, removed and said. Raises RalphError when it cannot be started.
    """
    cut, began = "", time.monotonic()

    def over(_silent_s: float, took_s: float, printed: int) -> bool:
        nonlocal cut
        if signals.interrupted():
            run.announce_end(what)
            return True
        if timeout_s is not None and took_s > timeout_s:
            cut = f"had not ended after {format_duration(timeout_s)}"
        elif printed > _OUTPUT_BYTES:
            cut = "printed more than ralph records"
        return bool(cut)

    run.changes.disturbed = True
    try:
        job = job._replace(argv=[*(run.settings.wrap or ()), *job.argv])
        ended = run.run_supervised(job, lambda _output, _complaints: None, over)
    finally:
        run.remove_orphaned_locks(what)
    if ended.unstarted:
        raise RalphError(f"{what} cannot be run: {ended.unstarted}", 1)
    for command in ended.left_over:
        run.complain(f"ended what {what} left running: {command}")
    for command in ended.survivors:
        run.complain(f"{what} left running what cannot be ended, end it by hand: {command}")
    if signals.interrupted():
        return None
    how = f"exited with {ended.code}" if ended.code >= 0 else f"was killed by signal {-ended.code}"
    return CheckResult(
        code=None if cut else ended.code,
        what=cut or how,
        output=read_or_empty(job.output, _TAIL_BYTES).decode(errors="replace"),
        took_s=time.monotonic() - began,
        record=job.output.name,
    )
