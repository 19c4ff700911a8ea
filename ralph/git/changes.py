"""What changed in the repository: commits, lines, files; and how ralph runs git."""

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
"""The most files to look at without git; the user may plan in a home folder."""
_HASHED_BYTES = 50_000_000
"""A larger file counts as changed when its timestamps change."""
_FIRST_READ_S = 0.1
"""Seconds for reading uncommitted files before the first iteration; later only those that seem to change are read."""
_TICK_S = 0.02
"""Timestamps of files may be this many seconds behind."""
IN_NO_OTHER = "--ignore-submodules=dirty"
"""Keeps git out of repositories within the tree, whose settings may be an agent's."""
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's name for the empty tree."""
_LOCKED_S = 1.0
"""Seconds that a lock must stay unchanged before it counts as orphaned."""
_STATUS = "status --porcelain=v2 --branch --no-ahead-behind -z --untracked-files=all --no-renames " + IN_NO_OTHER
_FIELDS = {"1": 8, "u": 10, "?": 1}
"""How many fields precede the name in a line that begins like this; they describe the file in the index."""


def run_git(
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] = os.environ,
    stdin: bytes = b"",
    timeout_s: float = _TIMEOUT_S,
) -> Finished:
    """Runs git and returns its result; exit code 127 if git is missing.

    It takes no optional lock, since the agent may be using the repository. It asks no fsmonitor, fetches nothing, and
    does not take a folder that only looks like a repository for one.
    """
    pinned = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")
    argv = [_git_program(), "--no-optional-locks", *pinned, "-C", str(cwd or "."), *arguments]
    try:
        env = {**env, "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"}
        return call_program(argv, timeout_s=timeout_s, env=env, stdin=stdin)
    except OSError as error:
        return Finished(code=127, stdout=b"", stderr=str(error).encode(errors="replace"))


@cache
def _git_program() -> str:
    """The path of git, which is looked up once, since PATH may be long."""
    return shutil.which("git") or "git"


def error_text(done: Finished) -> str:
    """Why git failed, in its own words, or else its exit code."""
    message = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ").removeprefix("error: ")
    return message or str(done.code)


NAMED = ("--pathspec-from-file=-", "--pathspec-file-nul")
"""Makes git read the files from standard input; see `literal_pathspecs`."""


def nul_terminated(names: Iterable[str]) -> bytes:
    """The names in the form that git reads with `-z`."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)


def literal_pathspecs(names: Iterable[str]) -> bytes:
    """The names as literal pathspecs from the top of the tree, whatever characters they contain."""
    return nul_terminated(f":(top,literal){name}" for name in names)


def names_in(printed: bytes) -> list[str]:
    """Splits what git prints with `-z` into names."""
    return os.fsdecode(printed).split("\0")[:-1]


class Tree(NamedTuple):
    """A commit and every file that differs from it, with something that identifies its version."""

    head: str
    """Empty without a repository or before the first commit."""
    files: dict[str, tuple[str, object]]


def read_tree(top: Path, env: Mapping[str, str], within: set[str]) -> Tree | None:
    """Reads the working tree by git, without ignored files; None if git cannot tell.

    `within` are the repositories within the tree, to which new ones are added: all of their files are included.
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
    """Reads all files, if git cannot tell which have changed."""
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
    """Identifies a file's content and permissions; None if it is too large, or not a file."""
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode) and found.st_size <= _HASHED_BYTES:
            with open(path, "rb") as file:  # noqa: PTH123 - a third of Path's time
                return found.st_mode, found.st_size, zlib.crc32(file.read())
    return None


def commits_between(git: Callable[..., Finished], old: str, new: str) -> tuple[Commits, list[str]]:
    """Counts the commits from `old`, empty before the first, to `new`, with their lines; and lists their files."""
    asked = ("diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", old or _EMPTY_TREE, new)
    rows = [row.split("\t", 2) for row in names_in(git(*asked).stdout)]
    added, removed = (
        sum(int(row[at]) for row in rows if row[at] != "-") for at in (0, 1)
    )  # a dash marks a binary file
    count = int(git("rev-list", "--count", f"{old}..{new}" if old else new).stdout or 0)
    return Commits(count=count, added=added, removed=removed, head=new, base=old), [row[2] for row in rows]


def git_folder(tree: Path) -> Path:
    """The path of the .git folder of this working tree."""
    folder = tree / ".git"
    leads = os.fsdecode(read_or_empty(folder)).strip().removeprefix("gitdir: ")
    return tree / (leads or folder)  # an empty file leads nowhere


def find_locks(tree: Path) -> list[Path]:
    """Returns the lock files in the .git folder of this working tree."""
    folder = git_folder(tree)
    with contextlib.suppress(OSError, ValueError):  # after a power loss the name may be NULs
        return [folder / name for name in os.listdir(folder) if name.endswith(".lock")]  # noqa: PTH208 - a fifth of glob's time
    return []


def remove_orphaned_locks(tree: Path, since: float) -> list[Path]:
    """Removes locks that are newer than `since`, in seconds since 1970, and have no owner; returns their paths.

    Other programs than git lock a repository too, for a moment: so a lock must stay unchanged for a while.
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
    """When a file last changed (its ctime, which programs cannot set back); 0 if it is gone."""
    with contextlib.suppress(OSError):
        return path.lstat().st_ctime
    return 0.0


class Changes:
    """Finds out what changed in the working tree around `top`, without ralph's `own` files."""

    def __init__(self, top: Path, own: Sequence[Path]) -> None:
        self._tree = working_tree(top)
        real = os.path.realpath(self._tree)
        self._ignored = {os.path.relpath(path, real) for one in own for path in (one.absolute(), one.resolve())}
        self._own = os.path.relpath(os.path.realpath(state_home()), real) + os.sep
        self._began = time.time()
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self._tree.parent)}  # none above, if this one is broken
        modules = os.fsdecode(read_or_empty(self._tree / ".gitmodules"))
        within = set(re.findall(r"(?m)^\s*path\s*=\s*(.+?)\s*$", modules))
        self._known = partial(read_tree, env=env, within=within)  # copied once: that takes as long as to read ten files
        self._contents = dict[str, object]()
        """Digests of files when last read, by name; one that keeps its digest was only touched."""
        self.disturbed = False
        """Whether something else than an iteration may have changed files since the last look."""

    def begin(self) -> None:
        """Takes the first look; changes from now on are an iteration's. Runs the first git."""
        seen = self._known(self._tree)
        self._look = self._known if seen else _all_files
        self._seen = seen or _all_files(self._tree)

    def begin_iteration(self) -> None:
        """Takes note that an iteration begins, whose changes and git locks are to be found."""
        if self.disturbed:
            self.take_changes()
        until = time.monotonic() + _FIRST_READ_S
        for name in self._seen.files if not self._contents else ():
            if time.monotonic() < until:
                self._contents[name] = _content_digest(f"{self._tree}/{name}")
        self._began = time.time()

    def take_changes(self) -> tuple[Commits, tuple[str, ...]]:
        """Returns the commits since the last look, and the files that changed, committed or not."""
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
        """Removes git locks left behind since the iteration began, and returns their paths."""
        return remove_orphaned_locks(self._tree, self._began)

    def identify_tree(self) -> str:
        """The commit at the last look, with `-dirty-DIGEST` if there were uncommitted changes; empty without one."""
        differ = sorted((name, *each) for name, each in self._seen.files.items() if not self._is_own(name))
        dirty = f"-dirty-{zlib.crc32(repr(differ).encode()):08x}" if any(entry for _, entry, _ in differ) else ""
        return self._seen.head[:10] + dirty if self._seen.head else ""

    def _is_own(self, name: str) -> bool:
        return name in self._ignored or name.startswith(self._own)
