"""What git says of the working tree in one look."""

import os
from dataclasses import dataclass

from ralph.worktree.repository import Repository

_FIELDS = {"1": 7, "u": 9}
"""How many fields stand before the name in a line of that kind of `git status --porcelain=v2`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The names that git tells something of; those of folders end in a slash."""

    dirty: frozenset[str]
    """The working tree has something else than the index."""
    staged: frozenset[str]
    """The index has something else than HEAD."""
    untracked: tuple[str, ...]
    ignored: tuple[str, ...]


def status(repository: Repository, *options: str) -> Status:
    """What differs from the index and from HEAD, and what is in neither."""
    # matching: a folder whose files are all ignored is not named in their place, since the next one may not be
    asked = ["--porcelain=v2", "-z", "--untracked-files=all", "--ignored=matching", "--no-renames"]
    printed = repository.run(*options, "status", *asked, "--ignore-submodules=all")
    dirty, staged, untracked, ignored = set(), set(), [], []
    for entry in os.fsdecode(printed).split("\0"):
        kind, _, rest = entry.partition(" ")
        if kind == "?":
            untracked.append(rest)
        elif kind == "!":
            ignored.append(rest)
        elif kind in _FIELDS:
            codes, *_, name = rest.split(" ", _FIELDS[kind])
            if codes[1] != ".":
                dirty.add(name)
            if codes[0] != ".":
                staged.add(name)
    return Status(dirty=frozenset(dirty), staged=frozenset(staged), untracked=tuple(untracked), ignored=tuple(ignored))
