"""The verify command: what must pass before done counts, and how the project's other commands are run."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.errors import RalphError
from ralph.judge import Verification
from ralph.process import Bounds, Care, Files, How, Program, follow
from ralph.words import duration

_TAIL_BYTES = 20_000
_OUTPUT_BYTES = 1 << 30


class _Silent:
    """Hears a program and says nothing of it: its output is in the file."""

    def __init__(self, ending: Callable[[], None]) -> None:
        self.ending = ending

    def sees(self, data: bytes) -> None: ...

    def complains(self, data: bytes) -> None: ...

    def has_result(self) -> bool:
        return False

    def has_enough(self) -> bool:
        return False

    def over(self) -> None: ...

    def quiet(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    """How a command of the project ended."""

    code: int | None
    """Its exit code, negative for a signal that killed it; None when ralph ended it."""
    what: str
    """The same in words: `exited with 1`, `had not ended after 10m00s`."""
    output: str
    """The end of what it printed."""
    took_s: float


def verify(  # noqa: PLR0913 - what a program needs, and who hears of its end
    command: str,
    env: Mapping[str, str],
    files: Files,
    care: Care,
    timeout_s: float | None,
    *,
    ending: Callable[[], None] = lambda: None,
) -> Verification | None:
    """What came of the command; None when a signal ended it, so that nothing is known.

    As `run_command`. Raises RalphError when it cannot be started.
    """
    try:
        run = run_command(command, env, files, care, timeout_s, ending=ending)
    except OSError as error:
        raise RalphError(f"the verify command cannot be run: {error.strerror}", 1) from error
    if run is None:
        return None
    if run.code == 0:
        return Verification(took_s=run.took_s)
    failed = f"the verify command `{' '.join(command.split())}` {run.what}"
    return Verification(failed=failed, output=run.output, took_s=run.took_s)


def run_command(  # noqa: PLR0913 - as above
    command: str,
    env: Mapping[str, str],
    files: Files,
    care: Care,
    timeout_s: float | None,
    *,
    ending: Callable[[], None] = lambda: None,
) -> CommandRun | None:
    """How the shell command ended; as `run_program`."""
    argv = ["sh", "-c", f"exec 2>&1\n{command}"]
    return run_program(argv, env, files, care, timeout_s, ending=ending)


def run_program(  # noqa: PLR0913 - as above
    argv: Sequence[str],
    env: Mapping[str, str],
    files: Files,
    care: Care,
    timeout_s: float | None,
    *,
    ending: Callable[[], None] = lambda: None,
) -> CommandRun | None:
    """How the program ended; None when a signal ended it. Raises OSError when it cannot be started.

    Whatever it starts ends with it, as with the agent; `ending` is called before that. All it prints goes to
    `files.output`, behind what is there.
    """
    before = files.output.stat().st_size if files.output.exists() else 0
    began = time.monotonic()
    bounds = Bounds(whole_s=timeout_s, output_bytes=_OUTPUT_BYTES)
    ended = follow(Program(argv=argv, env=env, files=files, bounds=bounds), _Silent(ending), care)
    took_s = time.monotonic() - began
    if ended.how is How.INTERRUPTED:
        return None
    what = f"exited with {ended.code}" if ended.code >= 0 else f"was killed by signal {-ended.code}"
    if ended.how is How.TOO_SLOW:
        what = f"had not ended after {duration(timeout_s or 0)}"
    elif ended.how is How.TOO_LONG:
        what = "printed more than ralph records"
    code = ended.code if ended.how is How.LEFT else None
    return CommandRun(code=code, what=what, output=_tail(files.output, before), took_s=took_s)


def _tail(path: Path, begin: int) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        size = path.stat().st_size
        file.seek(max(begin if begin <= size else 0, size - _TAIL_BYTES))
        return file.read().decode(errors="replace")
    return ""
