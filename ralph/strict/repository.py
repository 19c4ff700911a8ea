"""The project's repository: where HEAD, its branch and the index are, putting them back, and committing.

Files are the shadow's business. No git is run here while its settings are not as they were: see compared.py.
"""

import contextlib
import functools
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph import files
from ralph.agent.turn import Commits
from ralph.changes import NAMED, complaint, git, names_in, pathspecs
from ralph.errors import RalphError
from ralph.process import Finished, call

_TIMEOUT_S = 600.0
_SIGNING_S = 30.0
_BEGUN = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick",
    "BISECT_LOG": "bisect",
}
"""Files in git's folder that tell of something unfinished."""
_ALONGSIDE = ("MERGE_MODE", "MERGE_MSG", "MERGE_RR", "AUTO_MERGE", "REBASE_HEAD", "SQUASH_MSG", "MERGE_AUTOSTASH")
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_WHO = {f"GIT_{who}_{what}": "ralph" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
_EMPTY_TREE = {"sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904"} | {
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
}
_SETTINGS = r"^(core\.(hookspath|excludesfile)|commit\.gpgsign)$"
_FALSE = ("false", "no", "off", "0")

Runner = Callable[[Sequence[str], bytes], str]
"""Runs git with its hooks; why it failed or nothing. Names come by standard input: a sandbox may hide files of ours."""


class Git:
    """A repository, asked in an environment that tells git where all of it lies."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self.root, self._env = root, env

    def ask(self, *arguments: str) -> str:
        """What git prints, without the line's end; empty where it fails."""
        done = self._call(*arguments)
        return "" if done.code else os.fsdecode(done.stdout).rstrip("\n")

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What git prints; RalphError where it fails."""
        done = self._call(*arguments, stdin=stdin)
        if done.code:
            raise RalphError(f"git {arguments[0]} fails for {self.root}: {complaint(done)}", 1)
        return done.stdout

    def names(self, *arguments: str) -> list[str]:
        """The same where git prints names, with `-z`."""
        return names_in(self.run(*arguments))

    def take_in(self, names: Iterable[str]) -> dict[str, os.stat_result]:
        """Puts these names into the index as they are now, or out of it; what stands under those that are in."""
        wanted = sorted(names)
        there = {name: at for name, at in standing(self.root, wanted).items() if _can_be_read(self.root / name, at)}
        if there:
            argv = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
            self.run(*argv, stdin=terminated(there))
        self.drop([name for name in wanted if name not in there])
        return there

    def drop(self, names: Collection[str]) -> None:
        """Takes these names out of the index."""
        if names:
            self.run("update-index", "--force-remove", "-z", "--stdin", stdin=terminated(names))

    def _call(self, *arguments: str, stdin: bytes = b"", timeout_s: float = _TIMEOUT_S) -> Finished:
        pinned = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
        return git(*pinned, *arguments, cwd=self.root, env=self._env, stdin=stdin, timeout_s=timeout_s)


class Place(NamedTuple):
    """Where everything but the files was."""

    branch: str
    """`refs/heads/main`; empty where HEAD is on none."""
    commit: str
    """Empty before the first."""
    begun: Collection[str]
    """Files that tell of something unfinished."""
    has_index: bool


class Repository(Git):
    """The repository around a working tree, where it lay before an agent could move it."""

    index_copy: Path
    """Where `place` puts a copy of the index."""

    def __init__(self, root: str, git_dir: str, common: str, index: str, object_format: str) -> None:
        places = {"GIT_DIR": git_dir, "GIT_WORK_TREE": root, "GIT_INDEX_FILE": index}
        super().__init__(Path(root), {**os.environ, **places, "GIT_NO_REPLACE_OBJECTS": "1"})
        self.git_dir, self.common, self._index = Path(git_dir), Path(common), Path(index)
        self.object_format = object_format
        # not by _call, for which the folder of hooks is pinned
        asked = git("config", "-z", "--get-regexp", _SETTINGS, cwd=self.root, env=self._env)
        settings = {key: value for key, _, value in (one.partition("\n") for one in names_in(asked.stdout))}
        self.hooks = settings.get("core.hookspath") or f"{common}/hooks"
        """The folder of the project's hooks."""
        self._signs = settings.get("commit.gpgsign", "no").lower() not in _FALSE
        config = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config")
        self._excludes = Path(settings.get("core.excludesfile") or config / "git" / "ignore").expanduser()

    @classmethod
    def around(cls, top: Path) -> "Repository | None":
        """None where there is none; RalphError where git refuses to work in it, as in one that is another user's."""
        asked = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--git-path", "index")
        done = git("rev-parse", "--path-format=absolute", *asked, "--show-object-format", cwd=top)
        if done.code and b"not a git repository" not in done.stderr:
            raise RalphError(f"git does not work in {top}: {complaint(done)}")
        return None if done.code else cls(*os.fsdecode(done.stdout).splitlines())

    def rules(self) -> bytes:
        """The rules for ignoring that are not in the tree."""
        return b"\n".join(files.held(path) for path in (self._excludes, self.common / "info" / "exclude")) + b"\n"

    def tracked(self, names: Collection[str]) -> set[str]:
        """Those of the names that are in the index."""
        return set(names).intersection(self.names("ls-files", "-z"))

    def place(self) -> Place:
        """How everything is now; of the index a copy is made."""
        if has_index := self._index.exists():
            self.index_copy.unlink(missing_ok=True)  # it may have become a link
            shutil.copy2(self._index, self.index_copy)
        return Place(*self.head(), self._begun(), has_index)

    def head(self) -> tuple[str, str]:
        """The branch and the commit, mostly without asking git."""
        said = text_of(self.git_dir / "HEAD").strip()
        branch = said.partition("ref: ")[2].strip()
        found = text_of(self.common / branch).strip() if branch else said
        if _ID.fullmatch(found):
            return branch, found
        return self.ask("symbolic-ref", "--quiet", "HEAD"), self.ask("rev-parse", "--verify", "--quiet", "HEAD")

    def put_back(self, was: Place, name: str, aside: Callable[[str], Path]) -> str | None:
        """HEAD, its branch and the index are what they were, the files as they are; None when HEAD had not moved.

        Else a ref that keeps the commit which was there; empty where that was the same.
        """
        self.index_back(was)
        if not any(self.head()):  # a HEAD that git cannot read makes it no repository
            head = f"ref: {was.branch}" if was.branch else was.commit
            files.replace(self.git_dir / "HEAD", os.fsencode(f"{head}\n"))
        branch, commit = self.head()
        begun = [one for one in self._begun() if one not in was.begun]
        tip = commit if branch == was.branch else self.ask("rev-parse", "--verify", "--quiet", was.branch or "HEAD")
        if (branch, commit, tip) == (was.branch, was.commit, was.commit) and not begun:
            return None
        refs = [self._keep(name, one) for one in dict.fromkeys((commit, tip)) if one not in ("", was.commit)]
        for one in begun:
            shutil.move(self.git_dir / one, aside(one))
        if was.commit:
            self.run("update-ref", "--no-deref", was.branch or "HEAD", was.commit)
        elif tip:
            self.run("update-ref", "--no-deref", "-d", was.branch)
        if was.branch:
            self.run("symbolic-ref", "-m", "ralph: put back", "HEAD", was.branch)
        return refs[0] if refs else ""

    def _keep(self, name: str, commit: str) -> str:
        """The ref that this commit has now, so that it stays."""
        ref = f"refs/ralph/kept/{name}-{commit[:10]}"
        self.run("update-ref", "--no-deref", ref, commit)
        return ref

    def index_back(self, was: Place) -> None:
        """What is staged is what was staged, to the byte."""
        if not was.has_index:
            self._index.unlink(missing_ok=True)
        elif files.held(self._index) != (staged := self.index_copy.read_bytes()):
            files.replace(self._index, staged)
            # git trusts what is older than its index: with a newer time it would overlook what changed meanwhile
            shutil.copystat(self.index_copy, self._index)

    def keep_changes(self, names: Collection[str], name: str, scratch_index: Path) -> str:
        """The ref of a new commit on top of HEAD that has these files as they are now."""
        head = self.head()[1]
        scratch = Git(self.root, {**self._env, **_WHO, "GIT_INDEX_FILE": str(scratch_index)})
        scratch.run("read-tree", head or "--empty")
        scratch.take_in(names)
        tree = scratch.run("write-tree").decode().strip()
        parents = ("-p", head) if head else ()
        commit = scratch.run("commit-tree", *parents, "-m", f"ralph: thrown away, {name}", tree)
        return self._keep(name, commit.decode().strip())

    def _begun(self) -> list[str]:
        return [name for name in (*_BEGUN, *_ALONGSIDE) if os.path.lexists(self.git_dir / name)]

    def commit(self, names: Collection[str], message: str, run: Runner | None = None) -> tuple[str, str]:
        """Commits these files as they are now, and nothing else: the new commit, or why not.

        What a person has staged of other files stays staged. What git ignores and does not track is left out. `run`
        runs git with the project's hooks; without it they do not run.
        """
        before = self.place()
        chosen = sorted(names)
        there = standing(self.root, chosen)
        added = self._call("add", "--intent-to-add", "--ignore-errors", *NAMED, stdin=pathspecs(there))
        if added.code not in (0, 1):  # 1 says that some are ignored
            return "", f"git add fails: {complaint(added)}"
        if added.code or len(there) < len(chosen):
            chosen = sorted(self.tracked(chosen))
        if not chosen:
            return "", ""
        # as a person's own `git commit`, but that nobody is asked, and that the folder of hooks is as it was
        text = message.replace("\0", "")
        argv = ("commit", "--only", "--quiet", "--cleanup=whitespace", "--message", text, *NAMED)
        pinned = ("-c", f"core.hooksPath={self.hooks}", "-c", "gc.auto=0", "-c", "maintenance.auto=false")
        stdin = pathspecs(chosen)
        if run:
            failed = run(["git", "-C", str(self.root), *pinned, *argv], stdin)
        else:
            failed = complaint(self._call(*argv, stdin=stdin))
        if (now := self.head()[1]) != before.commit:
            return now, ""
        self.index_back(before)
        changed = {entry[3:] for entry in self.names("status", "--porcelain", "-z", "-uall", "--no-renames")}
        return "", failed if changed.intersection(chosen) else ""

    def describe(self, commit: str) -> tuple[str, Commits, set[str]]:
        """Of a commit what it says of itself, how large it is, and the files that it changed."""
        asked = ("-r", "--root", "--no-renames", "--numstat", "-z", "--always", "--format=%P%x00%B%x00")
        parent, said, _, *rest = os.fsdecode(self.run("diff-tree", *asked, commit)).split("\0")
        lines = [line.strip("\n").split("\t", 2) for line in rest if line.count("\t") >= 2]
        added, removed = (sum(int(one[number]) for one in lines if one[number].isdigit()) for number in (0, 1))
        commits = Commits(count=1, added=added, removed=removed, head=commit, base=parent)
        return said, commits, {one[2] for one in lines}

    def unstage(self, names: Collection[str]) -> None:
        """Of these files is staged what HEAD has."""
        self.run("reset", "--quiet", *NAMED, stdin=pathspecs(sorted(names)))

    def check_can_commit(self) -> None:
        """RalphError where a commit could not come about, so that it is known before money is spent."""
        for what in (_BEGUN[name] for name in self._begun() if name in _BEGUN):
            fix = "git bisect reset" if what == "bisect" else f"git {what} --continue, or --abort"
            raise RalphError(f"a {what} is not finished in {self.root}, and commits would become part of it", fix=fix)
        if self.run("ls-files", "--unmerged"):
            raise RalphError(f"{self.root} has unresolved conflicts", fix="resolve and git add them")
        argv = ("commit-tree", *["-S"] * self._signs, "-m", "ralph tries to commit", _EMPTY_TREE[self.object_format])
        done = self._call(*argv, timeout_s=_SIGNING_S)  # it may wait for a passphrase
        if done.code or done.timed_out:
            fix = 'git config user.name "…", and user.email'
            fix = "unlock the key, or commit.gpgSign false" if self._signs else fix
            raise RalphError(f"git cannot commit in {self.root}: {complaint(done).splitlines()[0]}", fix=fix)


def jj_root(top: Path) -> Path | None:
    """The top of the jj workspace around `top`; None where there is none, or no jj, or git is nearer."""
    for place in (top, *top.parents):
        if (place / ".jj").exists():
            return place if shutil.which("jj") else None
        if (place / ".git").exists():
            return None
    return None


def jj_commit(root: Path, names: Collection[str], message: str) -> tuple[str, str]:
    """As `Repository.commit`, by jj (https://jj-vcs.github.io/jj/), which records the working copy by itself."""
    if not names:  # jj would take all files
        return "", ""
    files_named = [f"root-file:{json.dumps(name, ensure_ascii=False)}" for name in sorted(names)]
    for said in (("commit", "--message", message, *files_named), ("log", "--no-graph", "-r", "@-", "-T", "commit_id")):
        env = {**os.environ, "JJ_EDITOR": "true", "LC_ALL": "C.UTF-8"}
        done = call(["jj", "--no-pager", "--color=never", *said], timeout_s=_TIMEOUT_S, env=env, cwd=str(root))
        if done.code:
            return "", complaint(done)
    return os.fsdecode(done.stdout).strip(), ""


def standing(root: Path, names: Iterable[str]) -> dict[str, os.stat_result]:
    """What stands in a tree under these names; what is missing, or lies beyond a link, is left out."""
    top, found = os.path.realpath(root), {}
    is_real = functools.cache(lambda folder: os.path.realpath(folder) == folder)
    for name in names:
        path = f"{top}/{name}"
        with contextlib.suppress(OSError):
            if is_real(path.rpartition("/")[0]):
                found[name] = os.lstat(path)
    return found


def _can_be_read(path: Path, at: os.stat_result) -> bool:
    return stat.S_ISLNK(at.st_mode) or (stat.S_ISREG(at.st_mode) and os.access(path, os.R_OK))


def terminated(names: Iterable[str]) -> bytes:
    """Names as git reads them with `-z`."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)


def text_of(path: Path) -> str:
    """What a file holds, as a text that any bytes can be; empty where it cannot be read."""
    return files.held(path).decode(errors="surrogateescape")
