"""The project's git repository: where HEAD, its branch and the index are, putting them back, and committing.

Files are the shadow's business. No git is run here while what steers it is not as it was: see compared.py.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph import files
from ralph.agent.turn import Commits
from ralph.changes import NAMED, complaint, git, names_in, pathspecs
from ralph.errors import RalphError
from ralph.process import Finished
from ralph.progress import harmless_output
from ralph.words import duration

HOOKS_S = 900.0
"""Seconds that a commit may take: some projects' hooks run all their tests."""
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
_WITHIN = "160000"
"""The mode of a repository within."""
_NONE = "000000"

Runner = Callable[[Sequence[str], bytes], Finished]
"""Runs git with its hooks, with this standard input."""
Aside = Callable[[str], Path]
"""A free path where something of that name can be kept."""


class Change(NamedTuple):
    """What became of a file between two looks: its modes in git's words, and the name of what it holds now."""

    was: str = _NONE
    mode: str = _WITHIN
    holds: str = ""

    @property
    def is_new(self) -> bool:
        """Whether it was not there."""
        return self.was == _NONE

    @property
    def is_repository(self) -> bool:
        """Whether it is a folder with a repository of its own."""
        return self.mode == _WITHIN


class Git:
    """A repository, asked in an environment that tells git where all of it lies."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self.root, self._env = root, env

    def _ask(self, *arguments: str) -> str:
        done = self._call(*arguments)
        return "" if done.code else os.fsdecode(done.stdout).rstrip("\n")

    def _run(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        done = self._call(*arguments, stdin=stdin, env=env)
        if done.code:
            raise self._failure(arguments[0], done)
        return done.stdout

    def _names(self, *arguments: str) -> list[str]:
        return names_in(self._run(*arguments))

    def _failure(self, command: str, done: Finished) -> RalphError:
        return RalphError(f"git {command} fails for {self.root}: {complaint(done)}", 1)

    def _call(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> Finished:
        pinned = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
        given = {**self._env, **(env or {})}
        return git(*pinned, *arguments, cwd=self.root, env=given, stdin=stdin, timeout_s=timeout_s)


class Place(NamedTuple):
    """Where everything but the files was."""

    branch: str
    """`refs/heads/main`; empty where HEAD is on none."""
    commit: str
    """Empty before the first."""
    raw_head: str
    begun: Collection[str]
    index_ns: int
    """When the index was written."""
    staged: bytes
    """What the index holds; empty where there is none."""


class Repository(Git):
    """The repository around a working tree, where it lay before an agent could move it."""

    def __init__(self, root: Path, git_dir: Path, common: Path, index: Path, object_format: str) -> None:
        places = {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(root), "GIT_INDEX_FILE": str(index)}
        super().__init__(root, {**os.environ, **places, "GIT_NO_REPLACE_OBJECTS": "1"})
        self.git_dir, self.common, self._index, self.object_format = git_dir, common, index, object_format
        # as it is, not as it is pinned
        hooks = git("config", "core.hooksPath", cwd=root, env=self._env).stdout
        self._hooks = os.fsdecode(hooks).strip() or str(common / "hooks")
        settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser())
        self._excludes = Path(self._ask("config", "--type=path", "core.excludesFile") or settings / "git" / "ignore")

    @classmethod
    def around(cls, top: Path) -> "Repository | None":
        """None where there is none; RalphError where git refuses to work in it, as in one that is another user's."""
        asked = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--git-path", "index")
        done = git("rev-parse", "--path-format=absolute", *asked, "--show-object-format", cwd=top)
        if done.code and b"not a git repository" not in done.stderr:
            raise RalphError(f"git does not work in {top}: {complaint(done)}")
        if done.code:
            return None
        *lines, object_format = os.fsdecode(done.stdout).splitlines()
        root, git_dir, common, index = map(Path, lines)
        return cls(root, git_dir, common, index, object_format)

    def rules(self) -> bytes:
        """The rules for ignoring that are not in the tree."""
        return b"\n".join(files.held(path) for path in (self._excludes, self.common / "info" / "exclude")) + b"\n"

    def tracked_though_ignored(self) -> list[str]:
        """What somebody added by force."""
        return self._names("ls-files", "-c", "-i", "-z", "--exclude-standard")

    def tracked(self, names: Collection[str]) -> set[str]:
        """Those of the names that are in the index."""
        return set(names).intersection(self._names("ls-files", "-z"))

    def place(self) -> Place:
        """How everything is now."""
        index, index_ns = b"", 0
        if self._index.exists():  # one that cannot be read is an error: else it would be taken for none, and go
            index, index_ns = self._index.read_bytes(), self._index.stat().st_mtime_ns
        return Place(*self.head(), text_of(self.git_dir / "HEAD"), self._begun(), index_ns, index)

    def head(self) -> tuple[str, str]:
        """The branch and the commit, mostly without asking git."""
        said = text_of(self.git_dir / "HEAD").strip()
        branch = said.partition("ref: ")[2].strip()
        found = text_of(self.common / branch).strip() if branch else said
        if _ID.fullmatch(found):
            return branch, found
        return self._ask("symbolic-ref", "--quiet", "HEAD"), self._ask("rev-parse", "--verify", "--quiet", "HEAD")

    def head_back(self, was: Place, name: str, aside: Aside) -> str | None:
        """HEAD and its branch are where they were, and the files as they are; None when nothing had moved.

        Else the ref that keeps the commits which were there, as far as they are others.
        """
        if not any(self.head()):  # a HEAD that git cannot read makes it no repository
            files.replace(self.git_dir / "HEAD", was.raw_head.encode(errors="surrogateescape"))
        branch, commit = self.head()
        begun = [one for one in self._begun() if one not in was.begun]
        tip = commit if branch == was.branch else self._ask("rev-parse", "--verify", "--quiet", was.branch or "HEAD")
        if (branch, commit, tip) == (was.branch, was.commit, was.commit) and not begun:
            return None
        refs = [
            self._keep(name, one)
            for one in dict.fromkeys((commit, tip))
            if one and (not was.commit or self._call("merge-base", "--is-ancestor", one, was.commit).code)
        ]
        for one in begun:
            shutil.move(self.git_dir / one, aside(one))
        if was.commit:
            self._run("update-ref", "--no-deref", was.branch or "HEAD", was.commit)
        elif tip:
            self._run("update-ref", "--no-deref", "-d", was.branch)
        if was.branch:
            self._run("symbolic-ref", "-m", "ralph: put back", "HEAD", was.branch)
        return refs[0] if refs else ""

    def _keep(self, name: str, commit: str) -> str:
        """The ref that this commit has now, so that it stays."""
        ref = f"refs/ralph/kept/{name}-{commit[:10]}"
        self._run("update-ref", "--no-deref", ref, commit)
        return ref

    def index_back(self, was: Place) -> None:
        """What is staged is what was staged, to the byte."""
        if not was.staged:
            self._index.unlink(missing_ok=True)
        elif files.held(self._index) != was.staged:
            files.replace(self._index, was.staged)
            # git trusts what is older than its index: with a newer time it would overlook what changed meanwhile
            os.utime(self._index, ns=(was.index_ns, was.index_ns))

    def keep_changes(self, changes: Mapping[str, Change], pack: bytes, name: str, scratch: Path) -> str:
        """The ref of a new commit on top of HEAD with these changes; what they hold is in the pack."""
        head, env = self.head()[1], {**_WHO, "GIT_INDEX_FILE": str(scratch)}
        entries = [f"{one.mode} {one.holds}\t{file}" for file, one in changes.items() if not one.is_repository]
        self._run("unpack-objects", "-q", stdin=pack)
        self._run("read-tree", head or "--empty", env=env)
        self._run("update-index", "-z", "--index-info", stdin=ended(entries), env=env)
        tree = self._run("write-tree", env=env).decode().strip()
        parents = ("-p", head) if head else ()
        argv = ("commit-tree", "--no-gpg-sign", *parents, "-m", f"ralph: thrown away, {name}", tree)
        return self._keep(name, self._run(*argv, env=env).decode().strip())

    def _begun(self) -> list[str]:
        return [name for name in (*_BEGUN, *_ALONGSIDE) if os.path.lexists(self.git_dir / name)]

    def commit(self, names: Collection[str], message: str, run: Runner | None = None) -> tuple[str, str]:
        """Commits these files as they are now, and nothing else: the new commit, or why not.

        What a person has staged of other files stays staged. What git ignores and does not track is left out. `run`
        runs git with the project's hooks; without it they do not run.
        """
        before = self.place()
        chosen, there = sorted(names), [name for name in sorted(names) if seen(self.root, name)]
        added = self._call("add", "--intent-to-add", "--ignore-errors", *NAMED, stdin=pathspecs(there))
        if added.code not in (0, 1):  # 1 says that some are ignored
            return "", _failed("add", added)
        if added.code or len(there) < len(chosen):
            chosen = sorted(self.tracked(chosen))
        if not chosen:
            return "", ""
        done = self._commit(message, pathspecs(chosen), run)
        if (now := self.head()[1]) != before.commit:
            return now, ""
        self.index_back(before)
        changed = {entry[3:] for entry in self._names("status", "--porcelain", "-z", "-uall", "--no-renames")}
        return "", _failed("commit", done) if changed.intersection(chosen) else ""

    def _commit(self, message: str, stdin: bytes, run: Runner | None) -> Finished:
        """As a person's own `git commit` would, but that nobody is asked, and that the folder of hooks is as it was."""
        asked = ("commit", "--only", "--quiet", "--cleanup=whitespace", "--message", message.replace("\0", ""), *NAMED)
        if run is None:
            return self._call(*asked, stdin=stdin)
        pinned = ("-c", f"core.hooksPath={self._hooks}", "-c", "gc.auto=0", "-c", "maintenance.auto=false")
        return run(["git", "-C", str(self.root), *pinned, *asked], stdin)

    def told(self, commit: str) -> tuple[str, str, Commits, set[str]]:
        """Of a commit its parent, what it says of itself, how large it is, and the files that it changed."""
        asked = ("-r", "--root", "--no-renames", "--numstat", "-z", "--always", "--format=%P%x00%B%x00")
        parent, said, _, *rest = os.fsdecode(self._run("diff-tree", *asked, commit)).split("\0")
        lines = [line.strip("\n").split("\t", 2) for line in rest if line.count("\t") >= 2]
        added, removed = (sum(int(one[number]) for one in lines if one[number].isdigit()) for number in (0, 1))
        commits = Commits(count=1, added=added, removed=removed, head=commit, base=parent)
        return parent, said, commits, {one[2] for one in lines}

    def unstage(self, names: Collection[str]) -> None:
        """Of these files is staged what HEAD has."""
        self._run("reset", "--quiet", *NAMED, stdin=pathspecs(sorted(names)))

    def check_can_commit(self) -> None:
        """RalphError where a commit could not come about, so that it is known before money is spent."""
        for what in (_BEGUN[name] for name in self._begun() if name in _BEGUN):
            fix = "git bisect reset" if what == "bisect" else f"git {what} --continue, or --abort"
            raise RalphError(f"a {what} is not finished in {self.root}, and commits would become part of it", fix=fix)
        if self._run("ls-files", "--unmerged"):
            raise RalphError(f"{self.root} has unresolved conflicts", fix="resolve and git add them")
        signs = self._ask("config", "--type=bool", "--get", "commit.gpgSign") == "true"  # it may wait for a passphrase
        tree = self._run("hash-object", "-w", "-t", "tree", "--stdin").decode().strip()
        argv = ("commit-tree", *["-S"] * signs, "-m", "ralph tries to commit", tree)
        done = self._call(*argv, timeout_s=_SIGNING_S)
        if done.code or done.timed_out:
            fix = "unlock the key, or commit.gpgSign false" if signs else 'git config user.name "…", and user.email'
            raise RalphError(f"git cannot commit in {self.root}: {complaint(done).splitlines()[0]}", fix=fix)


def seen(root: Path, name: str) -> os.stat_result | None:
    """What stands in a tree under this name; None where nothing does, or it lies beyond a link."""
    path = os.path.join(os.path.realpath(root), name)  # noqa: PTH118 - strings, of which there are many
    folder = os.path.dirname(path)  # noqa: PTH120 - same
    with contextlib.suppress(OSError):
        return os.lstat(path) if os.path.realpath(folder) == folder else None
    return None


def ended(names: Collection[str]) -> bytes:
    """Names as git reads them with `-z`."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)


def _failed(command: str, done: Finished) -> str:
    how = f"had not ended after {duration(HOOKS_S)}" if done.timed_out else f"exited with {done.code}"
    output = harmless_output((done.stdout + done.stderr).decode(errors="replace"))
    return f"git {command} {how}\n{output}".rstrip()


def text_of(path: Path) -> str:
    """What a file holds, as a text that any bytes can be; empty where it cannot be read."""
    return files.held(path).decode(errors="surrogateescape")
