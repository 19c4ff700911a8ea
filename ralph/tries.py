"""A person's own history of tries: a JSONL file to which ralph appends, and from which the agent may learn."""

import contextlib
import errno
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ralph import journal
from ralph.errors import RalphError

_PROGRESS = "_PROGRESS.md"
_LISTS = {"requirements", "tasks", "userStories"}


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


def check(history: Path, where: str, *, plan: Path, progress_path: Path) -> None:
    """Raises RalphError where lines of it would go into something else. `where` is who named it, for the message."""
    if what := _what_else(history, plan, progress_path):
        raise RalphError(f"{where}: {history}: {what}", fix="name a file of its own, such as tries.jsonl")


def _what_else(history: Path, plan: Path, progress_path: Path) -> str:
    if _is_same(history, plan):
        return "is the plan"
    if _is_same(history, progress_path):
        return "is the progress file"
    if history.is_dir():
        return "is a folder"
    if history.name.endswith(_PROGRESS):
        return "is a progress file by its name"
    return "" if not history.is_file() or _has_records(history) else "holds something else than a line of JSON a try"


def _is_same(one: Path, other: Path) -> bool:
    """Whether both lead to one file; also before there is one."""
    return os.path.realpath(one) == os.path.realpath(other) or (one.exists() and other.exists() and one.samefile(other))


def _has_records(history: Path) -> bool:
    """Whether its first line or its last one is a record, as far as it has any: either may be torn."""
    try:
        lines = history.read_bytes().strip().split(b"\n")
    except OSError as error:
        raise RalphError(f"{history}: cannot be read: {error.strerror}") from error
    return lines == [b""] or _is_record(lines[0]) or _is_record(lines[-1])


def _is_record(line: bytes) -> bool:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line.startswith(b'{"timestamp"')  # torn, when the power failed
    return isinstance(found, dict) and not _LISTS & found.keys()
