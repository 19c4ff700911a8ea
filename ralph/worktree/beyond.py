"""What of a repository leads out of it: git itself writes through links, so that nobody may have put one there."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ralph.worktree.repository import Repository

_LEAVES = ("refs", "logs")
"""Folders of git's that have folders, in all of which it writes."""
_COMMON = "commondir"
"""A file that names the folder which has all but HEAD and the index."""


def ways_out(repository: Repository) -> dict[str, str]:
    """Where the folders of the repository really are, and where each link in what git writes to leads."""
    found = {}
    for base in dict.fromkeys((repository.root, repository.git_dir, repository.common)):
        if os.path.lexists(base):
            found[str(base)] = os.path.realpath(base) if base.is_dir() else f"{base} (no folder)"
    for base in dict.fromkeys((repository.git_dir, repository.common)):
        with contextlib.suppress(OSError):
            found[str(base / _COMMON)] = os.fsdecode((base / _COMMON).read_bytes().strip())
        found |= {link.path: os.readlink(link.path) for link in _links(base)}  # noqa: PTH115 - a string
    return found


def strayed(repository: Repository, before: Mapping[str, str]) -> str:
    """What leads out of the repository and did not before, in words; empty when nothing does.

    Only looks are taken, and no git is run.
    """
    new = [(name, to) for name, to in ways_out(repository).items() if before.get(name) != to]
    if not new:
        return ""
    name, to = new[0]
    what = "the working tree" if name == str(repository.root) else os.path.relpath(name, repository.root)
    return f"{what} leads to {to} now, where git would write; nothing was put back: make it what it was"


def _links(folder: Path) -> Iterator["os.DirEntry[str]"]:
    """Those in a folder of git's, in its folders of objects, and wherever refs and their logs are."""
    for entry in _entries(folder):
        if entry.is_symlink():
            yield entry
        elif entry.name == "objects":
            yield from (one for one in _entries(entry.path) if one.is_symlink())
        elif entry.name in _LEAVES:
            yield from _links_below(entry.path)


def _links_below(folder: str) -> Iterator["os.DirEntry[str]"]:
    for entry in _entries(folder):
        if entry.is_symlink():
            yield entry
        elif entry.is_dir(follow_symlinks=False):
            yield from _links_below(entry.path)


def _entries(folder: str | Path) -> list["os.DirEntry[str]"]:
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        return list(found)
    return []
