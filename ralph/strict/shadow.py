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
from pathlib import Path

from ralph import files
from ralph.changes import NAMED, names_in, pathspecs, remove_orphaned_locks, touched_at
from ralph.errors import RalphError
from ralph.strict.repository import Aside, Change, Git, ended, seen

_CONFIG = """\
[core]
\trepositoryFormatVersion = 1
\tbare = false
\texcludesFile = /dev/null
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
_FULL = b"failed to insert into database"
_ROUNDS = 9
_TICK_S = 0.02
"""Clocks of files tick every 4 to 10 ms."""
_LARGE_BYTES = 2_000_000_000


class Shadow(Git):
    """The shadow of the tree at `root`, in `folder`; `own` are ralph's files there, which it never looks at."""

    def __init__(self, root: Path, folder: Path, own: Collection[Path], object_format: str = "sha1") -> None:
        self.folder, self._format, self._real = folder, object_format, os.path.realpath(root)
        self.scratch = folder / "scratch-index"
        keep = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        places = {"GIT_DIR": "", "GIT_COMMON_DIR": "", "GIT_INDEX_FILE": "index", "GIT_OBJECT_DIRECTORY": "objects"}
        keep |= {name: str(folder / place) for name, place in places.items()}
        none = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        super().__init__(root, {**keep, **none, "GIT_WORK_TREE": str(root)})
        inside = {os.path.relpath(os.path.realpath(path), self._real) for path in own}
        self._own = sorted(name for name in inside if not name.startswith(".."))
        self._rules = b""
        self._began = 0.0
        self.within: set[str] = set()
        """Repositories within the tree, at which it does not look."""
        self.known: set[str] = set()
        """Those of them that were there when it began."""
        self.modes: dict[str, int] = {}
        """Of files whose mode says more than whether they are programs."""

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
                with contextlib.suppress(OSError):  # another file system
                    (self.folder / "objects" / "pack" / path.name).hardlink_to(path)
        # of a ralph that was killed
        remove_orphaned_locks([self.folder / name for name in ("index.lock", "scratch-index.lock")], self.root)
        try:
            self._add()
        except RalphError:  # the disk may be full of what was looked at
            if is_new:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise
        ignored = set(names_in(self._run("ls-files", "-c", "-i", "-z", "--exclude-standard")))
        self._forget(ignored.difference(known))
        self._add_by_force([one for one in known if (at := seen(self.root, one)) and not stat.S_ISDIR(at.st_mode)])
        entries = [entry.partition("\t") for entry in names_in(self._run("ls-files", "-s", "-z"))]
        self._leave_alone(name for about, _, name in entries if about.startswith(Change().mode))
        self.modes = self._odd_modes(name for _, _, name in entries)

    def begin(self, forced: Collection[str] = ()) -> str:
        """How all files are now, also these though they are ignored: the name of a tree."""
        self._began = time.time() - _TICK_S
        self.within = {name for name in self.within if os.path.lexists(self.root / name / ".git")}
        self._add(forced)
        self.modes |= self._odd_modes(forced)
        self.known = set(self.within)
        return self._run("write-tree").decode().strip()

    def resume(self, began: float, modes: Mapping[str, int], known: Iterable[str]) -> None:
        """It began some time ago, as was noted then."""
        self._began, self.modes, self.known = began, dict(modes), set(known)

    def changes(self, before: str, forced: Collection[str] = ()) -> dict[str, Change]:
        """The files that are not as they were at a look; none where the tree is not where it was."""
        if not self.is_there:
            return {}
        self._add(forced)
        printed = names_in(self._run("diff-index", "--cached", "-z", "--no-renames", "--no-abbrev", before))
        found = {}
        for about, name in zip(printed[::2], printed[1::2], strict=True):
            was, mode, _, holds, _ = about[1:].split(" ")
            found[name] = Change(was, mode, holds)
        self._leave_alone(name for name, change in found.items() if change.is_repository)
        if any(name.endswith(_RULES) for name in found):  # what is only no longer ignored is not new
            found = {name: one for name, one in found.items() if not one.is_new or self._is_young(name)}
        new = [name for name in self.within - self.known if os.path.lexists(self.root / name)]
        return found | dict.fromkeys(new, Change())

    def put_back(
        self, before: str, changes: dict[str, Change], wanted: Callable[[str, Change], bool], aside: Aside
    ) -> dict[str, Change]:
        """Makes those of these files what they were that are wanted; what has changed then.

        What stood in their place is kept aside. Rules for ignoring come first, and then it looks again: what they hid
        is seen, what they showed is not.
        """
        for _ in range(_ROUNDS):
            wrong = {name: one for name, one in changes.items() if wanted(name, one)}
            if not wrong:
                return changes
            rules = [name for name in wrong if name.endswith(_RULES)]
            first = {name: one for name, one in wrong.items() if name in rules or one.is_repository}
            self._put(before, first if rules else wrong, aside)
            changes = self.changes(before)
        raise RalphError(f"{', '.join(sorted(wrong)[:3])}: cannot be put back in {self.root}", 1)

    def packed(self, changes: Mapping[str, Change]) -> bytes:
        """What these files hold now, for another repository."""
        holds = {f"{one.holds}\n" for one in changes.values() if not (one.is_gone or one.is_repository)}
        return self._run("pack-objects", "-q", "--stdout", stdin="".join(holds).encode())

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
        sampled = (self.folder / "objects").glob("0?/*")  # 16 of 256 folders
        return sum(one.stat().st_size for one in sampled) * 16 > _LARGE_BYTES

    def _refuse_links(self) -> None:
        """RalphError where it leads elsewhere: an agent could write there, too."""
        links = [str(place) for place in (self.folder.parent, self.folder) if place.is_symlink()]
        for place in (self.folder, self.folder / "objects"):
            if place.is_dir():
                links += [entry.path for entry in os.scandir(place) if entry.is_symlink()]
        if links:
            raise RalphError(f"{links[0]}: is a link, and ralph made none there", 1, fix=f"remove {links[0]}")

    def _add(self, forced: Collection[str] = ()) -> None:
        """Looks at all files; by its own settings, whatever somebody made of them."""
        self._refuse_links()
        files.overwrite(self.folder / "config", _CONFIG.format(format=self._format).encode())
        files.overwrite(self.folder / "info" / "attributes", _TO_THE_BYTE)
        files.overwrite(self.folder / "info" / "exclude", self._rules)
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
            self._forget(names_in(self._run("diff-files", "--name-only", "-z", "--ignore-submodules")))
        self._add_by_force(forced)

    def _add_by_force(self, names: Iterable[str]) -> None:
        if there := [one for one in names if (at := seen(self.root, one)) and not stat.S_ISFIFO(at.st_mode)]:
            self._run("add", "--force", "--ignore-errors", *NAMED, stdin=pathspecs(there))

    def _leave_alone(self, within: Iterable[str]) -> None:
        """Else git would run in these repositories at each look."""
        names = set(within)
        self.within |= names
        self._forget(names)

    def _forget(self, names: Collection[str]) -> None:
        if names:
            self._run("update-index", "--force-remove", "-z", "--stdin", stdin=ended(names))

    def _is_young(self, name: str) -> bool:
        """Whether it was touched since the beginning, in a way that nobody can set back."""
        at = touched_at(self.root / name)
        return at is None or at >= self._began

    def _odd_modes(self, names: Iterable[str]) -> dict[str, int]:
        mask = os.umask(0)
        os.umask(mask)
        found = {}
        for name in names:
            with contextlib.suppress(OSError):
                mode = os.lstat(f"{self.root}/{name}").st_mode
                if stat.S_ISREG(mode) and stat.S_IMODE(mode) not in (0o666 & ~mask, 0o777 & ~mask):
                    found[name] = stat.S_IMODE(mode)
        return found

    def _put(self, before: str, wrong: Mapping[str, Change], aside: Aside) -> None:
        if not self.is_there:
            raise RalphError(f"{self.root} leads to {os.path.realpath(self.root)} now; nothing was put back there", 4)
        for name in wrong:
            self._make_room(name, aside)
        for name in (one for one in wrong if wrong[one].is_new):
            with contextlib.suppress(OSError):  # not empty
                for folder in [*(self.root / name).parents][: name.count("/")]:
                    folder.rmdir()
        self._run("read-tree", "--reset", before)  # what is new would be known from now on
        back = [name for name, one in wrong.items() if not one.is_new]
        if back:
            self._run("restore", "--worktree", *NAMED, stdin=pathspecs(back))
        for name in self.modes.keys() & back:
            if (at := seen(self.root, name)) and stat.S_ISREG(at.st_mode):
                (self.root / name).chmod(self.modes[name])

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
