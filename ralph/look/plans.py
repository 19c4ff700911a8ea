"""The plans that there are: where the progress file, the state and the settings of each are. Nothing is changed."""

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ralph import files, journal, lock, progress, sources
from ralph.errors import RalphError
from ralph.journal import Record
from ralph.lock import Holder
from ralph.progress import Progress
from ralph.settings import Given, Source, resolve
from ralph.state import State

_SUFFIX = "_PROGRESS.md"
_FILE = "RALPH_PROGRESS_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan, by what it left here."""

    name: str
    path: Path
    """The plan itself, which may be gone."""
    progress_path: Path

    @property
    def label(self) -> str:
        """Its name; that of its progress file where the two differ, as a copy's does."""
        return self.name if self.progress_path.name == self.name + _SUFFIX else self.progress_path.name

    @property
    def state(self) -> State:
        """Its state folder, which may not be there."""
        return State(self.name, self.progress_path)

    def holders(self) -> tuple[Holder | None, Holder | None]:
        """The run that works on it, and one on something else in its tree, or in the one that we are in."""
        me = os.path.realpath(self.progress_path)
        trees = {lock.working_tree(place) for place in (Path.cwd(), Path(me).parent)}
        found = [holder for tree in trees if (holder := lock.holder(tree))]
        mine = next((holder for holder in found if holder.progress == me), None)
        return mine, None if mine else next(iter(found), None)

    def read(self) -> Progress | None:
        """Its progress file; None when there is none. Raises RalphError when it cannot be read."""
        try:
            return progress.parse(self.progress_path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RalphError(f"{self.progress_path}: cannot be read: {error.strerror}") from error

    def records(self) -> list[Record]:
        """Its journal, the oldest first. Raises RalphError when it cannot be read."""
        path = self.state.journal
        try:
            return journal.read(path)
        except OSError as error:
            raise RalphError(f"{path}: cannot be read: {error.strerror}", 1) from error


def find(word: str, progress_file: str | None = None) -> Plan:
    """The plan that is meant by its file, by its name, or by its progress file. Raises RalphError when none is.

    Unlike a run it also looks beside the plan: who only wants to know may be anywhere.
    """
    guesses = (Path(word), Path(f"{word}.md"), Path(f"{word}.json"))
    path = next((one for one in guesses if word and one.is_file()), Path(word))
    if not word and progress_file is not None:
        return of_progress_file(Path(progress_file))
    if path.name.endswith(_SUFFIX) and path.is_file() and progress_file is None:
        return of_progress_file(path)
    name = files.plan_name(path)
    here, beside = Path(name + _SUFFIX), path.parent / (name + _SUFFIX)
    progress_path = _progress_path(path, progress_file) or (here if here.is_file() or not beside.is_file() else beside)
    if not path.is_file() and not progress_path.is_file():
        raise RalphError(
            f"{word}: there is no such plan here, and no {progress_path}", fix="ralph status lists what there is"
        )
    if not path.is_file() and path.name == name and (named := _named_in(progress_path)):
        path = named
    return Plan(name=name, path=path, progress_path=progress_path)


def meant(word: str | None, number: str | None, progress_file: str | None) -> tuple[Plan, str | None]:
    """The plan and the iteration that are meant, where the only plan of the folder need not be named."""
    if word is None and progress_file is None:
        return _only(), number
    try:
        return find(word or "", progress_file), number
    except RalphError:
        if number is None and word and re.fullmatch(r"last|\d+", word):
            return _only(), word
        raise


def _only() -> Plan:
    found = here()
    if len(found) == 1:
        return found[0]
    if not found:
        raise RalphError(f"no progress file in {Path.cwd()}", fix="name the plan, or look elsewhere with -C DIR")
    raise RalphError(f"name one of the plans that are here: {', '.join(plan.label for plan in found)}")


def _named_in(progress_path: Path) -> Path | None:
    """The plan that a progress file names, which may be gone; None when it names none."""
    with contextlib.suppress(ValueError):
        if said := progress.parse(_bytes(progress_path)).plan:
            plan, beside = Path(said), progress_path.parent / said
            return beside if not plan.exists() and beside.exists() else plan
    return None


def _bytes(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def here() -> list[Plan]:
    """Those whose progress file lies in this folder, or is named by a plan or by the settings of this folder."""
    found = sorted(path for path in Path().glob(f"*{_SUFFIX}") if path.is_file())
    naming = [path for path in sorted(Path().glob("*.md")) if path not in found and _FILE.encode() in _bytes(path)]
    named = (_progress_path(path, None) for path in [*naming, Path()])
    found += dict.fromkeys(path for path in named if path is not None and path.is_file() and path not in found)
    return [of_progress_file(path) for path in found]


def of_progress_file(path: Path) -> Plan:
    """The plan that a progress file belongs to: the one it names, else the one of its own name."""
    name = path.name.removesuffix(_SUFFIX)
    if named := _named_in(path):
        return Plan(name=files.plan_name(named), path=named, progress_path=path)
    return Plan(name=name, path=path.with_name(f"{name}.md"), progress_path=path)


def _progress_path(plan: Path, progress_file: str | None) -> Path | None:
    """The one that the settings name; what is wrong with other settings does no harm here."""
    asked = (progress_file,) if progress_file is not None else ()
    given = [Given(variable=_FILE, text=one, source=Source.COMMAND_LINE, where="--progress-file") for one in asked]
    given += [*sources.of_plan(_bytes(plan), plan.name), *sources.in_environment(), *sources.in_files()[0]]
    return resolve([one for one in given if one.variable == _FILE]).progress_file
