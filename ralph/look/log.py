"""What happened: the iterations of a plan, a line each, and one of them as it was seen, or is just now. Only looks."""

import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ralph import files, journal
from ralph.agent.stream import Stream
from ralph.errors import RalphError
from ralph.journal import Record
from ralph.look import plans
from ralph.look.plans import Plan, ending
from ralph.memory import memory
from ralph.process import foreground
from ralph.screen.text import width
from ralph.screen.view import View
from ralph.words import moment, plain

_BLOCK_BYTES = 1 << 20
_NOTHING_MOVED = "\N{EN DASH}"
_LOOK_S = 1.0
"""Seconds between two looks at what is new, and at whether the run goes on, which takes its lock for an instant."""


def log(  # noqa: PLR0913 - what can be asked for
    word: str | None, *, number: str | None, what: str | None, follow: bool, verbose: bool, progress_file: str | None
) -> int:
    """Prints the log of a plan, or what came of one iteration; 0. Raises RalphError when there is no such."""
    if number is None and word and re.fullmatch(r"last|\d+", word):
        word, number = None, word  # the only plan of the folder need not be named
    plan = plans.find(word, progress_file)
    if follow and (number or what):
        raise RalphError("-f follows what runs now", fix="leave out N, --raw, --prompt, --diff and --memory")
    if follow:
        return _follow(plan, verbose=verbose)
    if what == "memory":
        _say(memory(plan.state.journal, files.held(plan.progress_path)) or f"{plan.name}: no iteration yet")
        return 0
    records = plans.look(plan).records
    if is_list := number is None and what is None:
        for record in records:
            _say(_line(record))
    rows = journal.rows(records)
    if not rows:
        raise RalphError(f"{plan.name}: no iteration yet ({plan.state.journal})")
    return 0 if is_list else _show(plan, _row(plan, rows, number or "last"), what, verbose=verbose)


def _row(plan: Plan, rows: Sequence[Record], number: str) -> Record:
    for row in reversed(rows):
        if number in ("last", str(row.iteration)):
            return row
    said = f'{plan.name}: "{number}" is none of the {rows[-1].iteration} iterations'
    raise RalphError(said, fix=f"`ralph log {plan.name}` lists them; `last` is the newest")


def _say(line: str) -> None:
    """Prints a line that cannot drive the terminal. Unlike a run it waits for whoever reads."""
    if line:
        print(plain(line))


def _line(record: Record) -> str:
    """A record in a line; empty for what the line of an iteration tells."""
    said = {
        "run": f"{record.kind} ended: {ending(record)}",
        "wait": f"{record.kind} waits until {moment(record.until, record.at)}: {record.message}",
        "mode": record.message,
        "verify": "" if record.iteration and record.success else f"verify: {record.message or 'passed'}",
        "iteration": f"{record.kind} {record.summary}" + " · not counted" * (not record.counted),
    }.get(record.event)
    dash = _NOTHING_MOVED if record.event == "iteration" and record.counted and not record.moved else " "
    return f"{dash} {_when(record.at)}  {said}" if said else ""


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _show(plan: Plan, row: Record, what: str | None, *, verbose: bool) -> int:
    """One iteration as it was seen, or what it committed, printed or was told."""
    if what == "diff":
        return _diff(plan, row)
    path = plan.state.folder / "transcripts" / row.transcript
    path = path.with_suffix(".prompt.md") if what == "prompt" else path
    if not row.transcript or not path.is_file():
        why = "it is removed by now, as the newest 200 MB are kept" if row.transcript else "none was written"
        raise RalphError(f"{plan.name}: no transcript of iteration {row.iteration}: {why}", 1)
    if what:
        sys.stdout.flush()
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        return 0
    _say(f"{_when(row.at)}  {row.mode} {plan.name} · iteration {row.iteration}")
    _Replay(path, View(_say, width, pays=True, whole=verbose)).rest()
    if row.refused:
        _say(f"RALPH_DONE refused: {row.message}")
    _say(row.summary)
    return 0


def _diff(plan: Plan, row: Record) -> int:
    """Its commits, shown by git as the person has set git up."""
    if not row.commits:
        raise RalphError(f"iteration {row.iteration} committed nothing", 1)
    between = f"{row.base}..{row.head}" if row.base else row.head
    command = ["git", "log", "--reverse", "--patch", "--end-of-options", between, "--"]
    if foreground(command, env=os.environ, cwd=str(plan.progress_path.resolve().parent)):
        raise RalphError(f"iteration {row.iteration}: git does not show its commits", 1)
    return 0


class _Replay:
    """Shows the transcript at `path`, also while it grows, and with it what the agent wrote to its standard error."""

    def __init__(self, path: Path, view: View) -> None:
        self.path = path
        self._stream = stream = Stream(view.show, view.tell)
        self._sees = {path: stream.sees, path.with_suffix(".err"): stream.complains}
        self._at = dict.fromkeys(self._sees, 0)
        view.begin(stream)

    def more(self) -> None:
        """Shows what is new."""
        for path, sees in self._sees.items():
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                file.seek(self._at[path])
                while block := file.read(_BLOCK_BYTES):
                    sees(block)
                self._at[path] = file.tell()

    def rest(self) -> None:
        """Shows all that is left, a last line without an end too; nothing more comes after that."""
        self.more()
        self._stream.finish()


def _follow(plan: Plan, *, verbose: bool) -> int:
    """Shows the running iteration and those after it until the run ends; 0. Raises RalphError when nothing runs."""
    if not plan.holders()[0]:
        raise RalphError(f"{plan.name}: no run works on it now", 1, fix=f"`ralph log {plan.name}` shows what was")
    state, view = plan.state, View(_say, width, pays=False, whole=verbose)  # who pays was said where it runs
    news, at = journal.since(state.journal, 0)
    news = [] if state.died() else news[-1:]
    shown, replay = Path(), None
    while True:
        is_over = not plan.holders()[0]
        more, at = journal.since(state.journal, at)
        running = state.died()
        if replay and (more or not running):  # what the journal says was written after its last word
            replay.rest()
            replay = None
        for record in (*news, *more):
            _say(_line(record))
        news = []
        if running and running.record.is_file() and running.record != shown:
            shown = running.record
            _say(f"{running.mode} {plan.name} · iteration {running.iteration}")
            replay = _Replay(shown, view)
        if replay:
            replay.more()
        sys.stdout.flush()
        if is_over:
            break
        time.sleep(_LOOK_S)
    if running:
        _say(f"ended: ralph was killed in iteration {running.iteration}")
    return 0
