"""Which files were ignored, by the rules as they were when the iteration began, whatever rules it made since."""

import contextlib
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph.process import call
from ralph.worktree.repository import Repository, listed

RULES = ".gitignore"
_CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"
"""https://bford.info/cachedir/"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignoring:
    """What was ignored, and by which rules beside those in the files that a snapshot has anyway."""

    names: frozenset[str]
    """As `git status --ignored=matching` has them: files, and folders with a slash."""
    hidden_rules: Mapping[str, bytes]
    """The `.gitignore` files that are ignored themselves."""
    persons: bytes
    """core.excludesFile."""
    own: bytes
    """`.git/info/exclude`."""


def ignoring(repository: Repository, ignored: Collection[str]) -> Ignoring:
    """How it is now."""
    hidden = [
        name for name in ignored if name.rpartition("/")[2] == RULES and not (repository.root / name).is_symlink()
    ]
    return Ignoring(
        names=frozenset(ignored),
        hidden_rules={name: _text(repository.root / name) for name in hidden},
        persons=_text(_persons_rules(repository)),
        own=_text(repository.common / "info" / "exclude"),
    )


def _persons_rules(repository: Repository) -> Path:
    named = repository.ask("config", "--type=path", "--get", "core.excludesFile")
    if named:
        return repository.root / named
    home = os.environ.get("HOME", "/nonexistent")
    return Path(os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config") / "git" / "ignore"


def _text(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes() if path.is_file() else b""
    return b""


def was_known(name: str, ignored: Collection[str]) -> bool:
    """Whether it was among the ignored itself, or in a folder that was."""
    return name in ignored or any(f"{folder}/" in ignored for folder in _above(name))


def _above(name: str) -> Iterable[str]:
    at = name.find("/")
    while at > 0:
        yield name[:at]
        at = name.find("/", at + 1)


def by_old_rules(before: Ignoring, rules: Mapping[str, bytes], names: Collection[str], folder: Path) -> set[str]:
    """Those of the names that would have been ignored; `rules` are the `.gitignore` files of that time.

    git itself is asked, in a repository in `folder` that has nothing but those rules.
    """
    if not names:
        return set()
    import shutil  # noqa: PLC0415 - only where something new is ignored

    shutil.rmtree(folder, ignore_errors=True)
    tree = folder / "tree"
    for name, text in {**before.hidden_rules, **rules}.items():
        _written(tree / name, text)
    for name in names:
        if name.endswith("/"):  # a rule for folders only asks what is there
            with contextlib.suppress(OSError):
                (tree / name).mkdir(parents=True, exist_ok=True)
    return _asked(before, names, folder)


def _asked(before: Ignoring, names: Collection[str], folder: Path) -> set[str]:
    tree, git_dir, persons = folder / "tree", folder / "git", folder / "persons"
    tree.mkdir(parents=True, exist_ok=True)
    _written(persons, before.persons)
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C"}
    _bare(git_dir)
    _written(git_dir / "info" / "exclude", before.own)
    env |= {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(tree)}
    # it takes no --literal-pathspecs; behind ./ every name is one
    asked = listed([f"./{name}" for name in names])
    argv = ["git", "-c", f"core.excludesFile={persons}", "check-ignore", "--no-index"]
    done = call([*argv, "-z", "--stdin"], timeout_s=300, env=env, cwd=str(tree), stdin=asked)
    return {os.fsdecode(name.removeprefix(b"./")) for name in done.stdout.split(b"\0") if name}


def _bare(git_dir: Path) -> None:
    """What git takes for a repository; `git init` takes as long as the question."""
    for name in ("objects", "refs"):
        (git_dir / name).mkdir(parents=True)
    (git_dir / "HEAD").write_text("ref: refs/heads/main\n")


def _written(path: Path, text: bytes) -> None:
    with contextlib.suppress(OSError):  # a name that is a file's and a folder's at once: such rules cannot be
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def is_cache(folder: Path) -> bool:
    """Whether a tool made it for itself: caches and virtual environments bring a `.gitignore` of their own."""
    return (folder / "pyvenv.cfg").is_file() or _text(folder / "CACHEDIR.TAG").startswith(_CACHE_TAG)
