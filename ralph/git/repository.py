"""The project's repository: reads HEAD, its branch and the index, puts them back, and commits.

The shadow handles files. No git may run here while git's settings are changed: see settings.py.
"""

import contextlib
import functools
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from ralph import files
from ralph.agent.turn import Commits
from ralph.errors import RalphError
from ralph.git.changes import (
    IN_NO_OTHER,
    NAMED,
    commits_between,
    error_text,
    literal_pathspecs,
    names_in,
    nul_terminated,
    run_git,
)
from ralph.process.lock import working_tree
from ralph.process.programs import Finished, call_program
from ralph.store.notes import Place
from ralph.words import join_names

_TIMEOUT_S = 600.0
_SIGNING_S = 30.0
"""Seconds for a signature, which may wait for a passphrase with nobody there."""
_BEGUN = ["MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "REVERT_HEAD", "sequencer", "BISECT_LOG"]
"""Files in the .git folder that show an unfinished operation."""
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class Git:
    """Runs git for a repository, in an environment that tells git where its parts are."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self.root, self._env = root, env

    def output_of(self, *arguments: str) -> str:
        """Runs git and returns its output, without the last line break; empty if it fails."""
        done = self._call(*arguments)
        return "" if done.code else os.fsdecode(done.stdout).rstrip("\n")

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Runs git and returns its output. Raises RalphError if it fails."""
        done = self._call(*arguments, stdin=stdin)
        if done.code:
            raise RalphError(f"git {arguments[0]} fails for {self.root}: {error_text(done)}", 1)
        return done.stdout

    def failure_of(self, *arguments: str) -> str:
        """Runs git and returns why it failed, in its words; empty if it did not."""
        done = self._call(*arguments)
        return error_text(done) if done.code else ""

    def merge_trees(self, ours: str, theirs: str) -> tuple[str, list[str]]:
        """Merges two commits in memory. Returns the tree, or the conflicting files; neither if git is too old."""
        done = self._call("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
        tree, *names = names_in(done.stdout) if done.code in (0, 1) else [""]
        return ("" if done.code else tree), names

    def list_names(self, *arguments: str) -> list[str]:
        """Runs git with `-z` and returns the names that it prints."""
        return names_in(self.run(*arguments))

    def _call(self, *arguments: str, stdin: bytes = b"", timeout_s: float = _TIMEOUT_S) -> Finished:
        pinned = ("-c", "core.hooksPath=/dev/null")
        return run_git(*pinned, *arguments, cwd=self.root, env=self._env, stdin=stdin, timeout_s=timeout_s)


class Repository(Git):
    """The repository of a working tree, at the paths that it had before an agent could move it."""

    index_copy: Path
    """Where `save_head_and_index` saves a copy of the index."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        """The paths of its parts, as git reports them."""
        root, git_dir, common, index, hooks = paths
        self.hooks = Path(hooks)
        env = {"GIT_DIR": git_dir, "GIT_WORK_TREE": root, "GIT_INDEX_FILE": index, "GIT_NO_REPLACE_OBJECTS": "1"}
        super().__init__(Path(root), {**os.environ, **env})
        self.git_dir, self.common, self._index = Path(git_dir), Path(common), Path(index)
        self._committed: tuple[str, Sequence[str]] = "", []
        """A commit and its files, as a cache."""

    @classmethod
    def find_around(cls, top: Path) -> "Repository | None":
        """Returns the repository around `top`, or None. Raises RalphError if git refuses it, such as another user's."""
        asked = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--git-path", "index")
        done = run_git("rev-parse", "--path-format=absolute", *asked, "--git-path", "hooks", cwd=top)
        what = f"git does not work in {top}: {error_text(done)}"
        if done.code and b"not a git repository" not in done.stderr:
            raise RalphError(what)
        folder = working_tree(top) / ".git"
        if done.code and folder.is_dir():
            raise RalphError(what, 4, fix=f"look at {folder}/HEAD: its usual content is ref: refs/heads/main")
        found = os.fsdecode(b"\n" + done.stdout).removesuffix("\n").split("\n/")  # a name may contain line breaks
        return None if done.code else cls([f"/{path}" for path in found[1:]])

    def ignore_rules_outside_tree(self) -> bytes:
        """Returns the ignore rules that are not in the tree."""
        usual = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        own = self.output_of("config", "--type=path", f"--default={usual}/git/ignore", "core.excludesFile")
        return files.read_or_empty(Path(own)) + b"\n" + files.read_or_empty(self.common / "info" / "exclude")

    def save_head_and_index(self) -> Place:
        """Returns branch, commit and unfinished operations, and saves a copy of the index."""
        self.copy_index(self.index_copy)
        return *self.read_head(), self._unfinished_operations()

    def copy_index(self, path: Path) -> None:
        """Copies the current index to that path."""
        files.overwrite_file(path, files.read_or_empty(self._index))
        with contextlib.suppress(FileNotFoundError):
            shutil.copystat(self._index, path)

    def committed_files(self) -> Sequence[str]:
        """The files in the commit of HEAD."""
        if self._committed[0] != (now := self.read_head()[1]):
            asked = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD"]
            self._committed = now, self.list_names(*asked) if now else []
        return self._committed[1]

    def read_head(self) -> tuple[str, str]:
        """Returns the branch and the commit of HEAD, mostly without running git."""
        message = text_of(self.git_dir / "HEAD").strip()
        branch = message.partition("ref: ")[2]
        found = text_of(self.common / branch).strip() if branch else message
        if _ID.fullmatch(found):
            return branch, found
        branch = self.output_of("symbolic-ref", "--quiet", "HEAD")
        return branch, self.output_of("rev-parse", "--verify", "--quiet", "HEAD")

    def read_branch(self, branch: str) -> str:
        """Returns the commit of a branch, mostly without running git; empty if the branch is gone."""
        found = text_of(self.common / branch).strip()
        return found if _ID.fullmatch(found) else self.output_of("rev-parse", "--verify", "--quiet", branch)

    def index_now(self) -> bytes:
        """Returns the bytes of the index if they differ from the saved copy, else nothing."""
        now = files.read_or_empty(self._index)
        return b"" if now == files.read_or_empty(self.index_copy) else now

    def put_index_back(self) -> None:
        """Puts the saved index back, byte by byte."""
        staged = self.index_copy.read_bytes()
        if files.read_or_empty(self._index) != staged:
            files.replace_file(self._index, staged)
            shutil.copystat(self.index_copy, self._index)  # a newer time would hide changes made meanwhile
        if not staged:
            self._index.unlink(missing_ok=True)

    def put_head_back(self, was: Place, aside: Callable[[str], Path]) -> tuple[str, int] | None:
        """Puts HEAD and its branch back. Returns None if they had not moved.

        Else a ref that keeps the commit that was there, empty if it was the same, and how many commits went. Raises
        RalphError with exit code 4 if the old commit no longer exists.
        """
        branch, commit, were_begun = was
        was_nonsense = self._repair_head(branch, commit)
        now = self.read_head()
        begun = [one for one in self._unfinished_operations() if one not in were_begun]
        if not was_nonsense and now == (branch, commit) and not begun:
            return None
        if commit and self._call("cat-file", "-e", commit).code:
            what = f"{self.git_dir} lacks the commit {commit[:10]}, at which HEAD was: somebody made it again"
            raise RalphError(f"{what}; bring the old one back, or keep this one", 4)
        kept, count = "", 0
        for one in (self.output_of("rev-parse", "--verify", "--quiet", branch or "HEAD"), now[1]):
            if one not in ("", commit):
                kept = self.keep_commit(one)
                count = int(self.output_of("rev-list", "--count", one, *([f"^{commit}"] if commit else [])) or 0)
        for one in begun:
            shutil.move(self.git_dir / one, aside(one))
        if commit:
            self.run("update-ref", "--no-deref", branch or "HEAD", commit)
        else:
            self.run("update-ref", "--no-deref", "-d", branch)
        if branch:
            self.run("symbolic-ref", "-m", "ralph: put back", "HEAD", branch)
        return kept, count

    def _repair_head(self, branch: str, commit: str) -> bool:
        """Writes HEAD again if its content is invalid, since git sees no repository then; returns whether it did."""
        message = text_of(self.git_dir / "HEAD")
        if message.startswith("ref: refs/") or _ID.fullmatch(message.strip()):
            return False
        files.overwrite_file(self.git_dir / "HEAD", os.fsencode(f"ref: {branch}\n" if branch else f"{commit}\n"))
        return True

    def _index_entries(self, index: Path) -> dict[str, str]:
        """Returns the entries of an index, by name and stage, without what git remembers of timestamps."""
        if not files.read_or_empty(index):
            return {}
        listed = Git(self.root, {**self._env, "GIT_INDEX_FILE": str(index)}).list_names("ls-files", "--stage", "-z")
        return {row[row.index("\t") - 1 :]: row for row in listed}  # `100644 OBJECT STAGE`, a tab, the name

    def put_index_back_keeping_later_changes(self, seen: Path) -> None:
        """Puts the saved index back, except what the user staged after the index was copied to `seen`."""
        before, after, now = map(self._index_entries, (self.index_copy, seen, self._index))
        if after == now:
            self.put_index_back()
            return
        rows = list[str]()
        for name in before.keys() | after.keys():
            if before.get(name) != after.get(name) == now.get(name):
                rows.append(before.get(name) or f"0 {'0' * 40}\t{name.partition(chr(9))[2]}")
        self.run("update-index", "-z", "--index-info", stdin=nul_terminated(rows))

    def keep_files(self, names: Iterable[str]) -> str:
        """Keeps these files as they are now in a commit on top of HEAD. Returns its ref; empty if git cannot."""
        scratch = Git(self.root, {**self._env, "GIT_INDEX_FILE": f"{self.index_copy}-kept"})
        with contextlib.suppress(RalphError):
            scratch.run("read-tree", "HEAD")
            scratch.run("update-index", "--add", "--remove", "-z", "--stdin", stdin=nul_terminated(names))
            tree = scratch.output_of("write-tree")
            return self.keep_commit(scratch.output_of("commit-tree", "-p", "HEAD", "-m", "ralph: thrown away", tree))
        return ""

    def keep_commit(self, commit: str) -> str:
        """Keeps this commit under a new ref, and returns that."""
        ref = f"refs/ralph/kept/{time.strftime('%Y%m%d-%H%M%S')}-{commit[:10]}"
        self.run("update-ref", "--no-deref", ref, commit)
        return ref

    def _unfinished_operations(self) -> list[str]:
        return [name for name in _BEGUN if os.path.lexists(self.git_dir / name)]

    def commit_files(
        self, names: Collection[str], message: str, run: Callable[[Sequence[str], bytes], str]
    ) -> tuple[Commits, str, list[str]]:
        """Commits exactly these files as they are now. Returns what was committed, why not, and what was left out.

        Other files that the user has staged stay staged. Ignored, untracked files are left out. `run` runs git with the
        project's hooks; names come by standard input, since a sandbox may hide ralph's files.
        """
        before = self.read_head()[1]
        found = existing_files(self.root, names)
        folders = {name for name, at in found.items() if stat.S_ISDIR(at.st_mode)}
        if folders:  # folders that replaced files; a commit cannot hold one, unless it is a submodule
            folders.difference_update(self.checked_out_submodules())
        there = found.keys() - folders
        added = self._call("add", "--intent-to-add", "--ignore-errors", *NAMED, stdin=literal_pathspecs(there))
        if added.code not in (0, 1):
            return Commits(), f"git add fails: {error_text(added)}", []
        known = {*names} - folders
        if added.code or len(there) < len(known):  # some are ignored, or gone
            known.intersection_update(self.list_names("ls-files", "-z"))
        left_out = sorted(there - known)
        if not known:
            return Commits(), "", left_out
        # like the user's own `git commit`, except that it asks nothing, and uses the hooks' folder of the start
        pinned = ("-c", f"core.hooksPath={self.hooks}", "-c", "maintenance.auto=false")
        how = ("--only", "--quiet", "--cleanup=whitespace", "--message", message.replace("\0", ""))
        failed = run(["git", "-C", str(self.root), *pinned, "commit", *how, *NAMED], literal_pathspecs(known))
        now = self.read_head()[1]
        if failed or (self.hooks / "pre-commit").exists():  # a hook may have committed another version than is staged
            self._call("reset", "--quiet", *NAMED, stdin=literal_pathspecs(known))
        if now == before:
            asked = ("status", "--porcelain", "-z", "-uall", "--no-renames", IN_NO_OTHER)
            changed = {entry[3:] for entry in self.list_names(*asked)}
            return Commits(), failed if changed.intersection(known) else "", left_out
        made, in_it = self.commit_stats(now)
        more = [name for name in in_it if name not in names]
        if more or made.base != before:
            why = f"a hook moved HEAD, or put more into the commit than the task changed: {join_names(more)}"
            return Commits(), why, []
        return made, "", left_out

    def checked_out_submodules(self) -> dict[str, str]:
        """Returns the commit that is checked out in each submodule, by its name."""
        if not (self.root / ".gitmodules").exists():
            return {}
        listed = [row.split("\t") for row in self.list_names("ls-files", "--stage", "-z") if row.startswith("160000 ")]
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        there = [name for _, name in listed if (self.root / name / ".git").exists()]
        return {name: Git(self.root / name, env).output_of("rev-parse", "HEAD") for name in there}

    def is_locked(self) -> bool:
        """Whether another git holds the index, such as a `git commit` that waits for its editor."""
        return self._index.with_name(f"{self._index.name}.lock").exists()

    def commit_stats(self, commit: str) -> tuple[Commits, list[str]]:
        """Returns the size of a commit, and the files that it changed."""
        return commits_between(self._call, self.output_of("rev-parse", "--verify", "--quiet", f"{commit}^"), commit)

    def check_can_commit(self) -> None:
        """Raises RalphError, before money is spent, if git could not commit here."""
        if begun := self._unfinished_operations():
            what = f"{self.git_dir / begun[0]}: something is not finished, and commits would become part of it"
            raise RalphError(what, fix="git status says what it is")
        signs = self.output_of("config", "--type=bool", "commit.gpgSign") == "true"
        done = self._call("write-tree")
        if not done.code:
            tree = os.fsdecode(done.stdout).strip()
            done = self._call("commit-tree", *["-S"] * signs, "-m", "ralph tries to commit", tree, timeout_s=_SIGNING_S)
        if done.code:
            raise RalphError(f"git cannot commit in {self.root}: {error_text(done)}")


def jj_commit(names: Iterable[str], message: str) -> str:
    """Commits these files with jj (https://jj-vcs.github.io/jj/), which tracks changes itself. Returns why not."""
    filesets = [f"root-file:{json.dumps(name, ensure_ascii=False)}" for name in names]
    argv = ["jj", "--no-pager", "--color=never", "commit", "--message", message, *filesets]
    done = call_program(argv, timeout_s=_TIMEOUT_S)
    return error_text(done) if done.code else ""


def existing_files(root: Path, names: Iterable[str]) -> dict[str, os.stat_result]:
    """Returns the status of the existing files among these names, without those beyond a link."""
    real, found = functools.cache(os.path.realpath), {}
    for name in names:
        path = f"{root}/{name}"
        folder = os.path.dirname(path)  # noqa: PTH120 - it may be thousands
        with contextlib.suppress(OSError):
            if real(folder) == folder:
                found[name] = os.lstat(path)
    return found


def text_of(path: Path) -> str:
    """The content of a file as text that can hold any bytes; empty if it cannot be read."""
    return os.fsdecode(files.read_or_empty(path))
