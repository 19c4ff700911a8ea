"""git's index: what it holds, and putting entries of it back."""

import os
import re
import stat
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ralph import files
from ralph.errors import RalphError
from ralph.worktree.repository import Repository, listed

if TYPE_CHECKING:
    from ralph.worktree.snapshot import Snapshot

ASSUMED = 0x8000
SKIPPED = 1 << 30
INTENDED = 1 << 29
"""`git update-index --assume-unchanged`, `--skip-worktree`, and `git add -N`: the names git has for these bits."""
HIDDEN = ASSUMED | SKIPPED

_ENTRY = re.compile(rb"(\d+) ([0-9a-f]+) (\d)\t([^\0]*)\0(?:  [^\n]*\n){4}  size: \d+\tflags: ([0-9a-f]+)\n")


class Entry(NamedTuple):
    """What the index holds for a name."""

    stages: tuple[tuple[str, str, str], ...]
    """Mode, object and stage; several while a merge is not resolved."""
    flags: int = 0


Index = Mapping[str, Entry]


def read(repository: Repository) -> dict[str, Entry]:
    """The index as it is now; RalphError when git cannot read it."""
    # --debug is the only way to see that a file is only intended to be added
    printed = repository.run("ls-files", "--stage", "--debug", "-z")
    found: dict[str, Entry] = {}
    end = 0
    for match in _ENTRY.finditer(printed):
        end = match.end()
        mode, oid, stage, raw, flags = match.groups()
        name, one = os.fsdecode(raw), (mode.decode(), oid.decode(), stage.decode())
        before = found[name].stages if stage != b"0" and name in found else ()
        found[name] = Entry((*before, one), int(flags, 16) & (HIDDEN | INTENDED))
    if end != len(printed):
        raise RalphError(
            f"{repository.index}: what this git says of it is not understood; tell us its `git --version`", 1
        )
    return found


def readable(snapshot: "Snapshot") -> dict[str, Entry]:
    """The index as it is now; as it was, put back, where the iteration left none that git can read."""
    if raw(snapshot.repository)[0] == snapshot.raw_index:
        return dict(snapshot.index)
    try:
        return read(snapshot.repository)
    except RalphError:
        replace(snapshot.repository, snapshot.raw_index, snapshot.index_mtime_ns)
        return read(snapshot.repository)


def put_back(
    repository: Repository, before: Index, now: Index, names: Iterable[str], replaced: Collection[str]
) -> None:
    """Makes the entries of these names what they were; all other entries stay.

    Those of files that are `replaced` on the disk are made anew in any case: git would believe the size it noted of the
    file before, and call what has other line ends changed.
    """
    differing = [name for name in names if before.get(name) != now.get(name) or name in replaced]
    if not differing:
        return
    gone = [f"0 {'0' * repository.id_length}\t{name}" for name in differing if name in now]
    was = {name: before[name] for name in differing if name in before}
    lines = [
        f"{mode} {oid} {stage}\t{name}"
        for name, entry in was.items()
        if not entry.flags & INTENDED
        for mode, oid, stage in entry.stages
    ]
    repository.run("update-index", "-z", "--index-info", stdin=listed([*gone, *lines]))
    _intend(repository, {name: entry for name, entry in was.items() if entry.flags & INTENDED})
    put_flags_back(repository, was, dict.fromkeys(was, Entry(())))


def put_flags_back(repository: Repository, before: Index, now: Index) -> list[str]:
    """Lets git look at the files again that it looked at before, and at no others; the names that this concerned."""
    concerned = []
    for flag, option in ((ASSUMED, "assume-unchanged"), (SKIPPED, "skip-worktree")):
        nothing = Entry(())
        differing = [name for name in now if (before.get(name, nothing).flags ^ now[name].flags) & flag]
        on = [name for name in differing if not now[name].flags & flag]
        off = [name for name in differing if now[name].flags & flag]
        for said, names in ((f"--{option}", on), (f"--no-{option}", off)):
            if names:
                repository.run("update-index", said, "-z", "--stdin", stdin=listed(names))
        concerned += differing
    return sorted(set(concerned))


def _intend(repository: Repository, entries: Index) -> None:
    """`git add -N` in a folder with nothing but empty files of these names: the real ones may be gone."""
    if not entries:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, entry in entries.items():
            _stand_in(Path(folder) / name, int(entry.stages[0][0], 8))
        env = {"GIT_WORK_TREE": folder}
        options = ["-c", "core.fileMode=true", "-c", "core.symlinks=true", "-c", "core.sparseCheckout=false"]
        given = ["--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"]
        repository.run(*options, "add", *given, stdin=listed(list(entries)), env=env, cwd=Path(folder))


def _stand_in(path: Path, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISLNK(mode):
        path.symlink_to("nowhere")
    else:
        path.touch()
        path.chmod(stat.S_IMODE(mode))


def raw(repository: Repository) -> tuple[bytes | None, int]:
    """The file itself, None without one, and when it was written."""
    try:
        return repository.index.read_bytes(), repository.index.stat().st_mtime_ns
    except FileNotFoundError:
        return None, 0


def replace(repository: Repository, raw: bytes | None, mtime_ns: int) -> None:
    """The whole index as it was, to the byte; None: there was none."""
    if raw is None:
        repository.index.unlink(missing_ok=True)
        return
    files.replace(repository.index, raw)
    # git trusts what is older than the index: with a newer time it would overlook changes made in the same moment
    os.utime(repository.index, ns=(mtime_ns, mtime_ns))
