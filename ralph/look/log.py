"""What happened: the iterations of a plan, a line each, and one of them as it was seen, or is just now. Only looks."""

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from ralph import changes, journal
from ralph.agent.stream import Stream
from ralph.errors import RalphError
from ralph.journal import Record
from ralph.look import plans
from ralph.look.plans import Plan
from ralph.look.standing import ending
from ralph.process import foreground
from ralph.screen import Detail
from ralph.screen.text import is_terminal, terminal_size
from ralph.screen.view import View
from ralph.words import duration, moment, plain

_BLOCK_BYTES = 1 << 20
_NOTHING_MOVED = "\N{EN DASH}"
_LOOK_S = 0.1
_LOOKS_FOR_RUN = 10
"""Looks at what is new to each look at whether the run still goes on, which takes its lock for an instant."""


def log(  # noqa: PLR0913 - what can be asked for
    word: str | None, *, number: str | None, what: str | None, follow: bool, verbose: bool, progress_file: str | None
) -> int:
    """Prints the log of a plan, or what came of one iteration; 0. Raises RalphError when there is no such."""
    plan, number = plans.meant(word, number, progress_file)
    if follow and (number or what):
        raise RalphError("-f follows what runs now", fix="leave out N, --raw, --prompt and --diff")
    if follow:
        return _follow(plan, verbose=verbose)
    if number is None and what is None:
        return _list(plan)
    row = _row(plan, number or "last")
    if what == "diff":
        return _diff(plan, row)
    path = _transcript(plan, row)
    if what:
        return _copy(path if what == "raw" else path.with_suffix(".prompt.md"))
    _say(f"{_when(row.at)}  {row.mode} {plan.name} · iteration {row.iteration}")
    _Replay(path, _view(verbose=verbose, pays=row.agent == "claude")).rest()
    if row.refused:
        _say(f"RALPH_DONE refused: {row.message}")
    _say(row.summary)
    return 0


def _say(line: str) -> None:
    """Prints a line that cannot drive the terminal. Unlike a run it waits for whoever reads."""
    if line:
        print(plain(line))


# The list.


def _list(plan: Plan) -> int:
    """Each iteration with the number by which it can be asked for, and how each run ended."""
    records = _records(plan)
    for record in records:
        _say(_line(record))
    _rows(plan, records)
    return 0


def _rows(plan: Plan, records: Iterable[Record]) -> list[Record]:
    if rows := journal.rows(records):
        return rows
    raise RalphError(f"{plan.name}: no iteration yet ({plan.state.journal})")


def _records(plan: Plan) -> list[Record]:
    """The journal, with the iteration that runs now, or in which ralph was killed just now."""
    records, begun = plan.records(), plan.state.died()
    if begun and not journal.tells_of(records, begun):
        what = "runs now" if plan.holders()[0] else "ralph was killed"
        records += journal.records([journal.unfinished(begun, what)])
    return records


def _line(record: Record) -> str:
    """A record in a line. Waits have none, verifications only at a start: the iteration after them tells of them."""
    when, mode = _when(record.at), record.mode
    if record.event == "run":
        return f"  {when}  {mode} ended: {ending(record)}"
    if record.event == "verify" and not record.iteration:
        return f"  {when}  verified before the first iteration: {record.message or 'passed'}"
    if record.event != "iteration":
        return ""
    waited = f"waited {duration(record.waited_s)} · " if record.waited_s >= 1 else ""
    said = f"{mode} {waited}{record.summary}" + ("" if record.counted else " · not counted")
    return f"{_NOTHING_MOVED if record.counted and not record.moved else ' '} {when}  {said}"


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


# One iteration.


def _row(plan: Plan, number: str) -> Record:
    """That iteration, as it came out in the end. Raises RalphError when there is none of that number."""
    if not re.fullmatch(r"last|[1-9][0-9]{0,8}", number):
        raise RalphError(f'"{number}": N is a number of `ralph log {plan.name}`, or `last`')
    rows = _rows(plan, _records(plan))
    found = [row for row in rows if number in ("last", str(row.iteration))]
    if not found:
        raise RalphError(f"{plan.name}: there are {rows[-1].iteration} iterations, no {number}")
    return found[-1]


def _transcript(plan: Plan, row: Record) -> Path:
    path = plan.state.folder / "transcripts" / row.transcript
    if row.transcript and path.is_file():
        return path
    why = "it is removed by now, as the newest 200 MB are kept" if row.transcript else "none was written"
    raise RalphError(f"{plan.name}: no transcript of iteration {row.iteration}: {why}", 1)


def _copy(path: Path) -> int:
    """The file as it is, to the standard output."""
    sys.stdout.flush()
    try:
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
    except FileNotFoundError as error:
        raise RalphError(f"{path}: is not there any more", 1) from error
    return 0


def _diff(plan: Plan, row: Record) -> int:
    """Its commits, shown by git as the person has set git up."""
    if not row.commits:
        raise RalphError(f"iteration {row.iteration} committed nothing", 1)
    folder = plan.progress_path.resolve().parent
    if not changes.has(row.head, folder):
        raise RalphError(f"iteration {row.iteration}: its commits are not here any more, or git is not", 1)
    between = f"{row.base}..{row.head}" if changes.has(row.base, folder) else row.head
    code = foreground(["git", "log", "--reverse", "--patch", between, "--"], env=os.environ, cwd=str(folder))
    return 1 if code else 0


def _view(*, verbose: bool, pays: bool) -> View:
    """What shows a transcript here; words are wrapped to a terminal's width."""
    detail, sees = Detail.of(quiet=False, verbose=verbose), is_terminal(1)
    return View(_say, lambda: terminal_size().columns if sees else None, pays=pays, detail=detail, breaks_silence=sees)


class _Replay:
    """Shows the transcript at `path`, also while it grows, and with it what the agent wrote to its standard error."""

    def __init__(self, path: Path, view: View) -> None:
        self.path = path
        self._files: dict[Path, BinaryIO] = {}
        self._stream = Stream(view.show, view.tell)
        self._is_over = False
        view.begin(self._stream)

    def more(self) -> None:
        """Shows what is new."""
        if not self._is_over:
            self._feed(self.path, self._stream.sees)
            self._feed(self.path.with_suffix(".err"), self._stream.complains)

    def rest(self) -> None:
        """Shows all that is left, a last line without an end too; nothing more comes after that."""
        self.more()
        if not self._is_over:
            self._stream.finish()
        self._is_over = True

    def _feed(self, path: Path, sees: Callable[[bytes], None]) -> None:
        """The file stays open: another may take its name, shorter than what has been read of this one."""
        if path not in self._files and path.is_file():
            self._files[path] = path.open("rb")
        if file := self._files.get(path):
            while block := file.read(_BLOCK_BYTES):
                sees(block)


# A run that goes on in another terminal.


def _follow(plan: Plan, *, verbose: bool) -> int:
    """Shows the running iteration and those after it until the run ends; 0. Raises RalphError when nothing runs."""
    if not plan.holders()[0]:
        raise RalphError(f"{plan.name}: no run works on it now", 1, fix=f"`ralph log {plan.name}` shows what was")
    follower = _Follower(plan, _view(verbose=verbose, pays=False))  # who pays was said where it runs
    while plan.holders()[0]:
        for _ in range(_LOOKS_FOR_RUN):
            follower.look()
            time.sleep(_LOOK_S)
    follower.look()
    if unjudged := plan.state.died():
        _say(f"ended: ralph was killed in iteration {unjudged.iteration}")
    return 0


class _Follower:
    """Shows what is new since the last look, of the transcript that grows and of the journal."""

    def __init__(self, plan: Plan, view: View) -> None:
        self._name, self._state, self._view = plan.name, plan.state, view
        earlier, self._at = journal.since(self._state.journal, 0)
        self._replay: _Replay | None = None
        self._verifying = False
        if not self._state.died():
            _say("".join(map(_news, earlier[-1:])))

    def look(self) -> None:
        """What the journal says of an iteration was written after its last word, and is told after it."""
        records, self._at = journal.since(self._state.journal, self._at)
        running = self._state.died()
        if self._replay:
            self._replay.more()
            self._view.quiet()
            if records or not running:
                self._replay.rest()
        for record in records:
            _say(_news(record))
        if running and running.record.is_file() and (not self._replay or self._replay.path != running.record):
            _say(f"{running.mode} {self._name} · iteration {running.iteration}")
            self._replay, self._verifying = _Replay(running.record, self._view), False
            self._replay.more()
        if running and not self._verifying and running.record.with_suffix(".verify.log").exists():
            self._verifying = True
            _say("verifying")
        sys.stdout.flush()


def _news(record: Record) -> str:
    """A record in a line, as it is written just now; empty where there is nothing to say."""
    if record.event == "iteration":
        return record.summary
    if record.event == "verify":
        return "" if record.success else record.message
    if record.event == "wait" and record.until > time.time():
        return f"waiting until {moment(record.until, time.time())}: {record.message}"
    return f"ended: {ending(record)}" if record.event == "run" else ""
