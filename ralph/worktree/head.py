"""HEAD and the branch it is on: how they are, and putting them back with what came after kept under a ref."""

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ralph import files
from ralph.errors import RalphError
from ralph.worktree import index, jj, originals, unfinished
from ralph.worktree.kept import has, keep_commit
from ralph.worktree.locks import unlock
from ralph.worktree.repository import Repository
from ralph.worktree.unfinished import BEGUN

if TYPE_CHECKING:
    from ralph.worktree.snapshot import Snapshot

_PIN = "refs/worktree/ralph/before"
"""Holds the commit of the newest snapshot, so that no pruning takes it while nothing else may name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Where HEAD is."""

    ref: str
    """The branch it is on, as `refs/heads/main`; empty when it is on none."""
    commit: str
    """Empty before the first."""
    raw: bytes = b""
    """The file itself."""
    tips: frozenset[str] = frozenset()
    """What all refs of the repository name: what leads there is nobody's news."""
    begun: frozenset[str] = frozenset()
    """The files of something unfinished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What became of HEAD meanwhile."""

    kept_ref: str
    """Where the new commits are kept; empty when there are none."""
    commits: int
    rewritten: bool
    """The commit of before was not in the history of what was there."""
    ended: tuple[str, ...] = ()
    """What was begun and not finished: merge, rebase, cherry-pick, revert, bisect."""


def read(repository: Repository) -> Head:
    """Where it is now."""
    printed = repository.call("for-each-ref", "--format=%(objectname) %(HEAD) %(refname)").stdout
    refs = [line.split(" ", 2) for line in os.fsdecode(printed).splitlines()]
    commit, ref = next(((oid, name) for oid, here, name in refs if here == "*"), None) or _where(repository)
    path = repository.git_dir / "HEAD"
    return Head(
        ref=ref,
        commit=commit,
        raw=path.read_bytes() if path.is_file() else b"",
        tips=frozenset(oid for oid, *_ in refs),
        begun=frozenset(unfinished.begun(repository)),
    )


def _where(repository: Repository) -> tuple[str, str]:
    """The commit and the branch; one call tells both, unless HEAD is on no branch or before its first commit."""
    lines = repository.ask("rev-parse", "HEAD", "--symbolic-full-name", "HEAD").splitlines()
    if len(lines) == 2:
        return lines[0], "" if lines[1] == "HEAD" else lines[1]
    return "", repository.ask("symbolic-ref", "--quiet", "HEAD")


def pin(repository: Repository, now: Head, before: Head | None) -> None:
    """Sees to it that the commit of this moment stays, whatever becomes of its branch."""
    if now.commit and (before is None or before.commit != now.commit):
        repository.run("update-ref", "--no-deref", _PIN, now.commit)


def forget(snapshot: "Snapshot") -> None:
    """Lets go of that commit again, when nothing will be put back any more."""
    snapshot.repository.call("update-ref", "-d", _PIN)


def committed(repository: Repository, before: Head) -> set[str]:
    """The files that HEAD has otherwise than it had."""
    now, _ = _where(repository)
    if now == before.commit:
        return set()
    empty = repository.ask("hash-object", "-t", "tree", "/dev/null")
    asked = ["--name-only", "--no-renames", "-r", "-z", before.commit or empty, now or empty]
    return {os.fsdecode(name) for name in repository.call("diff-tree", *asked).stdout.split(b"\0") if name}


def head_back(snapshot: "Snapshot", ref_name: str) -> Moved | None:
    """Puts HEAD and its branch where they were, and the index with them; None when nothing moved.

    The files stay as they are, so that what was committed shows as uncommitted. The commits are kept under
    `refs/ralph/kept/`; what is unfinished, a merge or a rebase, is ended.
    """
    repository, was = snapshot.repository, snapshot.head
    unlock(repository, snapshot.locks)
    mend(snapshot)
    by_jj = jj.back(snapshot.jj, ref_name)
    commit, ref = _where(repository)
    tip = was.commit
    if was.ref:
        tip = commit if ref == was.ref else repository.ask("rev-parse", "--verify", "--quiet", was.ref)
    begun = set(unfinished.begun(repository)) - was.begun
    if (ref, commit, tip) == (was.ref, was.commit, was.commit) and not begun:
        return None if by_jj is None else Moved(kept_ref=by_jj.kept, commits=by_jj.commits, rewritten=False)
    if was.commit and not has(repository, was.commit):
        raise RalphError(f"{repository.root}: the commit {was.commit[:10]}, on which the iteration began, is gone", 1)
    moved = _moved(repository, was, [one for one in dict.fromkeys((commit, tip)) if one], ref_name)
    ended = dict.fromkeys(BEGUN[name] for name in begun if name in BEGUN)
    unfinished.end(repository, begun, ref_name)
    _put(repository, was, ref_name)
    originals.give_back(snapshot, snapshot.index.values())
    index.replace(repository, snapshot.raw_index, snapshot.index_mtime_ns)
    return replace(moved, ended=tuple(ended))


def mend(snapshot: "Snapshot") -> None:
    """Gives the repository a HEAD that git can read: without one it is none."""
    path = snapshot.repository.git_dir / "HEAD"
    if path.is_file() and not path.is_symlink() and path.read_bytes() == snapshot.head.raw:
        return
    if snapshot.head.raw and not snapshot.repository.ask("rev-parse", "--git-dir"):
        if path.is_symlink():
            path.unlink()
        files.replace(path, snapshot.head.raw)


def _moved(repository: Repository, was: Head, tips: list[str], ref_name: str) -> Moved:
    """What the new tips hold that no ref led to, and where it is kept."""
    old = [f"^{tip}" for tip in {*was.tips, was.commit} if tip]
    asked = ["rev-list", "--count", "--ignore-missing", "--stdin"]
    new = {tip: int(repository.run(*asked, stdin="\n".join([tip, *old]).encode())) for tip in tips}
    kept = [keep_commit(repository, ref_name, tip) for tip in tips if new[tip]]
    count = int(repository.run(*asked, stdin="\n".join([*tips, *old]).encode())) if tips else 0
    rewritten = bool(was.commit) and any(not _leads_to(repository, was.commit, tip) for tip in tips)
    return Moved(kept_ref=kept[0] if kept else "", commits=count, rewritten=rewritten)


def _leads_to(repository: Repository, old: str, new: str) -> bool:
    return repository.call("merge-base", "--is-ancestor", old, new).code == 0


def _put(repository: Repository, was: Head, ref_name: str) -> None:
    if not was.ref:
        repository.run("update-ref", "--no-deref", "HEAD", was.commit)
        return
    if was.commit:
        argv = ("update-ref", "--no-deref", was.ref, was.commit)
        if repository.call(*argv).code:
            _make_room(repository, was.ref, ref_name)
            repository.run(*argv)
    else:
        repository.run("update-ref", "--no-deref", "-d", was.ref)
    repository.run("symbolic-ref", "-m", "ralph: put back", "HEAD", was.ref)


def _make_room(repository: Repository, ref: str, ref_name: str) -> None:
    """Keeps and deletes the refs without which there is no place for this one: a/b and a cannot both be."""
    printed = repository.run("for-each-ref", "--format=%(objectname) %(refname)").decode(errors="surrogateescape")
    for line in printed.splitlines():
        oid, _, other = line.partition(" ")
        if other.startswith(f"{ref}/") or ref.startswith(f"{other}/"):
            keep_commit(repository, ref_name, oid)
            repository.run("update-ref", "--no-deref", "-d", other)
