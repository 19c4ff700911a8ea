"""What happened: the iterations of a plan, a line each, and one of them as it was seen. Only looks."""

import os
import re
import sys
import time
from pathlib import Path

from ralph import git, journal
from ralph.errors import RalphError
from ralph.journal import Record
from ralph.look.follow import follow as follow_run
from ralph.look.plans import Plan
from ralph.look.replay import Replay, say, view
from ralph.look.standing import ending
from ralph.process import foreground
from ralph.words import duration

_BLOCK_BYTES = 1 << 20
_NOTHING_MOVED = "\N{EN DASH}"


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
    say(f"{_when(row.at)}  {row.mode} {plan.name} · iteration {row.number}")
    Replay(path, view(verbose=verbose, pays=row.pays)).rest()
    if row.refused:
        say(f"RALPH_DONE refused: {row.message}")
    say(row.summary)
    return 0


def _list(plan: Plan) -> int:
    """Each iteration with the number by which it can be asked for, and how each run ended."""
    records = _records(plan)
    for record in records:
        if line := _line(record):
            say(line)
    if not journal.rows(records):
        raise _nothing(plan)
    return 0


def _nothing(plan: Plan) -> RalphError:
    return RalphError(f"{plan.name}: no iteration yet ({plan.state.journal})")


def _records(plan: Plan) -> list[Record]:
    """The journal, with the iteration that runs now, or in which ralph was killed just now. Raises RalphError."""
    state = plan.state
    try:
        records = journal.read(state.journal)
    except OSError as error:
        raise RalphError(f"{state.journal}: cannot be read: {error.strerror}", 1) from error
    begun = state.died()
    if begun and not journal.tells_of(records, begun):
        records.append(journal.unfinished(begun, "runs now" if plan.holders()[0] else "ralph was killed"))
    return records


def _line(record: Record) -> str:
    """A record in a line. Waits have none, verifications only at a start: the iteration after them tells of them."""
    when, mode = _when(record.at), record.mode
    if record.event == "run":
        return f"  {when}  {mode} ended: {ending(record)}"
    if record.event == "verify" and not record.number:
        return f"  {when}  verified before the first iteration: {record.message or 'passed'}"
    if record.event != "iteration":
        return ""
    waited = f"waited {duration(record.waited_s)} · " if record.waited_s >= 1 else ""
    said = f"{mode} {waited}{record.summary}" + ("" if record.counted else " · not counted")
    return f"{_NOTHING_MOVED if record.counted and not record.moved else ' '} {when}  {said}"


def _row(plan: Plan, number: str) -> Record:
    """That iteration, as it came out in the end. Raises RalphError when there is none of that number."""
    if not re.fullmatch(r"last|[1-9][0-9]{0,8}", number):
        raise RalphError(f'"{number}": N is a number of `ralph log {plan.name}`, or `last`')
    rows = journal.rows(_records(plan))
    found = [row for row in rows if number in ("last", str(row.number))]
    if not rows:
        raise _nothing(plan)
    if not found:
        raise RalphError(f"{plan.name}: there are {rows[-1].number} iterations, no {number}")
    return found[-1]


def _transcript(plan: Plan, row: Record) -> Path:
    path = plan.state.folder / "transcripts" / row.transcript
    if row.transcript and path.is_file():
        return path
    why = "it is removed by now, as the newest 200 MB are kept" if row.transcript else "none was written"
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


def _diff(plan: Plan, row: Record) -> int:
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
