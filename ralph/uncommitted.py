"""The files that strict iterations changed and that no commit has yet, by task; also for the next run."""

import contextlib
from collections.abc import Iterable

from ralph.state import State

_NOTE = "uncommitted"
_NEW = "uncommitted.new"


class Uncommitted:
    """What each task's tries changed. Held here while a run lasts: its note lies where an agent could write."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._files: dict[str, set[str]] = {}
        for line in state.noted(_NOTE).split("\n"):
            task, *names = line.split("\0")
            if task and names:
                self._files[task] = set(names)

    def tasks(self) -> list[str]:
        """Those that have any."""
        return list(self._files)

    def of(self, task: str) -> frozenset[str]:
        """The files of a task."""
        return frozenset(self._files.get(task, ()))

    def add(self, task: str, names: Iterable[str]) -> None:
        """A try of the task changed these."""
        if found := {name for name in names if "\n" not in name}:
            self._files.setdefault(task, set()).update(found)
            self.write()

    def put(self, task: str, names: Iterable[str]) -> None:
        """These, and no others, are what its tries changed."""
        self._files.pop(task, None)
        self._files |= {task: found} if (found := set(names)) else {}
        self.write()

    def forget(self, task: str) -> None:
        """They are committed, or as they were."""
        if self._files.pop(task, None) is not None:
            self.write()

    def write(self) -> None:
        """Notes it for the next run; in one step, since a death between two would lose the files of all tasks."""
        text = "\n".join("\0".join([task, *sorted(names)]) for task, names in self._files.items())
        self._state.note(_NEW, text)
        if self._state.noted(_NEW) == text.strip():  # on a full disk it may be half there
            with contextlib.suppress(OSError):
                folder = self._state.folder / "running"
                (folder / _NEW).replace(folder / _NOTE)
