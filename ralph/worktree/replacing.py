"""Replacing what lies in a tree, where everything that has to go is kept first."""

import os
import shutil
import stat
from collections.abc import Callable, Collection
from pathlib import Path

from ralph.worktree.disk import Seen, holds, place, read, writable

Keep = Callable[[str, bytes], Path]


def bring(root: Path, name: str, seen: Seen, original: bytes | Path, keep: Keep) -> list[Path]:
    """Puts a file there as it was; where that was kept which lay in its place, or in the place of its folders."""
    path = root / name
    kept = _make_folders(root, name, keep)
    try:
        now = path.lstat().st_mode
    except FileNotFoundError:
        now = None
    if now is not None and _is_only_of_another_mode(path, now, seen, original):
        path.chmod(stat.S_IMODE(seen.mode))
        return kept
    if now is not None and stat.S_ISDIR(now):
        kept += away(root, name, keep)
    elif now is not None and not _is_the_same(path, now, original):
        kept += _kept(root, name, keep)
    place(path, seen, original)
    return kept


def _is_only_of_another_mode(path: Path, now: int, seen: Seen, original: bytes | Path) -> bool:
    return stat.S_ISREG(now) and stat.S_ISREG(seen.mode) and _is_the_same(path, now, original)


def _is_the_same(path: Path, now: int, original: bytes | Path) -> bool:
    if stat.S_ISREG(now) and not os.access(path, os.R_OK):
        path.chmod(stat.S_IMODE(now) | stat.S_IRUSR)
    return holds(path, now, original) if isinstance(original, Path) else read(path, now) == original


def away(root: Path, name: str, keep: Keep) -> list[Path]:
    """Removes what is there, a folder with all in it; where it was kept."""
    path = root / name
    if path.is_symlink() or not path.is_dir():
        kept = _kept(root, name, keep)
        writable(path.parent)
        path.unlink()
        return kept
    kept = []
    for folder, inside, files in os.walk(path):
        writable(Path(folder))
        links = [one for one in inside if (Path(folder) / one).is_symlink()]
        for one in (*files, *links):
            kept += _kept(root, os.path.relpath(os.path.join(folder, one), root), keep)  # noqa: PTH118 - a string
    writable(path.parent)
    shutil.rmtree(path)
    return kept


def whole_away(root: Path, name: str, keep: Keep) -> Path:
    """Moves a folder away as it is; where to."""
    aside = keep(name, b"")
    aside.unlink()
    writable((root / name).parent)
    shutil.move(root / name, aside)
    return aside


def _kept(root: Path, name: str, keep: Keep) -> list[Path]:
    path = root / name
    mode = path.lstat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        return []  # a pipe or a socket holds nothing
    if stat.S_ISREG(mode) and not os.access(path, os.R_OK):
        path.chmod(stat.S_IMODE(mode) | stat.S_IRUSR)
    return [keep(name, read(path, mode))]


def _make_folders(root: Path, name: str, keep: Keep) -> list[Path]:
    """Makes the folders above it, real ones: what else has their names goes away."""
    kept, at = [], root
    for part in Path(name).parts[:-1]:
        writable(at)
        at /= part
        if os.path.lexists(at) and (at.is_symlink() or not at.is_dir()):
            kept += away(root, os.path.relpath(at, root), keep)
        at.mkdir(exist_ok=True)
    writable(at)
    return kept


def prune(root: Path, name: str, known: Collection[str]) -> None:
    """Removes the folders above it that are empty now, and were nobody's before."""
    folder = name.rpartition("/")[0]
    while folder and folder not in known:
        try:
            (root / folder).rmdir()
        except OSError:
            return
        folder = folder.rpartition("/")[0]
