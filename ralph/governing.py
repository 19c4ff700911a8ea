"""The files that decide how ralph works, which no strict iteration may change: the plan, the settings, the prompts."""

import contextlib
import os
import pickle
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from ralph import files, git, pickles, sources
from ralph.worktree.disk import Seen, looks
from ralph.worktree.disk import read as read_file
from ralph.worktree.replacing import away, bring

_FOLDER = Path(".ralph")
_SETTINGS = Path(".ralph.env")
_Found = tuple[Seen, bytes]
"""How a file or a link is, and what it holds; a link, where it leads."""


class Governing:
    """Remembers the project's own: the plan, ./.ralph.env, what lies in ./.ralph and in a folder of `prompts` here.

    Of a plan in words only its settings govern; a person may go on writing it meanwhile. Nothing outside of the
    working directory but the plan is ever touched: it is not the project's. A link is what it is, and never followed.
    """

    def __init__(self, plan: Path, prompts: Path | None) -> None:
        self._top = Path.cwd()
        self._plan = plan
        inside = [path for path in (_FOLDER, prompts) if path and path.resolve().is_relative_to(self._top)]
        real = {os.path.relpath(way, self._top) for path in inside for way in (path.absolute(), path.resolve())}
        self._folders = sorted(name for name in real | {str(_FOLDER)} if not name.startswith(".."))
        self._before: dict[Path, _Found] = {}

    def begin(self) -> None:
        """An iteration begins."""
        self._before = self._all()

    def save(self, path: Path) -> None:
        """Leaves what it remembers there, in case that ralph dies."""
        with contextlib.suppress(OSError):
            files.overwrite(path, pickle.dumps(self._before))

    def load(self, path: Path, until: float) -> None:
        """Remembers what a ralph that died had left there, but for files that were changed after that time."""
        self.begin()
        with contextlib.suppress(OSError, *pickles.UNREADABLE):
            saved = pickles.loads(path.read_bytes())
            self._before |= {one: said for one, said in saved.items() if (git.touched_at(one) or 0.0) <= until}
            for one in [*self._before]:
                if one not in saved and self._is_projects(one) and (git.touched_at(one) or 0.0) <= until:
                    del self._before[one]  # it is new

    def settle(self, keep: Callable[[str, bytes], Path]) -> list[tuple[Path, Path | None]]:
        """Puts back what is not as it was; each with where it is kept as it was left, None where it was gone."""
        now, found = self._all(), []
        changed = [one for one in sorted(self._before.keys() | now.keys()) if self._is_changed(one, now.get(one))]
        for path in sorted(changed, key=lambda one: one in self._before):  # the new first: they may be in the way
            if (base := self._base(path)) is None:
                continue
            name = str(path.relative_to(base))
            was = self._before.get(path)
            kept = away(base, name, keep) if was is None else bring(base, name, *was, keep)
            found.append((path, kept[-1] if kept else None))
        return [(self._shown(path), kept) for path, kept in found]

    def _is_changed(self, path: Path, now: _Found | None) -> bool:
        was = self._before.get(path)
        return self._essence(path, now) != self._essence(path, was) and (was is not None or self._is_projects(path))

    def _essence(self, path: Path, found: _Found | None) -> object:
        """What of this file governs ralph."""
        if found is None:
            return None
        seen, held = found
        if path != self._plan or stat.S_ISLNK(seen.mode) or path.suffix == ".json" or b"json" in held:
            return stat.S_IFMT(seen.mode), held
        return stat.S_IFMT(seen.mode), [(one.variable, one.text) for one in sources.of_plan(held, path.name)]

    def _is_projects(self, path: Path) -> bool:
        """Whether it is one that an iteration may have made."""
        folders = [self._top / name for name in self._folders]
        return path == self._top / _SETTINGS or any(path == one or one in path.parents for one in folders)

    def _base(self, path: Path) -> Path | None:
        """The folder below which it may be touched; None where that is another one now."""
        base = self._top if self._top in path.parents else path.parent
        return base if os.path.realpath(base) == str(base) else None

    def _shown(self, path: Path) -> Path:
        return path.relative_to(self._top) if path != self._plan and self._top in path.parents else path

    def _all(self) -> dict[Path, _Found]:
        names = [str(_SETTINGS), *(name for one in self._folders for name in self._within(one))]
        of_plan = self._top if self._top in self._plan.parents else self._plan.parent
        found = {}
        for base, wanted in ((self._top, names), (of_plan, [str(self._plan.relative_to(of_plan))])):
            for name, seen in looks(base, wanted).items():
                with contextlib.suppress(OSError):  # what may not be read governs nothing
                    found[base / name] = (seen, read_file(base / name, seen.mode))
        return found

    def _within(self, folder: str) -> Iterator[str]:
        """What lies in it, links to folders too; it may be a link itself by now."""
        yield folder
        if os.path.realpath(self._top / folder) != str(self._top / folder):
            return
        for place, inside, names in os.walk(self._top / folder):
            links = [one for one in inside if (Path(place) / one).is_symlink()]
            yield from (os.path.relpath(Path(place) / one, self._top) for one in (*names, *links))
