"""The files that decide how ralph works, which no strict iteration may change: the plan, the settings, the prompts."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from ralph import files

_FOLDER = Path(".ralph")
_SETTINGS = Path(".ralph.env")


class Governing:
    """Remembers the project's own: `plan`, `template`, ./.ralph.env and what lies in ./.ralph."""

    def __init__(self, plan: Path, template: Path, prompts: Path | None) -> None:
        self._fixed = [plan, template, _SETTINGS]
        self._folders = [_FOLDER, *([prompts] if prompts else [])]
        self._before: dict[Path, tuple[bytes, str]] = {}
        """What each says, and where it really is."""

    def begin(self) -> None:
        """An iteration begins."""
        self._before = {path: now for path in self._all() if (now := _read(path)) is not None}

    def settle(self, keep: Callable[[str, bytes], Path]) -> list[tuple[Path, Path | None]]:
        """Puts back what is not as it was; each with where it is kept as it was left, None where it was gone."""
        found = []
        for path in dict.fromkeys([*self._before, *self._all()]):
            now = _read(path)
            if now != (was := self._before.get(path)):
                found.append((path, None if now is None else keep(path.name, now[0])))
                if now is None or was is None or now[1] != was[1]:
                    _make_room(path, keep)
                if was is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    files.replace(path, was[0])
        return found

    def _all(self) -> Iterable[Path]:
        yield from self._fixed
        for folder in self._folders:
            yield from sorted(path for path in folder.rglob("*") if path.is_file() or path.is_symlink())


def _read(path: Path) -> tuple[bytes, str] | None:
    """None where there is no file; a link is what it leads to."""
    with contextlib.suppress(OSError):
        return (path.read_bytes(), os.path.realpath(path)) if path.is_file() else None
    return None


def _make_room(path: Path, keep: Callable[[str, bytes], Path]) -> None:
    """Moves away what was put where nothing was, or in a file's place."""
    if os.path.lexists(path):
        aside = keep(path.name, b"")
        aside.unlink()
        shutil.move(path, aside)
