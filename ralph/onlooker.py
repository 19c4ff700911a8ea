"""Who changed the progress file while an agent worked: told apart as well as that can be seen from outside."""

import os
from pathlib import Path

from ralph.agent.stream import Stream


class Onlooker:
    """Looks at the file at `path` whenever something is heard of the agent whose output `stream` reads, or nothing."""

    def __init__(self, stream: Stream, path: Path) -> None:
        self._stream, self._path = stream, path
        self._seen = self._look()
        self._silent = self._other = False
        self._tells = False

    @property
    def perhaps_a_person(self) -> bool:
        """Whether it changed, and only while the agent ran no tool and said nothing: a person's save looks like that.

        So does one of a program that the agent left in the background, so this is a hint for words and no more.
        """
        self._other |= self._has_changed()
        return self._silent and self._tells and not self._other

    def hears(self) -> None:
        """An event: a change until now may be a tool's, of which that event tells."""
        self._other |= self._has_changed()
        self._tells = True  # of its tools, which an agent that prints text does not

    def hears_nothing(self) -> None:
        """All that it said was heard."""
        if self._has_changed():
            idle = not self._stream.running
            self._silent, self._other = self._silent or idle, self._other or not idle

    def _has_changed(self) -> bool:
        seen, self._seen = self._seen, self._look()
        return seen != self._seen

    def _look(self) -> tuple[int, ...]:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - some hundred times a minute
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_ino, found.st_size)
