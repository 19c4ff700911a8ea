"""What changed in the repository: commits, lines, files; and how ralph runs git."""

import os
import stat
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ralph.agent.turn import Commits
from ralph.files import read_text_or_empty, state_home
from ralph.process.lock import working_tree
from ralph.process.programs import Finished, call_program, is_git_running

_TIMEOUT_S = 60.0
# The most files to look at without git; the user may plan in a home folder.
_FILES_AT_MOST = 50_000
# How much to read at each look; what does not fit counts as changed when its timestamps change.
_READ_BYTES = 50_000_000
# To open a file takes as long as to read so much.
_FILE_COSTS_BYTES = 4000
TICK_S = 0.02
"""Timestamps of files may be this many seconds behind."""
IN_NO_OTHER = "--ignore-submodules=dirty"
"""Keeps git out of repositories within the tree, whose settings may be an agent's."""
LINES = "--numstat -z --no-renames --no-ext-diff"
"""Has git print for each file how many lines differ."""
# git's name for the empty tree.
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
# Seconds that a lock must stay unchanged before it counts as orphaned.
_LOCKED_S = 1.0
_STATUS = "status --porcelain=v2 --branch --no-ahead-behind -z --untracked-files=all --no-renames " + IN_NO_OTHER
# How many fields precede the name in a line that begins like this; they describe the file in the index.
_FIELDS = {"1": 8, "u": 10, "?": 1}


def run_git(
    *arguments: str,
    cwd: str | Path = ".",
    env: Mapping[str, str] = os.environ,
    stdin: bytes = b"",
    timeout_s: float = _TIMEOUT_S,
) -> Finished:
    """Runs git and returns its result; exit code 127 if git is missing.

    It takes no optional lock, since the agent may be using the repository. It asks no fsmonitor, fetches nothing, and
    does not take a folder that only looks like a repository for one.
    """
    pinned = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")
    argv = ["git", "--no-optional-locks", *pinned, "-C", str(cwd), *arguments]
    try:
        return call_program(
            argv, timeout_s=timeout_s, env={**env, "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"}, stdin=stdin
        )
    except OSError as error:
        return Finished(code=127, stdout=b"", stderr=str(error).encode(errors="replace"))


def error_text(done: Finished) -> str:
    """Why git failed, in its own words, or else its exit code; empty if it did not."""
    message = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ").removeprefix("error: ")
    return (message or str(done.code)) if done.code else ""


def nul_terminated(names: Iterable[str]) -> bytes:
    """The names in the form that git reads with `-z`."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)


def names_in(printed: bytes) -> list[str]:
    """Splits what git prints with `-z` into names."""
    return os.fsdecode(printed).split("\0")[:-1]


_Files = dict[str, tuple[str, object]]
# A commit, empty without a repository or before the first one; and every file that differs from it, with what git says
# of it and what identifies its content.
_Tree = tuple[str, _Files]


def with_lines_and_files(commits: Commits, numstat: Iterable[str]) -> Commits:
    """Returns these commits with the lines that they add and remove, and their files, as `--numstat` prints them."""
    rows = [row.lstrip("\n").split("\t", 2) for row in numstat]
    # a dash marks a binary file
    added, removed = (sum(int(row[at]) for row in rows if row[at] != "-") for at in (0, 1))
    return replace(commits, added=added, removed=removed, files=[row[2] for row in rows])


def git_folder(tree: Path) -> Path:
    """The path of the .git folder of this working tree."""
    folder = tree / ".git"
    leads = read_text_or_empty(folder).strip().removeprefix("gitdir: ")
    return tree / (leads or folder)  # an empty file leads nowhere


def remove_orphaned_locks(tree: Path, since: float) -> list[Path]:
    """Removes locks that are newer than `since`, in seconds since 1970, and have no owner; returns their paths.

    Other programs than git lock a repository too, for a moment: so a lock must stay unchanged for a while.
    """
    folder = git_folder(tree)
    locks = [*folder.glob("*.lock"), *folder.glob("refs/**/*.lock")]
    new = {lock: at for lock in locks if (at := touched_at(lock)) > since - TICK_S}
    if not new or is_git_running(tree):
        return []
    time.sleep(_LOCKED_S)
    orphaned = [lock for lock, at in new.items() if touched_at(lock) == at]
    for lock in orphaned:
        with suppress(OSError):
            lock.unlink()
    return orphaned


def touched_at(path: Path) -> float:
    """When a file last changed (its ctime, which programs cannot set back); 0 if it is gone."""
    with suppress(OSError):
        return path.lstat().st_ctime
    return 0.0


class ChangeFinder:
    """Finds out what changed in the working tree around `top`, without ralph's `own` files."""

    def __init__(self, top: Path, own: Sequence[Path]):
        self.tree = working_tree(top)
        real = os.path.realpath(self.tree)
        self._ignored = {os.path.relpath(path, real) for one in own for path in (one.absolute(), one.resolve())}
        self._own = os.path.relpath(os.path.realpath(state_home()), real) + os.sep
        self.locks_since = time.time()
        # For each file, by what to tell that it was touched since the last look, and what identified its content.
        self._known = dict[str, tuple[object, object]]()
        self._bytes_left = _READ_BYTES
        self.disturbed = False
        """Whether something else than an iteration may have changed files since the last look."""

    def take_first_look(self) -> None:
        """Takes the first look; changes from now on are an iteration's. Runs the first git."""
        seen = self._look_by_git()
        self._look = self._look_by_git if seen else self._look_without_git
        self._seen = seen or self._look_without_git()

    def begin_iteration(self) -> None:
        """Takes note that an iteration begins, whose changes and git locks are to be found."""
        if self.disturbed:
            self.take_changes()
        self.locks_since = time.time()

    def take_changes(self) -> tuple[Commits, Sequence[str]]:
        """Returns the commits since the last look, and the files that changed, committed or not."""
        self.disturbed, self._bytes_left = False, _READ_BYTES
        now = self._look()
        if now is None:
            return Commits(), ()
        (base, before), (head, files), self._seen = self._seen, now, now
        names = {name for name, _ in before.items() ^ files.items()}
        commits = Commits(head=head, base=base)
        if head not in ("", base):
            count = int(run_git("rev-list", "--count", f"{base}..{head}" if base else head, cwd=self.tree).stdout or 0)
            printed = run_git("diff", *LINES.split(), base or _EMPTY_TREE, head, cwd=self.tree).stdout
            commits = with_lines_and_files(replace(commits, count=count), names_in(printed))
            names.update(commits.files)
        return commits, [name for name in sorted(names) if not self._is_own(name)]

    def tree_version(self) -> str:
        """The commit at the last look, with `-dirty-DIGEST` if there were uncommitted changes; empty without one."""
        head, found = self._seen
        differ = sorted(one for one in found.items() if not self._is_own(one[0]))
        dirty = f"-dirty-{zlib.crc32(repr(differ).encode()):08x}" if differ else ""
        return head and head[:10] + dirty

    def _is_own(self, name: str) -> bool:
        return name in self._ignored or name.startswith(self._own)

    def _look_by_git(self) -> _Tree | None:
        """Looks at the working tree by git, without ignored files; None if git cannot tell."""
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.tree.parent)}  # none above, if this one is broken
        if not (self.tree / ".git").exists() or (done := run_git(*_STATUS.split(), cwd=self.tree, env=env)).code:
            return None
        head, files = "", _Files()
        for entry in names_in(done.stdout):
            if entry.startswith("# branch.oid "):
                head = entry.split()[-1].removeprefix("(initial)")
            elif entry[0] in _FIELDS:
                name = entry.split(" ", _FIELDS[entry[0]])[-1]
                files[name] = entry, self._identify_content(name)
        return head, files

    def _look_without_git(self) -> _Tree:
        """Looks at all files, if git cannot tell which have changed."""
        files = _Files()
        for folder, inside, names in os.walk(self.tree):
            inside[:] = [name for name in inside if name != ".git"]
            for one in names:
                name = os.path.relpath(f"{folder}/{one}", self.tree)
                files[name] = "", self._identify_content(name)
            if len(files) > _FILES_AT_MOST:
                break
        return "", files

    def _identify_content(self, name: str) -> object:
        """Identifies a file's content and permissions; its timestamps do so if too much would have to be read."""
        with suppress(OSError):
            there = os.lstat(path := f"{self.tree}/{name}")
            stamps = there.st_mtime_ns, there.st_size, there.st_mode, there.st_ino
            seen, content = self._known.get(name, (None, None))
            if stamps != seen:
                content = stamps
                if stat.S_ISREG(there.st_mode) and there.st_size < self._bytes_left:
                    self._bytes_left -= there.st_size + _FILE_COSTS_BYTES
                    with open(path, "rb") as file:  # noqa: PTH123 - a third of Path's time
                        content = there.st_mode, there.st_size, zlib.crc32(file.read())
                self._known[name] = stamps, content
            return content
        return None
