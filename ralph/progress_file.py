"""The progress file on disk: read, edited, brought back when lost; never at the cost of what somebody wrote."""

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ralph import files, progress
from ralph.errors import RalphError
from ralph.progress import Progress

if TYPE_CHECKING:
    from ralph.state import State

T = TypeVar("T")
_SETTLE_S = 1.0
"""An editor that saves in place leaves the file empty for a moment; by rename, missing."""
_EDIT_TRIES = 50


class ProgressFile:
    """The one file that is the state. `state` keeps what a person may want back; `say` hears what was done to it."""

    def __init__(self, path: Path, state: "State") -> None:
        self.path = path
        self._keep = state.keep
        self._probe = f".{path.name[:80]}.{os.getpid()}.ralph"
        self.say: Callable[[str], None] = print
        self._last = state.before_death()
        self._mode: int | None = None
        self._parsed = progress.parse(self._last)
        self._created: bytes | None = None
        self._home: str | None = None
        """Where it really is."""

    def exists(self) -> bool:
        """Whether there is a file, be it empty. Raises RalphError when there is something else, or a loop of links."""
        return self._bytes(lambda: bool(self._regular())) is True

    def read(self) -> Progress:
        """What it says now; restored first when it stays empty or missing, or became something else than a file."""
        text = self._settled()
        if _is_blank(text) and not _is_blank(self._last):
            text = self._restore()
        if self._home is None and text:
            self._home = os.path.realpath(self.path)
        if text != self._last:
            self._last, self._parsed = text, progress.parse(text)
        return self._parsed

    @property
    def last(self) -> Progress:
        """What `read` saw last."""
        return self._parsed

    @property
    def text(self) -> bytes:
        """The bytes that `read` saw last."""
        return self._last

    def _regular(self) -> bool:
        """Whether it is a file that can be read without waiting; a named pipe would block for ever."""
        mode = self.path.stat().st_mode
        if stat.S_ISREG(mode):
            self._mode = stat.S_IMODE(mode)
            return True
        raise RalphError(f"{self.path}: {_kind(self.path)}, not a file; move it away", 1)

    def _is_something_else(self) -> bool:
        """Whether a folder or the like has taken its place; one look, since an editor may be about to bring it back."""
        try:
            return not stat.S_ISREG(self.path.stat().st_mode) or self._leads_elsewhere()
        except OSError:
            return False

    def _leads_elsewhere(self) -> bool:
        """Whether it has become a link; a write would go into another file."""
        return self._home is not None and self.path.is_symlink() and os.path.realpath(self.path) != self._home

    def _peek(self) -> bytes:
        """Its bytes, none when it is missing."""
        return self._bytes(lambda: self.path.read_bytes() if self._regular() else b"") or b""

    def _bytes(self, look: Callable[[], T]) -> T | None:
        try:
            return look()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RalphError(f"{self.path}: cannot be read: {error.strerror}", 1) from error

    def _settled(self) -> bytes:
        """Its bytes; when there are none though there were, those that are there after a moment."""
        if not _is_blank(self._last) and self._is_something_else():
            return b""
        deadline = time.monotonic() + (0 if _is_blank(self._last) else _SETTLE_S)
        while _is_blank(text := self._peek()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return text

    def _restore(self) -> bytes:
        """Puts back what was read last; what stands in its place is moved aside."""
        what = "was gone or empty"
        if self._is_something_else():
            what = f"had become {_kind(self.path)}"
            self._move_aside()
        elif self.path.is_symlink() and not self.path.exists():
            self.path.unlink()
        try:
            self._write(lambda: files.replace(self.path, self._last, mode=self._mode))
        except RalphError as error:
            try:
                where = f"is in {self._keep(self.path.name, self._last)}"
            except OSError:
                where = "comes back with the next start that can write"
            raise RalphError(f"{error.message}; what it said before {where}", 1) from error
        self.say(f"{self.path.name} {what}: put back as it was before the iteration")
        return self._last

    def _move_aside(self) -> None:
        import shutil  # noqa: PLC0415 - nearly never needed

        aside = self._keep(self.path.name, b"")
        aside.unlink()
        shutil.move(self.path, aside)

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
            new = change(self._last)
            if new == self._last or self._replaced(new):
                return self.read()
        raise RalphError(f"{self.path}: somebody keeps writing to it; ralph could not make its edit", 1)

    def _replaced(self, new: bytes) -> bool:
        return self._write(lambda: files.replace_unchanged(self.path, self._last, new))

    def check_writable(self) -> None:
        """Raises RalphError now, before money is spent, when an edit of this size could not be written."""
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise RalphError(f"{self.path}: is read-only; the agent could not tick its tasks: chmod u+w it", 1)
        probe = Path(os.path.realpath(self.path)).with_name(self._probe)
        self._write(lambda: files.probe(probe, len(self._last) + 4096))

    def _write(self, write: Callable[[], bool | None]) -> bool:
        try:
            return write() is not False
        except OSError as error:
            raise RalphError(f"{self.path}: cannot be written: {error.strerror}", 1) from error


def _is_blank(text: bytes) -> bool:
    return len(text) < 1024 and not text.strip(b"\r\n\t \0\xef\xbb\xbf")


def _kind(path: Path) -> str:
    if path.is_symlink():
        return "a link"
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(path.stat().st_mode), "a device")
