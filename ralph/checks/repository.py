"""The git repository that the agent works in: whether it can commit there, and what else it would commit."""

import os
import shutil
from pathlib import Path

from ralph import git
from ralph.checks.check import Check
from ralph.process import Finished, call, somebody_runs
from ralph.words import counted

_GIT_S = 20.0
_NAMED = 3
"""Uncommitted files that are named."""
_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


def repository(tree: Path) -> Check:
    """Whether git is there, and knows `tree`."""
    program = shutil.which("git")
    if program is None:
        path = os.environ.get("PATH", "(unset)")
        return Check(name="git", ok=False, said=f"git is not on the PATH, which is {path}", remedy="install git")
    done = _git(tree, "rev-parse", "--show-toplevel")
    if done.code == 0:
        return Check(name="git", ok=True, said=f"{program}, repository {tree}")
    if (tree / ".git").exists():
        return Check(name="git", ok=False, said=f"{tree}: {_complaint(done)}", remedy="mend what git complains about")
    said = f"{tree} is no repository: nothing can be committed, or undone"
    return Check(name="git", ok=False, said=said, remedy="git init, and commit what is there", obstacle=False)


def git_identity(tree: Path) -> Check:
    """Whether git knows in whose name to commit."""
    for name in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        done = _git(tree, "var", name)
        if done.code:
            said = "git does not know who commits here, so that commits fail"
            return Check(name="identity", ok=False, said=said, remedy=_INTRODUCE)
    who = f"{done.stdout.decode(errors='replace').rpartition('>')[0]}>"
    if not any(map(os.environ.get, _EMAILS)) and _git(tree, "config", "user.email").code:
        return Check(name="identity", ok=False, said=f"git guesses: {who}", remedy=_INTRODUCE, obstacle=False)
    return Check(name="identity", ok=True, said=f"commits are by {who}")


_INTRODUCE = 'git config --global user.name "You"; git config --global user.email you@example.org'
_EMAILS = ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL", "EMAIL")


def clean_tree(tree: Path, but: Path) -> Check:
    """Whether everything in `tree` is committed, the file `but` aside."""
    now = git.tree(tree)
    if now is None:
        return Check(
            name="tree", ok=False, said=f"{tree}: git does not say what is uncommitted", remedy="try git status"
        )
    besides = os.path.relpath(os.path.realpath(but), os.path.realpath(tree))
    found = sorted(name for name in now.files if name != besides)
    if not found:
        return Check(name="tree", ok=True, said="everything is committed")
    more = ", …" if len(found) > _NAMED else ""
    said = f"{counted(len(found), 'uncommitted file')}: {', '.join(found[:_NAMED])}{more}"
    remedy = "commit or stash first; the agent may change them, and commit them with its own"
    return Check(name="tree", ok=False, said=said, remedy=remedy, obstacle=False)


def unfinished(tree: Path) -> list[Check]:
    """What somebody began there and did not end: a merge, a rebase, a lock that was left; HEAD without a branch."""
    index = git.index_lock()
    if index is None:
        return []
    found = [_begun(what) for name, what in _UNFINISHED.items() if (index.parent / name).exists()]
    found += [_left(lock, tree) for lock in git.locks(index) if os.path.lexists(lock)]
    if not found and _git(tree, "symbolic-ref", "-q", "HEAD").code:
        said, remedy = "HEAD is on no branch, and so would the commits be", "git switch -c a-branch"
        found.append(Check(name="git", ok=False, said=said, remedy=remedy, obstacle=False))
    return found


def _begun(what: str) -> Check:
    said = f"a {what} is not finished, and commits would become part of it"
    return Check(name="git", ok=False, said=said, remedy=f"git {what} --continue, or --abort")


def _left(lock: Path, tree: Path) -> Check:
    if somebody_runs("git", tree):
        said, remedy = f"{lock} is there, since a git works here just now", "try again in a moment"
        return Check(name="git", ok=False, said=said, remedy=remedy, obstacle=False)
    said = f"{lock} was left by a git that is gone, so that commits fail"
    return Check(name="git", ok=False, said=said, remedy=f"rm {lock}")


def _git(tree: Path, *arguments: str) -> Finished:
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    return call(["git", *arguments], timeout_s=_GIT_S, env=env, cwd=str(tree))


def _complaint(done: Finished) -> str:
    return (done.stderr.decode(errors="replace").splitlines() or ["git fails"])[0].removeprefix("fatal: ")
