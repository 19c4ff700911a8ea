"""What changed in the repository: commits, lines, files; and what git says of it."""

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph.agent.turn import Commits
from ralph.files import held, state_home
from ralph.lock import working_tree
from ralph.process import Finished, call, somebody_runs

_TIMEOUT_S = 60.0
_FILES_AT_MOST = 50_000
"""Files looked at where no git knows them; somebody may plan in a home folder."""
_TICK_S = 0.02
"""The times of files may lie that much in the past."""


def git(
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout_s: float = _TIMEOUT_S,
) -> Finished:
    """What came of git, here or there; 127 where there is none.

    It takes no lock it could do without: the agent may be in the middle of something.
    """
    given = {**(os.environ if env is None else env), "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        return call(["git", *arguments], timeout_s=timeout_s, env=given, cwd=cwd, stdin=stdin)
    except OSError as error:
        return Finished(code=127, stdout=b"", stderr=str(error).encode(errors="replace"), timed_out=False)


def complaint(done: Finished) -> str:
    """Why git failed, in its own words, else its exit code."""
    said = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ").removeprefix("error: ")
    return said or str(done.code)


NAMED = ("--pathspec-from-file=-", "--pathspec-file-nul")
"""Has git read from standard input which files are meant: see `pathspecs`."""


def pathspecs(names: Iterable[str]) -> bytes:
    """Names as git reads pathspecs, from the top of the tree, each a name whatever is in it."""
    return b"".join(b":(top,literal)" + os.fsencode(name) + b"\0" for name in names)


def names_in(printed: bytes) -> list[str]:
    """The names in what git prints with `-z`."""
    return os.fsdecode(printed).split("\0")[:-1]


def _ask(*arguments: str, cwd: Path | None = None) -> bytes | None:
    """What git prints, or None when it fails."""
    done = git(*arguments, cwd=cwd)
    return done.stdout if done.code == 0 else None


def commits(old: str, new: str) -> Commits:
    """What lies between two commits."""
    if old == new or not new:
        return Commits(head=new, base=old)
    count = _ask("rev-list", "--count", f"{old}..{new}" if old else new)
    changed = _ask("diff", "--no-ext-diff", "--shortstat", old or _EMPTY_TREE, new) or b""
    lines = {kind: int(number) for number, kind in re.findall(rb"(\d+) (insertion|deletion)", changed)}
    added, removed = lines.get(b"insertion", 0), lines.get(b"deletion", 0)
    return Commits(count=int(count or 0), added=added, removed=removed, head=new, base=old)


_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's name for the tree with nothing in it."""


class Tree(NamedTuple):
    """The commit and every file that differs from it, with what tells one version of a file from another."""

    head: str
    """Empty without a repository or before the first commit."""
    files: dict[str, tuple[object, ...]]


def tree(top: Path) -> Tree | None:
    """What the working tree looks like now, ignored files left out; without a repository, every file in it.

    None when there is a repository and git fails to tell.
    """
    if not (top / ".git").exists():
        return _everything(top)
    status = _ask(*_STATUS.split(), cwd=top)
    if status is None:  # be it because of somebody else's repository, which git does not touch
        return _everything(top) if _ask("rev-parse", "--git-dir", cwd=top) is None else None
    head, files = "", {}
    for entry in os.fsdecode(status).split("\0"):
        kind, _, rest = entry.partition(" ")
        if kind == "#" and rest.startswith("branch.oid "):
            head = rest.removeprefix("branch.oid ").removeprefix("(initial)")
        elif kind in _FIELDS:
            *fields, name = rest.split(" ", _FIELDS[kind])
            files[name] = (kind, *fields, *_version(top, name))
    return Tree(head=head, files=files)


_STATUS = "status --porcelain=v2 --branch --no-ahead-behind -z --untracked-files=all --no-renames"
_FIELDS = {"1": 7, "u": 9, "?": 0}
"""How many fields stand before the name in a line of that kind; they hold the index's version of the file."""


def _everything(top: Path) -> Tree:
    files: dict[str, tuple[object, ...]] = {}
    for folder, inside, names in os.walk(top):
        inside[:] = [name for name in inside if name != ".git"]
        for name in names:
            path = os.path.relpath(f"{folder}/{name}", top)
            files[path] = _version(top, path)
        if len(files) > _FILES_AT_MOST:
            break
    return Tree(head="", files=files)


def _version(top: Path, name: str) -> tuple[object, ...]:
    try:
        found = os.lstat(f"{top}/{name}")
    except OSError:
        return ()
    if stat.S_ISDIR(found.st_mode) and (top / name / ".git").exists():  # a repository within, such as a submodule
        within = tree(top / name)
        return (within.head, *sorted(within.files.items())) if within else ()
    return (found.st_mtime_ns, found.st_size, found.st_mode, found.st_ino)


def changed(before: Tree, after: Tree, top: Path) -> list[str]:
    """The files that differ between two looks, committed or not."""
    names = {name for name in before.files | after.files if before.files.get(name) != after.files.get(name)}
    if before.head != after.head:
        listed = _ask("diff", "--name-only", "-z", before.head or _EMPTY_TREE, after.head, cwd=top) or b""
        names.update(names_in(listed))
    return sorted(names)


def git_folder(tree: Path) -> Path:
    """Where git keeps what it knows of this working tree."""
    folder = tree / ".git"
    return tree / _text(folder).removeprefix("gitdir: ") if folder.is_file() else folder


def locks(tree: Path) -> list[Path]:
    """Every lock there that a commit or `git config` takes; none without a repository."""
    folder = git_folder(tree)
    common, branch = folder / _text(folder / "commondir"), _text(folder / "HEAD").removeprefix("ref: ")
    found = {f"{common}/{name}.lock" for name in (branch, "packed-refs", "config")}
    with contextlib.suppress(OSError):
        found |= {f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".lock")}  # noqa: PTH208 - quick
    return [Path(one) for one in found if os.path.lexists(one)]


def _text(path: Path) -> str:
    return os.fsdecode(held(path).strip())


def remove_orphaned_locks(locks: Iterable[Path], tree: Path, since: float = 0.0) -> list[Path]:
    """Removes those that came after this time since 1970 and that no git is left to own; their paths."""
    removed = []
    for lock in locks:
        with contextlib.suppress(OSError):
            if lock.lstat().st_ctime > since - _TICK_S and not somebody_runs("git", tree):
                lock.unlink()
                removed.append(lock)
    return removed


def touched_at(path: Path) -> float | None:
    """When it was changed last, in a way that nobody can set back; None when it is gone."""
    with contextlib.suppress(OSError):
        return path.lstat().st_ctime
    return None


class Changes:
    """Looks at the working tree around `top` again and again; ralph's `own` files, such as the progress file, not."""

    def __init__(self, top: Path, own: Sequence[Path]) -> None:
        self._tree = working_tree(top)
        real = os.path.realpath(self._tree)
        self._ignored = {os.path.relpath(path, real) for one in own for path in (one.absolute(), one.resolve())}
        self._own = os.path.relpath(os.path.realpath(state_home()), real) + os.sep
        self._began = time.time()
        self._seen = tree(self._tree)
        self.disturbed = False
        """What changes before the next iteration is not its doing."""

    def begin(self, *, iteration: bool = False) -> None:
        """Something begins that may leave git's locks behind, or an iteration, of which the changes shall be known."""
        if iteration and self.disturbed:
            self._seen = tree(self._tree) or self._seen
            self.disturbed = False
        self._began = time.time()

    def look(self) -> tuple[Commits, tuple[str, ...]]:
        """What was committed since it began, and the files that are not as they were, committed or not."""
        before, now = self._seen, tree(self._tree)
        self._seen, self.disturbed = now or before, False
        if before is None or now is None:
            return Commits(), ()
        names = changed(before, now, self._tree)
        files = tuple(name for name in names if name not in self._ignored and not name.startswith(self._own))
        return commits(before.head, now.head), files

    def remove_orphaned_locks(self) -> list[Path]:
        """Removes the locks that a git of this iteration left behind, not older ones; their paths."""
        return remove_orphaned_locks(locks(self._tree), self._tree, self._began)

    def commit(self) -> str:
        """The commit that the working tree was on at the last look, `-dirty` when there are changes beyond it."""
        if self._seen is None or not self._seen.head:
            return ""
        return self._seen.head[:10] + ("-dirty" if self._seen.files.keys() - self._ignored else "")
