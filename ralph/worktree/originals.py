"""The bytes of files as they were: which of them git has, copies of the others, and reading both."""

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import files
from ralph.errors import RalphError
from ralph.worktree.disk import Seen, copy, looks
from ralph.worktree.index import HIDDEN, INTENDED, Entry, Index
from ralph.worktree.repository import Repository, listed
from ralph.worktree.status import Status

if TYPE_CHECKING:
    from ralph.worktree.snapshot import Snapshot

_ATTRIBUTES = ".gitattributes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Originals:
    """Where the bytes are that a checkout of HEAD would not bring back."""

    copies: Mapping[str, Path]
    objects: Mapping[str, Path]
    vanished: frozenset[str]
    """Files that were gone when they were to be copied."""


def find(  # noqa: PLR0913 - what is known of a moment, and of the one before
    repository: Repository,
    store: Path,
    said: Status,
    *,
    entries: Index,
    files: Mapping[str, Seen],
    before: "Snapshot | None",
) -> Originals:
    """Copies what git does not have to the byte, where `before` has no copy of the same version."""
    copies: dict[str, Path] = {}
    unknown = []
    wanted = []
    for name, seen in files.items():
        entry = entries.get(name)
        same = before is not None and seen.sure and before.files.get(name) == seen
        if same and before and name in before.copies:
            copies[name] = before.copies[name]
        elif entry is None or name in said.dirty or entry.flags & (HIDDEN | INTENDED) or len(entry.stages) > 1:
            wanted.append(name)
        elif not (same and before and before.index.get(name) == entry):
            unknown.append(name)
    wanted += _converted(repository, entries, files, unknown)
    for name in wanted:
        if (made := _copied(repository.root, name, files, store)) is not None:
            copies[name] = made
    vanished = frozenset(name for name in wanted if name not in copies and not os.path.lexists(repository.root / name))
    return Originals(copies=copies, objects=_staged(repository, store, said, entries, before), vanished=vanished)


def _copied(root: Path, name: str, files: Mapping[str, Seen], store: Path) -> Path | None:
    """None where there is nothing to copy any more, or it may not be read: then nobody can change it either.

    What grows all the time, as a log, is copied as it was at the last of a few tries.
    """
    for last in (False, False, True):
        try:
            made = copy(root / name, files[name].mode, store)
        except (PermissionError, FileNotFoundError):
            return None
        except OSError as error:
            raise RalphError(f"{root / name} cannot be copied to {store}: {error.strerror}", 1) from error
        if last or looks(root, [name]).get(name, files[name])[:3] == files[name][:3]:
            return made
        made.unlink()
    return None


def _converted(repository: Repository, entries: Index, files: Mapping[str, Seen], names: list[str]) -> list[str]:
    """Those of the unchanged files that hold other bytes than git's object: line ends, filters, keywords.

    git calls them clean all the same. What converts line ends changes the size; for the rest the attributes are asked.
    """
    if not names:
        return []
    oids = "\n".join(entries[name].stages[0][1] for name in names)
    printed = repository.run("cat-file", "--batch-check=%(objectsize)", "--buffer", stdin=oids.encode())
    sizes = printed.decode().split("\n")
    found = {name for name, size in zip(names, sizes, strict=False) if size != str(files[name].size)}
    return [*found, *(_filtered(repository, files, names) - found)]


def _filtered(repository: Repository, files: Mapping[str, Seen], names: list[str]) -> set[str]:
    anywhere = (repository.common / "info" / "attributes", Path("/etc/gitattributes"), _persons_attributes())
    named = any(name.rpartition("/")[2] == _ATTRIBUTES for name in files) or any(map(Path.exists, anywhere))
    if not named and not repository.ask("config", "--get", "core.attributesFile"):
        return set()
    asked = ["filter", "ident", "working-tree-encoding"]
    printed = repository.run("check-attr", "--stdin", "-z", *asked, stdin=listed(names))
    fields = os.fsdecode(printed).split("\0")
    return {
        name for name, value in zip(fields[0::3], fields[2::3], strict=False) if value not in ("unspecified", "unset")
    }


def _persons_attributes() -> Path:
    home = os.environ.get("HOME", "/nonexistent")
    return Path(os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config") / "git" / "attributes"


def _staged(
    repository: Repository, store: Path, said: Status, entries: Index, before: "Snapshot | None"
) -> dict[str, Path]:
    """Copies of the objects that only the index names: reset and prune them, and they are gone for good."""
    kept = before.objects if before else {}
    staged = [entries[name] for name in said.staged if name in entries]
    oids = {oid for entry in staged for mode, oid, _ in entry.stages if mode != "160000"}
    made = dict(_objects(repository, sorted(oids - kept.keys())))
    for oid, data in made.items():
        files.overwrite(store / f"object-{oid}", data)
    return {oid: kept.get(oid, store / f"object-{oid}") for oid in oids if oid in kept or oid in made}


def _objects(repository: Repository, oids: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """What git has of these objects."""
    if not oids:
        return
    printed = repository.run("cat-file", "--batch", "--buffer", stdin="\n".join(oids).encode())
    at = 0
    for oid in oids:
        end = printed.index(b"\n", at)
        words = printed[at:end].split()
        at = end + 1
        if len(words) == 3:
            size = int(words[2])
            yield oid, printed[at : at + size]
            at += size + 1


def texts(snapshot: "Snapshot", names: Iterable[str]) -> dict[str, bytes]:
    """What these files held, as far as it is still to be had."""
    given = list(names)
    found = {name: snapshot.copies[name].read_bytes() for name in given if name in snapshot.copies}
    of_git = {name: snapshot.index[name].stages[0][1] for name in given if name not in found and name in snapshot.index}
    objects = dict(_objects(snapshot.repository, sorted(set(of_git.values()))))
    return found | {name: objects[oid] for name, oid in of_git.items() if oid in objects}


def give_back(snapshot: "Snapshot", entries: Iterable[Entry]) -> None:
    """Sees to it that git has the objects of these entries of the index again, were they pruned."""
    oids = sorted({oid for entry in entries for _, oid, _ in entry.stages if oid in snapshot.objects})
    if not oids:
        return
    repository = snapshot.repository
    said = repository.run("cat-file", "--batch-check", stdin="\n".join(oids).encode()).decode().splitlines()
    for oid, line in zip(oids, said, strict=True):
        if line.endswith("missing"):
            repository.run("hash-object", "-w", "--stdin", "--no-filters", stdin=snapshot.objects[oid].read_bytes())


def discard(folder: Path) -> None:
    """Removes a scratch folder."""
    shutil.rmtree(folder, ignore_errors=True)
