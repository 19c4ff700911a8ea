"""What git is told about a repository beside its files: `.git/config`, `.git/info` and the hooks."""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.worktree import head, index
from ralph.worktree.disk import Seen, looks
from ralph.worktree.disk import read as read_file
from ralph.worktree.locks import unlock
from ralph.worktree.replacing import Keep, away, bring
from ralph.worktree.repository import Repository

if TYPE_CHECKING:
    from ralph.worktree.snapshot import Snapshot

_LEADS_TO_IT = (".git",)
"""A file in linked worktrees, submodules and wherever else the repository itself lies somewhere else."""
_NOT_SETTINGS = "info/refs"
"""What `git gc` writes for the simplest of all servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """The files that are no part of the tree, and steer git in it."""

    files: Mapping[tuple[Path, str], tuple[Seen, bytes]]
    """By the folder of git's, and the name in it."""


def read(repository: Repository) -> Configured:
    """How they are now."""
    found: dict[tuple[Path, str], tuple[Seen, bytes]] = {}
    where = dict.fromkeys((repository.common, repository.git_dir), ("config", "config.worktree", "info", "hooks"))
    for base, given in {repository.root: _LEADS_TO_IT, **where}.items():
        names = [name for one in given for name in _within(base, one)]
        for name, seen in looks(base, names).items():
            if name != _NOT_SETTINGS and (stat.S_ISLNK(seen.mode) or os.access(base / name, os.R_OK)):
                found[base, name] = (seen, read_file(base / name, seen.mode))
    return Configured(files=found)


def _within(base: Path, name: str) -> Iterator[str]:
    path = base / name
    if (name,) == _LEADS_TO_IT:
        yield from [name] if path.is_file() else []
        return
    if path.is_symlink() or not path.is_dir():
        yield name
        return
    for folder, inside, names in os.walk(path):
        links = [one for one in inside if (Path(folder) / one).is_symlink()]
        yield from (os.path.relpath(os.path.join(folder, one), base) for one in (*names, *links))  # noqa: PTH118


def settings_back(snapshot: "Snapshot", keep: Keep) -> tuple[str, ...]:
    """Makes git's settings, ignore rules and hooks what they were, and shows it the files again that were hidden.

    One line for people for each that was another; what was there is kept. To be called before anything else that asks
    git: with broken settings, it says nothing at all.
    """
    repository, was, now = snapshot.repository, snapshot.configured.files, read(snapshot.repository).files
    differing = [one for one in sorted(was.keys() | now.keys()) if not _same(was.get(one), now.get(one))]
    for base, name in sorted(differing, key=lambda one: one in was):  # the new first: they may be in the way
        _put_back(base, name, was.get((base, name)), keep)
    found = [name if (name,) == _LEADS_TO_IT else f".git/{name}" for _, name in differing]
    head.mend(snapshot)
    unlock(repository, snapshot.locks)
    shown = index.put_flags_back(repository, snapshot.index, index.readable(snapshot))
    return (*found, *(f"{name} (hidden from git, or shown)" for name in shown))


def _same(one: tuple[Seen, bytes] | None, other: tuple[Seen, bytes] | None) -> bool:
    return one is other or (
        one is not None and other is not None and (one[0].mode, one[1]) == (other[0].mode, other[1])
    )


def _put_back(base: Path, name: str, was: tuple[Seen, bytes] | None, keep: Keep) -> None:
    def keep_it(path: str, data: bytes) -> Path:
        return keep(f".git/{path}", data)

    if was is not None:
        bring(base, name, *was, keep_it)
    elif os.path.lexists(base / name):
        away(base, name, keep_it)
