"""A git working tree, and git run in it so that nobody can bend what it says."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.errors import RalphError
from ralph.process import Finished, call

_TIMEOUT_S = 300.0
_SURE = (
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.untrackedCache=false"),
    *("-c", "core.trustctime=true"),
    *("-c", "core.checkStat=default"),
    *("-c", "core.ignoreStat=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "gc.auto=0"),
)
"""Against what would let an agent hide changes, or have git run its programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Where a working tree and what belongs to it lie; all absolute, as found before the agent could move them."""

    root: Path
    git_dir: Path
    common: Path
    index: Path
    id_length: int
    """Digits of an object's name: 40, or 64 with SHA-256."""

    def call(
        self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Finished:
        """What came of a git command, however it ended."""
        argv = ["git", *_SURE, *arguments]
        given = {**self.environment(), **(env or {})}
        return call(argv, timeout_s=_TIMEOUT_S, env=given, cwd=str(cwd or self.root), stdin=stdin)

    def run(
        self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> bytes:
        """What a git command prints; RalphError when it fails."""
        done = self.call(*arguments, stdin=stdin, env=env, cwd=cwd)
        if done.code:
            raise RalphError(f"git {arguments[0]} fails in {self.root}: {complaint(done)}", 1)
        return done.stdout

    def ask(self, *arguments: str) -> str:
        """The line that a git command prints; empty when it fails."""
        done = self.call(*arguments)
        return "" if done.code else os.fsdecode(done.stdout.removesuffix(b"\n"))

    def environment(self) -> dict[str, str]:
        """So that git works here whatever `.git/config` says, and takes no lock it could do without."""
        return {
            **os.environ,
            "GIT_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(self.root),
            "GIT_INDEX_FILE": str(self.index),
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_LITERAL_PATHSPECS": "1",  # a name is a name, whatever is in it
            "LC_ALL": "C",
        }


def complaint(done: Finished) -> str:
    """The first line of what git says is wrong."""
    if done.timed_out:
        return "it does not end"
    lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"it exits with {done.code}"]
    return lines[0].removeprefix("fatal: ").removeprefix("error: ")


def repository(top: Path) -> Repository | None:
    """The working tree around `top`; None where there is none."""
    if "GIT_DIR" not in os.environ and not _below(top, ".git"):
        return None
    asked = ["--show-toplevel", "--git-dir", "--git-common-dir", "--git-path", "index", "--show-object-format"]
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = call(["git", "rev-parse", "--path-format=absolute", *asked], timeout_s=_TIMEOUT_S, env=env, cwd=str(top))
    except OSError:
        return None
    lines = os.fsdecode(done.stdout).splitlines()
    if done.code or len(lines) != len(asked) - 1:
        return None
    root, git_dir, common, index = map(Path, lines[:4])
    return Repository(
        root=root, git_dir=git_dir, common=common, index=index, id_length=64 if lines[4] == "sha256" else 40
    )


def jj_root(top: Path) -> Path | None:
    """The top of the jj workspace around `top`; None where there is none, or no jj to be found."""
    place = _below(top, ".jj")
    return place if place and shutil.which("jj") else None


def _below(top: Path, name: str) -> Path | None:
    here = top.absolute()
    return next((place for place in (here, *here.parents) if os.path.lexists(place / name)), None)


def is_repository(top: Path) -> bool:
    """Whether there is a working tree of git's, or of jj's."""
    return jj_root(top) is not None or repository(top) is not None


def listed(names: Sequence[str]) -> bytes:
    """Names as git reads them with -z."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)
