"""What a person adds under Messages while an agent works, whose older copy of the file may write over it."""

import contextlib
import os
from pathlib import Path

from ralph.plan.progress import message_lines


class NewMessages:
    """Those that come while an agent works; `before` is the text of the file when it began."""

    def __init__(self, path: Path, before: bytes) -> None:
        self._path, self._known = path, message_lines(before)
        self._new = self._gone = list[bytes]()
        self._version: object = None

    def look(self) -> None:
        """Sees what is new; cheap as long as nobody writes."""
        with contextlib.suppress(OSError):
            now = os.stat(self._path)  # noqa: PTH116 - five times a second, and Path takes twice as long
            if (version := (now.st_mtime_ns, now.st_ino, now.st_size)) != self._version:
                self._version = version
                self._take(self._path.read_bytes())

    def _take(self, text: bytes) -> None:
        """Where none is left somebody wrote over them; where others came the person has thought better of it."""
        new = [line for line in message_lines(text) if line not in self._known]
        if not new:
            self._gone = self._gone + self._new
        self._new = new

    def lost(self, text: bytes) -> list[bytes]:
        """Those that were written over, and are nowhere in the text now."""
        self._take(text)
        return [line for line in dict.fromkeys(self._gone) if line not in text]
