"""The progress files of other plans in the folder: a strict iteration ticks nothing there."""

import contextlib
from pathlib import Path

from ralph import files, progress
from ralph.tasks.mending import mend

_PATTERN = "*_PROGRESS.md"


class Neighbours:
    """Those beside `mine`. What a person writes there meanwhile stays, but for ticks and RALPH_DONE."""

    def __init__(self, mine: Path) -> None:
        self._mine = mine
        self._before: dict[Path, bytes] = {}

    def begin(self) -> None:
        """An iteration begins."""
        self._before = {path: text for path in self._others() if (text := _read(path))}

    def settle(self) -> list[tuple[Path, bytes]]:
        """Undoes what was done to tasks where something was ticked; these files, as they were left."""
        found = []
        for path, before in self._before.items():
            left = _read(path)
            if left != before and _claims_more(before, left):
                files.replace(path, mend(before, left).text)
                found.append((path, left))
        return found

    def _others(self) -> list[Path]:
        here = self._mine.absolute().parent
        return [path for path in sorted(here.glob(_PATTERN)) if path.name != self._mine.name and path.is_file()]


def _claims_more(before: bytes, now: bytes) -> bool:
    was, says = progress.parse(before), progress.parse(now)
    ticked = {task.text for task in was.tasks if task.done}
    return (says.done and not was.done) or any(task.done and task.text not in ticked for task in says.tasks)


def _read(path: Path) -> bytes:
    with contextlib.suppress(OSError):  # what is a link now is not the file that it was, and leads elsewhere
        return path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    return b""
