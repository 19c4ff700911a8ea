"""What there is in a project at a path: of the project alone, wherever links lead."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_CHUNK = 1 << 20


class NotSoError(Exception):
    """What is the case instead, as the rest of a sentence that begins with the path."""


def find(project: Path, path: str) -> Path:
    """The file or folder at this path, its links followed. Raises NotSoError."""
    try:
        top = project.resolve(strict=True)
        target = (top / path).resolve()
        if not target.is_relative_to(top):
            raise NotSoError("is a link that leads out of the project")
        kind = target.stat().st_mode
    except FileNotFoundError:
        raise NotSoError("does not exist") from None
    except (OSError, RuntimeError) as error:  # before Python 3.13 links in a circle are a RuntimeError
        raise NotSoError(f"cannot be found: {getattr(error, 'strerror', None) or 'its links form a circle'}") from error
    if stat.S_ISDIR(kind) or (stat.S_ISREG(kind) and not path.endswith("/")):
        return target
    raise NotSoError("is no folder" if path.endswith("/") else "is no file")


def search(project: Path, path: str, holds: str, over: Callable[[], bool]) -> bool:
    """Whether the file was read to where the text stands; false when `over` said so before. Raises NotSoError.

    Nothing is waited for: a pipe, put there in between, might have nobody at its other end.
    """
    target = find(project, path)
    try:
        fd = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(fd, "rb", buffering=0) as file:
            return _read_to(file, holds.encode(errors="surrogateescape"), over)
    except OSError as error:
        raise NotSoError(f"cannot be read: {error.strerror}") from error


def _read_to(file: BinaryIO, wanted: bytes, over: Callable[[], bool]) -> bool:
    kept = b""
    while not over():
        more = file.read(_CHUNK)
        if wanted in (kept := kept + more):
            return True
        if not more:
            raise NotSoError(f"does not contain `{wanted.decode(errors='replace')}`")
        kept = kept[-len(wanted) + 1 :] if len(wanted) > 1 else b""
    return False
