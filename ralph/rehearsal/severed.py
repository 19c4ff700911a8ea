"""A copied repository made one of its own: no object, branch, index or remote in common with the original."""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from ralph.process import call
from ralph.rehearsal.stage import Stage, copy

_GIT_S = 600.0
_PLACES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
)
"""Names in the environment by which git would find the original."""
_NOWHERE = "file:///dev/null/nothing-is-pushed-in-a-rehearsal/"
_OWN = f"""
[core]
\tbare = false
\tfsmonitor = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[url "{_NOWHERE}"]
\tpushInsteadOf = ""
"""
"""Settings of the copy: nothing in the background that would outlive it, and every address begins with nothing."""
_SETTLED = ("core.fsmonitor", "gc.auto", "maintenance.auto")
_NOT_TAKEN_OVER = ("core.worktree", "core.bare", "remote.", "branch.", "url.", "include", "safe.", "extensions.")


def environment(base: Mapping[str, str], stage: Stage) -> dict[str, str]:
    """The environment in which git finds the copy, and nothing around it."""
    env = {name: value for name, value in base.items() if name not in _PLACES}
    said = env.get("GIT_CONFIG_COUNT", "")
    count = int(said) if said.isdecimal() else 0
    env[f"GIT_CONFIG_KEY_{count}"], env[f"GIT_CONFIG_VALUE_{count}"] = "safe.directory", "*"
    return env | {"GIT_CONFIG_COUNT": str(count + 1), "GIT_CEILING_DIRECTORIES": str(stage.top.parent)}


def git_folders(place: Path) -> list[Path]:
    """Where the repository of this folder lies: what all of its working trees share, then what is this one's own."""
    env = os.environ if "GIT_DIR" in os.environ else {n: v for n, v in os.environ.items() if n not in _PLACES}
    said = _git(place, "rev-parse", "--git-common-dir", "--absolute-git-dir", env=env)
    found = (Path(os.path.realpath(place / os.fsdecode(line))) for line in said.splitlines()) if said else ()
    return list(dict.fromkeys(found))


def elsewhere(stage: Stage, repositories: Iterable[str]) -> list[Path]:
    """The folders outside of the working trees that hold what some of these repositories need."""
    places = (stage.original / name for name in _all(repositories))
    return [folder for place in places if not (place / ".git").is_dir() for folder in git_folders(place)]


def _all(repositories: Iterable[str]) -> set[str]:
    """With the one that the environment tells git, which leaves no trace in the tree."""
    return {*repositories, *(["."] if "GIT_DIR" in os.environ else [])}


def sever(stage: Stage, repositories: Iterable[str]) -> None:
    """Gives each of these a git folder of its own, without a way to push; their hooks stay, and their settings."""
    env = environment(os.environ, stage)
    for name in sorted(_all(repositories)):
        place, original = stage.top / name, stage.original / name
        if not _has_its_own(place / ".git") or (name == "." and "GIT_DIR" in os.environ):
            _replace(place / ".git", git_folders(original))
        if (place / ".git").is_dir():
            _settle(place, _wanted(original, stage), env)
    _git(stage.top, "update-index", "-q", "--refresh", env=env)  # else each later git reads every file anew


def _has_its_own(folder: Path) -> bool:
    """Whether it holds all there is: a linked working tree has a file there, and links may lead to shared objects."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    inside = (Path(place, name) for place, folders, files in os.walk(folder) for name in (*folders, *files))
    return not any(path.is_symlink() for path in inside)


def _replace(git: Path, originals: Iterable[Path]) -> None:
    """What was copied there as a link or a note is replaced by all of it, links followed."""
    if git.is_dir() and not git.is_symlink():
        shutil.rmtree(git)
    else:
        git.unlink(missing_ok=True)
    for folder in originals:
        copy(folder, git, "-L")
    for note in ("commondir", "gitdir", "locked"):
        (git / note).unlink(missing_ok=True)


def _settle(place: Path, wanted: Mapping[str, str], env: Mapping[str, str]) -> None:
    """The settings that counted in the original, wherever they stand, but for those that lead somewhere."""
    git = place / ".git"
    shutil.rmtree(git / "worktrees", ignore_errors=True)
    for file in (git / "config", git / "config.worktree"):
        if file.is_file():
            _without_worktree(file, env)
            with file.open("a") as config:
                config.write(_OWN)
    now = _settings(place, env)
    for name in now:
        if name.startswith("remote.") and name.endswith((".url", ".pushurl")):
            _git(place, "config", "--unset-all", name, env=env)
    for name, value in wanted.items():
        if now.get(name) != value and name not in _SETTLED:
            _git(place, "config", "--replace-all", name, value, env=env)


def _without_worktree(file: Path, env: Mapping[str, str]) -> None:
    """Takes out where the original's files are; git would look for them before it did anything in the copy."""
    if b"worktree" in file.read_bytes().lower():
        _git(Path("/"), "config", "--file", str(file), "--unset-all", "core.worktree", env=env)


def _wanted(original: Path, stage: Stage) -> dict[str, str]:
    """What counts there, a folder of hooks in the tree being that of the copy."""
    said = {n: v for n, v in _settings(original, os.environ).items() if not n.startswith(_NOT_TAKEN_OVER)}
    inside = f"{stage.original}/"
    return {n: f"{stage.top}/{v.removeprefix(inside)}" if v.startswith(inside) else v for n, v in said.items()}


def _settings(place: Path, env: Mapping[str, str]) -> dict[str, str]:
    """All that is said, by name; the last of a name."""
    said = os.fsdecode(_git(place, "config", "--list", "-z", "--includes", env=env) or b"")
    return {name: value for entry in said.split("\0") if entry for name, _, value in [entry.partition("\n")]}


def _git(place: Path, *arguments: str, env: Mapping[str, str]) -> bytes | None:
    """What git prints there, or None when it fails or is not there."""
    try:
        done = call(["git", *arguments], timeout_s=_GIT_S, env=env, cwd=str(place))
    except OSError:
        return None
    return done.stdout if done.code == 0 else None
