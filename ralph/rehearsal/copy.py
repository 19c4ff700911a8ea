"""The throwaway copy of a working tree, from which nothing leads back."""

import os
import re
import shutil
from pathlib import Path

from ralph import changes
from ralph.errors import RalphError
from ralph.process import foreground

_NO_PUSH = "nothing-is-pushed-in-a-rehearsal"


class Copy:
    """A copy of the working tree `original`, links followed, in a throwaway folder."""

    def __init__(self, original: Path, folder: Path) -> None:
        self.original, self.folder = original, folder
        self.top = folder / "tree" / original.name
        """Of the same name: notices show it."""

    def counterpart(self, path: Path) -> Path:
        """What `path` is in the copy; itself, links followed, where it lies outside of the working tree."""
        real = Path(os.path.realpath(path))
        return self.top / real.relative_to(self.original) if real.is_relative_to(self.original) else real

    def moved(self, text: str) -> str:
        """The text with the copy's path wherever it names the original, or something in it, by its full path."""
        return re.sub(rf"(?<![\w./-]){re.escape(str(self.original))}(?![\w.-])", lambda _: str(self.top), text)

    def environment(self) -> dict[str, str]:
        """The person's, but for what would lead back to the original, and for ralph's own state."""
        env = {name: self.moved(value) for name, value in os.environ.items() if name != "OLDPWD"}
        own = {
            "push.recurseSubmodules": _NO_PUSH,  # git push fails over it, whatever else it is told
            "core.fsmonitor": "false",  # a process that would stay
            "safe.directory": "*",
        }
        for key in ("user.name", "user.email"):  # which may hold for the original's place alone
            if who := changes.git("config", key, cwd=self.original).stdout:
                own[key] = os.fsdecode(who).rstrip("\n")
        for number, (key, value) in enumerate(own.items()):
            env[f"GIT_CONFIG_KEY_{number}"] = key
            env[f"GIT_CONFIG_VALUE_{number}"] = value
        return env | {
            "GIT_CONFIG_COUNT": str(len(own)),
            "GIT_CEILING_DIRECTORIES": str(self.top.parent),
            "PWD": str(self.counterpart(Path.cwd())),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "RALPH_REHEARSAL": "1",
        }

    def make(self) -> bool:
        """Copies all of it, the ignored included; whether that went well. Raises RalphError."""
        if self.folder.is_relative_to(self.original):
            raise RalphError(
                f"no copy of {self.original} fits into itself", 1, fix="set TMPDIR to a folder outside of it"
            )
        is_whole = _copied(self.original, self.top)
        own = self.top / ".git"
        if own.is_file():  # a linked working tree: what all of them share, then what is this one's own
            own.unlink()
            for kind in ("--git-common-dir", "--git-dir"):
                found = changes.git("rev-parse", kind, cwd=self.original)
                _copied(self.original / os.fsdecode(found.stdout.rstrip(b"\n")), own)
            (own / "commondir").unlink(missing_ok=True)
        shutil.rmtree(own / "worktrees", ignore_errors=True)
        self._relink()
        self._check_apart()
        return is_whole

    def _relink(self) -> None:
        """Points links that are absolute, or lead out of the copy, to where they lead from the original."""
        for place, names, others in os.walk(self.top):
            for link in (Path(place, name) for name in (*names, *others)):
                if not link.is_symlink():
                    continue
                leads = Path(os.path.normpath(link.parent / link.readlink()))
                if not leads.is_relative_to(self.top):
                    to = self.counterpart(self.original / link.relative_to(self.top))
                    link.unlink()
                    link.symlink_to(to)

    def _check_apart(self) -> None:
        """Raises RalphError where git would find something of the original from within the copy, or could push."""
        env = self.environment()
        found = changes.git("rev-parse", "--show-toplevel", "--git-common-dir", cwd=self.top, env=env)
        if found.code and not (self.top / ".git").exists():
            return
        pushes = changes.git("config", "push.recurseSubmodules", cwd=self.top, env=env).stdout
        places = [Path(os.path.realpath(self.top / os.fsdecode(line))) for line in found.stdout.splitlines()]
        is_apart = all(place.is_relative_to(self.top) for place in places)
        if found.code or not is_apart or _NO_PUSH.encode() not in pushes:
            fix = "rehearse in a clone, with git 2.31 or later; a submodule and what GIT_DIR names are not copied"
            raise RalphError(f"git does not work apart from it in a copy of {self.original}", 1, fix=fix)


def _copied(what: Path, to: Path) -> bool:
    to.mkdir(parents=True, exist_ok=True)
    return foreground(["cp", "-a", f"{what}/.", f"{to}/"], env=os.environ, cwd="/") == 0
