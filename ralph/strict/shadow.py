"""The shadow: ralph's own git repository, outside the project, that remembers the project's files.

Its work tree is the project's, and its index is the snapshot of all files when an iteration began. It shares nothing
else with the project's repository: no HEAD, settings or hooks. So an agent cannot change what the shadow knows, and a
folder without git is guarded just as well. Files are stored and restored byte by byte. It leaves ignored files alone,
and repositories within the tree. Each run makes the shadow again.

Changed files are moved aside, never removed, and git writes the old version: it follows no links.
"""

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from ralph import files
from ralph.errors import RalphError
from ralph.git.changes import names_in, nul_terminated, touched_at
from ralph.git.repository import Git, Repository, existing_files
from ralph.store.notes import Snapshot

_SETTINGS = {
    "HEAD": b"ref: refs/heads/none\n",
    "config": b"[core]\nrepositoryFormatVersion = 0\nbare = false\nexcludesFile = /dev/null\ncompression = 0\n",
    "info/attributes": b"* -text -eol -crlf -ident -filter -working-tree-encoding\n",
}
_USUAL = (0o644, 0o664, 0o755, 0o775)
"""File modes that git's two modes cover."""
_RULES = ":(top,glob)**/.gitignore"
_TICK_S = 0.02
"""Timestamps of files are up to 10 ms behind."""


class Shadow(Git):
    """The shadow of the tree at `root`, in `folder`.

    `own` are the names of ralph's files in the tree, which it leaves out; `protected` are files and folders that it
    always includes, even if git ignores them. `index` is the file of the snapshot to compare with.
    """

    def __init__(  # noqa: PLR0913 - what it takes to know a tree
        self,
        root: Path,
        folder: Path,
        own: Iterable[str],
        protected: Collection[str],
        *,
        repository: Repository | None = None,
        index: str = "index",
    ) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {"GIT_DIR": str(folder), "GIT_COMMON_DIR": str(folder), "GIT_WORK_TREE": str(root)}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_INDEX_FILE": str(folder / index)}
        super().__init__(root, env)
        self.folder, self._repository, self._index = folder, repository, folder / index
        self._rules = b"/.jj/\n"
        """The ignore rules besides those in the tree, as they were when the run began."""
        self.own = [name for name in own if not name.startswith("..")]
        self.protected = protected
        self._touched_when_begun: object = None
        self.snapshot = Snapshot()
        """The state of all files when the iteration began."""

    def begin(self) -> None:
        """Takes a snapshot of all files when an iteration begins."""
        tracked = [] if self.snapshot.checksum else self._recreate()
        self.snapshot = self.snapshot._replace(at=time.time() - _TICK_S, left_alone=[])
        self.update_snapshot({*self._find_changes(), *tracked})
        self._touched_when_begun = self._protected_times()

    def update_snapshot(self, found: Collection[str]) -> None:
        """Updates the snapshot to the current files; `found` are the names that may have changed since."""
        left_alone = list[str]()
        modes = {name: mode for name, mode in self.snapshot.modes.items() if name not in found}
        known = set[str]()
        for name, there in existing_files(self.root, found).items():
            is_file = stat.S_ISREG(there.st_mode) and os.access(self.root / name, os.R_OK)
            if is_file or stat.S_ISLNK(there.st_mode):
                known.add(name)
            else:
                left_alone.append(name)
            if is_file and (mode := stat.S_IMODE(there.st_mode)) not in _USUAL:
                modes[name] = mode
        try:
            for how, names in (("--force-remove", {*found} - known), ("--add", known)):
                if names:
                    self.run("update-index", how, "--remove", "-z", "--stdin", stdin=nul_terminated(names))
        except RalphError:  # the snapshot may have filled the disk
            shutil.rmtree(self.folder)
            raise
        left_alone += self.snapshot.left_alone
        self.snapshot = Snapshot(self.snapshot.at, self._checksum_now(), left_alone, modes)

    def _recreate(self) -> list[str]:
        """Makes the shadow again when a run begins. Returns the names that the project tracks, even ignored ones.

        Links the project's objects, so that their contents need not be written again.
        """
        self.prepare()
        shutil.rmtree(self.folder)
        self.folder.mkdir(mode=0o700)  # private files are copied into it
        if self._repository is None:
            return []
        self._rules += self._repository.ignore_rules_outside_tree()
        with contextlib.suppress(OSError):  # another file system
            shutil.copytree(self._repository.common / "objects", self.folder / "objects", copy_function=os.link)
        return self._repository.list_names("ls-files", "-z")

    def resume(self, snapshot: Snapshot) -> bool:
        """Switches to the snapshot of an earlier run. Returns whether its index is still intact."""
        self._rules = files.read_or_empty(self.folder / "info" / "exclude")
        self.snapshot = Snapshot(*snapshot)  # a list in a note that was loaded
        return bool(self.snapshot.checksum) and self._checksum_now() == self.snapshot.checksum

    def compare_with_index(self, index: str) -> "Shadow":
        """Returns a shadow of this tree that compares with another snapshot."""
        return Shadow(self.root, self.folder, self.own, self.protected, index=index)

    def changes(self) -> dict[str, bool]:
        """Returns the changed names, each with whether it existed before; nothing if the tree itself has moved.

        A new repository within the tree is the name of its folder, with a slash.
        """
        if os.path.realpath(self.root) != str(self.root):
            return {}
        found = self._find_changes()
        if self._checksum_now() != self.snapshot.checksum:
            raise RalphError(f"{self.folder}: was changed, and does not know any more how files were", 1)
        if any(name.endswith(".gitignore") for name in found):
            for name in [name for name, was_there in found.items() if not was_there]:
                if 0.0 < touched_at(self.root / name) < self.snapshot.at:  # it is not new, only no longer ignored
                    del found[name]
        return found

    def newly_ignored_files(self) -> list[str]:
        """Returns the files that only this iteration's ignore rules hide from git, so that `changes` misses them."""
        asked = ["ls-files", "-o", "-i", "--exclude-standard", "--directory", "-z", "--", "."]
        found_by_git = self.list_names(*asked, *self._excluded_pathspecs())
        hidden = {name for name in found_by_git if not name.startswith(".git/")}
        found = list[str]()
        for name in hidden.difference(self._were_ignored(hidden)):
            below = [f"{folder}/{one}" for folder, _, names in os.walk(self.root / name) for one in names]
            found += [os.path.relpath(path, self.root) for path in below] if name.endswith("/") else [name]
        return found

    def files_with_changed_modes(self) -> list[str]:
        """Returns the files whose mode changed; git itself only tells executable files from others."""
        found = list[str]()
        for name, at in existing_files(self.root, self.list_names("ls-files", "-z")).items():
            mode = stat.S_IMODE(at.st_mode)
            was = self.snapshot.modes.get(name)
            if stat.S_ISREG(at.st_mode) and (mode not in _USUAL if was is None else mode != was):
                found.append(name)
        return found

    def _were_ignored(self, names: Collection[str]) -> list[str]:
        """Returns those of these names that the ignore rules of the snapshot covered."""
        if not names:
            return []
        rules = self.folder / "rules"  # a tree of ignore files only
        shutil.rmtree(rules, ignore_errors=True)
        rules.mkdir()
        then = self.run("ls-files", "-z", "--", _RULES)
        self.run("checkout-index", "-z", "--stdin", f"--prefix={rules}/", stdin=then)
        asked = ("check-ignore", "--no-index", "-z", "--stdin")
        return names_in(self._call(f"--work-tree={rules}", *asked, stdin=nul_terminated(names)).stdout)

    def put_back(self, names: Iterable[str], changes: Mapping[str, bool], aside: Callable[[str], Path]) -> list[str]:
        """Undoes the changes of these names; `aside` says where to move what is there. Returns the names put back.

        Ignore rules are put back first, and alone: the caller has to look again, as they may have hidden files.
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
        self.run("checkout-index", "--force", "-z", "--stdin", stdin=nul_terminated(back))
        for name in self.snapshot.modes.keys() & back:
            (self.root / name).chmod(self.snapshot.modes[name])
        return wrong

    def prepare(self) -> None:
        """Makes the folder, and writes ralph's settings into it, whatever was there.

        Raises RalphError if a link in it would have ralph write elsewhere.
        """
        for place in (self.folder.parent, self.folder, *self.folder.glob("*")):
            if place.is_symlink():
                raise RalphError(f"{place}: is a link, and ralph made none there", 1, fix=f"remove {place}")
        for name in ("objects", "refs", "info"):
            (self.folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in {**_SETTINGS, "info/exclude": self._rules}.items():
            files.overwrite_file(self.folder / name, text)

    def _checksum_now(self) -> str:
        """The checksum at the end of the index file; empty if there is none."""
        return files.read_or_empty(self._index)[-20:].hex()

    def _find_changes(self) -> dict[str, bool]:
        """Returns what differs from the index. Writes nothing, so that a full disk hides no change."""
        found = self._changed_names(["."], "-d", "-m", "--exclude-standard")
        if self.is_protected_touched():  # and git may ignore new files there
            found |= self._changed_names([f":(top,literal){name}" for name in self.protected])
        return found

    def is_protected_touched(self) -> bool:
        """Whether a protected file was touched since the iteration began."""
        return self._touched_when_begun != self._protected_times()

    def _protected_times(self) -> list[object]:
        tops = [self.root / name for name in self.protected]
        return [(path, touched_at(path)) for top in tops for path in (top, *top.rglob("*"))]

    def _changed_names(self, places: Iterable[str], *asked: str) -> dict[str, bool]:
        self.prepare()
        lines = self.list_names("ls-files", "-t", "-o", "-z", *asked, "--", *places, *self._excluded_pathspecs())
        return {line[2:]: not line.startswith("?") for line in lines}

    def _excluded_pathspecs(self) -> list[str]:
        return [f":(top,exclude,literal){name}" for name in (*self.own, *self.snapshot.left_alone)]
