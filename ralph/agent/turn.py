"""A turn: the result of running the agent once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


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
    HOPELESS = "cannot recover"
    INTERRUPTED = "interrupted"


@dataclass(kw_only=True, eq=False)
class Turn:
    """The result of running the agent once; filled while it runs."""

    outcome: Outcome = Outcome.OK
    why: str = ""
    """What went wrong, for the user, with the remedy if one is known."""
    final_words: str = ""
    """The agent's last words."""
    handover: str = ""
    """What it leaves for the next one, where it was cut short: where it was, what it had changed, what it said."""
    cost_usd: float | None = None
    at_least: bool = False
    """The cost is a lower bound, because the record is not whole."""
    tokens: dict[str, int] | None = None
    """What all models read and wrote, sub-agents included: `input`, `output`, `cache_read`, `cache_write`."""
    model: str = ""
    pays: str = ""
    """Where the API key comes from that pays; empty for a login, or when nobody said."""
    context: float | None = None
    """The part of the model's context window that was used in the end."""
    resets_at: int | None = None
    """When the usage limit ends, in seconds since 1970; None when that is unknown."""
    others: bool = False
    """Another agent is not at its limit, and can work meanwhile."""
    proposal: Mapping[str, Any] | None = None
    """Its last call of a tool of `ralph mcp` that says how a task ended, as the stream tells it."""
    left_over: tuple[str, ...] = ()
    took_s: float = 0.0


@dataclass(frozen=True)
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


_SIGNAL = re.compile(
    r"<task-(?:done|blocked|reject)\b.*?(?:</task-\w+\s*>|$)|<mode\s+session\b[^<]*</mode\s*>", re.DOTALL
)
_TOKEN = re.compile(r"\bralph-\d{8}-\d{6}-[0-9a-f]{12}\b")


def without_signals(message: str) -> str:
    """What the agent said, without its signals and the token that is in them."""
    return re.sub(r"[^\S\n]+", " ", _TOKEN.sub("SESSION", _SIGNAL.sub("", message))).strip()
