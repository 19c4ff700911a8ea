"""Committing in a project under jj (https://jj-vcs.github.io/jj/), which records the working copy by itself."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from ralph.changes import complaint
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
    if not names:
        return "", ""
    named = [f"root-file:{json.dumps(name, ensure_ascii=False)}" for name in names]
    done = _call(root, "commit", "--message", message, *named)
    if done.code:
        return "", complaint(done)
    return os.fsdecode(_call(root, "log", "--no-graph", "-r", "@-", "-T", "commit_id").stdout).strip(), ""


def _call(root: Path, *arguments: str) -> Finished:
    argv = ["jj", "--no-pager", "--color=never", *arguments]
    env = {**os.environ, "JJ_EDITOR": "true", "LC_ALL": "C.UTF-8"}
    return call(argv, timeout_s=_TIMEOUT_S, env=env, cwd=str(root))
