"""The verify command: what must pass before done counts."""

import contextlib
import time
from collections.abc import Callable, Mapping
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

    Whatever it starts ends with it, as with the agent; `ending` is called before that. All it prints goes to
    `files.output`.
    """
    began = time.monotonic()
    bounds = Bounds(whole_s=timeout_s, output_bytes=_OUTPUT_BYTES)
    argv = ["sh", "-c", f"exec 2>&1\n{command}"]
    try:
        ended = follow(Program(argv=argv, env=env, files=files, bounds=bounds), _Silent(ending), care)
    except OSError as error:
        raise RalphError(f"the verify command cannot be run: {error.strerror}", 1) from error
    took_s = time.monotonic() - began
    if ended.how is How.INTERRUPTED:
        return None
    if ended.how is How.LEFT and ended.code == 0:
        return Verification(took_s=took_s)
    what = f"exited with {ended.code}" if ended.code >= 0 else f"was killed by signal {-ended.code}"
    if ended.how is How.TOO_SLOW:
        what = f"had not ended after {duration(timeout_s or 0)}"
    elif ended.how is How.TOO_LONG:
        what = "printed more than ralph records"
    failed = f"the verify command `{' '.join(command.split())}` {what}"
    return Verification(failed=failed, output=_tail(files.output), took_s=took_s)


def _tail(path: Path) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace")
    return ""
