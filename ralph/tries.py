"""A person's own history of tries: a JSONL file to which ralph appends, and from which the agent may learn."""

import contextlib
import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ralph import files, journal
from ralph.state import State


class Tries:
    """The file at `path`, which runs may share; None is none."""

    def __init__(self, path: Path | None, state: State) -> None:
        self.path, self._state = path, state
        self._before = b""
        self._real = os.path.realpath(path) if path else ""
        self._place = os.path.realpath(path.parent) if path else ""

    def begin(self) -> None:
        """An iteration begins: what stands there now stays."""
        self._before = self._read()

    def settle(self) -> Path | None:
        """What an iteration rewrote is put back; where it is kept as it was left, None when nothing was rewritten."""
        if self.path is None or self._is_elsewhere():
            return None
        now = self._read()
        if now.startswith(self._before) and not self._is_something_else():
            return None
        kept = self._state.keep(self.path.name, now)
        if self._is_something_else():
            kept.unlink()
            shutil.move(self.path, kept)
        files.replace(self.path, self._before)
        return kept

    def _is_something_else(self) -> bool:
        """Also a link, where it was none or led to another file: ralph would write there."""
        if self.path is None or not os.path.lexists(self.path):
            return False
        return not self.path.is_file() or os.path.realpath(self.path) != self._real

    def _is_elsewhere(self) -> bool:
        """Whether its folder is another one than it was."""
        return self.path is not None and self._place != os.path.realpath(self.path.parent)

    def add(self, record: Mapping[str, object]) -> None:
        """Appends a line. Raises OSError when it cannot be."""
        if self.path is not None:
            if self.path.is_symlink() and self._is_something_else() and not self._is_elsewhere():
                self.path.unlink()
                files.replace(self.path, self._before)
            if self._is_elsewhere() or self._is_something_else():
                raise OSError(errno.EINVAL, "is no file")
            journal.append(self.path, record, mode=0o666, own=False)

    def _read(self) -> bytes:
        with contextlib.suppress(OSError):
            return self.path.read_bytes() if self.path and self.path.is_file() else b""  # a named pipe would block
        return b""
