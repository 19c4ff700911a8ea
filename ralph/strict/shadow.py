"""The shadow: a git repository of ralph's own, outside of the project, that knows how the project's files were.

Its work tree is the project's, and it shares nothing else with the repository there: no index, HEAD, settings or
hooks. So nothing that an agent does to that changes what the shadow says, and a folder without git is watched just as
well. Files go in and come out to the byte. What is ignored is left alone, and so is a repository within.

What is not as it was is moved aside, never removed, and git puts back what was there: it follows no links.
"""

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph import files
from ralph.changes import NAMED, complaint, git, names_in, pathspecs, remove_orphaned_locks, touched_at
from ralph.errors import RalphError
from ralph.process import Finished

Aside = Callable[[str], Path]
"""A free path where something of that name can be kept."""

_CONFIG = """\
[core]
\trepositoryFormatVersion = 1
\tbare = false
\thooksPath = /dev/null
\texcludesFile = /dev/null
\tfsmonitor = false
\tcompression = 0
[extensions]
\tobjectFormat = {format}
[gc]
\tauto = 0
[advice]
\taddEmbeddedRepo = false
"""
_TO_THE_BYTE = b"* -text -eol -crlf -ident -filter -working-tree-encoding\n"
_RULES = ".gitignore"
_WITHIN = "160000"
"""The mode of a repository within."""
_NONE = "000000"
_FULL = b"failed to insert into database"
_ROUNDS = 9
_TICK_S = 0.02
"""Clocks of files tick every 4 to 10 ms."""
_TIMEOUT_S = 600.0
_LARGE_BYTES = 2_000_000_000
_SAMPLED = 16
"""Of the 256 folders of objects."""
_WHO = {f"GIT_{who}_{what}": "ralph" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of a file between two looks: its modes in git's words, and the name of what it holds now."""

    was: str
    mode: str
    holds: str

    @property
    def is_new(self) -> bool:
        """Whether it was not there."""
        return self.was == _NONE

    @property
    def is_repository(self) -> bool:
        """Whether it is a folder with a repository of its own."""
        return self.mode == _WITHIN


class Shadow:
    """The shadow of the tree at `root`, in `folder`; `own` are ralph's files there, which it never looks at."""

    def __init__(self, root: Path, folder: Path, own: Collection[Path], object_format: str = "sha1") -> None:
        self.root, self.folder, self._format = root, folder, object_format
        self._real = os.path.realpath(root)
        inside = {os.path.relpath(os.path.realpath(path), self._real) for path in own}
        self._own = sorted(name for name in inside if not name.startswith(".."))
        self._rules = b""
        self._began = 0.0
        self.within: set[str] = set()
        """Repositories within the tree, at which it does not look."""
        self._met: set[str] = set()
        """Those of them that were not there when it began."""
        self.modes: dict[str, int] = {}
        """Of files whose mode says more than whether they are programs."""
        keep = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        places = {"GIT_DIR": "", "GIT_COMMON_DIR": "", "GIT_INDEX_FILE": "index", "GIT_OBJECT_DIRECTORY": "objects"}
        self._env = {**keep, **{name: str(folder / place) for name, place in places.items()}}
        self._env |= {"GIT_WORK_TREE": str(root), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}

    @property
    def is_there(self) -> bool:
        """Whether the tree is where it was, and no link to another one."""
        return os.path.realpath(self.root) == self._real and self.root.is_dir()

    def open(self, rules: bytes, known: Collection[str], borrowed: Path | None) -> None:
        """A run begins: it goes by these rules for ignoring beside the tree's own, but looks at what is `known` anyway.

        From `borrowed`, the project's objects, it takes the packs: what is in them need not be written again.
        """
        self._rules = rules
        self._refuse_links()
        if self._is_large():
            shutil.rmtree(self.folder)
        for name in ("objects/pack", "refs", "info"):
            (self.folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        if is_new := not (self.folder / "HEAD").exists():
            (self.folder / "HEAD").write_text("ref: refs/heads/none\n")
            for path in (borrowed / "pack").glob("pack-*") if borrowed else ():
                if path.suffix in (".pack", ".idx"):
                    with contextlib.suppress(OSError):  # another file system
                        (self.folder / "objects" / "pack" / path.name).hardlink_to(path)
        self._unlock()
        self.within = set()
        try:
            self._add()
        except RalphError:  # the disk may be full of what was looked at
            if is_new:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise
        ignored = names_in(self._run("ls-files", "-c", "-i", "-z", "--exclude-standard"))
        if left := set(ignored) - set(known):
            self._run("update-index", "--force-remove", "-z", "--stdin", stdin=_plain(left))
        self._add_by_force([name for name in set(known) - set(ignored) if not self._is_at(name, stat.S_ISDIR)])
        entries = [entry.partition("\t") for entry in names_in(self._run("ls-files", "-s", "-z"))]
        self._leave_alone(name for about, _, name in entries if about.startswith(_WITHIN))
        self.modes = self._odd_modes(name for _, _, name in entries)

    def resume(self, rules: bytes, modes: Mapping[str, int], within: Iterable[str], began: float) -> None:
        """Goes on where one of before died."""
        self._rules, self.modes, self.within, self._began = rules, dict(modes), set(within), began
        self._refuse_links()
        self._unlock()

    def begin(self, forced: Collection[str] = ()) -> str:
        """How all files are now, also these though they are ignored: the name of a tree."""
        self._began = time.time() - _TICK_S
        self.within = {name for name in self.within if os.path.lexists(self.root / name / ".git")}
        self._add(forced)
        self.modes |= self._odd_modes(forced)
        self._met = set()
        return self._run("write-tree").decode().strip()

    def changes(self, before: str, forced: Collection[str] = ()) -> dict[str, Change]:
        """The files that are not as they were at a look."""
        self._add(forced)
        printed = names_in(self._run("diff-index", "--cached", "-z", "--no-renames", "--no-abbrev", before))
        found = {}
        for about, name in zip(printed[::2], printed[1::2], strict=True):
            was, mode, _, holds, _ = about[1:].split(" ")
            if was != _WITHIN:
                found[name] = Change(was=was, mode=mode, holds=holds)
        self._leave_alone(name for name, change in found.items() if change.is_repository)
        if any(name.endswith(_RULES) for name in found):  # what is only no longer ignored is not new
            found = {name: one for name, one in found.items() if not one.is_new or self._is_young(name)}
        there = [name for name in self._met if os.path.lexists(self.root / name)]
        return found | dict.fromkeys(there, Change(was=_NONE, mode=_WITHIN, holds=""))

    def put_back(
        self, before: str, wrong: Mapping[str, Change], wanted: Callable[[str, Change], bool], aside: Aside
    ) -> None:
        """Makes these files what they were, and whatever else is wanted then. What stood in their place is kept aside.

        Rules for ignoring come first, and then it looks again: what they hid is seen, what they showed is not.
        """
        for _ in range(_ROUNDS):
            if not wrong:
                return
            rules = {name for name in wrong if name.endswith(_RULES)}
            first = {name: one for name, one in wrong.items() if name in rules or one.is_repository}
            self._put(before, first if rules else wrong, aside)
            if rules:  # what they showed was added, and would be known from now on
                self._run("read-tree", "--reset", before)
            wrong = {name: one for name, one in self.changes(before).items() if wanted(name, one)}
        raise RalphError(f"{', '.join(sorted(wrong)[:3])}: cannot be put back in {self.root}", 1)

    def tree_of(self, before: str, changes: Mapping[str, Change], without: Collection[str]) -> str:
        """The name of a tree with these changes to that look; ignored files are `without`."""
        env = {"GIT_INDEX_FILE": str(self.folder / "scratch-index")}
        gone = [f"0 {'0' * len(before)}\t{name}" for name in without]
        new = [f"{one.mode if one.mode != _NONE else 0} {one.holds}\t{name}" for name, one in changes.items()]
        self._run("read-tree", before, env=env)
        self._run("update-index", "-z", "--index-info", stdin=_plain([*new, *gone]), env=env)
        return self._run("write-tree", env=env).decode().strip()

    def objects(self, tree: str) -> list[str]:
        """The names of all that a tree is made of."""
        return self._run("rev-list", "--objects", "--no-object-names", tree).decode().split()

    def packed(self, names: Iterable[str]) -> bytes:
        """These objects, for another repository."""
        return self._run("pack-objects", "-q", "--stdout", stdin="".join(f"{name}\n" for name in names).encode())

    def keep(self, tree: str, ref: str, message: str) -> None:
        """A commit of its own with this tree, under this ref."""
        commit = self._run("commit-tree", tree, stdin=message.encode(), env=_WHO).decode().strip()
        self._run("update-ref", ref, commit)

    def held(self, before: str, name: str) -> bytes:
        """What a file held at a look; nothing where there was none."""
        return self._call("cat-file", "blob", f"{before}:{name}").stdout

    def knows(self, tree: str) -> bool:
        """Whether it has made this look."""
        return (self.folder / "HEAD").is_file() and self._call("cat-file", "-e", tree).code == 0

    def _is_large(self) -> bool:
        """Whether it has grown so that a new one is better; not where failed tries are kept in it alone."""
        if any(one.is_file() for one in (self.folder / "refs").rglob("*")):
            return False
        some = [self.folder / "objects" / f"{number:02x}" for number in range(_SAMPLED)]
        sizes = [entry.stat().st_size for one in some if one.is_dir() for entry in os.scandir(one)]
        return sum(sizes) * (256 // _SAMPLED) > _LARGE_BYTES

    def _unlock(self) -> None:
        """Removes what a git of a ralph that was killed left."""
        locks = [self.folder / name for name in ("index.lock", "scratch-index.lock")]
        remove_orphaned_locks(locks, self.root)

    def _refuse_links(self) -> None:
        """RalphError where it leads elsewhere: an agent could write there, too."""
        for place in (self.folder.parent, self.folder, self.folder / "objects"):
            inside = os.scandir(place) if place.is_dir() and place != self.folder.parent else ()
            if links := [one for one in (str(place), *(entry.path for entry in inside)) if os.path.islink(one)]:  # noqa: PTH114 - strings
                raise RalphError(f"{links[0]}: is a link, and ralph made none there", 1, fix=f"remove {links[0]}")

    def _settle_itself(self) -> None:
        """Its settings are what they shall be."""
        self._refuse_links()
        files.overwrite(self.folder / "config", _CONFIG.format(format=self._format).encode())
        files.overwrite(self.folder / "info" / "attributes", _TO_THE_BYTE)
        files.overwrite(self.folder / "info" / "exclude", self._rules)

    def _add(self, forced: Collection[str] = ()) -> None:
        """Looks at all files."""
        self._settle_itself()
        apart = [f":(top,exclude,literal){name}" for name in (*self._own, *sorted(self.within))]
        done = self._call("add", "--all", "--ignore-errors", "--", ".", *apart)
        if done.code not in (0, 1) or _FULL in done.stderr:  # else it would seem that nothing has changed
            for half in (self.folder / "objects").glob("*/tmp_obj_*"):  # which would keep a full disk full
                half.unlink()
            raise self._failure("add", done)
        if done.code:
            other = names_in(self._run("ls-files", "-o", "-z", "--exclude-standard", "--", ".", *apart))
            self._leave_alone(name.rstrip("/") for name in other if name.endswith("/"))  # one without any commit
            # something cannot be read, such as a pipe in a file's place: as good as gone
            unread = self._run("diff-files", "--name-only", "-z", "--ignore-submodules")
            self._run("update-index", "--force-remove", "-z", "--stdin", stdin=unread)
        self._add_by_force(forced)

    def _add_by_force(self, names: Collection[str]) -> None:
        if there := [name for name in names if self._is_at(name, lambda mode: not stat.S_ISFIFO(mode))]:
            self._run("add", "--force", "--ignore-errors", *NAMED, stdin=pathspecs(there))

    def _leave_alone(self, within: Iterable[str]) -> None:
        """Forgets the repositories within; else git would run in them at each look."""
        if names := set(within):
            self.within |= names
            self._met |= names
            self._run("update-index", "--force-remove", "-z", "--stdin", stdin=_plain(names))

    def _is_at(self, name: str, kind: Callable[[int], bool]) -> bool:
        with contextlib.suppress(OSError):
            folder = os.path.dirname(f"{self._real}/{name}")  # noqa: PTH120 - a string
            return os.path.realpath(folder) == folder and kind((self.root / name).lstat().st_mode)
        return False

    def _is_young(self, name: str) -> bool:
        """Whether it was touched since the beginning, in a way that nobody can set back."""
        at = touched_at(self.root / name)
        return at is None or at >= self._began

    def _odd_modes(self, names: Iterable[str]) -> dict[str, int]:
        mask = os.umask(0)
        os.umask(mask)
        usual, found = (0o666 & ~mask, 0o777 & ~mask), {}
        for name in names:
            with contextlib.suppress(OSError):
                mode = os.lstat(f"{self.root}/{name}").st_mode
                if stat.S_ISREG(mode) and stat.S_IMODE(mode) not in usual:
                    found[name] = stat.S_IMODE(mode)
        return found

    def _put(self, before: str, wrong: Mapping[str, Change], aside: Aside) -> None:
        if not self.is_there:
            raise RalphError(f"{self.root} leads to {os.path.realpath(self.root)} now; nothing was put back there", 4)
        for name in wrong:
            self._make_room(name, aside)
        back = {name for name, one in wrong.items() if not one.is_new}
        new = (name for name, one in wrong.items() if one.is_new and not one.is_repository)
        # what lies in a file's place is gone from the index with it
        files_back = [*back, *(name for name in new if back.isdisjoint(map(str, Path(name).parents)))]
        if files_back:
            argv = ("restore", f"--source={before}", "--staged", "--worktree", *NAMED)
            self._run(*argv, stdin=pathspecs(files_back))
        for name in files_back:
            if name in self.modes and self._is_at(name, stat.S_ISREG):
                with os.fdopen(os.open(self.root / name, os.O_RDONLY | os.O_NOFOLLOW)) as file:
                    os.fchmod(file.fileno(), self.modes[name])

    def _make_room(self, name: str, aside: Aside) -> None:
        """Moves away what is there, or in the place of a folder above it; by real folders only."""
        at, parts = self.root, Path(name).parts
        for number, part in enumerate(parts, 1):
            at /= part
            try:
                is_folder = stat.S_ISDIR(at.lstat().st_mode)
            except FileNotFoundError:
                return
            if number == len(parts) or not is_folder:
                shutil.move(at, aside(os.path.relpath(at, self.root)))
                return

    def _run(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        done = self._call(*arguments, stdin=stdin, env=env)
        if done.code:
            raise self._failure(arguments[0], done)
        return done.stdout

    def _failure(self, command: str, done: Finished) -> RalphError:
        return RalphError(f"{self.root} cannot be looked at: git {command}: {complaint(done)}", 1)

    def _call(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Finished:
        given = {**self._env, **(env or {})}
        return git(*arguments, cwd=self.root, env=given, stdin=stdin, timeout_s=_TIMEOUT_S)


def _plain(names: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(name) + b"\0" for name in names)
