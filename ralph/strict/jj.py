"""Committing in a project under jj (https://jj-vcs.github.io/jj/), which records the working copy by itself."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ralph.errors import RalphError
from ralph.process import Finished, call
from ralph.strict.repository import above

_TIMEOUT_S = 300.0
_ESCAPED = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\0": r"\0"}


def root_around(top: Path) -> Path | None:
    """The top of the jj workspace around `top`; None where there is none, or no jj, or git is nearer."""
    jj, git = above(top, ".jj"), above(top, ".git")
    is_nearer = jj is not None and git is not None and jj in git.parents
    return None if is_nearer or not shutil.which("jj") else jj


def commit(root: Path, names: Sequence[str], message: str) -> tuple[str, str]:
    """The new commit's name, empty where there is nothing to commit; and what went wrong."""
    files = [f'root-file:"{_quoted(name)}"' for name in names]
    done = _call(root, "diff", "--name-only", *files) if files else None
    if done is None or done.code or not done.stdout.strip():  # jj would make a commit with nothing in it
        return "", _complaint(done) if done and done.code else ""
    done = _call(root, "commit", "--message", message, *files)
    if done.code:
        return "", _complaint(done)
    return os.fsdecode(_call(root, "log", "--no-graph", "-r", "@-", "-T", "commit_id").stdout).strip(), ""


def check(root: Path) -> None:
    """RalphError where jj does not know who commits."""
    for name in ("user.name", "user.email"):
        done = _call(root, "config", "get", name)
        if done.code or not done.stdout.strip():
            raise RalphError("jj does not know who commits here", fix=f'jj config set --user {name} "…"')


def _quoted(name: str) -> str:
    """As jj's string literals have it: a name is a name, whatever is in it."""
    return re.sub(r'[\\"\n\r\t\0]', lambda found: _ESCAPED[found[0]], name)


def _call(root: Path, *arguments: str) -> Finished:
    argv = ["jj", "--no-pager", "--color=never", *arguments]
    env: Mapping[str, str] = {**os.environ, "JJ_EDITOR": "true", "LC_ALL": "C.UTF-8"}
    return call(argv, timeout_s=_TIMEOUT_S, env=env, cwd=str(root))


def _complaint(done: Finished) -> str:
    lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"it exits with {done.code}"]
    return lines[0].removeprefix("Error: ")
