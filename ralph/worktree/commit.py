"""Committing exactly what an iteration changed, with the project's own hooks."""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.errors import RalphError
from ralph.process import Finished, call
from ralph.progress import harmless_output
from ralph.words import duration
from ralph.worktree import index, jj, locks
from ralph.worktree.new_files import is_repository_within
from ralph.worktree.repository import Repository, complaint, jj_root, listed, repository
from ralph.worktree.unfinished import BEGUN

HOOKS_S = 900.0
"""Seconds that a commit may take: some projects' hooks run all their tests."""
_SIGNING_S = 30.0
_FROM_STDIN = ("--pathspec-from-file=-", "--pathspec-file-nul")


Runner = Callable[[Sequence[str], bytes], Finished]
"""Runs a program with this standard input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What came of committing; neither: there was nothing to commit."""

    head: str = ""
    """The new commit."""
    failed: str = ""
    """Why there is none, with the end of what git and the hooks printed."""


def commit(top: Path, names: Collection[str], message: str, run: Runner | None = None) -> Committed:
    """Commits these files as they are now, new, changed and deleted ones, and nothing else.

    What a person has staged of other files stays staged. Names are relative to the top folder of the repository; those
    that are ignored and not tracked are left out. `run` runs git, and with it the hooks.
    """
    if (root := _jj_project(top)) is not None:
        head, failed = jj.commit(root, sorted(names), message)
        return Committed(head=head, failed=failed)
    there = repository(top)
    if there is None:
        raise RalphError(f"{top} is in no git repository, so that nothing can be committed", 1)
    changed, new = _to_commit(there, set(names))
    # where a folder is now, what is in it takes the file's place in the commit
    chosen = [name for name in sorted({*changed, *new}) if not _is_folder(there.root / name)]
    return _committed(there, chosen, sorted(new), message, run or _run) if chosen else Committed()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_within(root: Path, name: str) -> bool:
    """Whether it is a file of a repository within this one, which git takes none of."""
    return any(is_repository_within(root / folder) for folder in [*Path(name).parents][:-1])


def _committed(there: Repository, names: Sequence[str], new: Sequence[str], message: str, run: Runner) -> Committed:
    before, held = index.raw(there), locks.seen(there)
    old = _head(there)
    done = there.call("add", "--intent-to-add", *_FROM_STDIN, stdin=listed(new)) if new else None
    if done is None or done.code == 0:
        done = _commit(there, names, message, run)
    head = _head(there)
    if head != old:
        return Committed(head=head)
    locks.unlock(there, held)
    index.replace(there, *before)
    return Committed(failed=_why(done) if done.code or done.timed_out else "")


def _head(there: Repository) -> str:
    return there.ask("rev-parse", "--verify", "--quiet", "HEAD")


def _to_commit(there: Repository, names: set[str]) -> tuple[set[str], set[str]]:
    """Those of the names that a commit would change something of, and the new ones that git does not know yet."""
    changed = names & _differing(there)
    rest = {name for name in names - changed if os.path.lexists(there.root / name)}
    known = os.fsdecode(there.run("ls-files", "-z")).split("\0") if rest else ()
    unknown = {
        name for name in rest.difference(known) if not (_is_folder(there.root / name) or _is_within(there.root, name))
    }
    return changed, unknown - _ignored(there, unknown) if unknown else set()


def _differing(there: Repository) -> set[str]:
    """The tracked files that are not as HEAD has them, or not there."""
    asked = ["diff", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules", "-z"]
    done = there.call(*asked, "HEAD", "--")
    if done.code:  # before the first commit
        return set(os.fsdecode(there.run(*asked, there.ask("hash-object", "-t", "tree", "/dev/null"))).split("\0"))
    return set(os.fsdecode(done.stdout).split("\0"))


def _ignored(there: Repository, names: set[str]) -> set[str]:
    """Those of the names that git ignores; nothing is literal in this command, but behind ./ a name is a name."""
    given = listed([f"./{name}" for name in names])
    asked = there.call("check-ignore", "-z", "--stdin", stdin=given, env={"GIT_LITERAL_PATHSPECS": "0"})
    return {os.fsdecode(name.removeprefix(b"./")) for name in asked.stdout.split(b"\0") if name}


def _commit(there: Repository, names: Sequence[str], message: str, run: Runner) -> Finished:
    """As a person's own `git commit` would, but that nobody is asked anything."""
    asked = ["--only", "--quiet", "--cleanup=whitespace", "--message", message.replace("\0", "")]
    # not --literal-pathspecs: the hooks would inherit it
    given = listed([f":(top,literal){name}" for name in names])
    return run(["git", "-C", str(there.root), "commit", *asked, *_FROM_STDIN], given)


def _run(argv: Sequence[str], stdin: bytes) -> Finished:
    env = {**os.environ, "GIT_EDITOR": "true", "GIT_TERMINAL_PROMPT": "0"}
    return call(argv, timeout_s=HOOKS_S, env=env, stdin=stdin)


def _why(done: Finished) -> str:
    output = harmless_output((done.stdout + done.stderr).decode(errors="replace"))
    what = f"had not ended after {duration(HOOKS_S)}" if done.timed_out else f"exited with {done.code}"
    return f"git commit {what}\n{output}".rstrip()


def _jj_project(top: Path) -> Path | None:
    """The top of the jj workspace, unless a git repository within it is nearer."""
    if (root := jj_root(top)) is None:
        return None
    there = repository(top)
    nearer = there is not None and root.resolve() in there.root.resolve().parents
    return None if nearer else root


def check_can_commit(top: Path) -> None:
    """RalphError where a commit could not come about, so that it is known before money is spent."""
    if (root := _jj_project(top)) is not None:
        return jj.check(root)
    there = repository(top)
    if there is None:
        raise RalphError(f"{top} is in no git repository, so that nothing can be committed; git init, and commit")
    for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        if there.call("var", who).code:
            raise RalphError('git does not know who commits here; git config user.name "…"; git config user.email "…"')
    for name, what in BEGUN.items():
        if os.path.lexists(there.git_dir / name):
            end = "git bisect reset" if what == "bisect" else f"git {what} --continue, or --abort"
            raise RalphError(f"a {what} is not finished in {there.root}, and commits would become part of it; {end}")
    if there.run("ls-files", "--unmerged"):
        raise RalphError(f"{there.root} has unresolved conflicts; resolve and git add them")
    return _check_signing(there)


def _check_signing(there: Repository) -> None:
    """A commit that is signed may wait for a person's passphrase."""
    if there.ask("config", "--type=bool", "--get", "commit.gpgSign") != "true":
        return
    tree = there.run("hash-object", "-w", "-t", "tree", "--stdin").decode().strip()
    argv = ["git", "commit-tree", "-S", "-m", "ralph tries to sign", tree]
    done = call(argv, timeout_s=_SIGNING_S, env=there.environment(), cwd=str(there.root))
    if done.code or done.timed_out:
        said = complaint(done)
        raise RalphError(
            f"commits are to be signed here, and that fails: {said}; unlock the key, or commit.gpgSign false"
        )
