"""A finished transcript without what stands in it twice."""

import contextlib
import os
from pathlib import Path

_PART, _WHOLE = b'{"type":"stream_event",', b'{"type":"assistant",'
"""How claude begins the lines of a message's parts, and of what came whole."""


def shorten(path: Path) -> None:
    """Takes the parts of messages out of a transcript, up to the last that came whole; of one that broke off they stay.

    On a terminal claude prints each answer a second time, in parts, so that its words can be seen as they come
    (measured: 9 to 21 times as many bytes); what they say stands there whole. Whoever has the file open keeps reading
    the old one. Leaves the file alone when the disk is full.
    """
    new = path.with_suffix(".short")
    with contextlib.suppress(OSError):
        try:
            if _has_copied(path, new, _last_whole(path)):
                os.utime(new, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
                new.chmod(path.stat().st_mode)
                new.rename(path)
        finally:
            new.unlink(missing_ok=True)


def _last_whole(path: Path) -> int:
    """Where the last of them ends."""
    at = last = 0
    with path.open("rb") as file:
        for line in file:
            at += len(line)
            last = at if line.startswith(_WHOLE) else last
    return last


def _has_copied(path: Path, new: Path, last: int) -> bool:
    """Whether something was left out."""
    at, left_out = 0, False
    with path.open("rb") as file, new.open("wb") as short:
        for line in file:
            at += len(line)
            if at <= last and line.startswith(_PART):
                left_out = True
            else:
                short.write(line)
    return left_out
