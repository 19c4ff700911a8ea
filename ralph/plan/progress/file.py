"""The progress file on disk: read, edited, and restored when lost, without ever losing what somebody else wrote."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec

from ralph import files
from ralph.errors import RalphError
from ralph.plan.progress.edits import section_lines
from ralph.plan.progress.reading import Progress, parse
from ralph.process.lock import hold_edit_lock
from ralph.store.state import State

P = ParamSpec("P")
# How long the file may be empty or missing: an editor that saves in place, or by rename, leaves it so for a moment.
_SETTLE_S = 1.0
_EDIT_TRIES = 50


class ProgressFile:
    """The one file that is the plan's state. `state` keeps what the user may want back; `say` reports what was done."""

    def __init__(self, path: Path, state: State):
        self.path, self._state = path, state
        self.say: Callable[[str], None] = print
        self.text = b""
        """The bytes that `read_or_restore` saw last."""
        # The real path of the file, with links resolved.
        self._home = os.path.realpath(path)

    @property
    def last(self) -> Progress:
        """What `read_or_restore` saw last, parsed."""
        return parse(self.text)

    def load_text_of_dead_run(self) -> None:
        """After a death, takes over the last text that ralph vouched for, so that a lost file can be restored."""
        if death := self._state.unfinished_iteration():
            self.text, self._home = death.last_vouched_text, death.progress_path

    def exists(self) -> bool:
        """Whether the file exists, even if empty. Raises RalphError if something else is there."""
        if self._is_relinked_or_special():
            raise RalphError(f"{self.path}: is not a file (a directory, a pipe?)", 1, fix="move it away")
        return os.path.exists(self.path)  # noqa: PTH110 - Path raises what this takes for a No

    def read_or_restore(self) -> Progress:
        """Reads and parses the file; restores it first if it stays empty or missing, or is no longer a file."""
        deadline = time.monotonic() + _SETTLE_S
        while _is_blank(text := self._read_or_empty_if_gone()) and not _is_blank(self.text):
            if time.monotonic() > deadline:
                self._restore_last_read()
                return self.last
            time.sleep(0.02)
        self.text = text
        return self.last

    def _read_or_empty_if_gone(self) -> bytes:
        """The bytes of the file; empty if it is missing, or something else has taken its place."""
        if _is_blank(self.text):
            self.exists()  # raises if something else is there
        elif self._is_relinked_or_special():
            return b""
        with files.os_errors_as_ralph_errors(self.path, "read"), contextlib.suppress(FileNotFoundError):
            return self.path.read_bytes()
        return b""

    def _is_relinked_or_special(self) -> bool:
        """Whether something other than a file is in its place, or a link to another file, which writes would hit."""
        if self.path.is_symlink():
            real = os.path.realpath(self.path)
            if real != self._home or os.path.islink(real):  # noqa: PTH114 - a loop of links
                return True
        return os.path.exists(self.path) and not files.is_file(self.path)  # noqa: PTH110 - same as above

    def _restore_last_read(self) -> None:
        """Puts back the text that was read last; moves whatever has taken its place to `kept/`."""
        kept = self._state.keep_copy(self.path.name, self.text)
        with files.os_errors_as_ralph_errors(self.path, "put back", fix=f"what it said is in {kept}"):
            if self._is_relinked_or_special():
                shutil.move(self.path, self._state.free_kept_path(self.path.name))
            files.replace_file(self.path, self.text)
        self.say(f"{self.path.name} was gone, empty or no file: put back as it was before the iteration")

    def edit(self, change: Callable[Concatenate[bytes, P], bytes], *more: P.args, **named: P.kwargs) -> Progress:
        """Applies `change`, with its other arguments, to the file's current text; returns the new contents, parsed.

        Makes the file if it is missing. What others write meanwhile is never lost. Raises RalphError if they keep
        writing.
        """
        with files.os_errors_as_ralph_errors(self.path, "written"), hold_edit_lock(self._state.edit_lock_path()):
            for _ in range(_EDIT_TRIES):
                self.read_or_restore()
                new = change(self.text, *more, **named)
                if new == self.text:
                    return self.last
                self.path.open("ab").close()
                if files.replace_unchanged(self.path, self.text, new):
                    return self.read_or_restore()
        raise RalphError(f"{self.path}: somebody keeps writing to it; ralph could not make its edit", 1)

    def check_writable(self) -> None:
        """Raises RalphError if an edit could not be written; called before any money is spent."""
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise RalphError(f"{self.path}: is read-only; the agent could not tick its tasks", 1, fix="chmod u+w it")
        files.check_folder_writable(self.path.resolve().parent)


class LostMessageWatch:
    """Tracks what the user adds under Messages while an agent works, which may overwrite it with an older copy.

    `before` is the text of the file when the agent began.
    """

    def __init__(self, path: Path, before: bytes):
        self._path, self._known = path, section_lines(before, "Messages")
        self._new = self._gone = list[bytes]()

    def track_new_messages(self) -> None:
        """Notes new messages: if none are left, they were overwritten; if others are there, the user changed them."""
        lines = section_lines(files.read_or_empty(self._path), "Messages")
        new = [line for line in lines if line not in self._known]
        if not new:
            self._gone = self._gone + self._new
        self._new = new

    def find_lost(self, text: bytes) -> list[bytes]:
        """The new messages that were overwritten, and are nowhere in the text now."""
        self.track_new_messages()
        return [line for line in dict.fromkeys(self._gone) if line not in text]


def _is_blank(text: bytes) -> bool:
    return not text.strip(b"\r\n\t \0\xef\xbb\xbf")
