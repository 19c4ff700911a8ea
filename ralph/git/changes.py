"""What changed in the repository: commits, lines, files; and what git says of it."""

import contextlib
import os
import re
import shutil
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from ralph.agent.turn import Commits
from ralph.files import read_or_empty, state_home
from ralph.process.lock import working_tree
from ralph.process.programs import Finished, call_program, is_git_running

_TIMEOUT_S = 60.0
_FILES_AT_MOST = 50_000
"""Files looked at where no git knows them; somebody may plan in a home folder."""
_HASHED_BYTES = 50_000_000
"""A file that is larger counts as changed when its times do."""
_FIRST_READ_S = 0.1
"""So long a run reads what is not committed before its first iteration; later it reads what seems to change."""
_TICK_S = 0.02
"""The times of files may lie that much in the past."""
IN_NO_OTHER = "--ignore-submodules=dirty"
"""Has git look into no repository within, where the settings are an agent's."""
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's name for the tree with nothing in it."""
_LOCKED_S = 1.0
"""Seconds that a lock has to stay as it is before it can be nobody's."""
_STATUS = "status --porcelain=v2 --branch --no-ahead-behind -z --untracked-files=all --no-renames " + IN_NO_OTHER
_FIELDS = {"1": 8, "u": 10, "?": 1}
"""How many fields stand before the name in a line that begins so; they hold the index's version of the file."""


def run_git(
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] = os.environ,
    stdin: bytes = b"",
    timeout_s: float = _TIMEOUT_S,
) -> Finished:
    """The result of git, here or there; 127 where there is none.

    It takes no lock it could do without: the agent may be in the middle of something. It asks no program which files
    changed, fetches nothing, and takes no folder for a repository that only looks like one.
    """
    pinned = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")
    argv = [_git_program(), "--no-optional-locks", *pinned, "-C", str(cwd or "."), *arguments]
    try:
        return call_program(
            argv, timeout_s=timeout_s, env={**env, "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"}, stdin=stdin
        )
    except OSError as error:
        return Finished(code=127, stdout=b"", stderr=str(error).encode(errors="replace"))


@cache
def _git_program() -> str:
    """Where git is: looked for once, since it may stand behind many other folders in PATH."""
    return shutil.which("git") or "git"


def error_text(done: Finished) -> str:
    """Why git failed, in its own words, else its exit code."""
    message = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ").removeprefix("error: ")
    return message or str(done.code)


NAMED = ("--pathspec-from-file=-", "--pathspec-file-nul")
"""Has git read from standard input which files are meant: see `pathspecs`."""


def nul_terminated(names: Iterable[str]) -> bytes:
    """Names as git reads them with `-z`."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)


def literal_pathspecs(names: Iterable[str]) -> bytes:
    """Names as git reads pathspecs, from the top of the tree, each a name whatever is in it."""
    return nul_terminated(f":(top,literal){name}" for name in names)


def names_in(printed: bytes) -> list[str]:
    """The names in what git prints with `-z`."""
    return os.fsdecode(printed).split("\0")[:-1]


class Tree(NamedTuple):
    """The commit and every file that differs from it, with what tells one version of a file from another."""

    head: str
    """Empty without a repository or before the first commit."""
    files: dict[str, tuple[str, object]]


def read_tree(top: Path, env: Mapping[str, str], within: set[str]) -> Tree | None:
    """What git says of the working tree now, ignored files left out; None where it cannot tell.

    `within` are the repositories there, and takes those that are found: of them every file counts, since no git looks.
    """
    done = run_git(*_STATUS.split(), cwd=top, env=env) if (top / ".git").exists() else None
    if done is None or done.code:
        return None
    head, files = "", dict[str, tuple[str, object]]()
    for entry in names_in(done.stdout):
        if entry.startswith("# branch.oid "):
            head = entry.split()[-1].removeprefix("(initial)")
        elif entry[0] in _FIELDS:
            name = entry.split(" ", _FIELDS[entry[0]])[-1].rstrip("/")
            files[name] = entry, _file_version(top, name)
            if isinstance(files[name][1], Tree):
                within.add(name)
    return Tree(head, files | {name: ("", _file_version(top, name)) for name in within - files.keys()})


def _all_files(top: Path) -> Tree:
    """Every file, where no git knows which have changed."""
    files = dict[str, tuple[str, object]]()
    for folder, inside, names in os.walk(top):
        inside[:] = [name for name in inside if name != ".git"]
        for name in names:
            path = os.path.relpath(f"{folder}/{name}", top)
            files[path] = "", _file_version(top, path)
        if len(files) > _FILES_AT_MOST:
            break
    return Tree("", files)


def _file_version(top: Path, name: str) -> object:
    with contextlib.suppress(OSError):
        found = os.lstat(f"{top}/{name}")
        if stat.S_ISDIR(found.st_mode):  # a repository within, such as a submodule
            return _all_files(top / name)
        return found.st_mtime_ns, found.st_size, found.st_mode, found.st_ino
    return None


def _content_digest(path: str) -> object:
    """What distinguishes a file's content and permissions; None where that takes too long, or is not a file."""
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode) and found.st_size <= _HASHED_BYTES:
            with open(path, "rb") as file:  # noqa: PTH123 - a third of Path's time
                return found.st_mode, found.st_size, zlib.crc32(file.read())
    return None


def commits_between(git: Callable[..., Finished], old: str, new: str) -> tuple[Commits, list[str]]:
    """How many commits lead from the old one, empty before the first, to the new; their lines, and their files."""
    asked = ("diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", old or _EMPTY_TREE, new)
    rows = [row.split("\t", 2) for row in names_in(git(*asked).stdout)]
    added, removed = (sum(int(row[at]) for row in rows if row[at] != "-") for at in (0, 1))  # that marks a binary file
    count = int(git("rev-list", "--count", f"{old}..{new}" if old else new).stdout or 0)
    return Commits(count=count, added=added, removed=removed, head=new, base=old), [row[2] for row in rows]


def git_folder(tree: Path) -> Path:
    """The folder of git's for this working tree."""
    folder = tree / ".git"
    leads = os.fsdecode(read_or_empty(folder)).strip().removeprefix("gitdir: ")
    return tree / (leads or folder)  # an empty file leads nowhere, least of all to the project's own locks


def find_locks(tree: Path) -> list[Path]:
    """Every lock that a git left in git's folder of this working tree."""
    folder = git_folder(tree)
    with contextlib.suppress(OSError, ValueError):  # after a power loss it may lead to a name of NULs
        return [folder / name for name in os.listdir(folder) if name.endswith(".lock")]  # noqa: PTH208 - a fifth of glob's time
    return []


def remove_orphaned_locks(tree: Path, since: float) -> list[Path]:
    """Removes those that came after this time since 1970, and that nobody is left to own; their paths.

    Not every program that works in a repository is git: one that does has its lock for a moment.
    """
    new = {lock: at for lock in find_locks(tree) if (at := touched_at(lock)) > since - _TICK_S}
    if not new or is_git_running(tree):
        return []
    time.sleep(_LOCKED_S)
    orphaned = [lock for lock, at in new.items() if touched_at(lock) == at]
    for lock in orphaned:
        with contextlib.suppress(OSError):
            lock.unlink()
    return orphaned


def touched_at(path: Path) -> float:
    """When it was changed last, in a way that nobody can set back; 0 when it is gone."""
    with contextlib.suppress(OSError):
        return path.lstat().st_ctime
    return 0.0


class Changes:
    """Looks at the working tree around `top` again and again; ralph's `own` files, such as the progress file, not."""

    def __init__(self, top: Path, own: Sequence[Path]) -> None:
        self._tree = working_tree(top)
        real = os.path.realpath(self._tree)
        self._ignored = {os.path.relpath(path, real) for one in own for path in (one.absolute(), one.resolve())}
        self._own = os.path.relpath(os.path.realpath(state_home()), real) + os.sep
        self._began = time.time()
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self._tree.parent)}  # where it is broken, none above counts
        modules = os.fsdecode(read_or_empty(self._tree / ".gitmodules"))
        within = set(re.findall(r"(?m)^\s*path\s*=\s*(.+?)\s*$", modules))
        self._known = partial(read_tree, env=env, within=within)  # copied once: that takes as long as to read ten files
        self._contents = dict[str, object]()
        """Of files by name, as they were when last read: one that is the same when it seems to change was touched."""
        self.disturbed = False
        """What changes before the next iteration is not its doing."""

    def begin(self) -> None:
        """Takes the first look; what changes from now on is an iteration's. No git is run before."""
        seen = self._known(self._tree)
        self._look = self._known if seen else _all_files
        self._seen = seen or _all_files(self._tree)

    def begin_look(self) -> None:
        """An iteration begins, of which the changes are to be known; it may leave git's locks behind."""
        if self.disturbed:
            self.take_changes()
        until = time.monotonic() + _FIRST_READ_S
        for name in self._seen.files if not self._contents else ():
            if time.monotonic() < until:
                self._contents[name] = _content_digest(f"{self._tree}/{name}")
        self._began = time.time()

    def take_changes(self) -> tuple[Commits, tuple[str, ...]]:
        """What was committed since it began, and the files that are not as they were, committed or not."""
        self.disturbed = False
        before, now = self._seen, self._look(self._tree)
        if now is None:
            return Commits(), ()
        self._seen = now
        names = set[str]()
        for name in before.files | now.files:
            if (was := before.files.get(name)) != (found := now.files.get(name)):
                known, self._contents[name] = self._contents.get(name), _content_digest(f"{self._tree}/{name}")
                is_same = known is not None and known == self._contents[name]
                if not (was and found and is_same and was[0] == found[0]):
                    names.add(name)
        commits = Commits(head=now.head, base=before.head)
        if now.head not in ("", before.head):
            commits, differ = commits_between(partial(run_git, cwd=self._tree), before.head, now.head)
            names.update(differ)
        return commits, tuple(name for name in sorted(names) if not self._is_own(name))

    def remove_orphaned_locks(self) -> list[Path]:
        """Removes the locks that a git of this iteration left behind, not older ones; their paths."""
        return remove_orphaned_locks(self._tree, self._began)

    def identify_tree(self) -> str:
        """The commit that the working tree was on at the last look, and `-dirty-DIGEST` of the changes beyond it."""
        differ = sorted((name, *each) for name, each in self._seen.files.items() if not self._is_own(name))
        dirty = f"-dirty-{zlib.crc32(repr(differ).encode()):08x}" if any(entry for _, entry, _ in differ) else ""
        return self._seen.head[:10] + dirty if self._seen.head else ""

    def _is_own(self, name: str) -> bool:
        return name in self._ignored or name.startswith(self._own)
