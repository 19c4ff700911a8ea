"""The stage of a dress rehearsal: a throwaway copy of the whole working tree, in which nothing leads back."""

import contextlib
import functools
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ralph.errors import RalphError
from ralph.process import call, foreground, signals

_LOOK_S = 10.0


def throwaway() -> "tempfile.TemporaryDirectory[str]":
    """A folder that is gone afterwards, whatever the modes of what lies in it. Raises RalphError."""
    try:
        return tempfile.TemporaryDirectory(prefix="ralph-rehearsal-", ignore_cleanup_errors=True)
    except OSError as error:
        raise RalphError(
            f"no room for a rehearsal: {error}; set TMPDIR to a folder that can be written to", 1
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where things are in the throwaway folder."""

    folder: Path
    original: Path
    """The top of the working tree, links followed."""

    @property
    def top(self) -> Path:
        """The copy; of the same name, which notices show and neighbours may know."""
        return self.folder / "tree" / (self.original.name or "root")

    def counterpart(self, path: Path) -> Path:
        """What `path` is in the copy; itself, links followed, where it lies outside of the working tree."""
        real = Path(os.path.realpath(path))
        return self.top / real.relative_to(self.original) if real.is_relative_to(self.original) else real

    def moved(self, text: str) -> str:
        """The text with the copy's path wherever it names the original, or something in it, by its full path."""
        return _naming(self.original).sub(lambda _: str(self.top), text)


_EDGE = r"""\s:=,;"'`()&|<>"""


@functools.cache
def _naming(folder: Path) -> re.Pattern[str]:
    """Finds its full path, also as the shell calls it, which may have come there by a link."""
    shell = Path(os.environ.get("PWD", "/"))
    names = {folder, *(place for place in (shell, *shell.parents) if os.path.realpath(place) == str(folder))}
    paths = "|".join(re.escape(str(name)) for name in names if name.name)
    return re.compile(rf"(?<![^{_EDGE}])(?:{paths or '(?!)'})(?![^{_EDGE}/])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What there is to copy; paths relative to the top."""

    size: int = 0
    """Bytes."""
    files: int = 0
    links: tuple[str, ...] = ()
    """Symbolic links that would not mean the same thing in a copy."""
    repositories: tuple[str, ...] = ()
    """Folders that have a `.git`."""


def survey(top: Path) -> Survey:
    """Everything below `top`, the ignored included; what cannot be read is left out."""
    size = files = 0
    links, repositories = [], []
    for entry in walked(top):
        if signals.interrupted() is not None:
            break
        if entry.name == ".git":
            repositories.append(os.path.relpath(os.path.dirname(entry.path), top))  # noqa: PTH120 - strings, for speed
        with contextlib.suppress(FileNotFoundError):  # somebody works there meanwhile
            if entry.is_symlink():
                links += [os.path.relpath(entry.path, top)] * _leads_astray(entry.path, top)
            elif not entry.is_dir(follow_symlinks=False):
                found = entry.stat(follow_symlinks=False)
                size += found.st_blocks * 512 if stat.S_ISREG(found.st_mode) else 0
                files += 1
    return Survey(size=size, files=files, links=tuple(links), repositories=tuple(repositories))


def walked(top: Path, *, git: bool = True) -> Iterator["os.DirEntry[str]"]:
    """All that lies below `top`, in no order, with what git keeps there or without."""
    todo = [str(top)]
    while todo:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False) and (git or entry.name != ".git"):
                    todo.append(entry.path)


def _leads_astray(link: str, top: Path) -> bool:
    """Whether it names the original by its full path, or something beside the tree by a relative one."""
    target = os.readlink(link)  # noqa: PTH115 - strings, as above
    if os.path.isabs(target):  # noqa: PTH117
        return Path(os.path.realpath(target)).is_relative_to(top)
    return not Path(os.path.normpath(os.path.join(os.path.dirname(link), target))).is_relative_to(top)  # noqa: PTH118, PTH120


def copy(what: Path, to: Path, *options: str) -> list[str]:
    """Copies all that is in the folder `what`, without reading pipes and sockets; why not, for what was not copied.

    In the foreground, so that Ctrl+C ends it too.
    """
    to.mkdir(parents=True, exist_ok=True)
    why = to.parent / ".not-copied"
    words = ["cp", "-a", *options, *_reflink(), f"{what}/.", f"{to}/"]
    foreground(["sh", "-c", 'exec "$@" 2>"$0"', str(why), *words], env={**os.environ, "LC_ALL": "C"}, cwd="/")
    lines = why.read_text(errors="replace").splitlines()
    why.unlink()
    if any("No space left" in line or "Disk quota" in line for line in lines):
        raise RalphError(f"{to}: the disk is full; set TMPDIR to a folder with more room", 1)
    return [line.removeprefix("cp: ").replace(f"{what}/./", "") for line in lines]


def _reflink() -> list[str]:
    """Shared blocks where the file system can: GNU's cp only."""
    done = call(["cp", "--version"], timeout_s=_LOOK_S)
    return ["--reflink=auto"] if done.code == 0 and b"GNU" in done.stdout else []
