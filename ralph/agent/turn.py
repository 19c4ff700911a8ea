"""A turn: what came of running the agent once."""

from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """What a turn came to."""

    OK = "ok"
    FAILED = "failed"
    OUT_OF_TURNS = "out of turns"
    OUT_OF_BUDGET = "out of budget"
    OUT_OF_TIME = "out of time"
    """max-time was over; ralph ended it."""
    CONTEXT_FULL = "context full"
    HUNG = "hung"
    TIMED_OUT = "timed out"
    TOO_LONG = "said too much"
    LIMIT = "usage limit"
    """The account's; it ends by itself."""
    TROUBLE = "trouble outside"
    """Of the network or the server; it passes."""
    HOPELESS = "cannot mend itself"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What all models of a turn read and wrote, sub-agents included."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What came of running the agent once."""

    outcome: Outcome
    why: str = ""
    """What went wrong, for a person, with the remedy where there is one."""
    fix: str = ""
    """That remedy alone."""
    said: str = ""
    """The agent's last words."""
    cost_usd: float | None = None
    at_least: bool = False
    """The cost is a lower bound, because the record is not whole."""
    tokens: Tokens | None = None
    model: str = ""
    pays: str = ""
    """Where the API key comes from that pays; empty for a login, or when nobody said."""
    context: float | None = None
    """The part of the model's context window that was used in the end."""
    resets_at: int | None = None
    """When the usage limit ends, in seconds since 1970; None when that is unknown."""
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
    head: str = ""
    """The last one."""
    base: str = ""
    """The one before the first; empty when there was none."""
