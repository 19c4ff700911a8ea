"""Whether a repository is as it was: a look before, a look after, and the difference in words."""

import contextlib
import hashlib
import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from ralph import git
from ralph.look.checks import Check
from ralph.rehearsal.stage import walked

_NAMED = 5
"""Differences that are named."""
_QUESTIONS = {
    "HEAD": ("rev-parse", "HEAD", "--symbolic-full-name", "HEAD"),
    "branches and tags": ("for-each-ref", "--format=%(refname) %(objectname)"),
    "the stash": ("reflog", "show", "--format=%H", "refs/stash"),
    "git's settings": ("config", "--list", "--local"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a repository looks like."""

    said: dict[str, bytes]
    """What git says, by what it is about."""
    tree: git.Tree | None
    """The commit and the files that differ from it; without git, every file."""
    folders: dict[str, int]
    """What tells the files in each folder from others of these names, the ignored included."""


def look(top: Path) -> Look:
    """What it looks like now; takes no lock and writes nothing."""
    said = {about: git.run(*question, cwd=top).stdout for about, question in _QUESTIONS.items()}
    index = top / os.fsdecode(git.run("rev-parse", "--git-path", "index", cwd=top).stdout.rstrip(b"\n") or b".")
    said["the index"] = hashlib.sha256(index.read_bytes()).digest() if index.is_file() else b""
    return Look(said=said, tree=git.tree(top), folders=_folders(top))


def differences(before: Look, after: Look, top: Path) -> list[Check]:
    """What is not the same any more: parts of the repository and files; or folders, where git ignores what changed."""
    found = [about for about in before.said if before.said[about] != after.said[about]]
    if before.tree and after.tree:
        found += git.changed(before.tree, after.tree, top)
    names = {name for name in before.folders | after.folders if before.folders.get(name) != after.folders.get(name)}
    named = found or [f"{os.path.relpath(name, top)}/ (ignored by git)" for name in sorted(names)]
    return [_check(named, obstacle=bool(found))] if named else []


def _check(named: list[str], *, obstacle: bool) -> Check:
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    said = f"the repository is not as it was before the rehearsal: {', '.join(named[:_NAMED])}{more}"
    remedy = "if that was not you, a hook or the verify command reaches out of the copy: look what it does there"
    return Check("bad" if obstacle else "warning", said, remedy, subject="untouched")


def _folders(top: Path) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for entry in walked(top, git=False):
        with contextlib.suppress(FileNotFoundError):  # somebody works there meanwhile
            if not entry.is_dir(follow_symlinks=False):
                kind, folder = entry.stat(follow_symlinks=False), entry.path.removesuffix(entry.name)
                found[folder] ^= hash((entry.name, kind.st_mtime_ns, kind.st_size))
    return found
