"""The notices of a rehearsal: really sent, marked so that nobody is woken by them, and listed for its end."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph import channels, files
from ralph.channels import Notice, notices

_SENT, _FAILED = "sent\t", "failed\t"


class Outbox(channels.Outbox):
    """Notices of a rehearsal on their way to all channels."""

    def __init__(
        self, ready: Iterable[channels.Channel], values: Mapping[str, str], complain: Callable[[str], None]
    ) -> None:
        def fail(line: str) -> None:
            _note(_FAILED + line)
            complain(line)

        super().__init__(ready, values, fail)

    def send(self, notice: Notice) -> None:
        """Queues the notice, marked, for every channel and returns at once."""
        _note(_SENT + notice.title)
        super().send(notices.rehearsed(notice))


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What became of the notices of a rehearsal."""

    sent: tuple[str, ...]
    """Their titles, unmarked."""
    failed: tuple[str, ...]
    """A line for each that did not reach a channel, which begins with the channel's name."""


def told(state_home: Path) -> Told:
    """What the rehearsals with this state home sent."""
    lines: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        lines = _list(state_home).read_text(encoding="utf-8").splitlines()
    sent, failed = (
        tuple(line.removeprefix(kind) for line in lines if line.startswith(kind)) for kind in (_SENT, _FAILED)
    )
    return Told(sent=sent, failed=failed)


def _list(state_home: Path) -> Path:
    return state_home / "notices"


def _note(line: str) -> None:
    path = _list(files.state_home())
    with contextlib.suppress(OSError):  # what is missing in the list is on the screen
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(line.replace("\n", " ") + "\n")
