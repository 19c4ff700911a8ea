"""The append-only record of what happened: one JSON object a line. For people and reports; the loop never reads it."""

import contextlib
import errno
import json
import os
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from ralph.agent.turn import said_of_work
from ralph.judge import Iteration, Judgement, summary
from ralph.state import Death, State
from ralph.words import shortened

_STAMP = "%Y-%m-%dT%H:%M:%SZ"
_LARGEST = 1e15
"""A number beyond that, or JSON's NaN, is nonsense."""
_MESSAGE = 500


def append(path: Path, record: Mapping[str, object], *, mode: int = 0o600, own: bool = True) -> None:
    """Returns when the record is on disk, as one line; several processes may add at once.

    A journal of ralph's `own` is never a link. Raises OSError when it cannot be written; what was there stays.
    """
    text = json.dumps(dict(record), ensure_ascii=False)
    line = text.encode(errors="replace") + b"\n"  # a Python string can hold halves of characters, UTF-8 cannot
    for place in (path.parent, path) if own else ():
        if place.is_symlink():
            place.unlink()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode)
    try:
        _write(fd, b"\n" + line if _is_torn(fd) else line)
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_torn(fd: int) -> bool:
    """Whether the last line has no end. One that is just being written seems so too; a blank line does no harm."""
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"


def _write(fd: int, line: bytes) -> None:
    """Writes the line at once. Where only a part went in, it comes again, since somebody else's may stand behind it."""
    written = os.write(fd, line)
    if written < len(line):
        again = b"\n" if written == len(line) - 1 else b"\n" + line
        if os.write(fd, again) < len(again):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A line of the journal; what it does not tell is empty. Times in seconds, costs in US dollars."""

    event: str
    """`iteration`, `wait`, `verify`, `tamper`, `run`."""
    run: str
    mode: str = ""
    number: int = 0
    """The iteration of the plan that it is or belongs to, 1 for the first; 0 before that."""
    at: float
    """When, since 1970; of an iteration, when it ended."""
    success: bool = False
    message: str = ""
    """Why it went wrong, or the agent's last words."""
    ended: str = ""
    """Of an iteration `ok`, `failed`, `hung`, `limit`, ..., `died` when ralph did; of a run its reason."""
    counted: bool = False
    """False when the iteration was due again, or when ralph died in it."""
    refused: bool = False
    """Its RALPH_DONE was taken back."""
    summary: str = ""
    """Its line on the screen."""
    took_s: float = 0.0
    waited_s: float = 0.0
    """Before it: for a usage limit, or for trouble outside to pass."""
    verified_s: float = 0.0
    until: float = 0.0
    """Of a wait, since 1970."""
    cost_usd: float | None = None
    at_least: bool = False
    tokens: Mapping[str, int] = field(default_factory=dict)
    """By kind: `input`, `output`, `cache_read`, `cache_write`."""
    context: float | None = None
    """The part of the model's context that was used."""
    model: str = ""
    done: int | None = None
    """Tasks that are ticked after it; None when nobody looked."""
    total: int | None = None
    ticked: int = 0
    """What it ticked; negative when it took ticks away."""
    new: int = 0
    commits: int = 0
    added: int = 0
    """Lines."""
    removed: int = 0
    """Lines."""
    base: str = ""
    """The commit before its first one."""
    head: str = ""
    """Its last one."""
    changed: int = 0
    """Files."""
    transcript: str = ""
    """The name of its file; empty when there is none."""
    pays: bool = False
    """Whether the agent is one that somebody pays for."""
    iterations: int = 0
    """Of a run."""

    @property
    def moved(self) -> bool:
        """Whether a task was ticked or added, or something in the repository changed, as far as is known."""
        return self.done is None or bool(self.ticked or self.new or self.commits or self.changed)


def read(path: Path) -> list[Record]:
    """Each whole record, the oldest first. Skipped: lines that are torn or nonsense. A missing file has none."""
    return records(objects(path))


def objects(path: Path) -> list[dict[str, Any]]:
    """The JSON objects in it, whatever they mean."""
    try:
        found = map(_object, path.read_bytes().split(b"\n"))
    except FileNotFoundError:
        return []
    return [one for one in found if isinstance(one, dict)]


def since(path: Path, start: int) -> tuple[list[Record], int]:
    """The whole records from that byte on, and where the next line begins."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(start)
        lines = file.read().split(b"\n")
        return records(map(_object, lines[:-1])), start + sum(len(line) + 1 for line in lines[:-1])
    return [], start


def _object(line: bytes) -> object:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(line.strip(b"\0 \t\r\n"))  # a power loss leaves NULs, also in front of the next record
    return None


def records(objects: Iterable[object]) -> list[Record]:
    """The records among these objects, their iterations numbered through, each with its verification.

    A claim is verified after the iteration that made it. One that did not count has the number of the next. An older
    ralph wrote down its number in its run.
    """
    found = [one for each in objects if (one := _checked(each))]
    latest: dict[str, Any] = {}
    of, counted = ("", 0), 0
    for one in found:
        key = one["run"], one["number"]
        if one["event"] == "verify" and of == key:
            latest["verified_s"] = latest.get("verified_s", 0.0) + one["took_s"]
            if not one["success"]:
                said = f"{latest['summary']} · done refused"
                latest.update(success=False, refused=True, message=one["message"], summary=said)
        elif one["event"] == "iteration":
            number = max(counted + 1, one["number"])
            if one.get("counted"):
                counted, of, latest = number, key, one
            said = one.get("summary") or f"#{number}" + f" · {one['message']}" * bool(one["message"])
            one |= {"number": number, "summary": re.sub(r"^#\d+", f"#{number}", said)}
    return [Record(**one) for one in found]


def tells_of(found: Iterable[Record], begun: Death) -> bool:
    """Whether a line says how that iteration ended; it may have died while its claim was checked."""
    return any((row.run, row.transcript) == (begun.run, begun.record.name) for row in rows(found))


def rows(found: Iterable[Record]) -> list[Record]:
    """The iterations among them."""
    return [record for record in found if record.event == "iteration"]


def count(state: State) -> int:
    """How many iterations of the plan counted, in all its runs: a note says it; without that, the journal."""
    if re.fullmatch("[0-9]{1,9}", noted := state.noted("iterations")):
        return int(noted)
    with contextlib.suppress(OSError):
        return max((row.number for row in rows(read(state.journal)) if row.counted), default=0)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a plan has come to over all its runs."""

    iterations: int = 0
    """Those that counted."""
    cost_usd: float | None = None
    cost_at_least: bool = False


def sums(found: Iterable[Record]) -> Sums:
    """The sums of these records."""
    its = rows(found)
    costs = [row.cost_usd for row in its if row.cost_usd is not None]
    return Sums(
        iterations=sum(row.counted for row in its),
        cost_usd=round(sum(costs), 6) if costs else None,
        cost_at_least=any(row.at_least for row in its),
    )


_PLACES = {
    "number": "iteration",
    "at": "timestamp",
    "took_s": "duration_s",
    "at_least": "cost_at_least",
    **{name: f"tasks.{name}" for name in ("done", "total", "ticked", "new")},
    **{name: f"commits.{name}" for name in ("added", "removed", "base", "head")},
    "commits": "commits.count",
}
"""Where a field of a record stands that is called otherwise there."""
_FIELDS = tuple(
    (one.name, _PLACES.get(one.name, one.name), get_args(one.type) or (one.type,)) for one in fields(Record)
)
"""With where it stands, and the types of what may stand there."""


def _checked(found: object) -> dict[str, Any] | None:
    """What it tells of a record; None when it is nonsense."""
    if not isinstance(found, dict):
        return None
    told = {"commits.count": found.get("commits"), **found}  # of a run it is a number
    for outer in ("tasks", "commits"):
        if isinstance(inner := found.get(outer), dict):
            told |= {f"{outer}.{name}": value for name, value in inner.items()}
    told["pays"] = found.get("agent") == "claude"
    try:
        record = {
            name: _value(name, told[place], kinds) for name, place, kinds in _FIELDS if told.get(place) is not None
        }
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    if not (record.get("event") and record.get("run") and "at" in record):
        return None
    record["transcript"] = Path(record.get("transcript", "")).name
    record["at_least"] = record.get("at_least", False) or record.get("ended") == "died"
    return {"number": 0, "success": False, "message": "", "took_s": 0.0, "summary": "", **record}


def _value(name: str, value: Any, kinds: Collection[type]) -> Any:
    """What stands there. Raises ValueError or TypeError where that is of another kind, or no sensible number."""
    if name in ("at", "until"):
        return datetime.fromisoformat(value).timestamp()
    if name == "tokens":
        return {of: _value(of, count, (int,)) for of, count in value.items()}
    if float in kinds and type(value) is int:
        value = float(value)
    if type(value) not in kinds or not (type(value) is str or abs(value) < _LARGEST):
        raise ValueError(name)
    return value


def stamp(at: float) -> str:
    """A time since 1970 as the journal has it."""
    return time.strftime(_STAMP, time.gmtime(at))


def line(  # noqa: PLR0913 - what all lines have
    event: str, *, run: str, mode: str, iteration: int, at: float, success: bool, message: str, **more: object
) -> dict[str, object]:
    """A line of the journal; `iteration` is its number in the plan, 0 before the first."""
    about = {"run": run, "mode": mode, "iteration": iteration, "success": success}
    return {"timestamp": stamp(at), "event": event, **about, "message": shortened(message, _MESSAGE), **more}


def of_iteration(iteration: Iteration, judged: Judgement) -> dict[str, Any]:
    """What its line says: `ended` how, `counted` is false for one that was due again, `message` why or what it did."""
    turn, after, before = iteration.turn, iteration.after, iteration.before
    bad = judged.failed or judged.refused or judged.again or (judged.ended and judged.ended.reason.code)
    return {
        "success": not bad and (judged.passed or not iteration.task),
        "message": judged.failed or "; ".join(judged.refused) or turn.why or said_of_work(turn.said),
        "requirement_id": iteration.task or None,
        "summary": shortened(summary(iteration, judged), _MESSAGE),
        "ended": turn.outcome.name.lower(),
        "counted": not judged.again,
        "refused": bool(judged.refused),
        "duration_s": round(turn.took_s, 3),
        "cost_usd": turn.cost_usd,
        "cost_at_least": turn.at_least,
        "tokens": None if turn.tokens is None else asdict(turn.tokens),
        "context": None if turn.context is None else round(turn.context, 4),
        "model": turn.model,
        "pays": turn.pays,
        "tasks": {
            "done": after.ticked,
            "total": len(after.tasks),
            "ticked": after.ticked - before.ticked,
            "new": len(after.tasks) - len(before.tasks),
        },
        "commits": asdict(iteration.commits),
        "changed": len(iteration.changed),
        "outside": len(iteration.outside),
        "tampered": [shortened(one, _MESSAGE) for one in iteration.tampered],
    }


def unfinished(begun: Death, message: str) -> Record:
    """An iteration that nobody has judged yet; it stands in no journal."""
    return Record(
        event="iteration",
        run=begun.run,
        mode=begun.mode,
        number=begun.iteration,
        at=begun.record.stat().st_mtime if begun.record.exists() else 0.0,
        message=message,
        summary=f"#{begun.iteration} · {message}",
        transcript=begun.record.name,
    )
