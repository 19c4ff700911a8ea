"""The files that strict iterations changed and that no commit has yet, by task; also for the next run."""

from collections.abc import Iterable

from ralph.state import State

_NOTE = "uncommitted"


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

    def forget(self, task: str) -> None:
        """They are committed, or as they were."""
        if self._files.pop(task, None) is not None:
            self.write()

    def write(self) -> None:
        """Notes it for the next run."""
        lines = ("\0".join([task, *sorted(names)]) for task, names in self._files.items())
        self._state.note(_NOTE, "\n".join(lines))
