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
from ralph.changes import NAMED, pathspecs, remove_orphaned_locks, touched_at
from ralph.errors import RalphError
from ralph.strict.repository import Aside, Change, Git, Repository, ended, seen

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
    """The shadow of the tree at `root`, in `folder`.

    `own` are the names of ralph's files in the tree, which it never looks at; `governing` names those at which it
    always does, also where git ignores them.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        own: Iterable[str],
        governing: Callable[[], Mapping[str, int]],
        repository: Repository | None,
    ) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {"GIT_DIR": str(folder), "GIT_COMMON_DIR": str(folder), "GIT_WORK_TREE": str(root)}
        super().__init__(root, {**env, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull})
        self.folder, self._governing, self._repository = folder, governing, repository
        self.scratch = folder / "scratch-index"
        self._real = os.path.realpath(root)
        self._own = sorted(name for name in own if not name.startswith(".."))
        self._rules = b""
        self.forced: Mapping[str, int] = {}
        """Those that govern, as they were at the last look."""
        self.tree = ""
        """How all files were when it began."""
        self._began = 0.0
        self._within: set[str] = set()
        """Repositories within the tree, at which it does not look."""
        self.known: set[str] = set()
        """Those of them that were there when it began."""
        self.modes: dict[str, int] = {}
        """Of files whose mode says more than whether they are programs."""

    def _open(self) -> None:
        """From now on it goes by the rules for ignoring that hold beside the tree's own.

        It takes the project's packs: what is in them need not be written again.
        """
        repository, objects = self._repository, self.folder / "objects"
        self._rules = b"/.jj/\n" + (repository.rules() if repository else b"")
        self._refuse_links()
        if sum(one.stat().st_size for one in objects.glob("0?/*")) * 16 > _LARGE_BYTES:  # 16 of 256 folders
            shutil.rmtree(self.folder)
        for path in (objects / "pack", self.folder / "refs", self.folder / "info"):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if is_new := not (self.folder / "HEAD").exists():
            (self.folder / "HEAD").write_text("ref: refs/heads/none\n")
            for path in (repository.common / "objects" / "pack").glob("pack-*") if repository else ():
                with contextlib.suppress(OSError):  # another file system
                    (objects / "pack" / path.name).hardlink_to(path)
        # of a ralph that was killed
        remove_orphaned_locks([self.folder / f"{name}.lock" for name in ("index", self.scratch.name)], self.root)
        try:
            self._add()
        except RalphError:  # the disk may be full of what was looked at
            if is_new:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise
        known = set(repository.tracked_though_ignored() if repository else ())
        ignored = self._names("ls-files", "-c", "-i", "-z", "--exclude-standard")
        self._forget(set(ignored) - known - {*self.forced})
        self._add_by_force(known.difference(ignored))
        entries = [entry.partition("\t") for entry in self._names("ls-files", "-s", "-z")]
        self._leave_alone(name for about, _, name in entries if about.startswith(Change().mode))
        self.modes = self._odd_modes(name for _, _, name in entries)

    def begin(self) -> None:
        """An iteration begins: how all files are now is how they can be put back."""
        if not self.tree:
            self._open()
        self._began = time.time() - _TICK_S
        self._within = {name for name in self._within if os.path.lexists(self.root / name / ".git")}
        self._add()
        self.known = set(self._within)
        self.tree = self._run("write-tree").decode().strip()

    def resume(self, began: float, tree: str, modes: Mapping[str, int], known: Iterable[str]) -> bool:
        """Whether it knows that iteration, which began some time ago; then it goes on with it."""
        self._open()
        self.tree, self._began, self.modes, self.known = tree, began, dict(modes), set(known)
        return self._call("cat-file", "-e", tree).code == 0

    def changes(self) -> dict[str, Change]:
        """The files that are not as they were; none where the tree is not where it was."""
        if not self._is_there():
            return {}
        self._add()
        printed = self._names("diff-index", "--cached", "-z", "--no-renames", "--no-abbrev", self.tree)
        found = {}
        for about, name in zip(printed[::2], printed[1::2], strict=True):
            was, mode, _, holds, _ = about[1:].split(" ")
            found[name] = Change(was, mode, holds)
        self._leave_alone(name for name, change in found.items() if change.is_repository)
        if any(name.endswith(_RULES) for name in found):  # what is only no longer ignored is not new
            since = self._began  # by ctime, which nobody can set back
            found = {
                n: one for n, one in found.items() if not one.is_new or (touched_at(self.root / n) or since) >= since
            }
        new = [name for name in self._within - self.known if os.path.lexists(self.root / name)]
        return found | dict.fromkeys(new, Change())

    def put_back(
        self, changes: dict[str, Change], wanted: Callable[[str, Change], bool], aside: Aside
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
            self._put(first if rules else wrong, aside)
            changes = self.changes()
        raise RalphError(f"{', '.join(sorted(wrong)[:3])}: cannot be put back in {self.root}", 1)

    def packed(self, changes: Mapping[str, Change]) -> bytes:
        """What these files hold now, for another repository."""
        holds = {f"{one.holds}\n" for one in changes.values() if one.holds.strip("0")}
        return self._run("pack-objects", "-q", "--stdout", stdin="".join(holds).encode())

    def held(self, name: str) -> bytes:
        """What a file held when it began; nothing where there was none."""
        return self._call("cat-file", "blob", f"{self.tree}:{name}").stdout

    def _is_there(self) -> bool:
        return os.path.realpath(self.root) == self._real and self.root.is_dir()

    def _refuse_links(self) -> None:
        """RalphError where it leads elsewhere: an agent could write there, too."""
        links = [str(place) for place in (self.folder.parent, self.folder) if place.is_symlink()]
        for place in (self.folder, self.folder / "objects"):
            if place.is_dir():
                links += [entry.path for entry in os.scandir(place) if entry.is_symlink()]
        if links:
            raise RalphError(f"{links[0]}: is a link, and ralph made none there", 1, fix=f"remove {links[0]}")

    def _add(self) -> None:
        """Looks at all files; by its own settings, whatever somebody made of them."""
        self._refuse_links()
        kind = self._repository.object_format if self._repository else "sha1"
        files.overwrite(self.folder / "config", _CONFIG.format(format=kind).encode())
        files.overwrite(self.folder / "info" / "attributes", _TO_THE_BYTE)
        files.overwrite(self.folder / "info" / "exclude", self._rules)
        all_files = ("--", ".", *(f":(top,exclude,literal){name}" for name in (*self._own, *sorted(self._within))))
        done = self._call("add", "--all", "--ignore-errors", *all_files)
        if done.code not in (0, 1) or _FULL in done.stderr:  # else it would seem that nothing has changed
            for half in (self.folder / "objects").glob("*/tmp_obj_*"):  # which would keep a full disk full
                half.unlink()
            raise self._failure("add", done)
        if done.code:
            others = self._names("ls-files", "-o", "-z", "--exclude-standard", *all_files)
            self._leave_alone(name.rstrip("/") for name in others if name.endswith("/"))  # one without any commit
            # something cannot be read, such as a pipe in a file's place: as good as gone
            self._forget(self._names("diff-files", "--name-only", "-z", "--ignore-submodules"))
        governing = self._governing()
        self._add_by_force(governing.keys() - self.forced.keys())  # else git goes on looking at it
        self.forced = governing

    def _add_by_force(self, names: Iterable[str]) -> None:
        there = {name: at.st_mode for name in names if (at := seen(self.root, name))}
        if files_there := [name for name, mode in there.items() if stat.S_ISREG(mode) or stat.S_ISLNK(mode)]:
            self._run("add", "--force", "--ignore-errors", *NAMED, stdin=pathspecs(files_there))

    def _leave_alone(self, within: Iterable[str]) -> None:
        """Else git would run in these repositories at each look."""
        names = set(within)
        self._within |= names
        self._forget(names)

    def _forget(self, names: Collection[str]) -> None:
        if names:
            self._run("update-index", "--force-remove", "-z", "--stdin", stdin=ended(names))

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

    def _put(self, wrong: Mapping[str, Change], aside: Aside) -> None:
        if not self._is_there():
            raise RalphError(f"{self.root} leads to {os.path.realpath(self.root)} now; nothing was put back there", 4)
        for name, change in wrong.items():
            self._make_room(name, aside)
            if change.is_new:
                with contextlib.suppress(OSError):  # not empty
                    for folder in [*(self.root / name).parents][: name.count("/")]:
                        folder.rmdir()
        self._run("read-tree", "--reset", self.tree)  # what is new would be known from now on
        if back := [name for name, change in wrong.items() if not change.is_new]:
            self._run("restore", "--worktree", *NAMED, stdin=pathspecs(back))
        for name in self.modes.keys() & wrong.keys():
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
