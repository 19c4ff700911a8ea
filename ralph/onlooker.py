"""Who changed the progress file while an agent worked: told apart as well as that can be seen from outside."""

import os
from pathlib import Path
from typing import Any

from ralph.agent.stream import Audience

Event = dict[str, Any]


class Onlooker:
    """Looks at the file at `path` whenever the audience of an agent hears something, or nothing."""

    def __init__(self, audience: Audience, path: Path) -> None:
        self._audience, self._path = audience, path
        self.tell, self.ending = audience.tell, audience.ending
        self._tools: set[str] = set()
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

    def show(self, event: Event) -> None:
        """An event: a change until now may be a tool's, of which that event tells."""
        self._other |= self._has_changed()
        self._tells = True  # of its tools, which an agent that prints text does not
        message = event.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use":
                self._tools.add(str(block.get("id")))
            elif isinstance(block, dict) and block.get("type") == "tool_result":
                self._tools.discard(str(block.get("tool_use_id")))
        self._audience.show(event)

    def quiet(self) -> None:
        """All that it said was heard."""
        if self._has_changed():
            self._silent, self._other = self._silent or not self._tools, self._other or bool(self._tools)
        self._audience.quiet()

    def _has_changed(self) -> bool:
        seen, self._seen = self._seen, self._look()
        return seen != self._seen

    def _look(self) -> tuple[int, ...]:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - some hundred times a minute
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_ino, found.st_size)
