"""What happened: the iterations of a plan, a line each, and one of them as it was seen. Only looks."""

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ralph import history, journal
from ralph.errors import RalphError
from ralph.follow import follow as follow_run
from ralph.history import Row
from ralph.plans import Plan
from ralph.process import foreground
from ralph.replay import Replay, say
from ralph.standing import ending
from ralph.words import duration

_BLOCK_BYTES = 1 << 20


def log(plan: Plan, number: str | None, *, what: str | None, follow: bool, verbose: bool) -> int:
    """Prints the log of a plan, or what came of one iteration; 0. Raises RalphError when there is no such."""
    if follow:
        if number or what:
            raise RalphError("-f follows what runs now; leave out N, --raw, --prompt and --diff")
        return follow_run(plan, verbose=verbose)
    if number is None and what is None:
        return _list(plan)
    row = _row(plan, number or "last")
    if what == "diff":
        return _diff(row)
    path = _transcript(plan, row)
    if what == "raw":
        return _copy(path)
    if what == "prompt":
        return _copy(path.with_suffix(".prompt.md"))
    say(f"{_when(row.at)}  {row.mode} {plan.name} · iteration {row.iteration}")
    Replay(path, verbose=verbose).rest()
    say(row.summary)
    return 0


def _list(plan: Plan) -> int:
    """Each iteration with the number by which it can be asked for, and how each run ended."""
    empty = True
    for line in _lines(plan):
        empty = False
        say(line)
    if empty:
        raise RalphError(f"{plan.name}: no iteration yet ({plan.state.journal})")
    return 0


def _lines(plan: Plan) -> Iterator[str]:
    count = 0
    for record in journal.read(plan.state.journal):
        if record.get("event") == "iteration":
            count += 1
        if line := _line(record, count):
            yield line


def _line(record: history.Record, count: int) -> str:
    """A record in a line; waits and verifications have none, the iteration after them tells of them."""
    when = _when(history.stamp(record))
    mode = history.text(record, "mode")
    if record.get("event") == "run":
        return f"      {when}  {mode} ended: {ending(record)}"
    for row in history.rows([record]):
        waited = f"waited {duration(row.waited_s)} · " if row.waited_s >= 1 else ""
        return f"{count:>4}  {when}  {mode} {waited}{row.summary}" + ("" if row.counted else " · not counted")
    return ""


def _row(plan: Plan, number: str) -> Row:
    """That iteration. Raises RalphError when there is none of that number."""
    rows = history.rows(journal.read(plan.state.journal))
    found = None
    if not re.fullmatch(r"last|[1-9][0-9]{0,8}", number):
        raise RalphError(f'"{number}": N is a number of `ralph log {plan.name}`, or `last`')
    for row in rows:
        found = row
        if number == str(row.number):
            return row
    if found is None:
        raise RalphError(f"{plan.name}: no iteration yet ({plan.state.journal})")
    if number != "last":
        raise RalphError(f"{plan.name}: there are {found.number} iterations, no {number}")
    return found


def _transcript(plan: Plan, row: Row) -> Path:
    path = plan.state.folder / "transcripts" / row.transcript
    if row.transcript and path.is_file():
        return path
    why = "it is removed by now, see --keep-transcripts" if row.transcript else "none was written"
    raise RalphError(f"{plan.name}: no transcript of iteration {row.number}: {why}", 1)


def _copy(path: Path) -> int:
    """The file as it is, to the standard output."""
    sys.stdout.flush()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                sys.stdout.buffer.write(block)
    except FileNotFoundError as error:
        raise RalphError(f"{path}: is not there any more", 1) from error
    return 0


def _diff(row: Row) -> int:
    """Its commits, shown by git as the person has set git up."""
    if not row.commits or not re.fullmatch(r"[0-9a-f]{40,64}", row.head):
        raise RalphError(f"iteration {row.number} committed nothing", 1)
    between = f"{row.base}..{row.head}" if re.fullmatch(r"[0-9a-f]{40,64}", row.base) else row.head
    code = foreground(["git", "log", "--reverse", "--patch", between, "--"], env=os.environ, cwd=".")
    return 1 if code else 0


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
