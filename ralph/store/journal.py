"""The append-only record of what happened, one JSON object per line.

The journal is for people, prompts and reports. It decides only two things: the first value of `Spent:`, and whether
anything has changed since the first iteration of the plan.
"""

import errno
import functools
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from ralph import files
from ralph.store.state import UnfinishedIteration
from ralph.words import shorten

_MESSAGE = 5_000
# Bytes at the end of the journal in which the last iteration is; about 800 lines.
_TAIL_BYTES = 1_000_000


def append_line(path: Path, record: dict[str, object], *, is_own_file: bool = True) -> None:
    """Appends the record as one line and returns once it is on disk; several processes may append at once.

    A file of ralph's own is never a link: links are removed; for any other file, a link is an error. Raises OSError
    if the file cannot be written; what was there stays.
    """
    if not is_own_file and os.path.realpath(path) != str(path):
        raise OSError(errno.ELOOP, "a link leads elsewhere")
    for place in (path.parent, path) if is_own_file else ():
        if place.is_symlink():
            place.unlink()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = json.dumps(record, ensure_ascii=False) + "\n"
    with path.open("ab") as file:
        file.write(line.encode(errors="replace"))  # a Python string can hold halves of characters, UTF-8 cannot
        file.flush()
        os.fsync(file)


@dataclass
class Record:
    """One line of the journal; a field that the line lacks has its default. Times in seconds, costs in US dollars."""

    event: str
    """`iteration`, `wait`, `verify`, `tamper`, `mode`, `run`, `checks`."""
    run: str
    timestamp: str
    """In UTC; for an iteration, when it ended."""
    mode: str = ""
    round: int = 0
    """Under `all`, how many times the work was handed on to be validated; 0 if nobody counts."""
    iteration: int = 0
    """The number of the plan's iteration that the line is about or belongs to, 1 for the first; 0 before that."""
    success: bool = False
    message: str = ""
    """Why it went wrong, or the agent's last words; for a change of mode, the old and the new mode."""
    said: str = ""
    """The agent's last words, even if `message` is something else."""
    handover: str = ""
    """What the iteration left for the next one, if it was cut short."""
    requirement_id: str = ""
    """The task that ralph gave the iteration; empty if ralph gave none, or died."""
    ended: str = ""
    """For an iteration, `ok`, `failed`, `hung`, `limit`, ..., or `died` if ralph did; for a run, why it ended."""
    counted: bool = False
    """Whether the iteration counts: not if it was due again or only a merge, or if ralph died in it."""
    merge: str = ""
    """Under `--jobs`: `queued` if its commit waits to be merged; `checked` if it had waited, and no agent worked."""
    summary: str = ""
    """Its line on the screen."""
    duration_s: float = 0.0
    waited_s: float = 0.0
    """Before it: for a usage limit, or until trouble outside had passed."""
    verified_s: float = 0.0
    """Spent on verifying after it; added up when the journal is read."""
    until: float = 0.0
    """When a wait, or the usage limit that was reached, ends: in seconds since 1970."""
    cost_usd: float | None = None
    cost_at_least: bool = False
    # Tokens.
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    model: str = ""
    """The model that the settings chose, else the one that the agent reported."""
    done: int = 0
    """How many tasks were ticked after it, of how many; 0 if nobody looked."""
    total: int = 0
    moved: bool = True
    """Whether a task was ticked or added, or something in the repository changed, as far as is known."""
    commits: int = 0
    # Lines.
    added: int = 0
    removed: int = 0
    base: str = ""
    """The commit before its first one."""
    head: str = ""
    """Its last one."""
    files: str = ""
    """The names of the files that changed, one per line."""
    so_far: str = ""
    """For a run, its tasks, iterations, commits, time and cost, as the last line on the screen gives them."""
    transcript: str = ""
    """The name of its file; empty when there is none."""

    def __post_init__(self) -> None:
        self.written_at = datetime.fromisoformat(self.timestamp).timestamp()
        """Its timestamp, in seconds since 1970."""
        self.transcript = self.transcript.rpartition("/")[2]  # an agent can forge a line
        self.iterations = int(self.counted)
        """1 for an iteration that counts, in a sum of records their number."""

    @property
    def mode_and_round(self) -> str:
        """Its mode, or the role of the task; with the round if there is one."""
        return self.mode + f" in round {self.round}" * bool(self.round)


_NAMES = {one.name for one in fields(Record)}


def read(path: Path) -> list[Record]:
    """All whole records, the oldest first; skips lines that are torn or nonsense. Empty if the file is missing."""
    return read_since(path, 0)[0]


def read_since(path: Path, start: int) -> tuple[list[Record], int]:
    """The whole records from byte `start` on, and the byte where the next line begins."""
    data = b""
    with suppress(FileNotFoundError):
        data = path.read_bytes()[start:]
    return parse_lines(data), start + data.rfind(b"\n") + 1


def parse_lines(data: bytes) -> list[Record]:
    """The whole records in a piece of a journal."""
    objects = []
    for line in data.split(b"\n")[:-1]:
        with suppress(ValueError):
            objects.append(json.loads(line))
    return parse_all_records(objects)


def parse_all_records(objects: Iterable[Any]) -> list[Record]:
    """The records among these objects; each iteration includes the time and result of the verification after it."""
    found = []
    for each in objects:
        with suppress(AttributeError, TypeError, ValueError):  # no record, such as a call over MCP
            values = {name: value for name, value in each.items() if name in _NAMES and value is not None}
            found.append(Record(**values))
    latest = None
    for one in found:
        if one.event == "iteration" and one.counted:
            latest = one
        elif one.event == "verify" and latest and (one.run, one.iteration) == (latest.run, latest.iteration):
            latest.verified_s += one.duration_s
            if not one.success:
                latest.success = False
                latest.message = one.message
                latest.summary += " · done refused"
    return found


def is_iteration_recorded(found: Iterable[Record], begun: UnfinishedIteration) -> bool:
    """Whether a line says how that iteration ended: ralph may have died later, while checking its claim."""
    return any((row.run, row.transcript) == (begun.run, begun.transcript.name) for row in found)


def iterations_in(found: Iterable[Record]) -> list[Record]:
    """The iterations among these records."""
    return [record for record in found if record.event == "iteration"]


def newest_iterations(path: Path, within_bytes: int) -> Iterator[Record]:
    """Yields the iterations in so many bytes at the end of the journal, newest first, each with its verification."""
    later = b""
    for line in reversed(files.read_or_empty(path, within_bytes).splitlines(keepends=True)):
        later = line + later
        if b'"event": "iteration"' in line:  # parses no more than the caller looks at
            yield from _parse_iterations(later)
            later = b""


@functools.lru_cache(64)  # the same lines are read before each iteration
def _parse_iterations(data: bytes) -> list[Record]:
    return iterations_in(parse_lines(data))


def last_counted_iteration(path: Path) -> int:
    """How many iterations of the plan counted, in all its runs, according to the last one in the journal."""
    for last in newest_iterations(path, _TAIL_BYTES):
        return last.iteration - (not last.counted)
    return 0


TOKENS = ("input", "output", "cache_read", "cache_write")
_SUMMED = (*TOKENS, "iterations", "duration_s", "waited_s", "verified_s", "commits", "added", "removed")


def sum_up(found: Iterable[Record]) -> Record:
    """The totals of the iterations among these records; the cost is None if none was reported."""
    total = Record("sums", "", "1970-01-01")
    for one in iterations_in(found):
        for name in _SUMMED:
            setattr(total, name, getattr(total, name) + getattr(one, name))
        if one.cost_usd is not None:
            total.cost_usd = round((total.cost_usd or 0.0) + one.cost_usd, 6)
        total.cost_at_least |= one.cost_at_least
    return total


def journal_line(event: str, at: float, *, message: str, **more: object) -> dict[str, object]:
    """Returns a line for the journal; `more` may include fields that `Record` lacks, for people."""
    timestamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    return {"timestamp": timestamp, "event": event, **more, "message": shorten(message, _MESSAGE)}


def unfinished_line(begun: UnfinishedIteration, message: str, handover: str = "") -> dict[str, object]:
    """Returns a line for an iteration that nobody has judged; it ended when its transcript was last written."""
    at = time.time()
    with suppress(OSError):
        at = begun.transcript.stat().st_mtime
    return journal_line(
        "iteration",
        at,
        run=begun.run,
        mode=begun.mode,
        iteration=begun.iteration,
        success=False,
        message=message,
        handover=handover,
        ended="died",
        summary=f"#{begun.iteration} · {message}",
        cost_at_least=True,
        transcript=begun.transcript.name,
    )
