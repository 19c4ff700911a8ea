"""Compares what ralph never puts back: git's hooks and links, and files outside the tree that govern ralph.

A difference that matters ends the run, and the user decides. For git's settings, in all modes, see git/settings.py.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ralph import files
from ralph.git.repository import Repository, text_of
from ralph.git.settings import keep_versions
from ralph.settings import sources

_LEADS = "-> "
_DEEP = ("objects", "refs", "logs", "hooks", "info")
"""The folders of git's to search; of its objects only the first level."""
_COMPARED = ("commondir", "info/exclude", "info/attributes")


def snapshot_outside(repository: Repository | None, outside: Iterable[Path], plan: Path) -> dict[str, str]:
    """Returns, by path, the content of a file, or an arrow and where a link or a folder leads."""
    found = _git_snapshot(repository) if repository else {}
    for path in [path for place in outside for path in (place, *place.glob("*"))]:
        if path.is_file():
            found[str(path)] = plan_settings_text(files.read_or_empty(path), path) if path == plan else text_of(path)
    return found


def _git_snapshot(repository: Repository) -> dict[str, str]:
    """Returns where git's folders are, their settings and hooks, and the links in them, as deep as git writes."""
    found = {f"{repository.root}/.git": text_of(repository.root / ".git")}
    for folder in (repository.root, repository.git_dir, repository.common):
        if folder.is_dir():
            found[str(folder)] = _LEADS + os.path.realpath(folder)
    for git_dir in {repository.git_dir, repository.common}:
        paths = [f"{git_dir}/{name}" for name in _COMPARED]
        for top, folders, names in os.walk(git_dir):
            for name in (*folders, *names):
                path = f"{top}/{name}"
                if os.path.islink(path):  # noqa: PTH114 - some hundred, and Path takes thrice as long
                    found[path] = _LEADS + os.readlink(path)  # noqa: PTH115 - a string
                elif path in paths or (top.startswith(f"{git_dir}/hooks") and not name.endswith(".sample")):
                    found[path] = text_of(Path(path))
            if top == str(git_dir):
                folders[:] = _DEEP
            elif top == f"{git_dir}/objects":
                folders.clear()
    return found


def compare_snapshots(
    root: Path, before: Mapping[str, str], now: Mapping[str, str], keep: Callable[[str, bytes], Path]
) -> tuple[list[str], str]:
    """Returns the changes that matter, with both versions kept; and a remark on a harmless one, such as a new hook."""
    serious = list[str]()
    remark = ""
    for name in sorted(before.keys() | now.keys()):
        was, is_now = before.get(name, ""), now.get(name, "")
        if was == is_now or (name.endswith(".jsonl") and is_now.startswith(was)):  # appending to a history is allowed
            continue
        label = name.removeprefix(f"{root}/")
        if is_now.startswith(_LEADS):
            serious.append(f"{label} leads to {is_now.removeprefix(_LEADS)} now")
        elif Path(name).parent.name == "hooks" and not was:
            remark = f"{label} is new, and git runs it at each commit"
        else:
            texts = [text for text in (was, is_now) if not text.startswith(_LEADS)]
            serious.append(f"{label} {'was changed' if is_now else 'is gone'}{keep_versions(name, texts, keep)}")
    return serious, remark


def plan_settings_text(content: bytes, plan: Path) -> str:
    """Returns the settings in a plan, or all of a plan in JSON; the user may edit the words of a plan."""
    if plan.suffix == ".json" or b"json" in content:
        return os.fsdecode(content)
    return repr([(one.variable, one.text) for one in sources.read_plan_settings(content, plan.name)])
