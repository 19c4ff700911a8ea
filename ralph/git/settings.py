"""Compares git's settings before and after anything that an agent may have written, so that git never runs with its.

All files are compared that git reads and an agent may write: the repository's, the user's own, and what they include.
That takes no process; only if their bytes differ is git asked, outside the repository, which settings differ. One that
is not known to be harmless ends the run, and the user decides.
"""

import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from ralph.files import read_or_empty
from ralph.git.changes import git_folder, names_in, run_git
from ralph.process.lock import working_tree
from ralph.store.notes import GitSettings
from ralph.store.state import State
from ralph.words import join_names

_FILES = ("config", "config.worktree")
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
"""By git's documentation, no value of these makes one of ralph's calls run a program, or work on another tree."""
_AS_GIT_INIT_WRITES = ("core.bare\nfalse", "core.repositoryformatversion\n0")


class GitConfigWatch:
    """Compares git's settings for `top` with those when an iteration began."""

    def __init__(self, top: Path, state: State) -> None:
        self._tree, self._state = working_tree(top), state
        self._folders = [one for one in (top, *top.parents) if one.is_relative_to(self._tree)]
        """The folders in which git could find a repository for `top`."""
        usual = ("~/.gitconfig", f"{os.environ.get('XDG_CONFIG_HOME') or '~/.config'}/git/config")
        self._own = [os.environ.get("GIT_CONFIG_GLOBAL") or "", *map(os.path.expanduser, usual)]
        self._known, self._left = self._read(), dict[str, str]()
        self._noted = dict[str, str]()
        self.serious: list[str] = []
        """In words, the changes that may make git run a program."""
        self.harmless = ""
        """In words, the last harmless change."""

    @property
    def block_reason(self) -> str:
        """Why git may not run any more; empty if it may."""
        return tampering_reason(self.serious)

    def resume(self) -> None:
        """Compares with the settings when the iteration began in which ralph died."""
        if noted := self._state.load_note(GitSettings):
            self._known, self._left = noted.before, noted.at_end

    def begin(self) -> None:
        """Compares with the current settings from now on; so does the next run, if this one dies."""
        self._known, self._left, self.harmless = self._read(), {}, ""
        if self._known != self._noted:
            self._state.save_note(GitSettings(before=self._known))
            self._noted = self._known

    def end(self) -> None:
        """Records the settings once everything has ended: after a death, later changes are the user's."""
        if noted := self._state.load_note(GitSettings):
            noted.at_end = self._read()
            self._state.save_note(noted)

    def compare(self) -> None:
        """Finds what changed since; called after anything ran that an agent may have written."""
        now = self._left or self._read()
        for name in sorted(now.keys() | self._known.keys()) if now != self._known else ():
            was, is_now = self._known.get(name, ""), now.get(name, "")
            settings = sorted(parse_git_settings(was) ^ parse_git_settings(is_now))
            keys = list(dict.fromkeys(one.partition("\n")[0] for one in settings))
            message = f"{name.removeprefix(f'{self._tree}/')} was changed: {join_names(keys, 9)}"
            if not all(map(is_harmless, settings)):
                self.serious.append(message + keep_versions(name, (was, is_now), self._state.keep_copy))
            elif keys:
                self.harmless = message
        self._known = now

    def _read(self) -> dict[str, str]:
        """Reads each of these files; returns their text by path, empty for a missing file."""
        found, places = dict[str, str](), [*self._own]
        for folder in self._folders:
            git_dir = git_folder(folder)
            common = git_dir / os.fsdecode(read_or_empty(git_dir / "commondir")).strip()
            places += [f"{place}/{name}" for place in {git_dir, common} for name in _FILES]
        for path in places:
            if path not in found:
                found[path] = text = os.fsdecode(read_or_empty(path))
                places += _included_files(path, text) if "include" in text.lower() else ()
        return found


@cache
def _included_files(path: str, text: str) -> tuple[str, ...]:
    """The files that this one includes, whatever the condition."""
    found = [one.partition("\n") for one in parse_git_settings(text)]
    paths = [value for key, _, value in found if re.match(r"include(if\..*)?\.path$", key)]
    beside = Path(path).parent
    return tuple(str(beside / os.path.expanduser(one)) for one in paths)  # noqa: PTH111 - an unknown user is not an error


def parse_git_settings(text: str) -> set[str]:
    """Parses a git settings file into entries of key, line break and value; an unreadable file is one entry."""
    if not text:
        return set()
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    asked = ("config", "-z", "--no-includes", "--list", "--file", "-")
    done = run_git(*asked, cwd=Path("/"), env=env, stdin=os.fsencode(text))
    return {f"what git cannot read\n{text}"} if done.code else set(names_in(done.stdout))


def is_harmless(setting: str) -> bool:
    """Whether adding or removing this setting lets git do no more than before."""
    return setting in _AS_GIT_INIT_WRITES or bool(_HARMLESS.fullmatch(setting.partition("\n")[0]))


def keep_versions(name: str, versions: Sequence[str], keep: Callable[[str, bytes], Path]) -> str:
    """Keeps copies of both versions of a file; returns where, in words."""
    paths = [str(keep(name.rpartition("/")[2], os.fsencode(text))) for text in versions if text]
    return f" (before and after are {', '.join(paths)})" if paths else ""


def tampering_reason(serious: Sequence[str]) -> str:
    """Returns why the run ends if something serious was found; else empty."""
    left = "no git ran since, so HEAD and the index are as they were left: make it what it was"
    return "; ".join([*serious, left]) if serious else ""
