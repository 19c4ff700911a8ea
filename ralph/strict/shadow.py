"""The shadow: a git repository of ralph's own, outside of the project, that knows how the project's files were.

Its work tree is the project's, and its index is how all files were when an iteration began. It shares nothing else
with the repository there: no HEAD, settings or hooks. So nothing that an agent does to that changes what the shadow
says, and a folder without git is watched just as well. Files go in and come out to the byte. What is ignored is left
alone, and so is a repository within the tree.

What is not as it was is moved aside, never removed, and git writes what was there: it follows no links.
"""

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from pathlib import Path

from ralph import files
from ralph.changes import remove_orphaned_locks, touched_at
from ralph.errors import RalphError
from ralph.strict.repository import Git, Repository, standing, terminated

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
"""
_TO_THE_BYTE = b"* -text -eol -crlf -ident -filter -working-tree-encoding\n"
_RULES = ".gitignore"
_ROUNDS = 9
_TICK_S = 0.02
"""The times of files lie up to 10 ms in the past."""
_LARGE_BYTES = 2_000_000_000


class Change(Enum):
    """What became of a name in the tree since an iteration began."""

    NEW = "a file that was not there"
    DIFFERENT = "a file that is another one now, or gone"
    REPOSITORY = "a folder with a repository of its own, which was not there"


class Shadow(Git):
    """The shadow of the tree at `root`, in `folder`.

    `own` are the names of ralph's files in the tree, which are never looked at. `protected` finds the names of files
    that always are, also where git ignores them, with the time of their last change.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        own: Iterable[str],
        protected: Callable[[], Mapping[str, int]],
        repository: Repository | None,
    ) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {"GIT_DIR": str(folder), "GIT_COMMON_DIR": str(folder), "GIT_WORK_TREE": str(root)}
        super().__init__(root, {**env, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull})
        self.folder, self._find_protected, self._repository = folder, protected, repository
        self._real_root = os.path.realpath(root)
        self._own = [name for name in own if not name.startswith("..")]
        self._rules = b""
        """The rules for ignoring beside those in the tree, as they were when the run began."""
        self._began = 0.0
        self.protected: Mapping[str, int] = {}
        """The protected files at the last look."""
        self._protected_then: Collection[str] = ()
        """Those that were there when the iteration began."""
        self.checksum = ""
        """Of the index when the iteration began; nothing writes it until the next one begins."""
        self.left_alone: Collection[str] = ()
        """What was there then and is not in the index: repositories, and files that cannot be read."""
        self.modes: dict[str, int] = {}
        """Of files whose mode says more than whether they are programs."""

    def begin(self) -> None:
        """An iteration begins: how all files are now is how they can be put back."""
        also = () if self._rules else self._open()
        self._began, self.left_alone = time.time() - _TICK_S, ()
        found = self._look()
        self._protected_then = self.protected.keys()
        names = {name for name, change in found.items() if change is not Change.REPOSITORY}
        try:
            self._note_modes(taken := self.take_in({*names, *also, *self._protected_then}))
        except RalphError:  # the disk may be full of what was looked at
            for half_written in (self.folder / "objects").glob("*/tmp_obj_*"):
                half_written.unlink()
            if not self._checksum_now():  # nothing in it is of use
                shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self.left_alone = [*standing(self.root, found.keys() - taken)]
        self.checksum = self._checksum_now()

    def resume(self, began: float, checksum: str, modes: Mapping[str, int], left_alone: Collection[str]) -> bool:
        """Goes on with an iteration that began some time ago; whether the index is still that of then."""
        if self._checksum_now() != checksum:
            return False
        self._rules = files.held(self.folder / "info" / "exclude")
        self._prepare()
        self._began, self.checksum, self.modes, self.left_alone = began, checksum, dict(modes), left_alone
        self._protected_then = self.names("ls-files", "-c", "-z")
        return True

    def changes(self) -> dict[str, Change]:
        """What is not as it was; nothing where the tree is not where it was."""
        if os.path.realpath(self.root) != self._real_root or not self.root.is_dir():
            return {}
        found = self._look()
        if self._checksum_now() != self.checksum:
            raise RalphError(f"{self.folder}: was changed, and does not know any more how files were", 1)
        found |= dict.fromkeys(self.protected.keys() - self._protected_then - found.keys(), Change.NEW)
        if any(name.endswith(_RULES) for name in found):  # what was there and is only no longer ignored is not new
            since = self._began  # by ctime, which nobody can set back
            old = [name for name in found if (touched_at(self.root / name) or since) < since]
            found = {name: one for name, one in found.items() if one is Change.DIFFERENT or name not in old}
        return found

    def put_back(
        self, changes: dict[str, Change], unwanted: Callable[[str, Change], bool], aside: Callable[[str], Path]
    ) -> dict[str, Change]:
        """Undoes the changes that are unwanted; what is changed then. `aside` says where to move what stood there.

        Rules for ignoring come first, and then it looks again: what they hid is seen, what they showed is not.
        """
        for _ in range(_ROUNDS):
            wrong = {name: change for name, change in changes.items() if unwanted(name, change)}
            if not wrong:
                return changes
            rules = {name: change for name, change in wrong.items() if name.endswith(_RULES)}
            self._undo(rules or wrong, aside)
            changes = self.changes()
        raise RalphError(f"{', '.join(sorted(wrong)[:3])}: cannot be put back in {self.root}", 1)

    def held(self, name: str) -> bytes:
        """What a file held when the iteration began; nothing where there was none."""
        return self._call("cat-file", "blob", f":{name}").stdout

    def _open(self) -> Collection[str]:
        """The run begins; the names of files that git ignores and yet have to be looked at, since it tracks them.

        The project's packs are taken over: what is in them need not be written again.
        """
        repository, objects = self._repository, self.folder / "objects"
        self._rules = b"/.jj/\n" + (repository.rules() if repository else b"")
        self.make_folder()
        if sum(one.stat().st_size for one in objects.glob("0?/*")) * 16 > _LARGE_BYTES:  # 16 of 256 folders
            shutil.rmtree(self.folder)
            self.make_folder()
        if not (self.folder / "HEAD").exists():
            (self.folder / "HEAD").write_text("ref: refs/heads/none\n")
            for path in (repository.common / "objects" / "pack").glob("pack-*") if repository else ():
                with contextlib.suppress(OSError):  # another file system
                    (objects / "pack" / path.name).hardlink_to(path)
        remove_orphaned_locks(self.folder.glob("*.lock"), self.root)  # of a ralph that was killed
        self._prepare()
        self._call("update-index", "-q", "--refresh")  # else each look would read all that was only touched
        self.drop(self.names("ls-files", "-c", "-i", "-z", "--exclude-standard"))
        self._note_modes(standing(self.root, self.names("ls-files", "-c", "-z")))
        if repository is None:
            return ()
        return repository.names("ls-files", "-c", "-i", "-z", "--exclude-standard")

    def make_folder(self) -> None:
        """The folder is there; RalphError where a link leads out of it, and ralph would write elsewhere."""
        links = [str(place) for place in (self.folder.parent, self.folder) if place.is_symlink()]
        for place in (self.folder, self.folder / "objects"):
            if place.is_dir():
                links += [entry.path for entry in os.scandir(place) if entry.is_symlink()]
        if links:
            raise RalphError(f"{links[0]}: is a link, and ralph made none there", 1, fix=f"remove {links[0]}")
        for name in ("objects/pack", "refs", "info"):
            (self.folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)

    def _prepare(self) -> None:
        """The folder has ralph's settings, whatever somebody made of them."""
        self.make_folder()
        kind = self._repository.object_format if self._repository else "sha1"
        files.overwrite(self.folder / "config", _CONFIG.format(format=kind).encode())
        files.overwrite(self.folder / "info" / "attributes", _TO_THE_BYTE)
        files.overwrite(self.folder / "info" / "exclude", self._rules)

    def _checksum_now(self) -> str:
        """With it git ends an index; empty where there is none."""
        return files.held(self.folder / "index")[-20:].hex()

    def _look(self) -> dict[str, Change]:
        """What differs from the index. Nothing is written, so that a full disk hides nothing."""
        self._prepare()
        self.protected = self._find_protected()
        without = [f":(top,exclude,literal){name}" for name in (*self._own, *self.left_alone)]
        found = {}
        for line in self.names("ls-files", "-t", "-d", "-m", "-o", "-z", "--exclude-standard", "--", ".", *without):
            kind, name = line.split(" ", 1)
            if name.endswith("/"):
                found[name.rstrip("/")] = Change.REPOSITORY
            else:
                found[name] = Change.NEW if kind == "?" else Change.DIFFERENT
        return found

    def _note_modes(self, there: Mapping[str, os.stat_result]) -> None:
        mask = os.umask(0)
        os.umask(mask)
        for name, at in there.items():
            self.modes.pop(name, None)
            if stat.S_ISREG(at.st_mode) and stat.S_IMODE(at.st_mode) not in (0o666 & ~mask, 0o777 & ~mask):
                self.modes[name] = stat.S_IMODE(at.st_mode)

    def _undo(self, wrong: Mapping[str, Change], aside: Callable[[str], Path]) -> None:
        for name, change in wrong.items():
            self._make_room(name, aside)
            if change is not Change.DIFFERENT:
                with contextlib.suppress(OSError):  # not empty
                    for folder in [*(self.root / name).parents][: name.count("/")]:
                        folder.rmdir()
        back = [name for name, change in wrong.items() if change is Change.DIFFERENT]
        self.run("checkout-index", "--force", "-z", "--stdin", stdin=terminated(back))
        for name, at in standing(self.root, self.modes.keys() & back).items():
            if stat.S_ISREG(at.st_mode):
                (self.root / name).chmod(self.modes[name])

    def _make_room(self, name: str, aside: Callable[[str], Path]) -> None:
        """Moves away what stands there, or in the place of a folder above it."""
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
