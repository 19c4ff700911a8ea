"""The files that decide how ralph works, which no strict iteration may change: the plan, the settings, the prompts."""

import contextlib
import os
import pickle
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from ralph import directives, files, git

_FOLDER = Path(".ralph")
_SETTINGS = Path(".ralph.env")


class Governing:
    """Remembers the project's own: the plan, ./.ralph.env, what lies in ./.ralph and in a folder of `prompts` here.

    Of a plan in words only its settings govern; a person may go on writing it meanwhile. Nothing outside of the
    working directory but the plan is ever touched: it is not the project's.
    """

    def __init__(self, plan: Path, prompts: Path | None) -> None:
        self._plan = plan
        self._fixed = [plan, _SETTINGS]
        here = prompts is not None and prompts.resolve().is_relative_to(Path.cwd())
        self._folders = [_FOLDER, *([prompts] if prompts and here else [])]
        self._before: dict[Path, tuple[bytes, str]] = {}
        """What each says, and where it really is."""

    def begin(self) -> None:
        """An iteration begins."""
        self._before = {path: now for path in self._all() if (now := _read(path)) is not None}

    def save(self, path: Path) -> None:
        """Leaves what it remembers there, in case that ralph dies."""
        with contextlib.suppress(OSError):
            path.write_bytes(pickle.dumps(self._before))

    def load(self, path: Path, until: float) -> None:
        """Remembers what a ralph that died had left there, but for files that were changed after that time."""
        self.begin()
        with contextlib.suppress(OSError, pickle.UnpicklingError, EOFError, ValueError):
            saved = pickle.loads(path.read_bytes())  # noqa: S301 - ralph's own, in its folder
            self._before |= {one: said for one, said in saved.items() if (git.touched_at(one) or 0.0) <= until}
            for one in [*self._before]:
                if one not in saved and self._is_projects(one) and (git.touched_at(one) or 0.0) <= until:
                    del self._before[one]  # it is new

    def settle(self, keep: Callable[[str, bytes], Path]) -> list[tuple[Path, Path | None]]:
        """Puts back what is not as it was; each with where it is kept as it was left, None where it was gone."""
        found = []
        for path in dict.fromkeys([*self._before, *self._all()]):
            now = _read(path)
            was = self._before.get(path)
            if self._essence(path, now) != self._essence(path, was) and (was is not None or self._is_projects(path)):
                found.append((path, None if now is None else keep(path.name, now[0])))
                if now is None or was is None or now[1] != was[1]:
                    _make_room(path, keep)
                if was is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    files.replace(path, was[0])
        return found

    def _essence(self, path: Path, found: tuple[bytes, str] | None) -> object:
        """What of this file governs ralph."""
        if found is None or path != self._plan or path.suffix == ".json" or b"json" in found[0]:
            return found
        return found[1], [(one.variable, one.text) for one in directives.of_plan(found[0], path.name)]

    def _is_projects(self, path: Path) -> bool:
        """Whether it is one that an iteration may have made."""
        return path == _SETTINGS or any(folder in path.parents for folder in self._folders)

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
