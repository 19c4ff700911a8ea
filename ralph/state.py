"""What ralph leaves behind, outside of the working directory: transcripts, and what it displaced."""

import binascii
import contextlib
import functools
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import files
from ralph.errors import RalphError

if TYPE_CHECKING:
    from ralph.process import Files

TRANSCRIPTS_BYTES = 200_000_000
"""Finished transcripts kept for one plan; the oldest go first."""
_FREE_BYTES = 1_000_000


class State:
    """The folder `<plan>-<hash of the progress file's path>` under the state home, 0700, made when first needed."""

    def __init__(self, name: str, progress_path: Path) -> None:
        self._name = name
        self._progress_path = progress_path

    @functools.cached_property
    def folder(self) -> Path:
        """Its path."""
        path = os.fsencode(os.path.realpath(self._progress_path))
        plain = re.sub(r"[^\w.-]+", "_", self._name.encode("ascii", "replace").decode())[:40]
        return files.state_home() / f"{plain}-{binascii.crc32(path):08x}"

    def _sub(self, name: str) -> Path:
        folder = self.folder / name
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.chmod(0o700)
        except OSError as error:
            raise RalphError(f"{folder}: cannot be made: {error.strerror}; set XDG_STATE_HOME elsewhere", 1) from error
        return folder

    def transcripts(self, run: str, iteration: int, prompt: str) -> "Files":
        """Where the prompt of an iteration is, and where its output and complaints shall go; the prompt is written."""
        from ralph.process import Files  # noqa: PLC0415 - only a run pays for it

        stem = self._sub("transcripts") / f"{run}-{iteration:04d}"
        made = Files(
            prompt=stem.with_suffix(".prompt.md"), output=stem.with_suffix(".jsonl"), errors=stem.with_suffix(".err")
        )
        try:
            made.prompt.write_bytes(prompt.encode(errors="surrogateescape"))
        except OSError as error:
            raise RalphError(f"{made.prompt}: cannot be written: {error.strerror}", 1) from error
        return made

    def check_room(self) -> None:
        """Raises RalphError before money is spent when the disk is too full to record what the agent says."""
        folder = self._sub("transcripts")
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize < _FREE_BYTES:
            raise RalphError(f"{folder}: the disk is full; free some space, or set XDG_STATE_HOME elsewhere", 1)

    def keep(self, name: str, data: bytes) -> Path:
        """Stores what was displaced and a person may want; never rotated."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        folder = self._sub("kept")
        path = next(p for n in range(10_000) if not (p := folder / f"{stamp}-{n}-{name[:100]}").exists())
        files.replace(path, data, mode=0o600)
        return path

    def begin(self) -> None:
        """Notes that an iteration runs: a RALPH_DONE it writes is not checked before `end`."""
        with contextlib.suppress(OSError):
            (self._sub("running") / "iteration").write_bytes(b"1")

    def end(self) -> None:
        """Notes that what the iteration wrote was judged."""
        with contextlib.suppress(OSError):
            (self._sub("running") / "iteration").write_bytes(b"")

    def died(self) -> bool:
        """Whether the last iteration was never judged, because ralph or the machine died."""
        with contextlib.suppress(OSError):
            return (self.folder / "running" / "iteration").stat().st_size > 0
        return False

    def rotate(self) -> None:
        """Removes the oldest transcripts beyond the bound."""
        folder = self.folder / "transcripts"
        with contextlib.suppress(OSError):
            excess = sum(entry.stat().st_size for entry in os.scandir(folder)) - TRANSCRIPTS_BYTES
            for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime) if excess > 0 else ():
                if excess <= 0:
                    return
                excess -= path.stat().st_size
                path.unlink()
