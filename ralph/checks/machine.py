"""The machine: room on its disks, folders that can be written to."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ralph.checks.check import Check

_LITTLE_BYTES = 1_000_000_000
"""A night of transcripts, builds and the agent's own notes; a part of the disk would be a lot on a large one."""
_NO_BYTES = 50_000_000


def disk(folders: Iterable[Path]) -> Check:
    """Whether each of the disks that these folders are on, or will be on, has a gigabyte left."""
    room = {_device(place): (_free_bytes(place), folder) for folder in folders for place in [existing(folder)]}
    least, where = min(room.values())
    if least >= _LITTLE_BYTES:
        return Check(name="disk", ok=True, said=f"{_size(least)} free at least, in {where}")
    said = f"{_size(least)} free in {where}"
    remedy = "free some space; who cannot write works for nothing"
    return Check(name="disk", ok=False, said=said, remedy=remedy, obstacle=least < _NO_BYTES)


def existing(folder: Path) -> Path:
    """The folder, or the nearest one above that is there."""
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if os.path.lexists(place))


def writable(name: str, folder: Path, remedy: str) -> Check:
    """Whether files can be made in the folder, or the folder itself."""
    place = existing(folder)
    if not place.is_dir():
        return Check(name=name, ok=False, said=f"{place} is no folder", remedy=remedy)
    if not os.access(place, os.W_OK | os.X_OK):
        return Check(name=name, ok=False, said=f"{place} cannot be written to", remedy=remedy)
    return Check(name=name, ok=True, said=f"{folder} can be written to")


def temporary() -> Check:
    """Whether temporary files can be made, and how many; the agent's work is elsewhere."""
    folder = Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - Python's own answer would write a file
    there = writable("temporary", folder, "set TMPDIR elsewhere")
    return replace(disk([folder]), name="temporary", obstacle=False) if there.ok else there


def _device(place: Path) -> int:
    return place.stat().st_dev


def _free_bytes(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= _LITTLE_BYTES else f"{count / 1e6:.0f} MB"
