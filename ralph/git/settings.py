"""Compares git's settings before and after anything that an agent may have written, so that git never runs with its.

All files are compared that git reads and an agent may write: the repository's, the user's own, and what they include.
That takes no process; only if their bytes differ is git asked, outside the repository, which settings differ. One that
is not known to be harmless ends the run, and the user decides. So does a change of what the guard compares besides:
git's hooks, and the links in git's folder. Nothing of all this is ever put back.
"""

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ralph.files import read_text_or_empty
from ralph.git.changes import git_folder, names_in, run_git
from ralph.process.lock import working_tree
from ralph.store.state import GitConfigFiles, State
from ralph.words import join_names

_FILES = ("config", "config.worktree")
# By git's documentation, no value of these makes one of ralph's calls run a program, or work on another tree.
_HARMLESS = re.compile(
    r"(?:user|author|committer|advice|pull|push|rebase)\..*"
    r"|branch\.(?:.*\.)?(?!mergeoptions$)[^.]+"
    r"|remote\.(?:pushdefault|.*\.(?:url|pushurl|fetch|push|tagopt|prune|prunetags|gh-resolved))"
    r"|submodule\..*\.(?:url|active|branch)"
    r"|core\.(?:autocrlf|eol|filemode|ignorecase|logallrefupdates|precomposeunicode|quotepath|safecrlf|symlinks)"
    r"|core\.hookspath"  # each commit gets the value of the start; hook installers set it
    r"|gc\.auto[a-z]*|fetch\.prune(?:tags)?|init\.defaultbranch|merge\.(?:conflictstyle|ff)|safe\.directory"
    r"|lfs\.(?:repositoryformatversion|.*\.(?:access|locksverify))"
)
_AS_GIT_INIT_WRITES = ("core.bare\nfalse", "core.repositoryformatversion\n0")
_LEADS = "-> "
# The folders of git's in which to look for links; of its objects only the first level.
_DEEP = ("objects", "refs", "logs", "hooks", "info")
_RULES = ("/commondir", "/info/exclude", "/info/attributes")


class GitConfigChangeFinder:
    """Compares git's settings for `top` with those when an iteration began."""

    def __init__(self, top: Path, state: State):
        self._top, self._tree, self._state = top, working_tree(top), state
        self._known = self._read_files()
        self.serious: list[str] = []
        """In words, the changes that may make git run a program, or work elsewhere."""
        self.harmless: list[str] = []
        """In words, the harmless changes."""

    @property
    def why_settings_block_git(self) -> str:
        """Why git may not run any more; empty if it may."""
        left = "no git ran since, so HEAD and the index are as they were left: make it what it was"
        return "; ".join([*self.serious, left]) if self.serious else ""

    def record_begin_state(self) -> None:
        """Compares with the current settings from now on; so does the next run, if this one dies."""
        self._known = self._read_files()
        self._state.save_note(GitConfigFiles(before=self._known))

    def record_end_state(self) -> None:
        """Records the settings once everything has ended: after a death, later changes are the user's."""
        if noted := self._state.load_note(GitConfigFiles):
            noted.at_end = self._read_files()
            self._state.save_note(noted)

    def collect_changes_before_death(self) -> None:
        """Finds what the iteration changed in which ralph died."""
        if noted := self._state.load_note(GitConfigFiles):
            self.collect_file_changes(noted.before, noted.at_end or self._known)

    def collect_new_changes(self) -> None:
        """Finds what changed since; called after anything ran that an agent may have written."""
        now = self._read_files()
        self.collect_file_changes(self._known, now)
        self._known = now

    def collect_file_changes(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Finds what changed in the files with these texts; keeps both versions unless the change is harmless."""
        for name in sorted({name for name, text in before.items() ^ now.items() if text}):
            was, is_now = before.get(name, ""), now.get(name, "")
            what, harmless = self._change_and_is_harmless(name, was, is_now)
            message = f"{name.removeprefix(f'{self._tree}/')} {what}"
            if not harmless:
                kept = [
                    str(self._state.keep_copy(Path(name).name, os.fsencode(text)))
                    for text in (was, is_now)
                    if text and not text.startswith(_LEADS)
                ]
                self.serious.append(message + (f" (before and after are {', '.join(kept)})" if kept else ""))
            elif what:
                self.harmless.append(message)

    def _change_and_is_harmless(self, path: str, was: str, is_now: str) -> tuple[str, bool]:
        """Returns in words what changed in a file, empty if nothing did, and whether that is harmless."""
        if path in self._known:
            settings = sorted(git_config_entries(was) ^ git_config_entries(is_now))
            keys = [*dict.fromkeys(one.partition("\n")[0] for one in settings)]
            return f"was changed: {join_names(keys, 9)}" if keys else "", all(map(is_harmless, settings))
        if is_now.startswith(_LEADS):
            return f"leads to {is_now.removeprefix(_LEADS)} now", False
        if Path(path).parent.name == "hooks" and not was:
            return "is new, and git runs it at each commit", True
        if path.endswith(".jsonl") and is_now.startswith(was):  # a history grows
            return "", True
        return "was changed" if is_now else "is gone", False

    def _read_files(self) -> dict[str, str]:
        """Reads each of these files; returns their text by path, empty for a missing file."""
        usual = ("~/.gitconfig", f"{os.environ.get('XDG_CONFIG_HOME') or '~/.config'}/git/config")
        places = [os.environ.get("GIT_CONFIG_GLOBAL") or "", *map(os.path.expanduser, usual)]
        for folder in (self._top, *self._top.parents):  # git could find a repository in each
            if folder.is_relative_to(self._tree):
                git_dir = git_folder(folder)
                common = git_dir / read_text_or_empty(git_dir / "commondir").strip()
                places += [f"{place}/{name}" for place in {git_dir, common} for name in _FILES]
        found = dict[str, str]()
        for path in places:
            if path not in found:
                found[path] = text = read_text_or_empty(path)
                places += _included_files(path, text) if "include" in text.lower() else ()
        return found


def snapshot_hooks_rules_and_links(root: str, git_dir: str, common: str) -> dict[str, str]:
    """Returns hooks and rules by path, where git's folders are, and where links in them lead, as deep as git writes."""
    found = {f"{root}/.git": read_text_or_empty(f"{root}/.git")}
    found |= {one: _LEADS + os.path.realpath(one) for one in (root, git_dir, common) if Path(one).is_dir()}
    for top in {git_dir, common}:
        for folder, inside, names in os.walk(top):
            for name in (*inside, *names):
                path = f"{folder}/{name}"
                below = path.removeprefix(top)
                if os.path.islink(path):  # noqa: PTH114 - some hundred, and Path takes thrice as long
                    found[path] = _LEADS + os.readlink(path)  # noqa: PTH115 - a string
                elif below in _RULES or (below.startswith("/hooks/") and not name.endswith(".sample")):
                    found[path] = read_text_or_empty(path)
            if folder == top:
                inside[:] = _DEEP
            elif folder == f"{top}/objects":
                inside.clear()
    return found


@cache
def _included_files(path: str, text: str) -> list[str]:
    """The files that this one includes, whatever the condition."""
    return [
        str(Path(path).parent / os.path.expanduser(value))  # noqa: PTH111 - an unknown user is not an error
        for key, _, value in (one.partition("\n") for one in git_config_entries(text))
        if re.match(r"include(if\..*)?\.path$", key)
    ]


def git_config_entries(file_text: str) -> set[str]:
    """Parses a git settings file into entries of key, line break and value; an unreadable file is one entry."""
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    done = run_git(
        "config", "-z", "--no-includes", "--list", "--file", "-", cwd="/", env=env, stdin=os.fsencode(file_text)
    )
    return {f"what git cannot read\n{file_text}"} if done.code else set(names_in(done.stdout))


def is_harmless(setting: str) -> bool:
    """Whether adding or removing this setting lets git do no more than before."""
    return setting in _AS_GIT_INIT_WRITES or bool(_HARMLESS.fullmatch(setting.partition("\n")[0]))
