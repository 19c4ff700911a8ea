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
_OWN = """
[core]
\tbare = false
\tfsmonitor = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[safe]
\tdirectory = *
[url "file:///dev/null/nothing-is-pushed-in-a-rehearsal/"]
\tpushInsteadOf = ""
[push]
\trecurseSubmodules = nothing-is-pushed-in-a-rehearsal
"""
"""Settings of a rehearsal: nothing in the background that would outlive it, and nothing pushed.

Every address begins with nothing; where another setting tells a longer beginning, `git push` fails over the last word.
"""


def environment(base: Mapping[str, str], stage: Stage) -> dict[str, str]:
    """The environment in which git finds the copy, nothing around it, and the person's settings as they were."""
    env = {name: stage.moved(value) for name, value in base.items() if name not in _PLACES}
    own = {"GIT_CONFIG_GLOBAL": str(_settings(stage)), "GIT_CONFIG_SYSTEM": os.devnull}
    return env | own | {"GIT_CEILING_DIRECTORIES": str(stage.top.parent)}


def _settings(stage: Stage) -> Path:
    """In place of the person's own file, where a hook could write, or find leave to push."""
    return stage.folder / "gitconfig"


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
    _settings(stage).write_bytes(os.fsencode(stage.moved(_said_everywhere(stage)) + _OWN))
    env = environment(os.environ, stage)
    for name in sorted(_all(repositories)):
        place, original = stage.top / name, stage.original / name
        if not _has_its_own(place / ".git") or (name == "." and "GIT_DIR" in os.environ):
            _replace(place / ".git", git_folders(original))
        if (place / ".git").is_dir():
            _settle(place / ".git", stage, env)
            _find_alternates(place / ".git", original)
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


def _settle(git: Path, stage: Stage, env: Mapping[str, str]) -> None:
    """The original's own settings, but for those that lead back there."""
    shutil.rmtree(git / "worktrees", ignore_errors=True)
    for file in (git / "config", git / "config.worktree"):
        if file.is_file():
            said = os.fsdecode(file.read_bytes())
            file.write_bytes(os.fsencode(stage.moved(said) + _OWN))
            if "worktree" in said.lower():  # git would look for its files there before it did anything in the copy
                _git(Path("/"), "config", "--file", str(file), "--unset-all", "core.worktree", env=env)


def _find_alternates(git: Path, original: Path) -> None:
    """Objects that it borrows, and names by a path that begins where the original's are."""
    file = git / "objects" / "info" / "alternates"
    if file.is_file():
        objects = (git_folders(original) or [git])[0] / "objects"
        file.write_text("".join(f"{objects / line}\n" for line in file.read_text().splitlines()))


def _said_everywhere(stage: Stage) -> str:
    """The settings of the person and of the machine that count in the original, also those for this place alone."""
    said = _git(stage.original, "config", "--list", "-z", "--includes", "--show-scope", env=os.environ) or b""
    words = os.fsdecode(said).split("\0")
    entries = (entry for scope, entry in zip(words[::2], words[1::2], strict=False) if scope in ("system", "global"))
    return "".join(_written(entry) for entry in entries if not entry.startswith("include"))


def _written(entry: str) -> str:
    """`section.its name.key`, a line's end and the value, as a file of settings has them."""
    name, is_value, value = entry.partition("\n")
    section, _, rest = name.partition(".")
    inner, _, key = rest.rpartition(".")
    head = f"[{section} {_quoted(inner)}]" if inner else f"[{section}]"
    return f"{head}\n\t{key}" + (f" = {_quoted(value)}" if is_value else "") + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _git(place: Path, *arguments: str, env: Mapping[str, str]) -> bytes | None:
    """What git prints there, or None when it fails or is not there."""
    try:
        done = call(["git", *arguments], timeout_s=_GIT_S, env=env, cwd=str(place))
    except OSError:
        return None
    return done.stdout if done.code == 0 else None
