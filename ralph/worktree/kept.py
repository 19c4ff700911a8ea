"""What is to be kept though it goes: commits under `refs/ralph/kept/`."""

import os
import secrets
import shutil
from typing import TYPE_CHECKING

from ralph.worktree.repository import Repository, listed

if TYPE_CHECKING:
    from ralph.worktree.snapshot import Snapshot

_KEPT = "refs/ralph/kept/"
_WHO = {
    f"GIT_{who}_{what}": said
    for who in ("AUTHOR", "COMMITTER")
    for what, said in (("NAME", "ralph"), ("EMAIL", "ralph@localhost"))
}


def free_ref(repository: Repository, name: str) -> str:
    """`refs/ralph/kept/NAME`, with a number where there is one already."""
    taken = repository.ask("for-each-ref", "--format=%(refname)", _KEPT).splitlines()
    wanted = (f"{_KEPT}{name}" + (f"-{number}" if number > 1 else "") for number in range(1, len(taken) + 2))
    return next(ref for ref in wanted if ref not in taken)


def keep(snapshot: "Snapshot", ref_name: str, message: str) -> str:
    """The ref of a commit that holds everything as it is now, ignored files not; index, HEAD and files stay."""
    repository = snapshot.repository
    scratch = snapshot.store / f"index-{secrets.token_hex(4)}"
    env = {"GIT_INDEX_FILE": str(scratch)}
    try:
        if repository.index.exists():
            shutil.copy2(repository.index, scratch)
        repository.call("add", "--all", "--ignore-errors", env=env)
        folders = [name for name in snapshot.own.names if (snapshot.root / name).is_dir() and not name.startswith("..")]
        given = ["--ignore-unmatch", "--pathspec-from-file=-", "--pathspec-file-nul"]
        if folders:
            repository.run("rm", "-r", "--cached", "--quiet", *given, stdin=listed(folders), env=env)
        tree = repository.run("write-tree", env=env).decode().strip()
    finally:
        scratch.unlink(missing_ok=True)
    head = repository.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    parent = ["-p", head] if head else []
    commit = repository.run("commit-tree", "--no-gpg-sign", *parent, tree, stdin=os.fsencode(message), env=_WHO)
    ref = free_ref(repository, ref_name)
    repository.run("update-ref", "--no-deref", ref, commit.decode().strip())
    return ref


def keep_commit(repository: Repository, ref_name: str, commit: str) -> str:
    """The new ref that this commit has."""
    ref = free_ref(repository, ref_name)
    repository.run("update-ref", "--no-deref", ref, commit)
    return ref


def has(repository: Repository, commit: str) -> bool:
    """Whether there is such a commit."""
    return repository.call("cat-file", "-e", f"{commit}^{{commit}}").code == 0
