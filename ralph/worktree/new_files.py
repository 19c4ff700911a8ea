"""Files that were not there before, however well they hide."""

import os
import secrets
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.worktree import originals
from ralph.worktree.disk import parents
from ralph.worktree.ignoring import RULES, by_old_rules, is_cache, was_known
from ralph.worktree.index import Index
from ralph.worktree.status import status

if TYPE_CHECKING:
    from ralph.worktree.snapshot import Snapshot


def nested(root: Path, files: Iterable[str]) -> frozenset[str]:
    """The folders that have a repository of their own."""
    folders = parents(files) - {""}
    return frozenset(folder for folder in folders if os.path.lexists(f"{root}/{folder}/.git"))


def is_repository_within(path: Path) -> bool:
    """Whether it is a folder with a repository of its own, or that repository."""
    folder = path.is_dir() and not path.is_symlink()
    return folder and (path.name == ".git" or os.path.lexists(path / ".git"))


def new_files(snapshot: "Snapshot", entries: Index) -> Iterator[str]:
    """The files that were not there, and are not ignored by the rules of that time."""
    said = status(snapshot.repository)
    met = [
        name
        for name in (*said.untracked, *said.ignored)
        if name not in snapshot.files and not was_known(name, snapshot.ignoring.names)
    ]
    planted = nested(snapshot.root, {*snapshot.files, *entries}) - snapshot.nested
    met += [f"{folder}/.git" for folder in planted]
    met += [name for name in entries if name not in snapshot.index and name not in snapshot.files]
    candidates = {name for name in met if name not in snapshot.own}
    single = {one for name in candidates - ignored_once(snapshot, candidates) for one in _files_in(snapshot.root, name)}
    spared = ignored_once(snapshot, single - candidates) | _of_caches(snapshot, single)
    yield from (name for name in single - spared if name not in snapshot.files)


def ignored_once(snapshot: "Snapshot", names: Collection[str]) -> set[str]:
    """Those of the names that the rules of that time ignore."""
    if not names:
        return set()
    rules = [name for name in snapshot.files if name.rpartition("/")[2] == RULES]
    # git follows no link to find rules
    texts = originals.texts(snapshot, [name for name in rules if not stat.S_ISLNK(snapshot.files[name].mode)])
    folder = snapshot.store / f"rules-{secrets.token_hex(4)}"
    try:
        return by_old_rules(snapshot.ignoring, texts, names, folder)
    finally:
        originals.discard(folder)


def _files_in(root: Path, name: str) -> list[str]:
    """The file of that name; where it is a folder, all files in it, but a repository within as one."""
    path = root / name.rstrip("/")
    if path.is_symlink() or not path.is_dir() or is_repository_within(path):
        return [name.rstrip("/")]
    found = []
    for folder, inside, names in os.walk(path):
        within = [one for one in inside if is_repository_within(Path(folder) / one)]
        found += [os.path.relpath(os.path.join(folder, one), root) for one in within]  # noqa: PTH118
        inside[:] = [one for one in inside if one not in within]
        links = [one for one in inside if os.path.islink(os.path.join(folder, one))]  # noqa: PTH114, PTH118 - strings
        found += [os.path.relpath(os.path.join(folder, one), root) for one in (*names, *links)]  # noqa: PTH118
    return found


def _of_caches(snapshot: "Snapshot", names: Collection[str]) -> set[str]:
    """Those that lie in a folder which is wholly new, brings its own rules and is marked as some tool's own."""
    known = parents((*snapshot.files, *snapshot.index))
    new = {folder for folder in parents(names) - known if f"{folder}/{RULES}" in names}
    caches = tuple(f"{folder}/" for folder in new if is_cache(snapshot.root / folder))
    return {name for name in names if name.startswith(caches)} if caches else set()
