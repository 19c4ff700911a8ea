"""How ralph runs a command of the project, with all that it starts."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ralph.errors import RalphError
from ralph.files import read_or_empty
from ralph.process import signals
from ralph.process.supervisor import Command, Ended, OnOutput, ShouldEnd
from ralph.run.acceptance import CheckResult
from ralph.run.console import Console
from ralph.settings.table import Settings
from ralph.words import format_duration

_TAIL_BYTES = 20_000
_OUTPUT_BYTES = 1 << 30


class CommandRunner(NamedTuple):
    """Runs verify commands, checks and hooks, which the agent may have written."""

    console: Console
    supervised: Callable[[str, Command, OnOutput, ShouldEnd], Ended]
    """Runs a program, which it calls by that name, below the supervisor."""
    remove_locks: Callable[[str], None]
    """Removes the git locks that a program of that name left behind."""
    env: Mapping[str, str]
    settings: Settings
    new_log_path: Callable[[], Path]
    """Returns a new path for the output of a shell command."""

    def run_shell(self, doing: str, what: str, command: str) -> CheckResult | None:
        """Runs a shell command that says whether something is done; returns what `run_program` does."""
        self.console.screen.say_unless_quiet(f"ralph: {doing}: {command}")
        self.console.set_activity(f"{doing}: {command}")
        job = Command(["sh", "-c", f"exec 2>&1\n{command}"], self.env, self.new_log_path())
        return self.run_program(what, job, self.settings.verify_timeout)

    def run_program(self, what: str, job: Command, timeout_s: float | None) -> CheckResult | None:
        """Runs a program of the project, called `what` in messages; returns its result, or None if a signal ended it.

        Ends and reports the processes that it leaves running, and removes its git locks. Raises RalphError if it cannot
        be started.
        """
        cut, began = "", time.monotonic()

        def should_end(_silent_s: float, took_s: float, printed: int) -> bool:
            nonlocal cut
            if signals.interrupted():
                self.console.announce_stopping(what)
                return True
            if timeout_s is not None and took_s > timeout_s:
                cut = f"had not ended after {format_duration(timeout_s)}"
            elif printed > _OUTPUT_BYTES:
                cut = "printed more than ralph records"
            return bool(cut)

        job = job._replace(argv=[*(self.settings.wrap or ()), *job.argv])
        try:
            ended = self.supervised(what, job, lambda _output, _complaints: None, should_end)
        finally:
            self.remove_locks(what)
        if ended.unstarted:
            raise RalphError(f"{what} cannot be run: {ended.unstarted}", 1)
        for command in ended.survivors:
            self.console.complain(f"{what} left running what cannot be ended, end it by hand: {command}")
        if signals.interrupted():
            return None
        how = f"exited with {ended.code}" if ended.code >= 0 else f"was killed by signal {-ended.code}"
        return CheckResult(
            code=None if cut else ended.code,
            how_ended=cut or how,
            output=read_or_empty(job.output, _TAIL_BYTES).decode(errors="replace"),
            took_s=time.monotonic() - began,
        )
