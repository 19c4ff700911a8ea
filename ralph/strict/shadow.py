"""The shadow: a git repository of ralph's own, outside of the project, that knows how the project's files were.

Its work tree is the project's, and its index is how all files were when an iteration began. It shares nothing else
with the repository there: no HEAD, settings or hooks. So nothing that an agent does to that changes what the shadow
says, and a folder without git is watched just as well. Files go in and come out to the byte. What is ignored is left
alone, and so is a repository within the tree. Each run makes it anew.

What is not as it was is moved aside, never removed, and git writes what was there: it follows no links.
"""

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from ralph import files
from ralph.changes import terminated, touched_at
from ralph.errors import RalphError
from ralph.strict.repository import Git, Repository, standing

_SETTINGS = {
    "HEAD": b"ref: refs/heads/none\n",
    "config": b"[core]\nrepositoryFormatVersion = 0\nbare = false\nexcludesFile = /dev/null\ncompression = 0\n",
    "info/attributes": b"* -text -eol -crlf -ident -filter -working-tree-encoding\n",
}
_USUAL = (0o644, 0o664, 0o755, 0o775)
"""Modes that git's own two stand for."""
_TICK_S = 0.02
"""The times of files lie up to 10 ms in the past."""


class Shadow(Git):
    """The shadow of the tree at `root`, in `folder`.

    `own` are the names of ralph's files in the tree, which are never looked at; `protected` are those of files and
    folders that always are, also where git ignores them.
    """

    def __init__(
        self, root: Path, folder: Path, own: Iterable[str], protected: Collection[Path], repository: Repository | None
    ) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {"GIT_DIR": str(folder), "GIT_COMMON_DIR": str(folder), "GIT_WORK_TREE": str(root)}
        super().__init__(root, {**env, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull})
        self.folder, self._repository = folder, repository
        self._rules = b"/.jj/\n"
        """The rules for ignoring beside those in the tree, as they were when the run began."""
        self._own = [name for name in own if not name.startswith("..")]
        self._protected = protected
        self._touched_when_begun: object = None
        self.began = 0.0
        """When the iteration did; a file that was touched before is none of its own."""
        self.checksum = ""
        """Of the index when the iteration began; nothing writes it until the next one begins."""
        self.left_alone: list[str] = []
        """What was there then and is not in the index: repositories, and files that cannot be read."""
        self.modes: dict[str, int] = {}
        """Of files whose mode says more than whether they are programs."""

    def begin(self) -> None:
        """An iteration begins: how all files are now is how they can be put back."""
        tracked = [] if self.began else self._open()
        self.began = time.time() - _TICK_S
        self.left_alone = []
        found = {*self._look(), *tracked}
        known = set[str]()
        for name, at in standing(self.root, found).items():
            is_file = stat.S_ISREG(at.st_mode) and os.access(self.root / name, os.R_OK)
            if is_file or stat.S_ISLNK(at.st_mode):
                known.add(name)
            else:
                self.left_alone.append(name)
            mode = stat.S_IMODE(at.st_mode)
            self.modes.pop(name, None)
            if is_file and mode not in _USUAL:
                self.modes[name] = mode
        try:
            for how, names in (("--force-remove", found - known), ("--add", known)):
                if names:
                    self.run("update-index", how, "--remove", "-z", "--stdin", stdin=terminated(names))
        except RalphError:  # the disk may be full of what was looked at
            shutil.rmtree(self.folder)
            raise
        self.checksum = self._checksum_now()
        self._touched_when_begun = self._touched()

    def _open(self) -> list[str]:
        """The run begins; the names that the project tracks, also where it ignores them.

        Its objects are linked, so that what they hold need not be written again.
        """
        self.prepare()
        shutil.rmtree(self.folder)
        self.folder.mkdir(mode=0o700)  # in it is what was private
        if self._repository is None:
            return []
        self._rules += self._repository.rules()
        with contextlib.suppress(OSError):  # another file system
            shutil.copytree(self._repository.common / "objects", self.folder / "objects", copy_function=os.link)
        return self._repository.names("ls-files", "-z")

    def resume(self, began: float, checksum: str, left_alone: list[str], modes: dict[str, int]) -> bool:
        """Goes on with an iteration that began some time ago; whether the index is still that of then."""
        self._rules = files.held(self.folder / "info" / "exclude")
        self.began, self.checksum, self.left_alone, self.modes = began, checksum, left_alone, modes
        return self._checksum_now() == checksum

    def changes(self) -> dict[str, bool]:
        """What is not as it was, each with whether it was there; nothing where the tree is not where it was.

        A repository that was not there is the name of its folder, with a slash.
        """
        if os.path.realpath(self.root) != str(self.root):
            return {}
        found = self._look()
        if self._checksum_now() != self.checksum:
            raise RalphError(f"{self.folder}: was changed, and does not know any more how files were", 1)
        if any(name.endswith(".gitignore") for name in found):
            for name in [name for name, was_there in found.items() if not was_there]:
                if 0.0 < touched_at(self.root / name) < self.began:  # it is only no longer ignored
                    del found[name]
        return found

    def put_back(self, names: Iterable[str], changes: Mapping[str, bool], aside: Callable[[str], Path]) -> None:
        """Undoes the changes of these names; `aside` says where to move what stands there.

        Rules for ignoring come first, and alone: then one has to look again, since what they hid is seen.
        """
        wrong = [name for name in names if name.endswith(".gitignore")] or [*names]
        for name in wrong:
            path = self.root / name
            above = [*path.parents][: name.rstrip("/").count("/")]
            in_the_way = [one for one in above if one.is_symlink() or not one.is_dir()]
            place = [path, *in_the_way][-1]
            if os.path.lexists(place):
                shutil.move(place, aside(os.path.relpath(place, self.root)))
            if not changes[name]:
                with contextlib.suppress(OSError):  # not empty
                    for folder in above:
                        folder.rmdir()
        back = [name for name in wrong if changes[name]]
        self.run("checkout-index", "--force", "-z", "--stdin", stdin=terminated(back))
        for name in self.modes.keys() & back:
            (self.root / name).chmod(self.modes[name])

    def prepare(self) -> None:
        """The folder is there, and has ralph's settings, whatever somebody made of them.

        RalphError where a link leads out of it, and ralph would write elsewhere.
        """
        for place in (self.folder.parent, self.folder, *self.folder.glob("*")):
            if place.is_symlink():
                raise RalphError(f"{place}: is a link, and ralph made none there", 1, fix=f"remove {place}")
        for name in ("objects", "refs", "info"):
            (self.folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in {**_SETTINGS, "info/exclude": self._rules}.items():
            files.overwrite(self.folder / name, text)

    def _checksum_now(self) -> str:
        """With it git ends an index; empty where there is none."""
        return files.held(self.folder / "index")[-20:].hex()

    def _look(self) -> dict[str, bool]:
        """What differs from the index. Nothing is written, so that a full disk hides nothing."""
        found = self._differ(["."], "-d", "-m", "--exclude-standard")
        if self.is_protected_touched():  # and new there may be what git ignores
            found |= self._differ([f":(top,literal){name}" for name in self._protected])
        return found

    def is_protected_touched(self) -> bool:
        """Whether somebody touched what is protected since the iteration began."""
        return self._touched_when_begun != self._touched()

    def _touched(self) -> list[object]:
        tops = [self.root / name for name in self._protected]
        return [(path, touched_at(path)) for top in tops for path in (top, *top.rglob("*"))]

    def _differ(self, places: Iterable[str], *asked: str) -> dict[str, bool]:
        self.prepare()
        without = [f":(top,exclude,literal){name}" for name in (*self._own, *self.left_alone)]
        lines = self.names("ls-files", "-t", "-o", "-z", *asked, "--", *places, *without)
        return {line[2:]: not line.startswith("?") for line in lines}
