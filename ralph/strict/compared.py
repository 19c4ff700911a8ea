"""What is compared and never put back: where git's folders lead, its settings, hooks, and what lies beyond the tree.

Only looks are taken, and git is run to read settings at most: not in the repository, and only where they differ. A
difference that matters ends the run; a person decides.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from ralph import sources
from ralph.changes import git, names_in
from ralph.strict.repository import Repository, text_of

Seen = Mapping[str, str]
"""By path, what a file holds, or an arrow and where a link or a folder leads."""
_LEADS = "-> "
_DEEP = ("refs", "logs", "hooks", "info")
_CONFIGS = ("config", "config.worktree")
_STEERING = (*_CONFIGS, "commondir", "info/exclude", "info/attributes")
_MATTERS = ("core", "extensions", "filter", "gc", "gpg", "include", "includeif", "maintenance", "commit")
"""Sections of git's settings that run programs or move the tree."""
_PINNED = "core.hookspath"
"""Given with each commit as it was when the run began; installers of hooks set it."""


def look(repository: Repository | None, outside: Iterable[Path], plan: Path) -> dict[str, str]:
    """How all of it is now; `outside` are files and folders beyond the tree that govern ralph."""
    found = {}
    for place in outside:
        with contextlib.suppress(OSError):
            for path in place.iterdir() if place.is_dir() else [place]:
                if path.is_file():  # a pipe would be waited for
                    found[str(path)] = governs_by(path.read_bytes(), path) if path == plan else text_of(path)
    return found | (_steering(repository) if repository else {})


def _steering(repository: Repository) -> dict[str, str]:
    """Where git's folders lead, and what in them is compared."""
    root, bases = repository.root, {repository.git_dir, repository.common}
    found = {str(place): _LEADS + os.path.realpath(place) for place in (root, *bases) if place.is_dir()}
    if (root / ".git").is_file():
        found[str(root / ".git")] = text_of(root / ".git")
    for name, entry in (one for base in bases for one in _below(base)):
        is_hook = name.startswith("hooks/") and not name.endswith(".sample")
        if entry.is_symlink():
            found[entry.path] = _LEADS + os.readlink(entry.path)  # noqa: PTH115 - a string
        elif entry.is_file() and (is_hook or name in _STEERING):
            found[entry.path] = text_of(Path(entry.path))
    return found


def changed(root: Path, before: Seen, now: Seen, keep: Callable[[str, bytes], Path]) -> tuple[str, str]:
    """What is not as it was that matters, both versions kept; and what is only said: new hooks, remotes and so on."""
    serious, said, texts = list[str](), "", list[tuple[str, str]]()
    for name in sorted(before.keys() | now.keys()):
        was, is_now = before.get(name, ""), now.get(name, "")
        if was == is_now:
            continue
        path, shown = Path(name), _shown(name, root)
        texts += [(path.name, text) for text in (was, is_now) if text and not text.startswith(_LEADS)]
        if is_now.startswith(_LEADS):
            serious.append(f"{shown} leads to {is_now.removeprefix(_LEADS)} now")
        elif path.name in _CONFIGS:
            keys = sorted({one.partition("\n")[0] for one in _settings(was) ^ _settings(is_now)})
            said = f"{shown} was changed: {', '.join(keys)}" if keys else said
            if any(key.split(".")[0] in _MATTERS and key != _PINNED for key in keys):
                serious.append(said)
        elif path.parent.name == "hooks" and not was:
            said = f"{shown} is new, and git runs it at each commit"
        else:
            serious.append(f"{shown} was changed" if is_now else f"{shown} is gone")
    if not serious:
        return "", said
    kept = [str(keep(name, text.encode(errors="surrogateescape"))) for name, text in texts]
    where = f"before and after are {', '.join(kept)}; " if kept else ""
    return (
        f"{serious[0]}; {where}no git ran since, so HEAD and the index are as they were left: make it what it was",
        "",
    )


def governs_by(held: bytes, plan: Path) -> str:
    """What of a plan governs ralph; a person may go on writing one in words."""
    if plan.suffix == ".json" or b"json" in held:
        return held.decode(errors="surrogateescape")
    return repr([(one.variable, one.text) for one in sources.of_plan(held, plan.name)])


def _settings(text: str) -> set[str]:
    """The settings in a file of git's, each a key, a line's end and a value; what is none of git's is one of `core`."""
    argv = ("config", "-z", "--no-includes", "--list", "--file", "-")
    done = git(*argv, cwd=Path("/"), stdin=text.encode(errors="surrogateescape"))
    return {f"core\n{text}"} if done.code else set(names_in(done.stdout))


def _below(folder: str | Path, above: str = "") -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """What lies in a folder of git's, as deep as it writes or is steered there; each with its name from the top."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            name = above + entry.name
            if above != "objects/" or entry.is_symlink():
                yield name, entry
            is_deep = name == "objects" or name.startswith(_DEEP)
            if is_deep and entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path, f"{name}/")


def _shown(name: str, root: Path) -> str:
    if name == str(root):
        return "the working tree"
    return os.path.relpath(name, root) if name.startswith(f"{root}/") else name
