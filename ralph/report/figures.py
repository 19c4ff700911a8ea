"""What a report counts: sums over all, groups of iterations for the bars, and runs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ralph.agent.turn import Outcome
from ralph.journal import Record
from ralph.report.scale import whole_step
from ralph.standing import reason_of

_MOST_BARS = 400
_MOST_GROUPS = 250
_TELLING = ("iteration", "run")
"""Records without which there was no run."""
KINDS = {"input": "Input", "output": "Output", "cache_read": "Cache read", "cache_write": "Cache write"}
"""Of tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Iterations that share a bar, by their places in the journal."""

    first: int
    last: int
    rows: Sequence[Record]

    @property
    def name(self) -> str:
        """`#7`, `#51 to 100`."""
        return f"#{self.first}" if self.first == self.last else f"#{self.first} to {self.last}"


def groups(rows: Sequence[Record]) -> list[Group]:
    """A bar for each iteration; from 400 on for each of equal groups, but for what is left at the end."""
    size = 1 if len(rows) <= _MOST_BARS else int(whole_step(len(rows) / _MOST_GROUPS))
    parts = (rows[at : at + size] for at in range(0, len(rows), size))
    return [Group(first=part[0].number, last=part[-1].number, rows=part) for part in parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What all iterations came to. Times in seconds."""

    agent_s: float
    waiting_s: float
    verifying_s: float
    commits: int
    added: int
    removed: int
    tokens: Mapping[str, int]
    began: float
    """When, since 1970; 0 when nobody knows."""
    ended: float

    @property
    def all_s(self) -> float:
        """The time of all kinds."""
        return self.agent_s + self.waiting_s + self.verifying_s


def totals(rows: Sequence[Record], records: Sequence[Record] = ()) -> Totals:
    """The sums of these iterations, with what the records tell of waits and verifications that none followed."""
    waited = {record.run: record.waited_s for record in records if record.event == "run"}
    verified_s = [record.took_s for record in records if record.event == "verify"]
    return Totals(
        agent_s=sum(row.took_s for row in rows),
        waiting_s=max(
            sum(row.waited_s for row in rows),
            sum(row.waited_s for row in rows if row.run not in waited) + sum(waited.values()),
        ),
        verifying_s=sum(verified_s) if verified_s else sum(row.verified_s for row in rows),
        commits=sum(row.commits for row in rows),
        added=sum(row.added for row in rows),
        removed=sum(row.removed for row in rows),
        tokens={kind: sum(row.tokens.get(kind, 0) for row in rows) for kind in KINDS},
        began=min((row.at - row.took_s for row in rows if row.at), default=0.0),
        ended=max((row.at for row in rows), default=0.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The tasks that are left, and how many there are."""

    left: int
    total: int


def burn_down(rows: Sequence[Record], parts: Sequence[Group]) -> tuple[Left, list[Left]] | None:
    """Before the first iteration that looked, and after each group; None when none did."""
    looked = next((row for row in rows if row.done is not None and row.total is not None), None)
    if looked is None:
        return None
    total = (looked.total or 0) - looked.new
    now = before = Left(left=max(0, total - (looked.done or 0) + looked.ticked), total=max(0, total))
    after = []
    for part in parts:
        for row in part.rows:
            if row.done is not None and row.total is not None:
                now = Left(left=max(0, row.total - row.done), total=max(0, row.total))
        after.append(now)
    return before, after


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run: its iterations, and how it ended."""

    mode: str
    rows: Sequence[Record]
    ended: str
    """Empty when the journal does not say: it goes on, or ralph was killed."""
    why: str
    at: float
    """When it ended, or when its last iteration did; since 1970, 0 when nobody knows."""

    @property
    def totals(self) -> Totals:
        """The sums of its iterations."""
        return totals(self.rows)


def runs(records: Sequence[Record], rows: Sequence[Record]) -> list[Run]:
    """The runs in the order in which they began; also one that came to no iteration."""
    of: dict[str, list[Record]] = {record.run: [] for record in records if record.event in _TELLING}
    ends = {record.run: record for record in records if record.event == "run"}
    for row in rows:
        of[row.run].append(row)
    return [_run(ends.get(name), its) for name, its in of.items()]


def _run(end: Record | None, rows: Sequence[Record]) -> Run:
    reason = reason_of(end) if end else None
    last = end or rows[-1]
    return Run(
        mode=rows[0].mode if rows else last.mode,
        rows=rows,
        ended=reason.label if reason else end.ended if end else "",
        why=end.message if end else "",
        at=last.at,
    )


def verdict(row: Record) -> str:
    """The word for how an iteration ended."""
    if row.ended == "ok" and not row.success:
        return "done refused" if row.refused else "failed"
    outcome = Outcome.__members__.get(row.ended.upper())
    return outcome.value if outcome else row.ended or "unknown"


def colour(row: Record) -> str:
    """`good`, `again` when it did not count, `bad`."""
    return "good" if row.success else "bad" if row.counted else "again"
