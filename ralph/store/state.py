"""What ralph keeps outside of the working directory: transcripts, displaced files, and notes for the next run."""

import binascii
import contextlib
import os
import re
import time
from pathlib import Path
from typing import TypeVar

from ralph import files
from ralph.store.notes import Note, UnjudgedIteration

Kind = TypeVar("Kind", bound=Note)
TRANSCRIPTS_BYTES = 200_000_000
"""How much of a plan's finished transcripts is kept, the newest ones."""
_CLEANUP_EVERY = 100
"""The number of new records after which old ones are cleaned up again."""


def path_digest(progress_path: Path) -> str:
    """The end of a state folder's name: eight hexadecimal digits for the path of the progress file."""
    here = Path(os.path.realpath(progress_path.parent)) / progress_path.name  # not where an agent's link leads
    return f"{binascii.crc32(os.fsencode(here)):08x}"


class State:
    """The folder `<plan>-<hash of the progress file's path>` under the state home: mode 0700, made on first use."""

    def __init__(self, name: str, progress_path: Path) -> None:
        self._progress_path = progress_path
        plain = re.sub(r"[^\w.-]+", "_", name.encode("ascii", "replace").decode())[:40]
        self.folder = files.state_home() / f"{plain}-{path_digest(progress_path)}"
        self.journal = self.folder / "journal.jsonl"
        """The file with the record of what happened."""
        self._begun: UnjudgedIteration | None = None
        """The note of the running iteration."""
        self._records_until_cleanup = 0
        """How many transcripts and other outputs may get a path before old transcripts are removed."""

    def _make_folder(self, name: str) -> str:
        """The path of that subfolder, made a real one: ralph writes and removes there, wherever a link would lead."""
        folder = f"{self.folder}/{name}"
        with files.os_errors_as_ralph_errors(folder, "made", fix="set XDG_STATE_HOME elsewhere"):
            for place in (self.folder, folder):
                if os.path.islink(place):  # noqa: PTH114 - five times an iteration, and Path takes thrice as long
                    os.unlink(place)  # noqa: PTH108 - same
            if not os.path.isdir(folder):  # noqa: PTH112 - same
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.folder.chmod(0o700)
                os.mkdir(folder, 0o700)  # noqa: PTH102 - same
        return folder

    def new_transcript(self, run: str, iteration: int, prompt: str) -> Path:
        """The path for the output of an iteration; writes its prompt to a file beside that."""
        output = self.new_record(run, iteration, ".jsonl")
        path = output.with_suffix(".prompt.md")
        with files.os_errors_as_ralph_errors(path, "written"):
            path.write_bytes(prompt.encode(errors="surrogateescape"))
        return output

    def new_record(self, run: str, iteration: int, suffix: str = ".verify.log") -> Path:
        """The path for a command's output: a new one each time, even if an iteration is repeated or verified twice."""
        self._records_until_cleanup -= 1
        return self._unused_path("transcripts", f"{run}.{iteration:04d}", suffix)

    def _unused_path(self, folder: str, begins: str, ends: str) -> Path:
        """An unused path in that folder, numbered if needed."""
        base, number = f"{self._make_folder(folder)}/{begins}", 1
        path = base + ends
        while os.path.lexists(path):
            number += 1
            path = f"{base}-{number}{ends}"
        return Path(path)

    def make_room(self) -> None:
        """Now and then removes the oldest transcripts beyond `TRANSCRIPTS_BYTES`; none of them is being written now.

        Raises RalphError, before money is spent, if the disk is too full to record what the agent says.
        """
        folder = Path(self._make_folder("transcripts"))
        if self._records_until_cleanup <= 0:
            self._records_until_cleanup = _CLEANUP_EVERY
            with contextlib.suppress(OSError):  # an agent may have removed one
                spare_bytes = TRANSCRIPTS_BYTES - sum(one.stat().st_size for one in os.scandir(folder))
                found = sorted(os.scandir(folder), key=lambda one: one.stat().st_mtime) if spare_bytes < 0 else []
                while spare_bytes < 0:
                    oldest = found.pop(0)
                    Path(oldest).unlink()
                    spare_bytes += oldest.stat().st_size
        files.check_room(folder)

    def keep_copy(self, name: str, data: bytes) -> Path:
        """Stores displaced data that the user may want back, and returns its path; these copies are never removed."""
        path = self.free_kept_path(name)
        with files.os_errors_as_ralph_errors(path, "written"):
            files.replace_file(path, data)
        return path

    def free_kept_path(self, name: str) -> Path:
        """An unused path in `kept/`, named after the current time and `name`."""
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[-100:]
        return self._unused_path("kept", time.strftime("%Y%m%d-%H%M%S"), f"-{plain}")

    def edit_lock(self) -> Path:
        """The file to lock before editing the progress file."""
        return Path(self._make_folder("running"), "edit.lock")

    def save_iteration_note(self, run: str, mode: str, iteration: int, record: Path, before: bytes) -> None:
        """Notes that an iteration is running: until `remove_iteration_note`, a RALPH_DONE that it writes is unchecked.

        The note includes the text of the progress file, since a death during a save in place leaves the file empty.
        """
        self._begun = UnjudgedIteration(
            run=run,
            mode=mode,
            iteration=iteration,
            record=str(record),
            progress_path=os.path.realpath(self._progress_path),
            text=before.decode(errors="surrogateescape"),
        )
        self.save_note(self._begun)

    def save_progress_copy(self, text: bytes) -> None:
        """Updates the copy of the progress file's text that ralph vouches for, in case ralph dies."""
        if self._begun:
            self._begun.text = text.decode(errors="surrogateescape")
            self.save_note(self._begun)

    def remove_iteration_note(self) -> None:
        """Notes that the iteration's work was judged."""
        self._begun = None
        self.remove_note(UnjudgedIteration)

    def unjudged_iteration(self) -> UnjudgedIteration | None:
        """The last iteration, if it was never judged because ralph or the machine died."""
        return self.load_note(UnjudgedIteration)

    def save_note(self, note: Note) -> None:
        """Saves a note for the next run, atomically."""
        path = f"{self._make_folder('running')}/{note.file_name}"
        with contextlib.suppress(OSError):
            files.overwrite_file(f"{path}.new", note.encode().encode())
            os.replace(f"{path}.new", path)  # noqa: PTH105 - three times an iteration, and Path takes thrice as long

    def remove_note(self, kind: type[Note]) -> None:
        """Removes the note of that kind."""
        with contextlib.suppress(OSError):
            os.unlink(f"{self._make_folder('running')}/{kind.file_name}")  # noqa: PTH108 - same

    def load_note(self, kind: type[Kind]) -> Kind | None:
        """The note of that kind; None if there is none, or it is incomplete."""
        with contextlib.suppress(ValueError, TypeError):
            return kind.decode(files.read_or_empty(self.folder / "running" / kind.file_name).decode())
        return None
