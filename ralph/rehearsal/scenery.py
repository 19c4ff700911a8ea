"""The scenery of a dress rehearsal: the copy is made, if there is room, and every way back is cut."""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ralph.errors import RalphError
from ralph.process import signals
from ralph.rehearsal.severed import elsewhere, sever
from ralph.rehearsal.stage import Stage, copy, survey
from ralph.words import counted

_ROOM_BYTES = 20_000_000
"""What the rehearsal itself needs, beside the copy."""


def make(stage: Stage, say: Callable[[str], None]) -> list[str]:
    """Makes the copy; why not, for what could not be copied. Raises RalphError when there is no room."""
    found = survey(stage.original)
    size = found.size + sum(survey(folder).size for folder in elsewhere(stage, found.repositories))
    say(f"({_amount(size)}, {counted(found.files, 'file')})\n")
    _check_room(size, stage.folder)
    lost = copy(stage.original, stage.top) if signals.interrupted() is None else []
    if signals.interrupted() is None:
        _relink(stage, found.links)
        sever(stage, found.repositories)
    return lost


def _check_room(size: int, folder: Path) -> None:
    """Raises RalphError when so many bytes do not fit there, or when no program could be started there."""
    free = shutil.disk_usage(folder).free
    remedy = f"set TMPDIR to another folder than {folder.parent}"
    if free < size + size // 20 + _ROOM_BYTES:
        raise RalphError(
            f"a copy of the repository takes {_amount(size)}, and there are {_amount(free)} free; {remedy}", 1
        )
    if os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0):
        raise RalphError(f"no program can be started in {folder.parent}, which is mounted noexec; {remedy}", 1)


def _amount(size: int) -> str:
    """`3.2 GB`, `12 MB`, `4 kB`."""
    for unit, power in (("GB", 10**9), ("MB", 10**6)):
        if size >= power:
            return f"{size / power:.1f} {unit}" if size < 10 * power else f"{size // power} {unit}"
    return f"{-(-size // 1000)} kB"


def _relink(stage: Stage, links: tuple[str, ...]) -> None:
    """Points these links of the copy to where they lead to in the original: its counterpart if it has one."""
    for name in links:
        link = stage.top / name
        with contextlib.suppress(OSError):
            to = stage.counterpart(stage.original / name)
            link.unlink()
            link.symlink_to(to)
