"""Files as they lie on the disk: telling their versions apart, reading, copying and replacing them.

No name is ever followed through a symbolic link: what a folder was, an agent may have made a link out of the tree.
"""

import contextlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_TICK_NS = 20_000_000
"""Clocks of files tick every 4 to 10 ms: a change right after a look may leave them all as they were."""
_CHUNK = 1 << 20
_FRESH = -1
_SCRATCH = re.compile(r"(?:.*/)?\.[0-9a-f]{16}\.ralph", re.DOTALL)


class Seen(NamedTuple):
    """What tells one version of a file from the next; the change time cannot be set by a program."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @property
    def sure(self) -> bool:
        """Whether an equal look later means an unchanged file."""
        return self.ctime_ns != _FRESH


def looks(root: Path, names: Iterable[str]) -> dict[str, Seen]:
    """How the files of these names are, those that are there; folders are no files."""
    base, lstat, is_folder = f"{root}/", os.lstat, stat.S_ISDIR
    real = {"": True}
    sure = time.time_ns() - _TICK_NS
    found = {}
    for name in names:
        folder = name.rpartition("/")[0]
        if not (real[folder] if folder in real else _is_real(base, folder, real)):
            continue
        try:
            now = lstat(base + name)
        except OSError:
            continue
        if not is_folder(now.st_mode):
            changed_ns = now.st_ctime_ns if now.st_ctime_ns < sure else _FRESH
            found[name] = Seen(now.st_mode, now.st_size, now.st_mtime_ns, changed_ns, now.st_ino)
    return found


def _is_real(base: str, folder: str, real: dict[str, bool]) -> bool:
    """Whether it is a folder, and all above it too, not a link to one."""
    if folder not in real:
        above = _is_real(base, folder.rpartition("/")[0], real)
        try:
            real[folder] = above and stat.S_ISDIR(os.lstat(base + folder).st_mode)
        except OSError:
            real[folder] = False
    return real[folder]


def parents(names: Iterable[str]) -> set[str]:
    """All folders that these files lie in; the top is the empty name."""
    found = {""}
    for name in names:
        folder = name.rpartition("/")[0]
        while folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def read(path: Path, mode: int) -> bytes:
    """What a file of that mode holds; a link holds where it leads, a pipe nothing."""
    if stat.S_ISLNK(mode):
        return os.fsencode(path.readlink())
    if not stat.S_ISREG(mode):
        return b""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read()


def copy(path: Path, mode: int, folder: Path) -> Path:
    """A private file in `folder` with what that one holds; where the file system can, they share their blocks."""
    target = folder / secrets.token_hex(8)
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
        if not stat.S_ISREG(mode):
            new.write(read(path, mode))
            return target
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as old:
            if not _cloned(old.fileno(), new.fileno()):
                shutil.copyfileobj(old, new, _CHUNK)
    return target


def _cloned(old: int, new: int) -> bool:
    """Whether the kernel copied it all, which needs no memory, and no room on file systems that share blocks."""
    if not hasattr(os, "copy_file_range"):
        return False
    try:
        while os.copy_file_range(old, new, 1 << 30):
            pass
    except OSError:
        os.lseek(old, 0, os.SEEK_SET)
        os.ftruncate(new, 0)
        os.lseek(new, 0, os.SEEK_SET)
        return False
    # some file systems copy nothing of a file they have just written, and say that all is well
    return os.fstat(old).st_size == os.fstat(new).st_size


def holds(path: Path, mode: int, original: Path) -> bool:
    """Whether a file of that mode holds what the private copy holds."""
    if not stat.S_ISREG(mode):
        return read(path, mode) == original.read_bytes()
    with (
        os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as one,
        original.open("rb") as other,
    ):
        if os.fstat(one.fileno()).st_size != os.fstat(other.fileno()).st_size:
            return False
        while chunk := one.read(_CHUNK):
            if chunk != other.read(_CHUNK):
                return False
    return True


def place(path: Path, seen: Seen, data: bytes | Path) -> None:
    """Puts a file as it was seen where `path` is, in one step; a link there is replaced, not followed."""
    new = path.parent / f".{secrets.token_hex(8)}.ralph"
    try:
        if stat.S_ISLNK(seen.mode):
            new.symlink_to(os.fsdecode(data.read_bytes() if isinstance(data, Path) else data))
        else:
            _write(new, data)
            new.chmod(stat.S_IMODE(seen.mode))
        os.utime(new, ns=(seen.mtime_ns, seen.mtime_ns), follow_symlinks=False)
        new.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()


def is_scratch(name: str) -> bool:
    """Whether `place` calls a file so until it is whole."""
    return _SCRATCH.fullmatch(name) is not None


def _write(path: Path, data: bytes | Path) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        if isinstance(data, bytes):
            file.write(data)
        else:
            with data.open("rb") as old:
                shutil.copyfileobj(old, file, _CHUNK)


def writable(folder: Path) -> None:
    """Makes a folder one that this user can write in, where its mode forbids that."""
    if not os.access(folder, os.W_OK | os.X_OK):
        with contextlib.suppress(PermissionError):
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | 0o700)
