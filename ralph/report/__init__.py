"""What a plan came to, as one HTML file.

The charts are SVG that a template draws: there are few, all of one make, and each bar has to carry its number. A
library for them would be megabytes that every installation pays for, and what libraries draw is many times larger.
"""

import os
import sys
import time
from pathlib import Path

import click

from ralph import files, journal, plans, status
from ralph.errors import RalphError
from ralph.journal import Record
from ralph.plans import Plan
from ralph.report.page import Known, page
from ralph.screen.text import plain

_STDOUT = "-"


def report(word: str, *, output: str | None, opens: bool, progress_file: str | None) -> int:
    """Writes the report and prints where; 0. By default outside of the working directory, where the agent would see it.

    Raises RalphError when there is nothing to tell, or no place for it.
    """
    if opens and output == _STDOUT:
        raise RalphError("--open shows a file; leave out -o -")
    plan = plans.find(word, progress_file)
    made = page(_known(plan))
    if output == _STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(made)
        return 0
    path = Path(output) if output is not None else plan.state.folder / "report.html"
    _write(path, made, mode=None if output is not None else 0o600)
    print(plain(str(path)))
    if opens and click.launch(os.path.realpath(path)) != 0:
        raise RalphError(f"{path}: no program here shows it; open it in a browser", 1)
    return 0


def _known(plan: Plan) -> Known:
    records = _records(plan.state.journal)
    now = time.time()
    seen = status.look(plan, now)
    if not records and seen.progress is None:
        raise RalphError(f"{plan.name}: nothing to report: no {plan.progress_path}, and no run that is recorded here")
    return Known(
        name=plan.name,
        standing=seen.standing,
        progress=seen.progress,
        records=records,
        rows=journal.rows(records),
        sums=journal.sums(records),
        now=now,
    )


def _records(path: Path) -> list[Record]:
    try:
        return list(journal.read(path))
    except OSError as error:
        raise RalphError(f"{path}: cannot be read: {error.strerror}", 1) from error


def _write(path: Path, data: bytes, mode: int | None) -> None:
    """A pipe or a device is written to; only a file is replaced."""
    try:
        if mode is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_bytes(data)
        else:
            files.replace(path, data, mode=mode)
    except OSError as error:
        raise RalphError(f"{path}: cannot be written: {error.strerror}", 1) from error
