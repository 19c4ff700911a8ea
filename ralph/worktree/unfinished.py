"""What was begun in a repository and not finished: a merge, a rebase, a cherry-pick."""

import os
import shutil
from collections.abc import Collection

from ralph.worktree.kept import has, keep_commit
from ralph.worktree.repository import Repository

BEGUN = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "sequencer": "cherry-pick",
    "BISECT_LOG": "bisect",
}
"""Files in git's folder that tell of something unfinished."""
_ALONGSIDE = (
    *("MERGE_MODE", "MERGE_MSG", "MERGE_RR", "AUTO_MERGE", "REBASE_HEAD", "SQUASH_MSG", "MERGE_AUTOSTASH"),
    *("BISECT_START", "BISECT_TERMS", "BISECT_NAMES", "BISECT_EXPECTED_REV", "BISECT_ANCESTORS_OK", "BISECT_RUN"),
)


def begun(repository: Repository) -> list[str]:
    """The files in git's folder that tell of it."""
    return [name for name in (*BEGUN, *_ALONGSIDE) if os.path.lexists(repository.git_dir / name)]


def end(repository: Repository, begun: Collection[str], ref_name: str) -> None:
    """Removes the files of what is unfinished; what it had put aside of uncommitted work is kept."""
    for name in begun:
        path = repository.git_dir / name
        stash = path / "autostash" if path.is_dir() else path
        if stash.name in ("autostash", "MERGE_AUTOSTASH") and stash.is_file():
            put_aside = stash.read_text(errors="replace").strip()
            if has(repository, put_aside):
                keep_commit(repository, f"{ref_name}-autostash", put_aside)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
