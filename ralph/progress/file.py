"""The progress file on disk: read, edited, brought back when lost; never at the cost of what somebody wrote."""

import os
import stat
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import files, progress
from ralph.errors import RalphError
from ralph.progress import Progress

if TYPE_CHECKING:
    from ralph.state import State

_SETTLE_S = 1.0
"""An editor that saves in place leaves the file empty for a moment; by rename, missing."""
_EDIT_TRIES = 50


class ProgressFile:
    """The one file that is the state. `state` keeps what a person may want back; `say` hears what was done to it."""

    def __init__(self, path: Path, state: "State") -> None:
        self.path, self._state = path, state
        self.say: Callable[[str], None] = print
        self.text = state.before_death()
        """The bytes that `read` saw last."""
        self.last = progress.parse(self.text)
        """What they say."""
        self._mode: int | None = None
        self._created: bytes | None = None
        death = state.died()
        self._home = death.home or None if death else None
        """Where it really is, once that is known."""

    def exists(self) -> bool:
        """Whether there is a file, be it empty. Raises RalphError when there is something else, or a loop of links."""
        if what := self._in_its_place():
            raise RalphError(f"{self.path}: {what}, not a file", 1, fix="move it away")
        return self.path.exists()

    def read(self) -> Progress:
        """What it says now; restored first when it stays empty or missing, or became something else than a file."""
        text, was_blank = b"", _is_blank(self.text)
        if was_blank or not self._in_its_place():
            deadline = time.monotonic() + (0 if was_blank else _SETTLE_S)
            while _is_blank(text := self._peek()) and time.monotonic() < deadline:
                time.sleep(0.02)
        if _is_blank(text) and not was_blank:
            text = self._restore()
        if self._home is None and text:
            self._home = os.path.realpath(self.path)
        if text != self.text:
            self.text, self.last = text, progress.parse(text)
        return self.last

    def _in_its_place(self) -> str:
        """What has taken its place, in a word; empty while it is a file that can be read without waiting, or gone."""
        if self._home is not None and self.path.is_symlink() and os.path.realpath(self.path) != self._home:
            return "a link"  # a write would go into another file
        try:
            mode = self.path.stat().st_mode
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise RalphError(f"{self.path}: cannot be read: {error.strerror}", 1) from error
        if stat.S_ISREG(mode):
            self._mode = stat.S_IMODE(mode)
            return ""
        return "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"

    def _peek(self) -> bytes:
        """Its bytes, none when it is missing."""
        if what := self._in_its_place():
            raise RalphError(f"{self.path}: {what}, not a file", 1, fix="move it away")
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise RalphError(f"{self.path}: cannot be read: {error.strerror}", 1) from error

    def _restore(self) -> bytes:
        """Puts back what was read last; what has taken its place goes to `kept/`."""
        usurper = self._in_its_place()

        def put_back() -> None:
            if usurper:
                import shutil  # noqa: PLC0415 - nearly never needed

                shutil.move(self.path, self._state.aside(self.path.name))
            files.replace(self.path, self.text, mode=self._mode)

        try:
            self._write(put_back)
        except RalphError as error:
            try:
                where = f"is in {self._state.keep(self.path.name, self.text)}"
            except OSError:
                where = "comes back with the next start that can write"
            raise RalphError(f"{error.message}; what it said before {where}", 1) from error
        what = f"had become {usurper}" if usurper else "was gone or empty"
        self.say(f"{self.path.name} {what}: put back as it was before the iteration")
        return self.text

    def create(self, text: bytes) -> None:
        """Writes the first version."""
        self._write(lambda: files.replace(self.path, text))
        self._created = text

    def uncreate(self) -> None:
        """Takes the first version away again if nobody has written to it."""
        if self._created is not None and self._peek() == self._created:
            self.path.unlink()

    def edit(self, change: Callable[[bytes], bytes]) -> Progress:
        """Applies `change` to whatever the file says at that moment; what others write meanwhile is never lost."""
        for _ in range(_EDIT_TRIES):
            self.read()
            new = change(self.text)
            if new == self.text or self._write(partial(files.replace_unchanged, self.path, self.text, new)):
                return self.read()
        raise RalphError(f"{self.path}: somebody keeps writing to it; ralph could not make its edit", 1)

    def check_writable(self) -> None:
        """Raises RalphError now, before money is spent, when an edit of this size could not be written."""
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise RalphError(f"{self.path}: is read-only; the agent could not tick its tasks", 1, fix="chmod u+w it")
        folder = Path(os.path.realpath(self.path)).parent
        self._write(lambda: files.probe(folder, len(self.text) + 4096))

    def _write(self, write: Callable[[], bool | None]) -> bool:
        try:
            return write() is not False
        except OSError as error:
            raise RalphError(f"{self.path}: cannot be written: {error.strerror}", 1) from error


def _is_blank(text: bytes) -> bool:
    return len(text) < 1024 and not text.strip(b"\r\n\t \0\xef\xbb\xbf")
