"""The append-only record of what happened, one JSON object a line.

The journal is for people, prompts and reports. What is decided by it: where `Spent:` begins, and whether anything has
changed since the first iteration of the plan.
"""

import contextlib
import errno
import functools
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from ralph import files
from ralph.store.notes import UnjudgedIteration
from ralph.words import shorten

TOOL = "tool"
"""The event of a call over MCP; that is for people, and no record of the loop's."""
_LARGEST = 1e15
"""A number beyond that, or JSON's NaN, is nonsense."""
_MESSAGE = 5_000


def append_line(path: Path, record: dict[str, object], *, own: bool = True) -> None:
    """Returns when the record is on disk, as one line; several processes may add at once.

    A journal of ralph's `own` is never a link. Raises OSError when it cannot be written; what was there stays.
    """
    if not own and os.path.realpath(path) != str(path):
        raise OSError(errno.ELOOP, "a link leads elsewhere")
    text = json.dumps(record, ensure_ascii=False)
    line = text.encode(errors="replace") + b"\n"  # a Python string can hold halves of characters, UTF-8 cannot
    for place in (path.parent, path) if own else ():
        if place.is_symlink():
            place.unlink()
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":  # torn, or just being written: a blank line does no harm
            line = b"\n" + line
        if os.write(fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)
    finally:
        os.close(fd)


@dataclass(kw_only=True, eq=False, repr=False)
class Record:
    """A line of the journal, by its names; what it does not tell is empty. Times in seconds, costs in US dollars."""

    event: str
    """`iteration`, `wait`, `verify`, `tamper`, `mode`, `run`; `sums` is what lines came to that are no longer there."""
    run: str
    timestamp: str
    """When, in UTC; of an iteration, when it ended."""
    mode: str = ""
    round: int = 0
    """Of `all`, how often it was validated; 0 where nobody counts."""
    iteration: int = 0
    """The iteration of the plan that it is or belongs to, 1 for the first; 0 before that."""
    success: bool = False
    message: str = ""
    """Why it went wrong, or the agent's last words; of a change of mode, from which to which."""
    said: str = ""
    """The agent's last words, where the message is another."""
    handover: str = ""
    """What it left for the next one, where it was cut short."""
    requirement_id: str = ""
    """The task that ralph gave it; empty where it gave none, or died."""
    ended: str = ""
    """Of an iteration `ok`, `failed`, `hung`, `limit`, ..., `died` when ralph did; of a run its reason."""
    counted: bool = False
    """False when the iteration was due again, or when ralph died in it."""
    merge: str = ""
    """Under `--jobs`: `queued` where its commit waits to be merged, `checked` where it did and no agent worked."""
    refused: bool = False
    """Its RALPH_DONE was taken back."""
    summary: str = ""
    """Its line on the screen."""
    duration_s: float = 0.0
    waited_s: float = 0.0
    """Before it: for a usage limit, or for trouble outside to pass."""
    verified_s: float = 0.0
    """After it; added up when the journal is read."""
    until: float = 0.0
    """When a wait is over, or a limit that was met, since 1970."""
    cost_usd: float | None = None
    cost_at_least: bool = False
    input: int = 0
    """Tokens."""
    output: int = 0
    """Tokens."""
    cache_read: int = 0
    """Tokens."""
    cache_write: int = 0
    """Tokens."""
    agent: str = ""
    """The name of its program."""
    model: str = ""
    """What it was given, else says itself."""
    done: int | None = None
    """Tasks that are ticked after it; None when nobody looked."""
    total: int | None = None
    moved: bool = True
    """A task was ticked or added, or something in the repository changed, as far as is known."""
    commits: int = 0
    added: int = 0
    """Lines."""
    removed: int = 0
    """Lines."""
    base: str = ""
    """The commit before its first one."""
    head: str = ""
    """Its last one."""
    files: str = ""
    """The names of those that changed, a line each."""
    so_far: str = ""
    """Of a run, its result."""
    transcript: str = ""
    """The name of its file; empty when there is none."""
    iterations: int = 0
    """How many it is: 1 for an iteration that counts, those of a run, those of `sums`."""

    @property
    def mode_and_round(self) -> str:
        """Its mode, or the role of the task; with the round where there is one."""
        return self.mode + f" in round {self.round}" * bool(self.round)

    @property
    def written_at(self) -> float:
        """Its timestamp, since 1970."""
        return datetime.fromisoformat(self.timestamp).timestamp()

    @property
    def began_at(self) -> float:
        """When it began, since 1970."""
        return self.written_at - self.duration_s


_KINDS = {one.name: one.type for one in fields(Record)}


def read(path: Path) -> list[Record]:
    """Each whole record, the oldest first. Skipped: lines that are torn or nonsense. A missing file has none."""
    return read_since(path, 0)[0]


def read_since(path: Path, start: int) -> tuple[list[Record], int]:
    """The whole records from that byte on, and where the next line begins."""
    data = b""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        start = min(start, os.fstat(file.fileno()).st_size)  # it may have been rotated
        file.seek(start)
        data = file.read()
    return parse_lines(data), start + data.rfind(b"\n") + 1


def parse_lines(data: bytes) -> list[Record]:
    """The whole records in a piece of a journal."""
    objects = []
    for line in data.split(b"\n")[:-1]:
        with contextlib.suppress(ValueError, RecursionError):
            objects.append(json.loads(line.strip(b"\0 \t\r\n")))  # a power loss leaves NULs, also in front of a record
    return parse_records(objects)


def parse_records(objects: Iterable[object]) -> list[Record]:
    """The records among these objects; each iteration with the time of its verification, which comes after it."""
    found = []
    latest = None
    for each in objects:
        one = _record(each) if isinstance(each, dict) else None
        if one is None or one.event == TOOL:
            continue
        found.append(one)
        if one.event == "iteration":
            one.iterations = int(one.counted)
            latest = one if one.counted else latest
        elif one.event == "verify" and latest and (one.run, one.iteration) == (latest.run, latest.iteration):
            latest.verified_s += one.duration_s
            if not one.success:
                latest.success = False
                latest.refused = True
                latest.message = one.message
                latest.summary += " · done refused"
    return found


def _record(found: Mapping[str, object]) -> Record | None:
    """What it tells of a record; None when it is none."""
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        values = {name: found[name] for name, kind in _KINDS.items() if _has_type(found.get(name), kind)}
        record = Record(**values)  # type: ignore[arg-type]  # just looked at
        record.transcript = record.transcript.rpartition("/")[2]
        return record if record.written_at else None
    return None


def _has_type(value: object, kind: Any) -> bool:
    if type(value) is int or type(value) is float:
        return abs(value) < _LARGEST and (isinstance(value, kind) or isinstance(0.0, kind))
    return value is not None and isinstance(value, kind)


def is_iteration_recorded(found: Iterable[Record], begun: UnjudgedIteration) -> bool:
    """Whether a line says how that iteration ended; it may have died while its claim was checked."""
    return any((row.run, row.transcript) == (begun.run, begun.transcript.name) for row in found)


def find_run_end(found: Iterable[Record], begun: UnjudgedIteration) -> Record | None:
    """The line with which that iteration's run ended by itself, if only by an error; None where it was killed."""
    return next((row for row in found if (row.event, row.run) == ("run", begun.run)), None)


def iterations_in(found: Iterable[Record]) -> list[Record]:
    """The iterations among them."""
    return [record for record in found if record.event == "iteration"]


def describe_merges(found: Iterable[Record]) -> str:
    """What became of the commits that waited in the merge queue; empty where none did."""
    ended = [one for one in iterations_in(found) if one.merge == "checked" and one.ended in ("ok", "failed")]
    again = sum(one.merge == "queued" for one in found)
    merged = sum(one.success for one in ended)
    return f"{again} checked again on top of others, {merged} merged, {len(ended) - merged} failed there" * bool(again)


def newest_iterations(data: bytes) -> Iterator[Record]:
    """The iterations in a piece of a journal, the last one first, each with its verification, read when asked for."""
    verified = b""
    for line in reversed(data.split(b"\n")):
        if b'"event": "verify"' in line:
            verified = line + b"\n" + verified
        elif b'"event": "iteration"' in line:
            yield from _parse_iterations(line + b"\n" + verified)
            verified = b""


@functools.lru_cache(maxsize=128)  # each prompt tells of some, of which all but one were read an iteration ago
def _parse_iterations(lines: bytes) -> list[Record]:
    return iterations_in(parse_lines(lines))


def count_iterations(path: Path) -> int:
    """How many iterations of the plan counted, in all its runs, by the last one that the journal tells of."""
    last = next(newest_iterations(files.read_or_empty(path)), None)
    return last.iteration - (not last.counted) if last else 0


TOKENS = ("input", "output", "cache_read", "cache_write")
_SUMMED = (*TOKENS, "iterations", "duration_s", "waited_s", "verified_s", "commits", "added", "removed")


def sum_up(found: Iterable[Record]) -> Record:
    """The sums of the iterations among them, and of earlier sums; the cost is unknown where none was reported."""
    total = Record(event="sums", run="", timestamp="")
    for one in found:
        if one.event not in ("iteration", "sums"):
            continue
        for name in _SUMMED:
            setattr(total, name, getattr(total, name) + getattr(one, name))
        if one.cost_usd is not None:
            total.cost_usd = round((total.cost_usd or 0.0) + one.cost_usd, 6)
        total.cost_at_least |= one.cost_at_least
    return total


_LARGE_BYTES = 4_000_000
"""Some 3,000 iterations."""


def rotate_journal(path: Path) -> None:
    """Leaves of a large journal the newer half, behind a line with what the older one came to; all where it cannot."""
    with contextlib.suppress(OSError, ValueError):  # a full disk; one line without an end
        if path.is_symlink() or path.stat().st_size <= _LARGE_BYTES:
            return
        data = path.read_bytes()
        at = data.index(b"\n", len(data) // 2) + 1
        summary_line = asdict(sum_up(parse_lines(data[:at]))) | journal_line("sums", time.time(), message="")
        files.replace_unchanged(path, data, json.dumps(summary_line).encode() + b"\n" + data[at:])


def journal_line(event: str, at: float, *, message: str, **more: object) -> dict[str, object]:
    """A line of the journal; besides its names it may have others, for people."""
    timestamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    return {"timestamp": timestamp, "event": event, **more, "message": shorten(message, _MESSAGE)}


def unfinished_line(begun: UnjudgedIteration, message: str, handover: str = "") -> dict[str, object]:
    """A line for an iteration that nobody has judged; it ended with the last word on its transcript."""
    at = time.time()
    with contextlib.suppress(OSError):
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
