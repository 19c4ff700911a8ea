"""A person's own history of tries: a JSONL file to which ralph appends, and from which the agent may learn."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

from ralph import files
from ralph.journal import Journal
from ralph.state import State


class Tries:
    """The file at `path`, which runs may share; None is none."""

    def __init__(self, path: Path | None, state: State) -> None:
        self.path, self._state = path, state
        self._before = b""

    def begin(self) -> None:
        """An iteration begins: what stands there now stays."""
        self._before = self._read()

    def settle(self) -> Path | None:
        """What an iteration rewrote is put back; where it is kept as it was left, None when nothing was rewritten."""
        now = self._read()
        if self.path is None or now.startswith(self._before):
            return None
        kept = self._state.keep(self.path.name, now)
        files.replace(self.path, self._before)
        return kept

    def add(self, record: Mapping[str, object]) -> None:
        """Appends a line. Raises OSError when it cannot be."""
        if self.path is not None:
            Journal(self.path, mode=0o666).append(record)

    def _read(self) -> bytes:
        with contextlib.suppress(OSError):
            return b"" if self.path is None else self.path.read_bytes()
        return b""
