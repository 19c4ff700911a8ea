"""Whether a repository is as it was: a look before, a look after, and the difference in words."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from ralph import git
from ralph.process import call

_GIT_S = 60.0
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


def look(top: Path) -> Look:
    """What it looks like now; takes no lock and writes nothing."""
    said = {about: _git(top, *question) for about, question in _QUESTIONS.items()}
    index = top / os.fsdecode(_git(top, "rev-parse", "--git-path", "index").rstrip(b"\n") or b".")
    said["the index"] = hashlib.sha256(index.read_bytes()).digest() if index.is_file() else b""
    return Look(said=said, tree=git.tree(top))


def differences(before: Look, after: Look, top: Path) -> list[str]:
    """What is not the same any more: parts of the repository, then files."""
    found = [about for about in before.said if before.said[about] != after.said[about]]
    if before.tree and after.tree:
        found += git.changed(before.tree, after.tree, top)
    return found


def _git(top: Path, *question: str) -> bytes:
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        return call(["git", *question], timeout_s=_GIT_S, env=env, cwd=str(top)).stdout
    except OSError:
        return b""
