"""What a person adds under Messages while an agent works, whose older copy of the file may write over it."""

import contextlib
import os
from pathlib import Path

from ralph.plan.progress import message_lines


class NewMessages:
    """Those that come while an agent works; `before` is the text of the file when it began."""

    def __init__(self, path: Path, before: bytes) -> None:
        self._path, self._known = path, message_lines(before)
        self._seen = list[bytes]()
        self._version: object = None

    def look(self) -> None:
        """Sees what is new; cheap as long as nobody writes."""
        with contextlib.suppress(OSError):
            now = os.stat(self._path)  # noqa: PTH116 - five times a second, and Path takes twice as long
            if (version := (now.st_mtime_ns, now.st_ino, now.st_size)) != self._version:
                self._version, text = version, self._path.read_bytes()
                self._seen += [line for line in message_lines(text) if line not in (*self._known, *self._seen)]

    def lost(self, text: bytes) -> list[bytes]:
        """Those that are nowhere in the text now."""
        return [line for line in self._seen if line not in text]
