"""What is only compared, never put back: git's settings, hooks and links, and what governs ralph outside of the tree.

A difference that matters ends the run, and a person decides. git is run at most to read settings, outside of the
repository, and only where they differ.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ralph import files, sources
from ralph.changes import git, names_in
from ralph.strict.repository import Repository, text_of

_LEADS = "-> "
_DEEP = ("objects", "refs", "logs", "hooks", "info")
"""Folders of git's that are looked through; of its objects only the first level is."""
_SETTINGS_FILES = ("config", "config.worktree")
_COMPARED = (*_SETTINGS_FILES, "commondir", "info/exclude", "info/attributes")
_MATTERS = ("core", "extensions", "filter", "gc", "gpg", "include", "includeif", "maintenance", "commit")
"""Sections of git's settings that run programs or move the tree."""
_PINNED = "core.hookspath"
"""Given with each commit as it was when the run began; installers of hooks set it."""


def look(repository: Repository | None, outside: Iterable[Path], plan: Path) -> dict[str, str]:
    """By path what a file holds, or an arrow and where a link or a folder leads; `outside` is beyond the tree."""
    found = _of_git(repository) if repository else {}
    for path in [path for place in outside for path in (place, *place.glob("*"))]:
        if path.is_file():
            found[str(path)] = settings_in(files.held(path), path) if path == plan else text_of(path)
    return found


def _of_git(repository: Repository) -> dict[str, str]:
    """Where git's folders lie, and what git is told in them; and the links there, as deep as git writes."""
    found = {f"{repository.root}/.git": text_of(repository.root / ".git")}
    for folder in (repository.root, repository.git_dir, repository.common):
        if folder.is_dir():
            found[str(folder)] = _LEADS + os.path.realpath(folder)
    for git_dir in {repository.git_dir, repository.common}:
        told = [f"{git_dir}/{name}" for name in _COMPARED]
        for top, folders, names in os.walk(git_dir):
            for name in (*folders, *names):
                path = f"{top}/{name}"
                if os.path.islink(path):  # noqa: PTH114 - some hundred, and Path takes thrice as long
                    found[path] = _LEADS + os.readlink(path)  # noqa: PTH115 - a string
                elif path in told or (top.startswith(f"{git_dir}/hooks") and not name.endswith(".sample")):
                    found[path] = text_of(Path(path))
            if top == str(git_dir):
                folders[:] = _DEEP
            elif top == f"{git_dir}/objects":
                folders.clear()
    return found


def changed(
    root: Path, before: Mapping[str, str], now: Mapping[str, str], keep: Callable[[str, bytes], Path]
) -> tuple[str, str]:
    """Of what changed that which matters, both versions kept; else what is only to be said, such as a new hook."""
    serious = list[str]()
    kept = list[str]()
    remark = ""
    for name in sorted(before.keys() | now.keys()):
        was, is_now = before.get(name, ""), now.get(name, "")
        if was == is_now or (name.endswith(".jsonl") and is_now.startswith(was)):  # to a history one may append
            continue
        what, matters = _difference(Path(name), was, is_now)
        said = f"{name.removeprefix(f'{root}/')} {what}"
        if not matters:
            remark = said
            continue
        serious.append(said)
        for text in (was, is_now):
            if text and not text.startswith(_LEADS):
                kept.append(str(keep(name.rpartition("/")[2], os.fsencode(text))))
    if not serious:
        return "", remark
    if kept:
        serious.append(f"before and after are {', '.join(kept)}")
    left = "no git ran since, so HEAD and the index are as they were left: make it what it was"
    return "; ".join([*serious, left]), ""


def _difference(path: Path, was: str, is_now: str) -> tuple[str, bool]:
    """What became of it, and whether that matters."""
    if is_now.startswith(_LEADS):
        return f"leads to {is_now.removeprefix(_LEADS)} now", True
    if path.name in _SETTINGS_FILES:
        keys = sorted({one.partition("\n")[0] for one in _settings(was) ^ _settings(is_now)})
        matter = [key for key in keys if key.split(".")[0] in _MATTERS and key != _PINNED]
        return f"was changed: {', '.join(keys)}", bool(matter)
    if path.parent.name == "hooks" and not was:
        return "is new, and git runs it at each commit", False
    return "was changed" if is_now else "is gone", True


def settings_in(held: bytes, plan: Path) -> str:
    """The settings in a plan, or all of one in JSON; a person may go on writing one in words."""
    if plan.suffix == ".json" or b"json" in held:
        return os.fsdecode(held)
    return repr([(one.variable, one.text) for one in sources.of_plan(held, plan.name)])


def _settings(text: str) -> set[str]:
    """The settings in a file of git's, each a key, a line's end and a value; a file that git cannot read is one."""
    asked = ("config", "-z", "--no-includes", "--list", "--file", "-")
    done = git(*asked, cwd=Path("/"), stdin=os.fsencode(text))
    if done.code:
        return {f"core\n{text}"}
    return set(names_in(done.stdout))
