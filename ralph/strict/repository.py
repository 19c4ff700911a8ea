"""The project's git repository: where HEAD, its branch and the index are, putting them back, and committing.

Files are the shadow's business. No git is run here while what steers it is not as it was: see compared.py.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import files
from ralph.agent.turn import Commits
from ralph.changes import NAMED, complaint, git, names_in, pathspecs
from ralph.errors import RalphError
from ralph.process import Finished, call
from ralph.progress import harmless_output
from ralph.words import duration

HOOKS_S = 900.0
"""Seconds that a commit may take: some projects' hooks run all their tests."""
_TIMEOUT_S = 300.0
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
_KEPT = "refs/ralph/kept/"
_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ARGUMENTS = 100_000
"""Characters of names that fit into a command line."""

Runner = Callable[[Sequence[str], bytes], Finished]
"""Runs git with its hooks, with this standard input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where everything but the files was."""

    began: int
    """In seconds since 1970."""
    branch: str
    """`refs/heads/main`; empty where HEAD is on none."""
    commit: str
    """Empty before the first."""
    raw_head: str
    begun: tuple[str, ...]
    index: tuple[int, ...]
    """What tells one version of the index from the next; empty where there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What became of HEAD meanwhile."""

    commits: int
    rewritten: bool
    """The commit of before was not in the history of what was there."""
    kept_ref: str
    """Where the new commits are; empty when there are none."""
    ended: tuple[str, ...]
    """What was begun and not finished."""


class Repository:
    """The repository around a working tree, where it lay before an agent could move it."""

    def __init__(self, root: Path, git_dir: Path, common: Path, index: Path, object_format: str) -> None:
        self.root, self.git_dir, self.common, self._index = root, git_dir, common, index
        self.object_format = object_format
        self._env = {**os.environ, "GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(root), "GIT_INDEX_FILE": str(index)}
        self._env["GIT_NO_REPLACE_OBJECTS"] = "1"
        asked = ("config", "-z", "--get-regexp", r"^core\.(hookspath|excludesfile)$")
        printed = git(*asked, cwd=root, env=self._env, timeout_s=_TIMEOUT_S).stdout  # as it is, not as it is pinned
        said = dict(line.split("\n", 1) for line in names_in(printed) if "\n" in line)
        self._hooks = said.get("core.hookspath", str(common / "hooks"))
        home = os.environ.get("XDG_CONFIG_HOME") or os.environ.get("HOME", "") + "/.config"
        self._excludes = Path(said.get("core.excludesfile", f"{home}/git/ignore"))

    @classmethod
    def around(cls, top: Path) -> "Repository | None":
        """None where there is none; RalphError where git refuses to work in it, as in one that is another user's."""
        if "GIT_DIR" not in os.environ and not above(top, ".git"):
            return None
        asked = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--git-path", "index")
        done = git("rev-parse", "--path-format=absolute", *asked, "--show-object-format", cwd=top)
        if done.code and b"not a git repository" not in done.stderr:
            raise RalphError(f"git does not work in {top}: {complaint(done)}")
        *lines, object_format = os.fsdecode(done.stdout).splitlines() or [""]
        if done.code or len(lines) != len(asked) - 1:
            return None
        root, git_dir, common, index = map(Path, lines)
        return cls(root, git_dir, common, index, object_format)

    def rules(self) -> bytes:
        """The rules for ignoring that are not in the tree."""
        found = b""
        for path in (self._excludes.expanduser(), self.common / "info" / "exclude"):
            with contextlib.suppress(OSError):
                found += path.read_bytes() + b"\n"
        return found

    def tracked_though_ignored(self) -> list[str]:
        """What somebody added by force."""
        return names_in(self._run("ls-files", "-c", "-i", "-z", "--exclude-standard"))

    def tracked(self, names: Collection[str]) -> set[str]:
        """Those of the names that are in the index."""
        return set(names_in(self._run("ls-files", "-z", "--", *_literal(names)))) & set(names) if names else set()

    def place(self, began: int, copy: Path) -> Place:
        """How everything is now; the index is copied."""
        branch, commit = self.head()
        with contextlib.suppress(FileNotFoundError):
            copy.unlink()
        if index := self._index_now():
            shutil.copyfile(self._index, copy)
        return Place(
            began=began,
            branch=branch,
            commit=commit,
            raw_head=_text(self.git_dir / "HEAD"),
            begun=tuple(self._begun()),
            index=index,
        )

    def head(self) -> tuple[str, str]:
        """The branch and the commit, mostly without asking git."""
        said = _text(self.git_dir / "HEAD").strip()
        branch = said.removeprefix("ref: ").strip() if said.startswith("ref: ") else ""
        found = _text(self.common / branch).strip() if branch.startswith("refs/heads/") else said
        if _ID.fullmatch(found):
            return branch, found
        return self._ask("symbolic-ref", "--quiet", "HEAD"), self._ask("rev-parse", "--verify", "--quiet", "HEAD")

    def head_back(self, was: Place, name: str, aside: Callable[[str], Path]) -> Moved | None:
        """HEAD and its branch are where they were, and the files as they are; None when nothing had moved."""
        branch, commit = self.head()
        if not branch and not commit and was.raw_head:  # a HEAD that git cannot read makes it no repository
            files.replace(self.git_dir / "HEAD", was.raw_head.encode(errors="surrogateescape"))
            branch, commit = self.head()
        begun = [one for one in self._begun() if one not in was.begun]
        tip = commit if branch == was.branch else self._ask("rev-parse", "--verify", "--quiet", was.branch or "HEAD")
        if (branch, commit, tip) == (was.branch, was.commit, was.commit) and not begun:
            return None
        tips = [one for one in dict.fromkeys((commit, tip)) if one not in ("", was.commit)]
        moved = self._moved(was, tips, name, begun)
        for one in begun:
            shutil.move(self.git_dir / one, aside(one))
        if was.commit:
            self._run("update-ref", "--no-deref", was.branch or "HEAD", was.commit)
        elif tip:
            self._run("update-ref", "--no-deref", "-d", was.branch)
        if was.branch:
            self._run("symbolic-ref", "-m", "ralph: put back", "HEAD", was.branch)
        return moved

    def index_back(self, was: Place, copy: Path) -> None:
        """What is staged is what was staged, to the byte."""
        now = self._index_now()
        if now == was.index or not (now or was.index):
            return
        if not was.index:
            self._index.unlink()
        elif not now or self._index.read_bytes() != copy.read_bytes():
            files.replace(self._index, copy.read_bytes())
            # git trusts what is older than its index: with a newer time it would overlook what changed meanwhile
            os.utime(self._index, ns=(was.index[0], was.index[0]))

    def _index_now(self) -> tuple[int, ...]:
        with contextlib.suppress(OSError):
            seen = self._index.stat()
            return seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino, seen.st_size
        return ()

    def _moved(self, was: Place, tips: Sequence[str], name: str, begun: Sequence[str]) -> Moved:
        old = [f"^{was.commit}"] if was.commit else []
        since = f"--since={was.began}"
        new = [tip for tip in tips if int(self._run("rev-list", "--count", since, tip, *old))]
        refs = [self.keep(name, tip) for tip in new]
        count = int(self._run("rev-list", "--count", since, *new, *old)) if new else 0
        gone = was.commit and any(self._call("merge-base", "--is-ancestor", was.commit, tip).code for tip in tips)
        ended = dict.fromkeys(_BEGUN[one] for one in begun if one in _BEGUN)
        return Moved(commits=count, rewritten=bool(gone), kept_ref=refs[0] if refs else "", ended=tuple(ended))

    def keep(self, name: str, commit: str) -> str:
        """The new ref that this commit has: `refs/ralph/kept/NAME`, with a number where there is one already."""
        taken = self._ask("for-each-ref", "--format=%(refname)", _KEPT).splitlines()
        wanted = (f"{_KEPT}{name}" + f"-{number}" * (number > 1) for number in range(1, len(taken) + 2))
        ref = next(ref for ref in wanted if ref not in taken)
        self._run("update-ref", "--no-deref", ref, commit)
        return ref

    def lacks(self, names: Sequence[str]) -> list[str]:
        """Those of the objects that it has not."""
        printed = self._run("cat-file", "--batch-check", stdin="".join(f"{name}\n" for name in names).encode())
        return [line.split()[0] for line in printed.decode().splitlines() if line.endswith(" missing")]

    def take(self, pack: bytes, tree: str, name: str, message: str) -> str:
        """The ref of a commit on top of HEAD with this tree, whose objects are in the pack."""
        who = {f"GIT_{who}_{what}": "ralph" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self._run("unpack-objects", "-q", stdin=pack)
        head = self.head()[1]
        parent = ["-p", head] if head else []
        made = self._run("commit-tree", "--no-gpg-sign", *parent, tree, stdin=message.encode(), env=who)
        return self.keep(name, made.decode().strip())

    def _begun(self) -> list[str]:
        return [name for name in (*_BEGUN, *_ALONGSIDE) if os.path.lexists(self.git_dir / name)]

    def commit(self, names: Collection[str], message: str, run: Runner | None = None) -> tuple[str, str]:
        """Commits these files as they are now, with the project's hooks, and nothing else: the new commit, or why not.

        What a person has staged of other files stays staged. What git ignores and does not track is left out.
        """
        before = self.head()[1]
        index = self._index.read_bytes() if self._index.is_file() else b""
        # where a folder is now, what is in it takes the file's place
        chosen = sorted(name for name in names if not _is_folder(self.root / name))
        there = [name for name in chosen if self._is_there(name)]
        asked = ("add", "--intent-to-add", "--ignore-errors", *NAMED)
        added = self._call(*asked, stdin=pathspecs(there)) if there else None
        if added and added.code not in (0, 1):  # 1 says that some are ignored
            return "", _failed("add", added)
        if (added and added.code) or len(there) < len(chosen):
            known = self.tracked(chosen)
            chosen = [name for name in chosen if name in known]
        done = (run or self._call_hooks)(self._commit_argv(message), pathspecs(chosen)) if chosen else None
        if (now := self.head()[1]) != before:
            return now, ""
        if index and self._index.read_bytes() != index:
            files.replace(self._index, index)
        elif not index:
            self._index.unlink(missing_ok=True)
        if done is None or not self._run("status", "--porcelain", "-z", "-uall", "--", *_literal(chosen)):
            return "", ""
        return "", _failed("commit", done)

    def _is_there(self, name: str) -> bool:
        """Whether something is there, not beyond a link: git knows nothing of that."""
        folder = os.path.dirname(os.path.join(os.path.realpath(self.root), name))  # noqa: PTH118, PTH120 - strings
        return os.path.realpath(folder) == folder and os.path.lexists(self.root / name)

    def _commit_argv(self, message: str) -> list[str]:
        """As a person's own `git commit` would, but that nobody is asked, and that the folder of hooks is as it was."""
        pinned = ("-c", f"core.hooksPath={self._hooks}", "-c", "gc.auto=0", "-c", "maintenance.auto=false")
        asked = ("--only", "--quiet", "--cleanup=whitespace", "--message", message.replace("\0", ""), *NAMED)
        return ["git", "-C", str(self.root), *pinned, "commit", *asked]

    def _call_hooks(self, argv: Sequence[str], stdin: bytes) -> Finished:
        env = {**os.environ, "GIT_EDITOR": "true", "GIT_TERMINAL_PROMPT": "0"}
        return call(argv, timeout_s=HOOKS_S, env=env, stdin=stdin)

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

    def differing(self, commit: str) -> set[str]:
        """The files that this commit has otherwise than HEAD."""
        return set(names_in(self._run("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", "HEAD", commit)))

    def check_can_commit(self) -> None:
        """RalphError where a commit could not come about, so that it is known before money is spent."""
        for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
            if self._call("var", who).code:
                fix = 'git config user.name "…"; git config user.email "…"'
                raise RalphError("git does not know who commits here", fix=fix)
        for name in self._begun():
            if what := _BEGUN.get(name):
                fix = "git bisect reset" if what == "bisect" else f"git {what} --continue, or --abort"
                raise RalphError(
                    f"a {what} is not finished in {self.root}, and commits would become part of it", fix=fix
                )
        if self._run("ls-files", "--unmerged"):
            raise RalphError(f"{self.root} has unresolved conflicts", fix="resolve and git add them")
        if self._ask("config", "--type=bool", "--get", "commit.gpgSign") == "true":
            self._check_signing()

    def _check_signing(self) -> None:
        """A commit that is signed may wait for a person's passphrase."""
        tree = self._run("hash-object", "-w", "-t", "tree", "--stdin").decode().strip()
        argv = ("commit-tree", "-S", "-m", "ralph tries to sign", tree)
        done = git(*argv, cwd=self.root, env=self._env, timeout_s=_SIGNING_S)
        if done.code or done.timed_out:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it does not end"]
            said = lines[0].removeprefix("error: ").removeprefix("fatal: ")
            what = f"commits are to be signed here, and that fails: {said}"
            raise RalphError(what, fix="unlock the key, or commit.gpgSign false")

    def _ask(self, *arguments: str) -> str:
        done = self._call(*arguments)
        return "" if done.code else os.fsdecode(done.stdout).rstrip("\n")

    def _run(self, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> bytes:
        done = self._call(*arguments, stdin=stdin, env=env)
        if done.code:
            raise RalphError(f"git {arguments[0]} fails in {self.root}: {complaint(done)}", 1)
        return done.stdout

    def _call(self, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Finished:
        pinned = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
        given = {**self._env, **(env or {})}
        return git(*pinned, *arguments, cwd=self.root, env=given, stdin=stdin, timeout_s=_TIMEOUT_S)


def above(top: Path, name: str) -> Path | None:
    """The folder around `top` in which something of that name lies."""
    here = top.absolute()
    return next((place for place in (here, *here.parents) if os.path.lexists(place / name)), None)


def _failed(command: str, done: Finished) -> str:
    ended = f"had not ended after {duration(HOOKS_S)}" if done.timed_out else f"exited with {done.code}"
    output = harmless_output((done.stdout + done.stderr).decode(errors="replace"))
    return f"git {command} {ended}\n{output}".rstrip()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_bytes().decode(errors="surrogateescape")
    return ""


def _literal(names: Collection[str]) -> list[str]:
    """Pathspecs as arguments; all files where they would not fit."""
    return [f":(top,literal){name}" for name in names] if sum(map(len, names)) < _ARGUMENTS else []
