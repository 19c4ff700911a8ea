"""The project's repository: where HEAD, its branch and the index are, putting them back, and committing.

Files are the shadow's business. No git is run here while its settings are not as they were: see settings.py.
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
"""It may wait for a passphrase, and nobody is there."""
_BEGUN = ["MERGE_HEAD", "rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD", "REVERT_HEAD", "sequencer", "BISECT_LOG"]
"""Files in git's folder that tell of something unfinished."""
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class Git:
    """A repository, asked in an environment that tells git where all of it lies."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self.root, self._env = root, env

    def output_of(self, *arguments: str) -> str:
        """What git prints, without the line's end; empty where it fails."""
        done = self._call(*arguments)
        return "" if done.code else os.fsdecode(done.stdout).rstrip("\n")

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What git prints; RalphError where it fails."""
        done = self._call(*arguments, stdin=stdin)
        if done.code:
            raise RalphError(f"git {arguments[0]} fails for {self.root}: {error_text(done)}", 1)
        return done.stdout

    def failure_of(self, *arguments: str) -> str:
        """Why git fails, in its words; empty where it does not."""
        done = self._call(*arguments)
        return error_text(done) if done.code else ""

    def merge_trees(self, ours: str, theirs: str) -> tuple[str, list[str]]:
        """The tree that merging two commits makes, and the files that conflict; neither where git cannot say."""
        done = self._call("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
        tree, *names = names_in(done.stdout) if done.code in (0, 1) else [""]
        return ("" if done.code else tree), names

    def list_names(self, *arguments: str) -> list[str]:
        """The names that git prints, with `-z`."""
        return names_in(self.run(*arguments))

    def _call(self, *arguments: str, stdin: bytes = b"", timeout_s: float = _TIMEOUT_S) -> Finished:
        pinned = ("-c", "core.hooksPath=/dev/null")
        return run_git(*pinned, *arguments, cwd=self.root, env=self._env, stdin=stdin, timeout_s=timeout_s)


class Repository(Git):
    """The repository around a working tree, where it lay before an agent could move it."""

    index_copy: Path
    """Where `save_head_and_index` puts a copy of the index."""

    def __init__(self, places: Sequence[str]) -> None:
        self.places = places
        """Where its parts lie, as git says."""
        root, git_dir, common, index, hooks = places
        self.hooks = Path(hooks)
        env = {"GIT_DIR": git_dir, "GIT_WORK_TREE": root, "GIT_INDEX_FILE": index, "GIT_NO_REPLACE_OBJECTS": "1"}
        super().__init__(Path(root), {**os.environ, **env})
        self.git_dir, self.common, self._index = Path(git_dir), Path(common), Path(index)
        self._committed: tuple[str, Sequence[str]] = "", []
        """A commit, and the files that it has."""

    @classmethod
    def find_around(cls, top: Path) -> "Repository | None":
        """None where there is none; RalphError where git refuses to work in it, as in one that is another user's."""
        asked = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--git-path", "index")
        done = run_git("rev-parse", "--path-format=absolute", *asked, "--git-path", "hooks", cwd=top)
        what = f"git does not work in {top}: {error_text(done)}"
        if done.code and b"not a git repository" not in done.stderr:
            raise RalphError(what)
        folder = working_tree(top) / ".git"
        if done.code and folder.is_dir():
            raise RalphError(what, 4, fix=f"look at {folder}/HEAD: its usual content is ref: refs/heads/main")
        found = os.fsdecode(b"\n" + done.stdout).removesuffix("\n").split("\n/")  # a name may hold any line's end
        return None if done.code else cls([f"/{path}" for path in found[1:]])

    def ignore_rules_outside_tree(self) -> bytes:
        """The rules for ignoring that are not in the tree."""
        usual = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        own = self.output_of("config", "--type=path", f"--default={usual}/git/ignore", "core.excludesFile")
        return files.read_or_empty(Path(own)) + b"\n" + files.read_or_empty(self.common / "info" / "exclude")

    def save_head_and_index(self) -> Place:
        """How everything is now; of the index a copy is made."""
        self.copy_index(self.index_copy)
        return *self.read_head(), self._unfinished_operations()

    def copy_index(self, path: Path) -> None:
        """Copies the index as it is now."""
        files.overwrite_file(path, files.read_or_empty(self._index))
        with contextlib.suppress(FileNotFoundError):
            shutil.copystat(self._index, path)

    def committed_files(self) -> Sequence[str]:
        """The files that the commit has which HEAD is at."""
        if self._committed[0] != (now := self.read_head()[1]):
            self._committed = (
                now,
                self.list_names("ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD") if now else [],
            )
        return self._committed[1]

    def read_head(self) -> tuple[str, str]:
        """The branch and the commit, mostly without asking git."""
        message = text_of(self.git_dir / "HEAD").strip()
        branch = message.partition("ref: ")[2]
        found = text_of(self.common / branch).strip() if branch else message
        if _ID.fullmatch(found):
            return branch, found
        return self.output_of("symbolic-ref", "--quiet", "HEAD"), self.output_of(
            "rev-parse", "--verify", "--quiet", "HEAD"
        )

    def read_branch(self, branch: str) -> str:
        """The commit of a branch, mostly without asking git; empty where it is gone."""
        found = text_of(self.common / branch).strip()
        return found if _ID.fullmatch(found) else self.output_of("rev-parse", "--verify", "--quiet", branch)

    def index_now(self) -> bytes:
        """What the index holds; empty where that is what it was."""
        now = files.read_or_empty(self._index)
        return b"" if now == files.read_or_empty(self.index_copy) else now

    def put_index_back(self) -> None:
        """The index is what it was, to the byte."""
        staged = self.index_copy.read_bytes()
        if files.read_or_empty(self._index) != staged:
            files.replace_file(self._index, staged)
            shutil.copystat(self.index_copy, self._index)  # newer, it would hide what changed meanwhile
        if not staged:
            self._index.unlink(missing_ok=True)

    def put_head_back(self, was: Place, aside: Callable[[str], Path]) -> tuple[str, int] | None:
        """HEAD and its branch are what they were; None when they had not moved.

        Else a ref that keeps the commit which was there, empty where that was the same, and how many commits went.
        Raises RalphError 4 where the commit is gone that HEAD was at.
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
        """Whether HEAD had nonsense in it, with which git takes nothing for a repository; then it is written again."""
        message = text_of(self.git_dir / "HEAD")
        if message.startswith("ref: refs/") or _ID.fullmatch(message.strip()):
            return False
        files.overwrite_file(self.git_dir / "HEAD", os.fsencode(f"ref: {branch}\n" if branch else f"{commit}\n"))
        return True

    def _index_entries(self, index: Path) -> dict[str, str]:
        """What is in an index, by name and stage; that git only looked at files changes nothing in it."""
        if not files.read_or_empty(index):
            return {}
        listed = Git(self.root, {**self._env, "GIT_INDEX_FILE": str(index)}).list_names("ls-files", "--stage", "-z")
        return {row[row.index("\t") - 1 :]: row for row in listed}  # `100644 OBJECT STAGE`, a tab, the name

    def put_index_entries_back(self, seen: Path) -> None:
        """The index is what it was, except what somebody has staged since it was the one at `seen`."""
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
        """The ref that has these files as they are now, in a commit on top of HEAD; none where git cannot."""
        scratch = Git(self.root, {**self._env, "GIT_INDEX_FILE": f"{self.index_copy}-kept"})
        with contextlib.suppress(RalphError):
            scratch.run("read-tree", "HEAD")
            scratch.run("update-index", "--add", "--remove", "-z", "--stdin", stdin=nul_terminated(names))
            tree = scratch.output_of("write-tree")
            return self.keep_commit(scratch.output_of("commit-tree", "-p", "HEAD", "-m", "ralph: thrown away", tree))
        return ""

    def keep_commit(self, commit: str) -> str:
        """The ref that keeps this commit from now on."""
        ref = f"refs/ralph/kept/{time.strftime('%Y%m%d-%H%M%S')}-{commit[:10]}"
        self.run("update-ref", "--no-deref", ref, commit)
        return ref

    def _unfinished_operations(self) -> list[str]:
        return [name for name in _BEGUN if os.path.lexists(self.git_dir / name)]

    def commit_files(
        self, names: Collection[str], message: str, run: Callable[[Sequence[str], bytes], str]
    ) -> tuple[Commits, str, list[str]]:
        """Commits these files as they are now, and nothing else: what was committed, why not, and what was left out.

        What the user has staged of other files stays staged. What git ignores and does not track is left out. `run`
        runs git with the project's hooks; names come by standard input, since a sandbox may hide files of ours.
        """
        before = self.read_head()[1]
        found = existing_files(self.root, names)
        folders = {name for name, at in found.items() if stat.S_ISDIR(at.st_mode)}
        if folders:  # in place of files, and no commit holds one, unless it is a submodule
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
        # as the user's own `git commit`, but that nobody is asked, and that the folder of hooks is as it was
        pinned = ("-c", f"core.hooksPath={self.hooks}", "-c", "maintenance.auto=false")
        how = ("--only", "--quiet", "--cleanup=whitespace", "--message", message.replace("\0", ""))
        failed = run(["git", "-C", str(self.root), *pinned, "commit", *how, *NAMED], literal_pathspecs(known))
        now = self.read_head()[1]
        if failed or (self.hooks / "pre-commit").exists():  # which may have committed another version than git staged
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
        """Each submodule that is there, with the commit that is checked out in it."""
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
        """How large a commit is, and the files that it changed."""
        return commits_between(self._call, self.output_of("rev-parse", "--verify", "--quiet", f"{commit}^"), commit)

    def check_can_commit(self) -> None:
        """RalphError where a commit could not come about, so that it is known before money is spent."""
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


def jj_commit(root: Path, names: Iterable[str], message: str) -> str:
    """Commits these files by jj (https://jj-vcs.github.io/jj/), which records changes itself; why not, or nothing."""
    filesets = [f"root-file:{json.dumps(name, ensure_ascii=False)}" for name in names]
    argv = ["jj", "--no-pager", "--color=never", "commit", "--message", message, *filesets]
    done = call_program(argv, timeout_s=_TIMEOUT_S, cwd=root)
    return error_text(done) if done.code else ""


def existing_files(root: Path, names: Iterable[str]) -> dict[str, os.stat_result]:
    """What is in a tree under these names; what is missing, or lies beyond a link, is left out."""
    real, found = functools.cache(os.path.realpath), {}
    for name in names:
        path = f"{root}/{name}"
        folder = os.path.dirname(path)  # noqa: PTH120 - it may be thousands
        with contextlib.suppress(OSError):
            if real(folder) == folder:
                found[name] = os.lstat(path)
    return found


def text_of(path: Path) -> str:
    """What a file holds, as a text that any bytes can be; empty where it cannot be read."""
    return os.fsdecode(files.read_or_empty(path))
