"""What is compared and never put back: git's settings, hooks and links, and what governs ralph outside of the tree.

A difference that matters ends the run, and a person decides. git is run at most to read settings, outside of the
repository, and only where they differ.
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
"""Folders of git's that are looked through; of its objects only the first level is."""
_SETTINGS_FILES = ("config", "config.worktree")
_COMPARED = (*_SETTINGS_FILES, "commondir", "info/exclude", "info/attributes")
_MATTERS = ("core", "extensions", "filter", "gc", "gpg", "include", "includeif", "maintenance", "commit")
"""Sections of git's settings that run programs or move the tree."""
_PINNED = "core.hookspath"
"""Given with each commit as it was when the run began; installers of hooks set it."""


def look(repository: Repository | None, outside: Iterable[Path], plan: Path) -> dict[str, str]:
    """How all of it is now; `outside` are files and folders beyond the tree."""
    found = {}
    for place in outside:
        with contextlib.suppress(OSError):
            for path in place.iterdir() if place.is_dir() else [place]:
                if path.is_file():  # a pipe would be waited for
                    found[str(path)] = settings_in(path.read_bytes(), path) if path == plan else text_of(path)
    if repository is None:
        return found
    root, folders = repository.root, {repository.git_dir, repository.common}
    found |= {str(place): _LEADS + os.path.realpath(place) for place in (root, *folders) if place.is_dir()}
    if (root / ".git").is_file():
        found[str(root / ".git")] = text_of(root / ".git")
    for name, entry in (one for folder in folders for one in _below(folder)):
        is_hook = name.startswith("hooks/") and not name.endswith(".sample")
        if entry.is_symlink():
            found[entry.path] = _LEADS + os.readlink(entry.path)  # noqa: PTH115 - a string
        elif (is_hook or name in _COMPARED) and entry.is_file():
            found[entry.path] = text_of(Path(entry.path))
    return found


def changed(root: Path, before: Seen, now: Seen, keep: Callable[[str, bytes], Path]) -> tuple[str, str]:
    """Of what changed that which matters, both versions kept; else what is only to be said, such as a new hook."""
    serious, remark, texts = list[str](), "", list[tuple[str, str]]()
    for name in sorted(before.keys() | now.keys()):
        was, is_now = before.get(name, ""), now.get(name, "")
        if was == is_now:
            continue
        path, shown = Path(name), os.path.relpath(name, root) if name.startswith(f"{root}/") else name
        texts += [(path.name, text) for text in (was, is_now) if text and not text.startswith(_LEADS)]
        if is_now.startswith(_LEADS):
            shown = "the working tree" if path == root else shown
            serious.append(f"{shown} leads to {is_now.removeprefix(_LEADS)} now")
        elif path.name in _SETTINGS_FILES:
            keys = sorted({one.partition("\n")[0] for one in _settings(was) ^ _settings(is_now)})
            remark = f"{shown} was changed: {', '.join(keys)}" if keys else remark
            if any(key.split(".")[0] in _MATTERS and key != _PINNED for key in keys):
                serious.append(remark)
        elif path.parent.name == "hooks" and not was:
            remark = f"{shown} is new, and git runs it at each commit"
        else:
            serious.append(f"{shown} was changed" if is_now else f"{shown} is gone")
    if not serious:
        return "", remark
    kept = [str(keep(name, text.encode(errors="surrogateescape"))) for name, text in texts]
    where = f"before and after are {', '.join(kept)}; " if kept else ""
    stays = "no git ran since, so HEAD and the index are as they were left: make it what it was"
    return f"{serious[0]}; {where}{stays}", ""


def settings_in(held: bytes, plan: Path) -> str:
    """The settings in a plan, or all of one in JSON; a person may go on writing one in words."""
    if plan.suffix == ".json" or b"json" in held:
        return held.decode(errors="surrogateescape")
    return repr([(one.variable, one.text) for one in sources.of_plan(held, plan.name)])


def _settings(text: str) -> set[str]:
    """The settings in a file of git's, each a key, a line's end and a value; a file that git cannot read is one."""
    argv = ("config", "-z", "--no-includes", "--list", "--file", "-")
    done = git(*argv, cwd=Path("/"), stdin=text.encode(errors="surrogateescape"))
    return {f"core\n{text}"} if done.code else set(names_in(done.stdout))


def _below(folder: str | Path, above: str = "") -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """What lies in a folder of git's, as deep as git writes there or is told something; names are from the top."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            name = above + entry.name
            yield name, entry
            is_deep = name == "objects" or name.startswith(_DEEP)
            if is_deep and entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path, f"{name}/")
