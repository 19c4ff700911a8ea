"""Files as they were before: bytes, mode, kind and what is staged."""

from collections.abc import Collection, Iterator
from pathlib import Path

from ralph.errors import RalphError
from ralph.worktree import index, originals
from ralph.worktree.disk import is_scratch, looks, parents
from ralph.worktree.ignoring import was_known
from ralph.worktree.locks import unlock
from ralph.worktree.new_files import ignored_once, is_repository_within
from ralph.worktree.replacing import Keep, away, bring, prune, whole_away
from ralph.worktree.snapshot import Snapshot, changed, is_changed

_AT_ONCE = 200
"""Files whose bytes are in memory together."""


def put_back(snapshot: Snapshot, names: Collection[str], keep: Keep) -> tuple[Path, ...]:
    """Makes these files what they were, in the tree and in the index; what had to go was kept, the answer says where.

    New ones are moved away. Nothing is written through a link, and no filter of git's runs.
    """
    mine = sorted(name for name in set(names) if name not in snapshot.own)
    unlock(snapshot.repository, snapshot.locks)
    entries = index.readable(snapshot)
    originals.give_back(snapshot, [snapshot.index[name] for name in mine if name in snapshot.index])
    now = looks(snapshot.root, mine)
    wrong = [name for name in mine if name in snapshot.files and is_changed(snapshot, name, now.get(name))]
    index.put_back(snapshot.repository, snapshot.index, entries, mine, set(wrong))
    kept = list(_move_new_away(snapshot, mine, keep))
    lost = []
    while some := wrong[:_AT_ONCE]:
        wrong = wrong[_AT_ONCE:]
        texts = originals.texts(snapshot, [name for name in some if name not in snapshot.copies])
        for name in some:
            original = snapshot.copies.get(name) or texts.get(name)
            if original is None:
                lost.append(name)
            else:
                kept += bring(snapshot.root, name, snapshot.files[name], original, keep)
    if lost:
        raise RalphError(f"{', '.join(lost[:3])}: cannot be put back, since git no longer has what was in it", 1)
    return tuple(kept)


def scratch_away(snapshot: Snapshot) -> None:
    """Removes what a ralph that was killed in the middle of putting back had half written."""
    for name in changed(snapshot):
        if is_scratch(name) and name not in snapshot.files:
            (snapshot.root / name).unlink(missing_ok=True)


def _move_new_away(snapshot: Snapshot, names: Collection[str], keep: Keep) -> Iterator[Path]:
    """What was not there; but what was ignored then stays, whoever added it to the index meanwhile."""
    root = snapshot.root
    there = looks(root, [name for name in names if name not in snapshot.files])
    unknown = [name for name in there if name not in snapshot.index and not was_known(name, snapshot.ignoring.names)]
    new = set(unknown) - ignored_once(snapshot, unknown) | {name for name in there if name in snapshot.index}
    known = parents((*snapshot.files, *snapshot.index))
    for name in sorted(new, reverse=True):
        yield from away(root, name, keep)
        prune(root, name, known)
    for name in names:
        if not _was_there(snapshot, name) and is_repository_within(root / name):
            yield whole_away(root, name, keep)
            prune(root, name, known)


def _was_there(snapshot: Snapshot, name: str) -> bool:
    """Whether there was such a file, or a repository that only the index did not know."""
    folder = name.removesuffix("/.git")
    known = name in snapshot.index or f"{name}/" in snapshot.ignoring.names or was_known(name, snapshot.ignoring.names)
    return known or (folder != name and folder in snapshot.nested)
