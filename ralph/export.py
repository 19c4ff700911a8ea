"""`ralph export`: the task list of a plan as a file for other programs, with today's statuses."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph import files, imports, plans, progress, tasks
from ralph.errors import RalphError
from ralph.imports.converting import convert
from ralph.imports.model import Imported, Kind
from ralph.imports.overlay import overlay
from ralph.plans import Plan
from ralph.screen.text import plain
from ralph.tasks import Task

_STDOUT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A plan as it was read, once."""

    plan: Plan
    text: bytes
    """Empty when the plan itself is gone."""
    gone: bool
    imported: Imported | None
    today: Sequence[Task]


def export(word: str, *, form: str | None, output: str | None, progress_file: str | None) -> int:
    """Prints or writes it; 0. Onto the plan itself, that is brought up to date.

    Raises RalphError when there are no tasks, or when somebody wrote to the plan meanwhile.
    """
    known = _known(plans.find(word, progress_file))
    made = _made(known, form).encode(errors="surrogateescape")
    if output is None or output == _STDOUT:
        _print(made)
        return 0
    path = Path(output)
    try:
        _write(known, path, made, form)
    except OSError as error:
        raise RalphError(f"{path}: cannot be written: {error.strerror}") from error
    return 0


def _print(made: bytes) -> None:
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(made)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # who reads has enough
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left of it goes nowhere
        raise RalphError(f"standard output: cannot be written: {error.strerror}", 1) from error


def _known(plan: Plan) -> _Known:
    text = _bytes(plan.path)
    imported = imports.of_plan(plan.path, text) if text else None
    listed = _bytes(plan.progress_path)
    if listed is not None:
        _check_same_plan(plan, listed)
        return _Known(plan=plan, text=text or b"", gone=text is None, imported=imported, today=_today(plan, listed))
    if imported is None:
        raise RalphError(f"{plan.name}: no tasks: there is no {plan.progress_path}, and the plan holds none in JSON")
    _say(f"there is no {plan.progress_path} yet: the statuses are those of {plan.path.name}")
    return _Known(
        plan=plan, text=text or b"", gone=text is None, imported=imported, today=tasks.read(_as_list(imported))
    )


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RalphError(f"{path}: cannot be read: {error.strerror}") from error


def _as_list(imported: Imported) -> bytes:
    return b"\n".join([b"# Tasks", b"", *imports.lines(imported), b""])


def _check_same_plan(plan: Plan, listed: bytes) -> None:
    other = progress.parse(listed).plan
    if other is not None and plan.path.exists() and Path(other).exists() and not plan.path.samefile(other):
        raise RalphError(f"{plan.progress_path} belongs to another plan, {other}; name the right one: --progress-file")


def _today(plan: Plan, listed: bytes) -> Sequence[Task]:
    """The tasks of the Task List, each with an id of its own."""
    today = tasks.read(tasks.with_ids(listed))
    if odd := tasks.problems(today):
        raise RalphError("\n".join(f"{plan.progress_path}: {one}" for one in odd))
    return today


def _made(known: _Known, form: str | None) -> str:
    """The JSON: the original with today's statuses, or another form of it."""
    imported, name = known.imported, known.plan.name
    if imported is None and not known.today:
        raise RalphError(f"{known.plan.progress_path}: there is no task in its list")
    if known.gone:
        _say_what_is_lost(known, form)
    if imported is None or not _is_its_form(imported.kind, form):
        return convert(imported, known.today, Kind(form or "plan"), name)
    made = overlay(imported, known.today)
    if made.unsaid:
        names = ", ".join(made.unsaid)
        _say(f"{names}: blocked, for which {known.plan.path.name} has no word; stands there as not passing")
    if made.new_word:
        names = ", ".join(made.new_word)
        _say(f'{names}: stands there as "blocked", which other programs that read a requirements.json may not know')
    return made.text


def _say_what_is_lost(known: _Known, form: str | None) -> None:
    """Raises RalphError where nobody asked for a form: the plan that is gone may have had another, and more in it."""
    what = f"{known.plan.path} is gone"
    if form is None:
        raise RalphError(f"{what}, and with it what only it says; bring it back, or name a form with --format")
    _say(f"{what}: this is made of the Task List alone")


def _is_its_form(kind: Kind, form: str | None) -> bool:
    return form is None or form == kind.value or (form == "prd" and kind is Kind.STORIES)


def _write(known: _Known, path: Path, made: bytes, form: str | None) -> None:
    """Puts it there: in a plan in the place of what was read, elsewhere as a file. Never over the tasks themselves."""
    if _is_same(path, known.plan.progress_path):
        raise RalphError(f"{path}: is the progress file, which is the state; name another file")
    if not _is_same(path, known.plan.path):
        files.replace(path, made)
        return
    imported = known.imported
    if imported is None:
        if known.gone:
            files.replace(path, made)
            return
        raise RalphError(f"{path}: is the plan, and holds no tasks in JSON; name another file")
    if not _is_its_form(imported.kind, form):
        raise RalphError(
            f"{path}: is the plan, and has another form than {form}; name another file, or leave --format out"
        )
    new = known.text[: imported.start] + made + known.text[imported.end :]
    if new != known.text and not files.replace_unchanged(path, known.text, new):
        raise RalphError(f"{path}: somebody wrote to it meanwhile, and theirs stands; run it again")


def _is_same(path: Path, other: Path) -> bool:
    """Whether both lead to one file; also before there is one."""
    return os.path.realpath(path) == os.path.realpath(other) or (
        path.exists() and other.exists() and path.samefile(other)
    )


def _say(what: str) -> None:
    print(f"ralph: {plain(what)}", file=sys.stderr)
