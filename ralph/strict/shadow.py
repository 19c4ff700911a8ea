"""The shadow: ralph's own git repository, outside the project, that remembers the project's files.

Its work tree is the project's, and its index is the snapshot of all files when an iteration began. It shares nothing
else with the project's repository: no HEAD, settings or hooks. So an agent cannot change what the shadow knows, and a
folder without git is guarded just as well. Files are stored and restored byte by byte. It leaves ignored files alone,
and repositories within the tree. Each run makes the shadow again.

Changed files are moved aside, never removed, and git writes the old version: it follows no links.

For the run after a death there are two notes: of the state when the iteration began, and when its last process had
ended. The supervisor outlives ralph, ends the agent, and writes the second one. What changed between the two is the
iteration's; what changed after the second is the user's. No clock is involved.
"""

import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from ralph import files
from ralph.errors import RalphError
from ralph.git.changes import TICK_S, nul_terminated, touched_at
from ralph.git.repository import Git, Repository, shadow_folder
from ralph.store.state import State, TreeAfterDeath, TreeBefore, TreeSnapshot, UnfinishedIteration

_SETTINGS = {
    "HEAD": b"ref: refs/heads/none\n",
    "config": b"[core]\nrepositoryFormatVersion = 0\nbare = false\nexcludesFile = /dev/null\ncompression = 0\n",
    "info/attributes": b"* -text -eol -crlf -ident -filter -working-tree-encoding\n",
}
_STATUS = "status --porcelain --untracked-files=all --ignored=matching --no-renames -- ."
# What `git status` says of a file that is as in the snapshot, of a new one, and of one that git ignores.
_SAME, NEW, HIDDEN = "A ", "??", "!!"
# File modes that git's two modes cover.
_USUAL = (0o644, 0o664, 0o755, 0o775)
# The index with all files as they were at the end.
_AT_END = "index-at-end"


class TreeShadow(Git):
    """The shadow of the tree at `root`.

    `own` are the names of ralph's files in the tree, which it leaves out; `protected` are files and folders that it
    always includes, even if git ignores them. `index` is the file of the snapshot to compare with.
    """

    def __init__(self, root: Path, own: Iterable[str], protected: Collection[str], index: str = "index"):
        self.folder = folder = shadow_folder(root)
        self._index = folder / index
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {"GIT_DIR": str(folder), "GIT_COMMON_DIR": str(folder), "GIT_WORK_TREE": str(root)}
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_INDEX_FILE": str(self._index)}
        super().__init__(root, env)
        # The ignore rules besides those in the tree, as they were when the run began.
        self._rules = files.read_or_empty(folder / "info" / "exclude")
        self.own = [name for name in own if not name.startswith("..")]
        self.protected = protected
        self._protected_when_begun = dict[str, float]()
        self.snapshot = TreeSnapshot()
        """The state of all files when the iteration began."""

    def take_snapshot(self, repository: Repository | None) -> None:
        """Takes a snapshot of all files when an iteration begins."""
        tracked = [] if self.snapshot.checksum else self._remake_and_list_tracked_names(repository)
        self.snapshot = self.snapshot._replace(at=time.time() - TICK_S, left_alone=[])
        found = self._file_statuses()
        rules = [name for name, how in found.items() if how == HIDDEN and is_gitignore_file(name)]
        self.snapshot = self.snapshot._replace(hidden_rules=rules)
        changed = {name for name, how in found.items() if how not in (_SAME, HIDDEN)}
        if self.is_protected_touched():
            self._protected_when_begun = self._protected_files()
            changed |= self._protected_when_begun.keys()
        self.update_snapshot(changed.union(tracked))

    def update_snapshot(self, found: Collection[str]) -> None:
        """Updates the snapshot to the current files; `found` are the names that may have changed since."""
        left_alone = [*self.snapshot.left_alone]
        modes = {name: mode for name, mode in self.snapshot.modes.items() if name not in found}
        known = set[str]()
        for name, there in self.existing_files(found).items():
            is_file = stat.S_ISREG(there.st_mode) and os.access(self.root / name, os.R_OK)
            if is_file or stat.S_ISLNK(there.st_mode):
                known.add(name)
            # not a plain folder that took the place of a file
            elif not stat.S_ISDIR(there.st_mode) or (self.root / name / ".git").exists():
                left_alone.append(name)
            if (mode := _unusual_mode(there)) is not None:
                modes[name] = mode
        try:
            for how, names in (("--force-remove", {*found} - known), ("--add", known)):
                if names:
                    self.run("update-index", how, "--remove", "-z", "--stdin", stdin=nul_terminated(names))
        except RalphError:  # the snapshot may have filled the disk
            shutil.rmtree(self.folder)
            raise
        self.snapshot = self.snapshot._replace(checksum=self.own_index_checksum(), left_alone=left_alone, modes=modes)

    def _remake_and_list_tracked_names(self, repository: Repository | None) -> list[str]:
        """Makes the shadow again when a run begins. Returns the names that the project tracks, even ignored ones.

        Links the project's objects, so that their contents need not be written again.
        """
        self._repair_folder()
        self._rules = b"/.jj/\n"
        shutil.rmtree(self.folder)
        self.folder.mkdir(mode=0o700)  # private files are copied into it
        if repository is None:
            return []
        usual = f"{os.environ.get('XDG_CONFIG_HOME') or '~/.config'}/git/ignore"
        own = repository.output_or_empty("config", "--type=path", f"--default={usual}", "core.excludesFile")
        for path in (own, repository.common / "info" / "exclude"):
            self._rules += files.read_or_empty(path) + b"\n"
        with suppress(OSError):  # another file system
            shutil.copytree(repository.common / "objects", self.folder / "objects", copy_function=os.link)
        return repository.list_names("ls-files")

    def changes(self, *, with_modes: bool = True) -> dict[str, str]:
        """Returns what differs from the snapshot, and how, as git's status says it; nothing if the tree itself moved.

        A new repository within the tree is the name of its folder, with a slash. New ignore rules that hide themselves
        count as well, and `with_modes` changes of modes that git does not see, for which it looks at each file itself.
        """
        if os.path.realpath(self.root) != str(self.root):
            return {}
        found = self._file_statuses()
        if self.own_index_checksum() != self.snapshot.checksum:
            raise RalphError(f"{self.folder}: was changed, and does not know any more how files were", 1)
        differ = {name: how for name, how in found.items() if how not in (_SAME, HIDDEN)}
        if any(map(is_gitignore_file, differ)):  # what nobody has touched since is not new, only no longer ignored
            for name in [name for name, how in differ.items() if how == NEW]:
                if 0.0 < touched_at(self.root / name) < self.snapshot.at:
                    del differ[name]
        differ |= {
            name: how
            for name, how in found.items()
            if how == HIDDEN and is_gitignore_file(name) and name not in self.snapshot.hidden_rules
        }
        same = [name for name, how in found.items() if how == _SAME and with_modes]
        looked_at = self.existing_files(same).items()
        differ |= {name: "AM" for name, there in looked_at if _unusual_mode(there) != self.snapshot.modes.get(name)}
        missed = [name for name in self._protected_files() if found.get(name, HIDDEN) == HIDDEN]
        return differ | dict.fromkeys(missed, NEW)

    def put_back(self, names: Iterable[str], changes: Mapping[str, str], aside: Callable[[str], Path]) -> None:
        """Undoes the changes of these names; `aside` says where to move what is there."""
        back = [name for name in names if changes[name] not in (NEW, HIDDEN)]
        for name in names:
            path = self.root / name
            above = [*path.parents][: name.rstrip("/").count("/")]
            in_the_way = [one for one in above if one.is_symlink() or not one.is_dir()]
            place = [path, *in_the_way][-1]
            if os.path.lexists(place):
                shutil.move(place, aside(os.path.relpath(place, self.root)))
            if name not in back:
                with suppress(OSError):  # not empty
                    for folder in above:
                        folder.rmdir()
        if back:
            self.run("checkout-index", "--force", "-z", "--stdin", stdin=nul_terminated(back))
        for name in self.snapshot.modes.keys() & back:
            (self.root / name).chmod(self.snapshot.modes[name])

    def _file_statuses(self) -> dict[str, str]:
        """Returns what `git status` says of each file. Writes nothing, so that a full disk hides no change."""
        self._repair_folder()
        excluded = [f":(top,exclude,literal){name}" for name in (*self.own, *self.snapshot.left_alone)]
        return {line[3:]: line[:2] for line in self.list_names(*_STATUS.split(), *excluded)}

    def _repair_folder(self) -> None:
        """Makes the folder a real one, and writes ralph's settings into it, whatever was there or wherever it led."""
        for place in (self.folder.parent, self.folder, *self.folder.glob("*")):
            if place.is_symlink():
                place.unlink()
        for name in ("objects", "refs", "info"):
            (self.folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in {**_SETTINGS, "info/exclude": self._rules}.items():
            files.write_own_file_directly(self.folder / name, text)

    def own_index_checksum(self) -> str:
        """The checksum at the end of the index file; empty if there is none."""
        return files.read_or_empty(self._index)[-20:].hex()

    def is_protected_touched(self) -> bool:
        """Whether a protected file was touched since the iteration began."""
        return self._protected_when_begun != self._protected_files()

    def _protected_files(self) -> dict[str, float]:
        """Returns when each protected file was last touched."""
        tops = [self.root / name for name in self.protected]
        names = [os.path.relpath(path, self.root) for top in tops for path in (top, *top.rglob("*"))]
        found = self.existing_files({*names}.difference(self.own))
        return {name: there.st_ctime for name, there in found.items() if not stat.S_ISDIR(there.st_mode)}


def is_gitignore_file(name: str) -> bool:
    """Whether git takes the rules from this file by which it ignores others."""
    return name.endswith(".gitignore")


def _unusual_mode(there: os.stat_result) -> int | None:
    """The mode of a file, if git's two modes do not cover it."""
    mode = stat.S_IMODE(there.st_mode)
    return mode if stat.S_ISREG(there.st_mode) and mode not in _USUAL else None


def load_tree_notes(state: State, death: UnfinishedIteration) -> tuple[TreeBefore | None, TreeAfterDeath | None]:
    """Loads both notes of the iteration in which ralph died.

    The first is None if it was unguarded, or the note incomplete; the second if the supervisor was killed as well.
    """
    before, end = state.load_note(TreeBefore), state.load_note(TreeAfterDeath)
    if not before or death.transcript.name != before.transcript_name:
        return None, None
    return before, end if end and end.transcript_name == before.transcript_name else None


def resume_shadow(before: TreeBefore, end: TreeAfterDeath | None = None) -> TreeShadow | None:
    """Returns the shadow with the files as they were, or as they were at the end; None if it is no longer intact."""
    shadow = TreeShadow(Path(before.root), before.own, before.protected, _AT_END if end else "index")
    shadow.snapshot = TreeSnapshot(*(end or before).snapshot)  # a list in a note that was loaded
    return shadow if shadow.own_index_checksum() == shadow.snapshot.checksum != "" else None


def record_tree_of_dead_run(state: State, death: UnfinishedIteration) -> None:
    """Writes the note, with one rename, once the last process of a dead run has ended; puts back a plan that is gone.

    Only once: a run that dies while it recovers from an earlier death has changed nothing to judge. A full disk, or
    copies that an agent removed, leave it out; then the next run says that nobody knows.
    """
    before, end = load_tree_notes(state, death)
    with suppress(OSError, RalphError):
        if not before or end or not (shadow := resume_shadow(before)):
            return
        changes = shadow.changes()
        gone = [name for name in changes.keys() & before.protected if not os.path.lexists(shadow.root / name)]
        if gone:
            shadow.put_back(gone, changes, state.free_kept_path)
            changes = shadow.changes()
        shutil.copyfile(shadow.folder / "index", shadow.folder / _AT_END)
        later = TreeShadow(shadow.root, before.own, before.protected, _AT_END)
        later.snapshot = shadow.snapshot
        later.update_snapshot(changes)
        repository = Repository(before.repository_paths) if before.repository_paths else None
        note = TreeAfterDeath(
            transcript_name=before.transcript_name,
            changes=changes,
            head=repository.read_branch_and_commit() if repository else (),
            index_lines=repository.index_lines() if repository else {},
            progress=files.read_text_or_empty(death.progress_path),
            snapshot=later.snapshot,
        )
        state.save_note(note)
