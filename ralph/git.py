"""What changed in the repository: the last commit, lines, files."""

import contextlib
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ralph.process import call, somebody_runs
from ralph.turn import Commits

_TIMEOUT_S = 60.0
_FILES_AT_MOST = 50_000
"""Files looked at where no git knows them; somebody may plan in a home folder."""


def _git(*arguments: str) -> bytes | None:
    """What git prints, or None when it fails. It takes no lock it could do without: the agent may be in the middle."""
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = call(["git", *arguments], timeout_s=_TIMEOUT_S, env=env)
    except OSError:
        return None
    return done.stdout if done.code == 0 else None


def head(top: Path) -> str:
    """The commit the working tree is on; empty without a repository or before the first commit."""
    if not _may_be_in_repository(top):
        return ""
    return (_git("rev-parse", "--verify", "--quiet", "HEAD") or b"").decode().strip()


def _may_be_in_repository(top: Path) -> bool:
    """Seen in 20 microseconds; git takes a millisecond to say no, and the agent may make one at any time."""
    return "GIT_DIR" in os.environ or any((place / ".git").exists() for place in (top, *top.parents))


def commits(old: str, new: str) -> Commits:
    """What lies between two commits."""
    if old == new or not new:
        return Commits()
    count = _git("rev-list", "--count", f"{old}..{new}" if old else new)
    changed = _git("diff", "--no-ext-diff", "--shortstat", old or _EMPTY_TREE, new) or b""
    return Commits(
        count=int(count or 0), added=_number(rb"(\d+) insertion", changed), removed=_number(rb"(\d+) del", changed)
    )


_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's name for the tree with nothing in it."""


def _number(pattern: bytes, text: bytes) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The commit and every file that differs from it, with what tells one version of a file from another."""

    head: str
    files: dict[str, tuple[object, ...]]


def tree(top: Path) -> Tree:
    """What the working tree looks like now; without a repository, every file in it."""
    status = _git("-C", str(top), "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
    if status is None:
        walked = (Path(folder) / name for folder, _, found in os.walk(top) for name in found)
        names = [os.path.relpath(path, top) for path in itertools.islice(walked, _FILES_AT_MOST)]
        return Tree(head="", files={name: _version(top, name) for name in names})
    entries = [entry.decode(errors="surrogateescape") for entry in status.split(b"\0") if entry]
    return Tree(head=head(top), files={entry[3:]: (entry[:2], *_version(top, entry[3:])) for entry in entries})


def _version(top: Path, name: str) -> tuple[object, ...]:
    try:
        found = (top / name).lstat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_mode, found.st_ino)


def changed(before: Tree, after: Tree, top: Path) -> list[str]:
    """The files that differ between two looks, committed or not."""
    names = {name for name in before.files | after.files if before.files.get(name) != after.files.get(name)}
    if before.head != after.head:
        listed = _git("-C", str(top), "diff", "--name-only", "-z", before.head or _EMPTY_TREE, after.head) or b""
        names |= {name.decode(errors="surrogateescape") for name in listed.split(b"\0") if name}
    return sorted(names)


def index_lock() -> Path | None:
    """Where git locks the index of this working tree; None without a repository."""
    path = _git("rev-parse", "--git-path", "index.lock")
    return Path(os.fsdecode(path.rstrip(b"\n"))).absolute() if path else None


def identity(path: Path | None) -> object:
    """What tells this file from a later one of the same name; None when there is none."""
    try:
        found = path.lstat() if path else None
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns) if found else None


def remove_orphaned_lock(lock: Path | None, before: object) -> bool:
    """Removes a lock that appeared since `before` and that no git is left to own; an old one, or a person's, stays."""
    if lock is None or identity(lock) in (None, before) or somebody_runs("git", lock.parent.parent):
        return False
    with contextlib.suppress(OSError):
        lock.unlink()
        return True
    return False
