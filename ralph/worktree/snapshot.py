"""How a working tree is at one moment, and what is not so any more later."""

import hashlib
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.errors import RalphError
from ralph.worktree import beyond, configured, head, index, jj, locks, originals
from ralph.worktree.configured import Configured
from ralph.worktree.disk import Seen, holds, looks, read
from ralph.worktree.head import Head
from ralph.worktree.ignoring import Ignoring, ignoring
from ralph.worktree.index import Index
from ralph.worktree.new_files import nested, new_files
from ralph.worktree.own import Own
from ralph.worktree.repository import Repository
from ralph.worktree.status import status


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """How files, index and HEAD were. It can put them back until the second snapshot after it is taken."""

    repository: Repository
    store: Path
    own: Own
    head: Head
    index: Index
    raw_index: bytes | None
    index_mtime_ns: int
    files: Mapping[str, Seen]
    """All that are tracked, or neither tracked nor ignored."""
    copies: Mapping[str, Path]
    """What those files held that no object of git's holds to the byte."""
    objects: Mapping[str, Path]
    """What was staged and is in no commit."""
    ignoring: Ignoring
    nested: frozenset[str]
    """Folders with a repository of their own; what is in those that are not tracked is left alone."""
    configured: Configured
    locks: Mapping[Path, object]
    older: frozenset[Path]
    """The copies of the snapshot before."""
    jj: jj.Operation | None
    ways_out: Mapping[str, str]
    """The last, since what ralph noted before 2026-11-22 ends above it."""

    @property
    def root(self) -> Path:
        """The top folder of the repository, which all names are relative to."""
        return self.repository.root


def take(top: Path, store: Path, own: Collection[Path], before: Snapshot | None = None) -> Snapshot:
    """How files, index and HEAD are now, in the whole working tree around `top`.

    What no commit has is copied to `store`, a private folder; with `before`, only what has changed since is. `own` are
    ralph's files and folders, which are never looked at.
    """
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    repository = before.repository if before else jj.repository_for(top, store)
    if repository is None:
        raise RalphError(
            f"{top} is in no git or jj repository, so that nothing could be put back; git init, and commit"
        )
    mine = Own(repository.root, own)
    raw_index, index_mtime_ns = index.raw(repository)
    entries = before.index if before and raw_index == before.raw_index else index.read(repository)
    said = status(repository)
    tracked = [name for name, entry in entries.items() if entry.stages[0][0] != "160000"]
    untracked = [name for name in said.untracked if not name.endswith("/")]
    files = looks(repository.root, (name for name in (*tracked, *untracked) if name not in mine))
    found = originals.find(repository, store, said, entries=entries, files=files, before=before)
    snapshot = Snapshot(
        repository=repository,
        store=store,
        own=mine,
        head=head.read(repository),
        index=entries,
        raw_index=raw_index,
        index_mtime_ns=index_mtime_ns,
        files={name: seen for name, seen in files.items() if name not in found.vanished} if found.vanished else files,
        copies=found.copies,
        objects=found.objects,
        ignoring=ignoring(repository, (*said.ignored, *(name for name in said.untracked if name.endswith("/")))),
        nested=nested(repository.root, files),
        configured=configured.read(repository),
        locks=locks.seen(repository),
        ways_out=beyond.ways_out(repository),
        older=frozenset((*before.copies.values(), *before.objects.values()) if before else ()),
        jj=jj.operation(repository.root),
    )
    head.pin(repository, snapshot.head, before.head if before else None)
    if before:
        _tidy(before.older, {*snapshot.older, *found.copies.values(), *found.objects.values()})
    return snapshot


def _tidy(old: Iterable[Path], used: Collection[Path]) -> None:
    for path in old:
        if path not in used:
            path.unlink(missing_ok=True)


def changed(snapshot: Snapshot) -> tuple[str, ...]:
    """The files that are not as they were, by names relative to the top folder of the repository.

    Content, mode, kind, what is staged and what is committed; new, gone, both names of a renamed one. Not ignored ones,
    by the rules as they were.
    """
    repository = snapshot.repository
    entries = index.readable(snapshot)
    names = {*snapshot.files, *snapshot.index, *entries}
    now = looks(repository.root, snapshot.files.keys() | snapshot.index.keys())
    found = {
        name
        for name in names
        if snapshot.index.get(name) != entries.get(name) or is_changed(snapshot, name, now.get(name))
    }
    found |= set(new_files(snapshot, entries))
    found |= head.committed(repository, snapshot.head)
    return tuple(sorted(name for name in found if name not in snapshot.own))


def is_changed(snapshot: Snapshot, name: str, now: Seen | None) -> bool:
    """Whether the file itself is another one than it was: what it holds, its mode, its kind, whether it is there."""
    was = snapshot.files.get(name)
    if was is None or now is None:
        return was is not now and (was is not None or name in snapshot.index)
    if was.sure and was == now:
        return False
    return was.mode != now.mode or was.size != now.size or not _holds_the_same(snapshot, name, now)


def _holds_the_same(snapshot: Snapshot, name: str, now: Seen) -> bool:
    path = snapshot.root / name
    if name in snapshot.copies:
        return holds(path, now.mode, snapshot.copies[name])
    if name not in snapshot.index or not (stat.S_ISREG(now.mode) or stat.S_ISLNK(now.mode)):
        return False
    oid = snapshot.index[name].stages[0][1]
    return _object_name(read(path, now.mode), snapshot.repository.id_length) == oid


def _object_name(data: bytes, length: int) -> str:
    algorithm = "sha256" if length > 40 else "sha1"
    return hashlib.new(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
