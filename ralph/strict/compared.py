"""What is compared and never put back: where git's folders lead, its settings, hooks, and what lies beyond the tree.

Only looks are taken, and git is run to read settings at most: not in the repository, and only where they differ. A
difference that matters ends the run; a person decides.
"""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ralph import sources
from ralph.changes import git
from ralph.strict.repository import Repository

Seen = Mapping[str, str]
"""By path, where something leads or what it holds; told apart by the first character."""
_LEADS, HOLDS = ">", "="
_NOWHERE = "nowhere"
_TREES = ("refs", "logs")
"""Folders of git's that have folders, in all of which it writes."""
_STEERING = ("config", "config.worktree", "info/exclude", "info/attributes")
_MATTERS = ("core", "extensions", "filter", "gc", "gpg", "include", "includeif", "maintenance", "commit")
"""Sections of git's settings that run programs or move the tree."""
_PINNED = "core.hookspath"
"""Given with each commit as it was when the run began; installers of hooks set it."""


def look(repository: Repository | None, outside: Iterable[Path], plan: Path) -> dict[str, str]:
    """How all of it is now; `outside` are files and folders beyond the tree that govern ralph."""
    found = {str(path): HOLDS + text for place in outside for path, text in _texts(place, plan)}
    if repository is None:
        return found
    root, bases = repository.root, dict.fromkeys((repository.git_dir, repository.common))
    for place in (root, *bases):
        found[str(place)] = _LEADS + (os.path.realpath(place) if place.is_dir() else _NOWHERE)
    if (root / ".git").is_file():
        found |= _held(root / ".git", leads=True)
    for base in bases:
        found |= _held(base / "commondir", leads=True)
        found |= {link.path: _LEADS + os.readlink(link.path) for link in _links(base)}  # noqa: PTH115 - a string
        for name in _STEERING:
            found |= _held(base / name)
        for entry in _entries(base / "hooks"):
            if not entry.name.endswith(".sample"):
                found |= _held(Path(entry.path))
    return found


def strayed(root: Path, before: Seen, now: Seen) -> str:
    """What leads git out of the repository and did not before; empty when nothing does."""
    for name, leads in now.items():
        if leads.startswith(_LEADS) and before.get(name) != leads:
            is_gone = leads[1:] == _NOWHERE
            return f"{_shown(name, root)} " + ("is gone" if is_gone else f"leads to {leads[1:].strip()} now")
    gone = [name for name in before if name not in now and name.endswith("/commondir")]
    return f"{_shown(gone[0], root)} is gone" if gone else ""


def changed(root: Path, before: Seen, now: Seen) -> tuple[str, str]:
    """What was changed that matters, and what was that is only said: new hooks, where commits are pushed, and so on."""
    said = ""
    for name in sorted(before.keys() | now.keys()):
        was, is_now = before.get(name, ""), now.get(name, "")
        if was == is_now or was.startswith(_LEADS) or is_now.startswith(_LEADS):
            continue
        path, shown = Path(name), _shown(name, root)
        if path.name in ("config", "config.worktree"):
            keys = sorted({key for key, _ in _settings(was[1:]) ^ _settings(is_now[1:])})
            if serious := [key for key in keys if key.split(".")[0] in _MATTERS and key != _PINNED]:
                return f"{shown} was changed: {', '.join(serious)}", ""
            said = f"{shown} was changed: {', '.join(keys)}" if keys else said
        elif path.parent.name == "hooks" and not was:
            said = f"{shown} is new, and git runs it at each commit"
        else:
            return f"{shown} was changed", ""
    return "", said


def _settings(text: str) -> set[tuple[str, str]]:
    """The settings in a file of git's; what cannot be read as such is one that matters."""
    argv = ("config", "-z", "--no-includes", "--list", "--file", "-")
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    done = git(*argv, cwd=Path("/"), env=env, stdin=text.encode(errors="surrogateescape"))
    if done.code:
        return {("core", text)}
    pairs = (one.partition("\n") for one in os.fsdecode(done.stdout).split("\0") if one)
    return {(key, value) for key, _, value in pairs}


def _held(path: Path, *, leads: bool = False) -> dict[str, str]:
    with contextlib.suppress(OSError):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            return {str(path): (_LEADS if leads else HOLDS) + path.read_bytes().decode(errors="surrogateescape")}
        if stat.S_ISLNK(mode):
            return {str(path): f"{HOLDS}-> {path.readlink()}"}
    return {}


def _texts(place: Path, plan: Path) -> Iterator[tuple[Path, str]]:
    """The files there, each with what of it governs ralph: of a plan in words only its settings."""
    paths = [Path(entry.path) for entry in _entries(place)] if place.is_dir() else [place]
    for path in paths:
        for name, text in _held(Path(os.path.realpath(path))).items():
            held = text[1:].encode(errors="surrogateescape")
            yield path, governs_by(held, Path(name)) if path == plan else text[1:]


def governs_by(held: bytes, plan: Path) -> str:
    """What of a plan governs ralph; a person may go on writing one in words."""
    if plan.suffix == ".json" or b"json" in held:
        return held.decode(errors="surrogateescape")
    return repr([(one.variable, one.text) for one in sources.of_plan(held, plan.name)])


def _links(folder: Path) -> Iterator["os.DirEntry[str]"]:
    """Those in a folder of git's, in its folders of objects, and wherever refs and their logs are."""
    for entry in _entries(folder):
        if entry.is_symlink():
            yield entry
        elif entry.name == "objects":
            yield from (one for one in _entries(entry.path) if one.is_symlink())
        elif entry.name in _TREES:
            yield from _links_below(entry.path)


def _links_below(folder: str) -> Iterator["os.DirEntry[str]"]:
    for entry in _entries(folder):
        if entry.is_symlink():
            yield entry
        elif entry.is_dir(follow_symlinks=False):
            yield from _links_below(entry.path)


def _entries(folder: str | Path) -> list["os.DirEntry[str]"]:
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        return list(found)
    return []


def _shown(name: str, root: Path) -> str:
    if name == str(root):
        return "the working tree"
    return os.path.relpath(name, root) if name.startswith(f"{root}/") else name
