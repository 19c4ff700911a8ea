"""Projects under jj (https://jj-vcs.github.io/jj/): where they are, committing there, and taking its commits back.

jj records the working copy by itself whenever it runs, so that there is no index. Files are compared and put back as
everywhere; in a project without git's folder, git's own index in ralph's store says which are ignored.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.errors import RalphError
from ralph.process import Finished, call
from ralph.worktree.repository import Repository, complaint, jj_root, repository

_TIMEOUT_S = 300.0
_ESCAPED = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\0": r"\0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """How far jj was."""

    root: Path
    id: str
    parents: tuple[str, ...]
    """The commits that the working copy is on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """What jj had committed since, and its bookmark now."""

    kept: str
    commits: int


def repository_for(top: Path, store: Path) -> Repository | None:
    """The working tree around `top`, also one that only jj knows; None where there is none."""
    found, root = repository(top), jj_root(top)
    if root is None or (found and found.root.resolve().is_relative_to(root.resolve())):
        return found
    git_dir = store / "git"
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    call(["git", "init", "--quiet", "--bare", "--template=", str(git_dir)], timeout_s=_TIMEOUT_S, env=env)
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info" / "exclude").write_text("/.jj/\n")
    return Repository(root=root, git_dir=git_dir, common=git_dir, index=git_dir / "index", id_length=40)


def operation(root: Path) -> Operation | None:
    """How far jj is; None in projects without it."""
    if jj_root(root) != root:
        return None
    parents = _run(root, "log", "--no-graph", "-r", "@-", "-T", 'commit_id ++ "\\n"').split()
    return Operation(
        root=root, id=_run(root, "op", "log", "--no-graph", "--limit", "1", "-T", "id").strip(), parents=tuple(parents)
    )


def back(before: Operation | None, ref_name: str) -> Back | None:
    """Has jj be where it was, the files as they are; what was there has a bookmark `ralph/kept/NAME`.

    None when the working copy is on the commits it was on.
    """
    if before is None or (now := operation(before.root)) is None or now.parents == before.parents:
        return None
    root = before.root
    new = _run(root, "log", "--no-graph", "-r", f"({'|'.join(before.parents)})..@-", "-T", 'commit_id ++ "\\n"')
    here = _run(root, "log", "--no-graph", "-r", "@", "-T", "commit_id").strip()
    _run(root, "op", "restore", before.id)
    name = f"ralph/kept/{ref_name}"
    _run(root, "bookmark", "set", "--allow-backwards", name, "-r", here)
    _run(root, "restore", "--from", here)
    return Back(kept=name, commits=len(new.split()))


def commit(root: Path, names: Sequence[str], message: str) -> tuple[str, str]:
    """The new commit's name, empty where there is nothing to commit; and what went wrong."""
    if not names:
        return "", ""
    files = [f'root-file:"{_quoted(name)}"' for name in names]
    done = _call(root, "diff", "--name-only", *files)
    if done.code or not done.stdout.strip():  # jj would make a commit with nothing in it
        return "", _complaint(done) if done.code else ""
    done = _call(root, "commit", "--message", message, *files)
    if done.code:
        return "", _complaint(done)
    return _run(root, "log", "--no-graph", "-r", "@-", "-T", "commit_id").strip(), ""


def check(root: Path) -> None:
    """RalphError where jj does not know who commits."""
    for name in ("user.name", "user.email"):
        done = _call(root, "config", "get", name)
        if done.code or not done.stdout.strip():
            raise RalphError(f'jj does not know who commits here; jj config set --user {name} "…"')


def _quoted(name: str) -> str:
    """As jj's string literals have it: a name is a name, whatever is in it."""
    return re.sub(r'[\\"\n\r\t\0]', lambda found: _ESCAPED[found[0]], name)


def _run(root: Path, *arguments: str) -> str:
    done = _call(root, *arguments)
    if done.code:
        raise RalphError(f"jj {arguments[0]} fails in {root}: {_complaint(done)}", 1)
    return os.fsdecode(done.stdout)


def _call(root: Path, *arguments: str) -> Finished:
    argv = ["jj", "--no-pager", "--color=never", *arguments]
    env: Mapping[str, str] = {**os.environ, "JJ_EDITOR": "true", "LC_ALL": "C.UTF-8"}
    return call(argv, timeout_s=_TIMEOUT_S, env=env, cwd=str(root))


def _complaint(done: Finished) -> str:
    return complaint(done).removeprefix("Error: ")
