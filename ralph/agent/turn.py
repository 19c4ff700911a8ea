"""A turn: the result of running the agent once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Outcome(Enum):
    """How a turn ended."""

    OK = "ok"
    FAILED = "failed"
    OUT_OF_TURNS = "out of turns"
    OUT_OF_BUDGET = "out of budget"
    OUT_OF_TIME = "out of time"
    """max-time was over, so ralph ended the turn."""
    CONTEXT_FULL = "context full"
    HUNG = "hung"
    TIMED_OUT = "timed out"
    TOO_LONG = "said too much"
    LIMIT = "usage limit"
    """The account's usage limit, which ends by itself."""
    TROUBLE = "trouble outside"
    """Network or server trouble, which passes."""
    HOPELESS = "cannot recover"
    INTERRUPTED = "interrupted"


@dataclass(kw_only=True)
class Turn:
    """The result of running the agent once; filled while it runs."""

    outcome: Outcome = Outcome.OK
    why: str = ""
    """What went wrong, for the user, with the remedy if one is known."""
    final_words: str = ""
    """The agent's last words."""
    handover: str = ""
    """What the agent leaves for the next one if it was cut short: what it was doing, had changed, and said last."""
    cost_usd: float | None = None
    at_least: bool = False
    """The cost is a lower bound, because the record is incomplete."""
    tokens: dict[str, int] | None = None
    """Tokens that all models read and wrote, sub-agents included: `input`, `output`, `cache_read`, `cache_write`."""
    model: str = ""
    context: float = 0.0
    """The part of the model's context window that was used at the end; 0 if unknown."""
    resets_at: int = 0
    """When the usage limit ends, in seconds since 1970; 0 if unknown."""
    another_is_free: bool = False
    """Whether another agent is not at its limit, and can work meanwhile."""
    proposal: Mapping[str, Any] | None = None
    """The agent's last successful call of a `ralph mcp` tool that reports how a task ended, as in the stream."""
    took_s: float = 0.0


@dataclass(frozen=True)
class Commits:
    """What was committed during an iteration."""

    count: int = 0
    added: int = 0
    """Lines added."""
    removed: int = 0
    """Lines removed."""
    head: str = ""
    """The last commit."""
    base: str = ""
    """The commit before the first new one; empty if there was none."""
    files: Sequence[str] = ()
    """The files in which `base` and `head` differ."""


_SIGNAL = re.compile(
    r"<task-(?:done|blocked|reject)\b.*?(?:</task-\w+\s*>|$)|<mode\s+session\b[^<]*</mode\s*>", re.DOTALL
)
_TOKEN = re.compile(r"\bralph-\d{8}-\d{6}-[0-9a-f]{12}\b")


def without_signals(message: str) -> str:
    """Returns what the agent said without its signals, and with SESSION in place of run tokens."""
    return re.sub(r"[^\S\n]+", " ", _TOKEN.sub("SESSION", _SIGNAL.sub("", message))).strip()
