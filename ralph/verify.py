"""A command of the project: run to its end with all that it starts, and what came of it."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ralph.errors import RalphError
from ralph.process import Job, Keeper, follow, signals
from ralph.words import duration

_TAIL_BYTES = 20_000
_OUTPUT_BYTES = 1 << 30


class CommandRun(NamedTuple):
    """What came of a command of the project."""

    code: int | None
    """Its exit code, negative for a signal that killed it; None when ralph ended it."""
    what: str
    """The same in words: `exited with 1`, `had not ended after 10m00s`."""
    output: str = ""
    """The end of what it printed."""
    took_s: float = 0.0
    record: str = ""
    """The name of the file that has all of it."""
    interrupted: bool = False
    """A signal ended it, so that nothing is known."""
    remarks: tuple[str, ...] = ()
    """A line for each program that it left running."""

    @property
    def failed(self) -> str:
        """Why it did not pass; empty when it did."""
        return "" if self.code == 0 else self.what


def shell(command: str) -> list[str]:
    """What runs it with all that it prints in one file."""
    return ["sh", "-c", f"exec 2>&1\n{command}"]


def run_command(
    what: str, job: Job, keeper: Keeper, timeout_s: float | None, ending: Callable[[], None] = lambda: None
) -> CommandRun:
    """How a program of the project ended, and all that it started with it; `what` people call it.

    `ending` is called when a signal ends it. Its output goes behind what is in the file. Raises RalphError when it
    cannot be started.
    """
    output, cut = job.files.output, ""
    before, began = output.stat().st_size if output.exists() else 0, time.monotonic()

    def over(_silent_s: float, took_s: float, printed: int) -> bool:
        nonlocal cut
        if signals.interrupted():
            ending()
            cut = "was interrupted"
        elif timeout_s is not None and took_s > timeout_s:
            cut = f"had not ended after {duration(timeout_s)}"
        elif printed > _OUTPUT_BYTES:
            cut = "printed more than ralph records"
        return bool(cut)

    ended = follow(job, keeper, lambda _output, _complaints: None, over)
    if ended.unstarted:
        raise RalphError(f"{what} cannot be run: {ended.unstarted.strerror}", 1) from ended.unstarted
    how = f"exited with {ended.code}" if ended.code >= 0 else f"was killed by signal {-ended.code}"
    return CommandRun(
        code=None if cut or ended.interrupted else ended.code,
        what=cut or how,
        output=_tail(output, before),
        took_s=time.monotonic() - began,
        record=output.name,
        interrupted=ended.interrupted,
        remarks=(
            *(f"ended what {what} left running: {command}" for command in ended.left_over),
            *(f"{what} left running what cannot be ended, end it by hand: {command}" for command in ended.survivors),
        ),
    )


def _tail(path: Path, begin: int) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        size = path.stat().st_size
        file.seek(max(begin if begin <= size else 0, size - _TAIL_BYTES))
        return file.read().decode(errors="replace")
    return ""
