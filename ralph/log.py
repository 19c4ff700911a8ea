"""What happened: the iterations of a plan, a line each, and one of them as it was seen. Only looks."""

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ralph import git, history, journal, records
from ralph.errors import RalphError
from ralph.follow import follow as follow_run
from ralph.history import Record, Row
from ralph.plans import Plan
from ralph.process import foreground
from ralph.replay import Replay, say, view
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
        return _diff(plan, row)
    path = _transcript(plan, row)
    if what == "raw":
        return _copy(path)
    if what == "prompt":
        return _copy(path.with_suffix(".prompt.md"))
    say(f"{_when(row.at)}  {row.mode} {plan.name} · iteration {row.iteration}")
    Replay(path, view(verbose=verbose, pays=row.pays)).rest()
    if row.refused:
        say(f"RALPH_DONE refused: {row.message}")
    say(row.summary)
    return 0


def _list(plan: Plan) -> int:
    """Each iteration with the number by which it can be asked for, and how each run ended."""
    count = 0
    for record in _records(plan):
        count += record.get("event") == "iteration"
        if line := _line(record, count):
            say(line)
    if not count:
        raise _nothing(plan)
    return 0


def _nothing(plan: Plan) -> RalphError:
    return RalphError(f"{plan.name}: no iteration yet ({plan.state.journal})")


def _records(plan: Plan) -> Iterator[Record]:
    """The journal, with the iteration that runs now, or in which ralph was killed just now. Raises RalphError."""
    state = plan.state
    newest: Record = {}
    try:
        for record in journal.read(state.journal):
            newest = newest if record.get("event") == "run" else record
            yield record
    except OSError as error:
        raise RalphError(f"{state.journal}: cannot be read: {error.strerror}", 1) from error
    begun = state.died()
    known = newest.get("run"), newest.get("iteration"), newest.get("ended")
    if begun and known != (begun.run, begun.iteration, "died"):
        yield records.unfinished(begun, "runs now" if plan.holders()[0] else "ralph was killed")


def _line(record: Record, count: int) -> str:
    """A record in a line. Waits have none, verifications only at a start: the iteration after them tells of them."""
    when, mode = _when(history.stamp(record)), history.text(record, "mode")
    event = record.get("event")
    if event == "run":
        return f"      {when}  {mode} ended: {ending(record)}"
    if event == "verify" and not record.get("iteration"):
        return f"      {when}  verified before the first iteration: {history.text(record, 'message') or 'passed'}"
    if event != "iteration":
        return ""
    row = history.row(record, count)
    waited = f"waited {duration(row.waited_s)} · " if row.waited_s >= 1 else ""
    return f"{count:>4}  {when}  {mode} {waited}{row.summary}" + ("" if row.counted else " · not counted")


def _row(plan: Plan, number: str) -> Row:
    """That iteration. Raises RalphError when there is none of that number."""
    if not re.fullmatch(r"last|[1-9][0-9]{0,8}", number):
        raise RalphError(f'"{number}": N is a number of `ralph log {plan.name}`, or `last`')
    found = None
    for found in history.rows(_records(plan)):
        if number == str(found.number):
            return found
    if found is None:
        raise _nothing(plan)
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


def _diff(plan: Plan, row: Row) -> int:
    """Its commits, shown by git as the person has set git up."""
    if not row.commits:
        raise RalphError(f"iteration {row.number} committed nothing", 1)
    folder = plan.progress_path.resolve().parent
    if not git.has(row.head, folder):
        raise RalphError(f"iteration {row.number}: its commits are not here any more, or git is not", 1)
    between = f"{row.base}..{row.head}" if git.has(row.base, folder) else row.head
    code = foreground(["git", "log", "--reverse", "--patch", between, "--"], env=os.environ, cwd=str(folder))
    return 1 if code else 0


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
