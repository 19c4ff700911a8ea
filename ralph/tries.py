"""A person's own history of tries: a JSONL file to which ralph appends, and from which the agent may learn."""

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ralph import journal
from ralph.errors import RalphError


class Tries:
    """The file at `path`, which runs may share."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._real, self._before = os.path.realpath(path), b""

    def begin(self) -> None:
        """An iteration begins: what stands there now stays."""
        self._before = self._read() or b""

    def rewritten(self, keep: Callable[[str, bytes], Path]) -> str:
        """Why a person has to look: what stood there does not any more. What is only appended is welcome."""
        now = self._read()
        if now is not None and now.startswith(self._before):
            return ""
        return f"{self.path} does not begin with the lines that it had; they are {keep(self.path.name, self._before)}"

    def add(self, record: Mapping[str, object]) -> None:
        """Appends a line. Raises OSError when it cannot be."""
        if self._read() is None:
            raise OSError(errno.EINVAL, "is no file")
        journal.append(self.path, record, mode=0o666, own=False)

    def _read(self) -> bytes | None:
        """What stands there; None where that is no file, or by a link another one, to which ralph would write."""
        try:
            if os.path.realpath(self.path) != self._real or (self.path.exists() and not self.path.is_file()):
                return None
            return self.path.read_bytes() if self.path.exists() else b""
        except OSError:
            return None


def check(history: Path, where: str, *, plan: Path, progress_path: Path) -> None:
    """Raises RalphError where lines of it would go into something else. `where` is who named it, for the message."""
    others = [os.path.realpath(other) for other in (plan, progress_path)]
    is_plan = history.exists() and history.samefile(plan)
    if is_plan or os.path.realpath(history) in others or history.is_dir() or history.name.endswith("_PROGRESS.md"):
        what = "is the plan, a progress file or a folder"
        raise RalphError(f"{where}: {history}: {what}", fix="name a file of its own, such as tries.jsonl")
