"""The append-only record of what happened: one JSON object a line. For people and reports; the loop never reads it."""

import contextlib
import errno
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ralph.judge import Iteration, Judgement, Verification, Wait, summary
from ralph.message import said_of_work
from ralph.progress import Progress
from ralph.state import Death, State
from ralph.verdict import Reason, Stop, Tally

if TYPE_CHECKING:
    from ralph.process import Files

T = TypeVar("T")
_STAMP = "%Y-%m-%dT%H:%M:%SZ"
_LARGEST = 1e15
"""A number beyond that, or JSON's NaN, is nonsense."""
_MESSAGE = 500
_UNDONE = 20_000


class Journal:
    """A journal, to which several processes may add at once; `own`, one of ralph's own, which is never a link."""

    def __init__(self, path: Path, *, mode: int = 0o600, own: bool = True) -> None:
        self._path, self._mode, self._own = path, mode, own

    def append(self, record: Mapping[str, object]) -> None:
        """Returns when the record is on disk, as one line. Raises OSError when it cannot be; what was there stays."""
        text = json.dumps(dict(record), ensure_ascii=False)
        line = text.encode(errors="replace") + b"\n"  # a Python string can hold halves of characters, UTF-8 cannot
        for path in (self._path.parent, self._path) if self._own else ():
            if path.is_symlink():
                path.unlink()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, self._mode)
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
    mode: str
    number: int
    """The iteration of the plan that it is or belongs to, 1 for the first; 0 before that."""
    at: float
    """When, since 1970; of an iteration, when it ended."""
    success: bool
    message: str
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
    """The records among these objects, their iterations numbered through, each with its verifications.

    A claim is verified after the iteration that made it, or was before its line was written. One that did not count has
    the number of the next. An older ralph wrote down its number in its run.
    """
    earlier_s: dict[tuple[str, int], float] = defaultdict(float)
    latest: tuple[tuple[str, int], dict[str, Any]] | None = None
    found = [one for each in objects if (one := _checked(each))]
    counted = 0
    for one in found:
        key = one["run"], one["number"]
        if one["event"] == "verify" and latest and latest[0] == key:
            latest[1]["verified_s"] += one["took_s"]
            if not one["success"]:
                said = f"{latest[1]['summary']} · done refused"
                latest[1].update(success=False, refused=True, message=one["message"], summary=said)
        elif one["event"] == "verify":
            earlier_s[key] += one["took_s"]
        elif one["event"] == "iteration":
            number = max(counted + 1, one["number"])
            if one["counted"]:
                counted, one["verified_s"], latest = number, earlier_s.pop(key, 0.0), (key, one)
            said = one["summary"] or f"#{number}" + f" · {one['message']}" * bool(one["message"])
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


def _checked(found: object) -> dict[str, Any] | None:
    """The fields of the record that it is; None when it is nonsense."""
    if not isinstance(found, dict):
        return None
    try:
        if isinstance(found.get("commits"), int):  # of a run
            found = {**found, "commits": {"count": found["commits"]}}
        tasks, commits, tokens = (_get(found, name, dict[str, Any]()) for name in ("tasks", "commits", "tokens"))
        return {
            "event": _get(found, "event", "", needed=True),
            "run": _get(found, "run", "", needed=True),
            "mode": _get(found, "mode", ""),
            "number": _get(found, "iteration", 0),
            "at": _time(found, "timestamp"),
            "success": _get(found, "success", False),
            "message": _get(found, "message", ""),
            "ended": _get(found, "ended", ""),
            "counted": _get(found, "counted", False),
            "refused": _get(found, "refused", False),
            "summary": _get(found, "summary", ""),
            "took_s": _get(found, "duration_s", 0.0),
            "waited_s": _get(found, "waited_s", 0.0),
            "until": _time(found, "until") if "until" in found else 0.0,
            "cost_usd": None if found.get("cost_usd") is None else _get(found, "cost_usd", 0.0),
            "at_least": _get(found, "cost_at_least", False) or found.get("ended") == "died",
            "tokens": {kind: _get(tokens, kind, 0) for kind in tokens},
            "context": None if found.get("context") is None else _get(found, "context", 0.0),
            "model": _get(found, "model", ""),
            "done": _get(tasks, "done", 0) if tasks else None,
            "total": _get(tasks, "total", 0) if tasks else None,
            "ticked": _get(tasks, "ticked", 0),
            "new": _get(tasks, "new", 0),
            "commits": _get(commits, "count", 0),
            "added": _get(commits, "added", 0),
            "removed": _get(commits, "removed", 0),
            "base": _get(commits, "base", ""),
            "head": _get(commits, "head", ""),
            "changed": _get(found, "changed", 0),
            "transcript": Path(_get(found, "transcript", "")).name,
            "pays": found.get("agent") == "claude",
            "iterations": _get(found, "iterations", 0),
        }
    except (ValueError, OverflowError):
        return None


def _get(found: Mapping[str, object], name: str, default: T, *, needed: bool = False) -> T:
    """What stands there if it is of the default's type. Raises ValueError when it is of another, or needed and gone."""
    value = found.get(name)
    if value is None and not needed:
        return default
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if (
        type(value) is not type(default)
        or (needed and not value)
        or (isinstance(value, int | float) and not abs(value) < _LARGEST)
    ):
        raise ValueError(name)
    return value


def _time(found: Mapping[str, object], name: str) -> float:
    return datetime.fromisoformat(_get(found, name, "", needed=True)).timestamp()


Line = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What all lines have in common."""

    run: str
    mode: str
    iteration: int
    """Its number in the plan, 0 before the first."""
    now: float
    """Seconds since 1970."""
    agent: str = ""
    """The name of its program."""

    def line(self, event: str, *, success: bool, message: str, **more: object) -> Line:
        """A line of the journal; times in seconds, costs in US dollars."""
        about = {"run": self.run, "mode": self.mode, "iteration": self.iteration, "success": success}
        return {"timestamp": _stamp(self.now), "event": event, **about, "message": message[:_MESSAGE], **more}


def _stamp(at: float) -> str:
    return time.strftime(_STAMP, time.gmtime(at))


def of_iteration(
    by: Identity, iteration: Iteration, judged: Judgement, *, waited_s: float, files: "Files | None"
) -> Line:
    """An iteration: `ended` says how, `counted` is false for one that was due again, and `message` says why or what.

    `waited_s` is how long the run waited since the iteration before.
    """
    turn, after = iteration.turn, iteration.after
    ended_badly = judged.ended is not None and judged.ended.reason.code != 0
    good = not (judged.failed or judged.refused or judged.again or ended_badly) and (
        judged.passed or not iteration.task
    )
    return by.line(
        "iteration",
        success=good,
        message=judged.failed or "; ".join(judged.refused) or turn.why or said_of_work(turn.said),
        requirement_id=iteration.task or None,
        summary=summary(iteration, judged)[:_MESSAGE],
        ended=turn.outcome.name.lower(),
        counted=not judged.again,
        refused=bool(judged.refused),
        duration_s=round(turn.took_s, 3),
        waited_s=round(waited_s, 3),
        cost_usd=turn.cost_usd,
        cost_at_least=turn.at_least,
        tokens=None if turn.tokens is None else asdict(turn.tokens),
        context=None if turn.context is None else round(turn.context, 4),
        agent=by.agent,
        model=turn.model,
        pays=turn.pays,
        tasks={
            "done": after.ticked,
            "total": len(after.tasks),
            "ticked": after.ticked - iteration.before.ticked,
            "new": len(after.tasks) - len(iteration.before.tasks),
        },
        commits=asdict(iteration.commits),
        changed=len(iteration.changed),
        outside=len(iteration.outside),
        tampered=[one[:_MESSAGE] for one in iteration.tampered],
        transcript=files.output.name if files else "",
    )


def of_tampering(by: Identity, what: Sequence[str], diff: str, kept: Path) -> Line:
    """What an iteration did to what is ralph's, all of it undone; `undone` is how that differed."""
    return by.line("tamper", success=False, message="; ".join(what), undone=diff[:_UNDONE], kept=kept.name)


def of_try(record: Line) -> Line:
    """The line for a person's own history file, in the form that ralph1 has, of an iteration's record."""
    return {name: record[name] for name in ("timestamp", "requirement_id", "success", "message")}


def of_death(by: Identity, transcript: str) -> Line:
    """An iteration in which ralph or the machine died; nothing else is known of it."""
    return by.line(
        "iteration", success=False, message="ralph was killed", ended="died", counted=False, transcript=transcript
    )


def unfinished(begun: Death, message: str) -> Record:
    """An iteration that nobody has judged yet; it stands in no journal."""
    number, name = begun.iteration, begun.record.name
    return Record(
        event="iteration",
        run=begun.run,
        mode=begun.mode,
        number=number,
        at=begun.record.stat().st_mtime if begun.record.exists() else 0.0,
        success=False,
        message=message,
        summary=f"#{number} · {message}",
        transcript=name,
    )


def of_wait(by: Identity, wait: Wait) -> Line:
    """A wait that begins."""
    why = wait.turn.outcome.name.lower()
    return by.line(
        "wait", success=True, message=wait.turn.why, why=why, until=_stamp(wait.until), planned_s=wait.seconds
    )


def of_verification(by: Identity, command: str, verified: Verification, record: str) -> Line:
    """A run of the verify command; `record` is the name of the file that has its output."""
    took_s = round(verified.took_s, 3)
    good = not verified.failed
    return by.line(
        "verify",
        success=good,
        message=verified.failed,
        command=command,
        duration_s=took_s,
        output=record,
    )


def of_failed_start(by: Identity, why: str) -> Line:
    """A run that came to no iteration, because something that it needs is missing."""
    return by.line("run", success=False, message=why, ended=Reason.HOPELESS.name.lower(), iterations=0)


def of_run(by: Identity, tally: Tally, took_s: float, stop: Stop, now: Progress) -> Line:
    """A run that is over, with its sums."""
    return by.line(
        "run",
        success=stop.reason.code == 0,
        message=stop.why,
        ended=stop.reason.name.lower(),
        iterations=tally.iterations,
        duration_s=round(took_s, 3),
        waits=tally.waits,
        waited_s=round(tally.waited_s, 3),
        cost_usd=tally.cost_usd,
        cost_at_least=tally.at_least,
        tasks={"done": now.ticked, "total": len(now.tasks)},
        commits=tally.commits,
    )
