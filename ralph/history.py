"""The journal, read: what happened, an iteration a row. Whatever stands in a journal, reading it ends well."""

import calendar
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralph import journal

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a plan has come to over all its runs."""

    iterations: int = 0
    """Those that counted."""
    cost_usd: float | None = None
    cost_at_least: bool = False


def added(sums: Sums, record: Record) -> Sums:
    """The sums after one more record."""
    if record.get("event") != "iteration":
        return sums
    costs = [cost for cost in (sums.cost_usd, _cost_usd(record)) if cost is not None]
    return Sums(
        iterations=sums.iterations + (record.get("counted") is True),
        cost_usd=round(sum(costs), 6) if costs else None,
        cost_at_least=sums.cost_at_least or bool(record.get("cost_at_least")) or record.get("ended") == "died",
    )


def sums(path: Path) -> Sums:
    """The sums of the journal there. They stand in nearly every line, so that the last few are enough."""
    since: list[Record] = []
    known = Sums()
    for record in journal.backwards(path):
        if said := _inner(record, "sums"):
            known = _sums(said)
            break
        since.append(record)
    for missing in reversed(since):
        known = added(known, missing)
    return known


def _sums(said: Record) -> Sums:
    cost = _cost_usd(said)
    return Sums(
        iterations=int(number(said, "iterations")), cost_usd=cost, cost_at_least=bool(said.get("cost_at_least"))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An iteration as the journal tells it. Times in seconds, costs in US dollars."""

    number: int
    """Its place in the journal, from 1."""
    run: str
    mode: str
    iteration: int
    """Its number in its run."""
    at: float
    """When it ended, since 1970."""
    success: bool
    counted: bool
    """False when it was due again, or when ralph died in it."""
    ended: str
    """`ok`, `failed`, `hung`, `limit`, ...; `died` when ralph did."""
    refused: bool
    """Its RALPH_DONE was taken back."""
    message: str
    """Why it went wrong, or the agent's last words."""
    summary: str
    """Its line on the screen."""
    took_s: float
    waited_s: float
    """Before it: for a usage limit, or for trouble outside to pass."""
    verified_s: float
    cost_usd: float | None
    at_least: bool
    tokens: Mapping[str, int]
    """By kind: `input`, `output`, `cache_read`, `cache_write`."""
    context: float | None
    """The part of the model's context that was used."""
    model: str
    done: int | None
    """Tasks that are ticked after it; None when nobody looked."""
    total: int | None
    ticked: int
    """What it ticked; negative when it took ticks away."""
    new: int
    commits: int
    added: int
    """Lines."""
    removed: int
    """Lines."""
    base: str
    """The commit before its first one."""
    head: str
    """Its last one."""
    transcript: str
    """The name of its file; empty when there is none."""
    pays: bool
    """Whether the agent is one that somebody pays for."""


def rows(records: Iterable[Record]) -> Iterator[Row]:
    """The iterations among the records, in their order, each with the verifications that belong to it."""
    count, verified_s, of = 0, 0.0, ""
    for record in records:
        run = text(record, "run")
        if record.get("event") == "verify":
            verified_s = number(record, "duration_s") + (verified_s if run == of else 0.0)
            of = run
        elif record.get("event") == "iteration":
            count += 1
            yield row(record, count, verified_s if run == of else 0.0)
            verified_s = 0.0


def row(record: Record, count: int = 0, verified_s: float = 0.0) -> Row:
    """The row of one iteration; the first that is counted has the number 1."""
    tasks, commits = _inner(record, "tasks"), _inner(record, "commits")
    said = text(record, "message")
    iteration = int(number(record, "iteration"))
    return Row(
        number=count,
        run=text(record, "run"),
        mode=text(record, "mode"),
        iteration=iteration,
        at=stamp(record),
        success=record.get("success") is True,
        counted=record.get("counted") is True,
        ended=text(record, "ended"),
        refused=record.get("refused") is True,
        message=said,
        summary=text(record, "summary") or f"#{iteration}" + f" · {said}" * bool(said),
        took_s=number(record, "duration_s"),
        waited_s=number(record, "waited_s"),
        verified_s=verified_s,
        cost_usd=_cost_usd(record),
        at_least=bool(record.get("cost_at_least")),
        tokens={name: int(number(inner, name)) for name in inner} if (inner := _inner(record, "tokens")) else {},
        context=number(record, "context") if record.get("context") is not None else None,
        model=text(record, "model"),
        done=int(number(tasks, "done")) if tasks else None,
        total=int(number(tasks, "total")) if tasks else None,
        ticked=int(number(tasks, "ticked")),
        new=int(number(tasks, "new")),
        commits=int(number(commits, "count")),
        added=int(number(commits, "added")),
        removed=int(number(commits, "removed")),
        base=text(commits, "base"),
        head=text(commits, "head"),
        transcript=Path(text(record, "transcript")).name,
        pays=text(record, "agent") == "claude",
    )


def stamp(record: Record, name: str = "timestamp") -> float:
    """The time that stands there, in seconds since 1970; 0 when none does."""
    try:
        return calendar.timegm(time.strptime(text(record, name), "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        return 0.0


def text(record: Record, name: str) -> str:
    """The text that stands there, or nothing."""
    found = record.get(name)
    return found if isinstance(found, str) else ""


def number(record: Record, name: str) -> float:
    """The number that stands there, or 0; JSON's NaN is none."""
    found = record.get(name)
    if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < _LARGEST:
        return float(found)
    return 0.0


_LARGEST = 1e15


def _cost_usd(record: Record) -> float | None:
    return None if record.get("cost_usd") is None else number(record, "cost_usd")


def _inner(record: Record, name: str) -> Record:
    found = record.get(name)
    return found if isinstance(found, dict) else {}
