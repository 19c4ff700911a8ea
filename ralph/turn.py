"""A turn: what came of running the agent once."""

from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """What a turn came to."""

    OK = "ok"
    FAILED = "failed"
    OUT_OF_TURNS = "out of turns"
    LIMIT = "usage limit"
    HOPELESS = "cannot mend itself"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What came of running the agent once."""

    outcome: Outcome
    why: str = ""
    """What went wrong, for a person, with the remedy where there is one."""
    cost_usd: float | None = None
    at_least: bool = False
    """The cost is a lower bound, because the record is not whole."""
    left_over: tuple[str, ...] = ()
    took_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """What was committed meanwhile."""

    count: int = 0
    added: int = 0
    """Lines."""
    removed: int = 0
    """Lines."""
