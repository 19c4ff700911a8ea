"""The project's repository: reads HEAD, its branch and the index, puts them back, and commits.

The shadow handles files. No git may run here while git's settings are changed: see settings.py.
"""

import binascii
import functools
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ralph import files
from ralph.agent.turn import Commits
from ralph.errors import RalphError
from ralph.git.changes import IN_NO_OTHER, LINES, error_text, names_in, nul_terminated, run_git, with_lines_and_files
from ralph.process.lock import working_tree
from ralph.process.programs import Finished, call_program
from ralph.store.state import HeadState
from ralph.words import join_names

_TIMEOUT_S = 600.0
# Seconds for a signature, which may wait for a passphrase with nobody there.
_SIGNING_S = 30.0
# Files in the .git folder that show an unfinished operation.
_BEGUN = ["MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "REVERT_HEAD", "sequencer", "BISECT_LOG"]
# Makes git read the files from standard input; see `literal_pathspecs`.
_NAMED = ("--pathspec-from-file=-", "--pathspec-file-nul")


def shadow_folder(root: Path) -> Path:
    """The folder in which ralph keeps what it knows of the working tree at `root`."""
    return files.state_home() / "shadow" / f"{binascii.crc32(os.fsencode(root)):08x}"


class Git:
    """Runs git for a repository, in an environment that tells git where its parts are."""

    def __init__(self, root: Path, env: Mapping[str, str] = os.environ):
        self.root, self._env = root, env

    def output_or_empty(self, *arguments: str) -> str:
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
        return error_text(self._call(*arguments))

    @functools.cache  # noqa: B019 - a run asks one repository
    def apply_on_top(self, base: str, commit: str) -> tuple[str, list[str]]:
        """Returns a commit with this commit's changes on top of the base, or the files in which they conflict.

        Neither if git is too old to determine that without a working tree.
        """
        done = self._call("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", base, commit)
        tree, *names = names_in(done.stdout) if done.code in (0, 1) else [""]
        return "" if done.code else self.output_or_empty("commit-tree", tree, "-p", base, "-m", "ralph"), names

    def list_names(self, command: str, *arguments: str) -> list[str]:
        """Runs a git command with `-z` and returns the names that it prints."""
        return names_in(self.run(command, "-z", *arguments))

    def index_lines(self) -> dict[str, str]:
        """Returns each line of `git ls-files --stage`, by name; none if git cannot read the index."""
        lines = names_in(self._call("ls-files", "--stage", "-z").stdout)
        return {line.partition("\t")[2]: line for line in lines}

    def existing_files(self, names: Iterable[str]) -> dict[str, os.stat_result]:
        """Returns the status of the existing files among these names, without those beyond a link."""
        real, found = functools.cache(os.path.realpath), {}
        for name in names:
            path = f"{self.root}/{name}"
            folder = os.path.dirname(path)  # noqa: PTH120 - it may be thousands
            with suppress(OSError):
                if real(folder) == folder:
                    found[name] = os.lstat(path)
        return found

    def _call(self, *arguments: str, stdin: bytes = b"", timeout_s: float = _TIMEOUT_S) -> Finished:
        return run_git(
            "-c", "core.hooksPath=/dev/null", *arguments, cwd=self.root, env=self._env, stdin=stdin, timeout_s=timeout_s
        )


class Repository(Git):
    """The repository of a working tree, at the paths that it had before an agent could move it."""

    def __init__(self, part_paths: Sequence[str]):
        self.part_paths = part_paths
        """The paths of its parts, as git reports them."""
        root, self.git_dir, self.common, self.index, self.hooks = map(Path, part_paths)
        env = {
            "GIT_DIR": part_paths[1],
            "GIT_WORK_TREE": part_paths[0],
            "GIT_INDEX_FILE": part_paths[3],
            "GIT_NO_REPLACE_OBJECTS": "1",
        }
        super().__init__(root, os.environ | env)
        self.index_copy = shadow_folder(root) / "index-of-project"
        """Where `save_head_and_index` saves a copy of the index."""
        # Those of `if_tracked` without which a commit had to be tried again.
        self._untracked = set[str]()

    @classmethod
    def find_around(cls, top: Path) -> "Repository | None":
        """Returns the repository around `top`, or None. Raises RalphError if git refuses it, such as another user's."""
        asked = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--git-path", "index")
        done = run_git("rev-parse", "--path-format=absolute", *asked, "--git-path", "hooks", cwd=top)
        if not done.code:
            found = os.fsdecode(done.stdout)[1:-1].split("\n/")  # a name may contain line breaks
            return cls([f"/{path}" for path in found])
        what, folder = f"git does not work in {top}: {error_text(done)}", working_tree(top) / ".git"
        if b"not a git repository" not in done.stderr:
            raise RalphError(what)
        if folder.is_dir():
            raise RalphError(what, 4, fix=f"look at {folder}/HEAD: its usual content is ref: refs/heads/main")
        return None

    def save_head_and_index(self) -> HeadState:
        """Returns branch, commit and unfinished operations, and saves a copy of the index."""
        files.write_own_file_directly(self.index_copy, files.read_or_empty(self.index))
        with suppress(FileNotFoundError):
            shutil.copystat(self.index, self.index_copy)
        return *self.read_branch_and_commit(), self.operation_files()

    def read_branch_and_commit(self) -> tuple[str, str]:
        """Returns the branch and the commit of HEAD, mostly without running git."""
        branch = files.read_text_or_empty(self.git_dir / "HEAD").strip().removeprefix("ref: ")
        if not (self.common / branch).is_file():  # on no branch, a packed or unborn one, another format, or nonsense
            branch = self.output_or_empty("symbolic-ref", "--quiet", "HEAD")
        return branch, self.read_branch(branch or "HEAD")

    def head_commit(self) -> str:
        """Returns the commit of HEAD, mostly without running git; empty if there is none."""
        return self.read_branch_and_commit()[1]

    def read_branch(self, branch: str) -> str:
        """Returns the commit of a branch, mostly without running git; empty if the branch is gone."""
        found = files.read_text_or_empty(self.common / branch).strip()
        is_commit = found.isalnum() and branch != "HEAD"  # that of another worktree may be there
        return found if is_commit else self.output_or_empty("rev-parse", "--verify", "--quiet", branch)

    def put_index_back(self) -> None:
        """Puts the saved index back."""
        staged = self.index_copy.read_bytes()
        if files.read_or_empty(self.index) != staged:  # byte by byte, with all that git remembers
            files.replace_file(self.index, staged)
            shutil.copystat(self.index_copy, self.index)  # a newer time would hide changes made meanwhile
        if not staged:
            self.index.unlink(missing_ok=True)

    def put_saved_entries_back(self, index_lines_at_death: Mapping[str, str], keep_committed_since: str) -> None:
        """Puts back the entries in which the saved index and `index_lines_at_death` differ.

        Not those that the user touched since, staged again or committed on top of `keep_committed_since`.
        """
        self.index_copy.stat()  # git takes a missing index for an empty one
        saved = Git(self.root, {**self._env, "GIT_INDEX_FILE": str(self.index_copy)}).index_lines()
        now = self.index_lines()
        names = (saved.keys() | index_lines_at_death) - self.names_committed_since(keep_committed_since)
        undone = [name for name in names if saved.get(name) != index_lines_at_death.get(name) == now.get(name)]
        # a mode of 0 removes the name
        removed = [f"0{now[name][6:]}" for name in undone if name in now]
        back = filter(None, map(saved.get, undone))
        self.run("update-index", "-z", "--index-info", stdin=nul_terminated([*removed, *back]))

    def names_committed_since(self, commit: str) -> set[str]:
        """Returns the names in all commits on top of this one, which is empty before the first."""
        head = self.head_commit()
        if head == commit:
            return set()
        since = f"{commit}..{head}" if commit else head
        names = self.list_names("log", "-m", "--format=", "--name-only", "--no-renames", since)
        return {name.lstrip("\n") for name in names} - {""}

    def put_head_back_and_keep_commits(self, branch: str, commit: str) -> str:
        """Puts HEAD on that branch, and the branch at that commit; without a branch HEAD itself, with none before it.

        Returns a ref that keeps the commit that was there; empty if it was the same.
        """
        kept = ""
        # mostly both are the same; without a branch the first is empty
        for one in dict.fromkeys((self.read_branch(branch), self.head_commit())):
            if one not in ("", commit):
                kept = self.keep_commit(one)
        self.run("update-ref", "--no-deref", *([branch or "HEAD", commit] if commit else ["-d", branch]))
        if branch:
            self.run("symbolic-ref", "-m", "ralph: put back", "HEAD", branch)
        return kept

    def keep_files_under_ref(self, names: Iterable[str]) -> str:
        """Keeps these files as they are now in a commit on top of HEAD. Returns its ref; empty if git cannot."""
        scratch = Git(self.root, {**self._env, "GIT_INDEX_FILE": f"{self.index_copy}-kept"})
        with suppress(RalphError):
            scratch.run("read-tree", "HEAD")
            scratch.run("update-index", "--add", "--remove", "-z", "--stdin", stdin=nul_terminated(names))
            tree = scratch.output_or_empty("write-tree")
            return self.keep_commit(
                scratch.output_or_empty("commit-tree", "-p", "HEAD", "-m", "ralph: thrown away", tree)
            )
        return ""

    @functools.cache  # noqa: B019 - a run asks one repository
    def names_in_folder(self, commit: str, folder: str) -> Sequence[str]:
        """Returns the names of what this commit has in this folder; none if it does not have the folder."""
        return names_in(self._call("ls-tree", "-z", "--name-only", f"{commit}:{folder}").stdout)

    def keep_commit(self, commit: str) -> str:
        """Keeps this commit under a new ref, and returns that."""
        ref = f"refs/ralph/kept/{time.strftime('%Y%m%d-%H%M%S')}-{commit[:10]}"
        self.run("update-ref", "--no-deref", ref, commit)
        return ref

    def operation_files(self) -> list[str]:
        """Returns the files in git's folder that show an unfinished operation, such as a merge."""
        return [name for name in _BEGUN if os.path.lexists(f"{self.git_dir}/{name}")]

    def commit_and_list_left_out(
        self,
        names: Collection[str],
        if_tracked: Collection[str],
        message: str,
        run: Callable[[Sequence[str], bytes], str],
    ) -> tuple[Commits, str, list[str]]:
        """Commits exactly these files as they are now. Returns what was committed, why not, and what was left out.

        So are those of `if_tracked` that git tracks. Other files that the user has staged stay staged. Ignored,
        untracked files are left out. `run` runs git with the project's hooks; names come by standard input, since a
        sandbox may hide ralph's files.
        """
        before = self.head_commit()
        found = self.existing_files(names)
        # folders that replaced files; a commit cannot hold one, unless it is a submodule
        folders = {name for name, at in found.items() if stat.S_ISDIR(at.st_mode)} - self.moved_submodules()
        there = found.keys() - folders
        added = self._call("add", "--intent-to-add", "--ignore-errors", *_NAMED, stdin=literal_pathspecs(there))
        if added.code not in (0, 1):
            return Commits(), f"git add fails: {error_text(added)}", []
        may_change = {*names, *if_tracked}
        known = may_change - folders - self._untracked
        # like the user's own `git commit`, except that it asks nothing, and uses the hooks' folder of the start
        pinned = ("-c", f"core.hooksPath={self.hooks}", "-c", "maintenance.auto=false")
        commit = ("commit", "--only", "--quiet", "--cleanup=whitespace", "-m", message.replace("\0", ""), *_NAMED)
        argv = ["git", "-C", str(self.root), *pinned, *commit]
        failed = run(argv, literal_pathspecs(known)) if known else ""
        # of some git knows nothing: ignored, or in a repository within the tree, of which git add says nothing
        if failed and (not_added := known.difference(self.list_names("ls-files"))):
            self._untracked |= not_added.intersection(if_tracked)
            known -= not_added
            failed = run(argv, literal_pathspecs(known)) if known else ""
        left_out, named = sorted(there - known), literal_pathspecs(known)
        if not known:  # git would take no name for all of them
            return Commits(), "", left_out
        had_nothing = failed and self._call(*commit, "--dry-run", stdin=named).code == 1
        if failed or (self.hooks / "pre-commit").exists():  # a hook may have committed another version than is staged
            self._call("reset", "--quiet", *_NAMED, stdin=named)
        now = self.head_commit()
        if now == before:
            return Commits(), "" if had_nothing else failed, left_out
        made = self.size_and_files_of_commit(now)
        more = [name for name in made.files if name not in may_change]
        if more or made.base != before:
            why = f"a hook moved HEAD, or put more into the commit than the task changed: {join_names(more)}"
            return Commits(), why, []
        return made, "", left_out

    def moved_submodules(self) -> set[str]:
        """Returns the submodules in which another commit is checked out than the one that is staged."""
        if not (self.root / ".gitmodules").is_file():
            return set()
        modified = self.list_names("diff-files", "--name-only", "--diff-filter=M", IN_NO_OTHER)
        return {name for name in modified if (self.root / name).is_dir()}

    def size_and_files_of_commit(self, commit: str) -> Commits:
        """Returns the size of a commit, and the files that it changed; a merge is based on no single commit."""
        printed = self._call("diff-tree", "-r", "--root", "--always", "--format=%P", *LINES.split(), commit).stdout
        parents, *rows = names_in(printed) or [""]
        return with_lines_and_files(Commits(count=1, head=commit, base=parents), rows)

    def check_can_commit(self) -> None:
        """Raises RalphError, before money is spent, if git could not commit here."""
        if begun := self.operation_files():
            what = f"{self.git_dir / begun[0]}: something is not finished, and commits would become part of it"
            raise RalphError(what, fix="git status says what it is")
        signs = self.output_or_empty("config", "--type=bool", "commit.gpgSign") == "true"
        tree = os.fsdecode(self.run("write-tree")).strip()
        done = self._call("commit-tree", *["-S"] * signs, "-m", "ralph tries to commit", tree, timeout_s=_SIGNING_S)
        if done.code:
            raise RalphError(f"git cannot commit in {self.root}: {error_text(done)}")


def literal_pathspecs(names: Iterable[str]) -> bytes:
    """The names as literal pathspecs from the top of the tree, whatever characters they contain."""
    return nul_terminated(f":(top,literal){name}" for name in names)


def try_jj_commit(names: Iterable[str], message: str) -> str:
    """Commits these files with jj (https://jj-vcs.github.io/jj/), which tracks changes itself. Returns why not."""
    filesets = [f"root-file:{json.dumps(name, ensure_ascii=False)}" for name in names]
    argv = ["jj", "--no-pager", "--color=never", "commit", "--message", message, *filesets]
    return error_text(call_program(argv, timeout_s=_TIMEOUT_S))
