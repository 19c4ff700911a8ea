"""Committing in a project under jj (https://jj-vcs.github.io/jj/), which records the working copy by itself."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from ralph.changes import complaint
from ralph.errors import RalphError
from ralph.process import Finished, call

_TIMEOUT_S = 300.0


def root_around(top: Path) -> Path | None:
    """The top of the jj workspace around `top`; None where there is none, or no jj, or git is nearer."""
    for place in (top, *top.parents):
        if (place / ".jj").exists():
            return place if shutil.which("jj") else None
        if (place / ".git").exists():
            return None
    return None


def commit(root: Path, names: Sequence[str], message: str) -> tuple[str, str]:
    """The new commit's name, empty where there is nothing to commit; and what went wrong."""
    named = [f"root-file:{json.dumps(name, ensure_ascii=False)}" for name in names]
    if not named:
        return "", ""
    done = _call(root, "diff", "--name-only", *named)
    if not done.code and not done.stdout.strip():  # jj would make a commit with nothing in it
        return "", ""
    done = done if done.code else _call(root, "commit", "--message", message, *named)
    if done.code:
        return "", complaint(done)
    return os.fsdecode(_call(root, "log", "--no-graph", "-r", "@-", "-T", "commit_id").stdout).strip(), ""


def check(root: Path) -> None:
    """RalphError where jj does not know who commits."""
    for name in ("user.name", "user.email"):
        done = _call(root, "config", "get", name)
        if done.code or not done.stdout.strip():
            raise RalphError("jj does not know who commits here", fix=f'jj config set --user {name} "…"')


def _call(root: Path, *arguments: str) -> Finished:
    argv = ["jj", "--no-pager", "--color=never", *arguments]
    env = {**os.environ, "JJ_EDITOR": "true", "LC_ALL": "C.UTF-8"}
    return call(argv, timeout_s=_TIMEOUT_S, env=env, cwd=str(root))
