"""A person's own history of tries: a JSONL file to which ralph appends, and from which the agent may learn."""

import contextlib
import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ralph import journal


class Tries:
    """The file at `path`, which runs may share; None is none."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._before = b""
        self._real = os.path.realpath(path) if path else ""
        self._place = os.path.realpath(path.parent) if path else ""

    def begin(self) -> None:
        """An iteration begins: what stands there now stays."""
        self._before = self._read()

    def rewritten(self, keep: Callable[[str, bytes], Path]) -> str:
        """Why a person has to look: what stood there does not any more. What is only appended is welcome."""
        is_one = self.path is None or not (self._is_elsewhere() or self._is_something_else())
        if self.path is None or (is_one and self._read().startswith(self._before)):
            return ""
        return f"{self.path} does not begin with the lines that it had; they are {keep(self.path.name, self._before)}"

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
            if self._is_elsewhere() or self._is_something_else():
                raise OSError(errno.EINVAL, "is no file")
            journal.append(self.path, record, mode=0o666, own=False)

    def _read(self) -> bytes:
        with contextlib.suppress(OSError):
            return self.path.read_bytes() if self.path and self.path.is_file() else b""  # a named pipe would block
        return b""
