"""A turn: what came of running the agent once, and what an error of its own means.

An error is the account's limit, a matter for a person, or trouble that passes. That is looked for only in text that is
known to be the agent's own error. The patterns are strings: the first error compiles them, and an iteration without one
never pays.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple


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


@dataclass(slots=True, kw_only=True, eq=False)
class Turn:
    """What came of running the agent once; filled while it runs."""

    outcome: Outcome = Outcome.OK
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
    others: bool = False
    """Another agent is not at its limit, and can work meanwhile."""
    proposal: Mapping[str, Any] = field(default_factory=dict)
    """Its last call of a tool of `ralph mcp` that says what came of a task, as the stream tells it."""
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


_SIGNAL = re.compile(r"<task-(?:done|blocked)\b.*?(?:</task-(?:done|blocked)>|$)", re.DOTALL)


def said_of_work(said: str) -> str:
    """What the agent said, without its signal."""
    return re.sub(r"[^\S\n]+", " ", _SIGNAL.sub("", said)).strip()


class Meaning(NamedTuple):
    """What came of a turn, why, and what a person can do about it."""

    outcome: Outcome
    why: str = ""
    fix: str = ""


class Rule(NamedTuple):
    """What an error of an agent means; it fits where one of its patterns does, from the beginning on."""

    means: Outcome
    fix: str = ""
    kind: str = ""
    """What its stream calls the error."""
    status: str = ""
    """Of HTTP, as its stream names it."""
    exit: str = ""
    """Its exit code."""
    says: str = ""
    """Its words."""
    stderr: str = ""
    """The few lines that it complains when it does not start at all."""


def meaning(  # noqa: PLR0913 - all that an agent may tell of an error
    rules: Sequence[Rule], said: str, kind: str = "", status: object = None, *, code: int = 0, stderr: str = ""
) -> Meaning | None:
    """What an error means by the first rule that fits; None when none does, and it is a failure of the iteration."""
    text = said.strip().translate({0x2019: "'", 0xA0: " ", 0x202F: " "})
    told = (kind, str(status or ""), str(code), text, stderr)
    for rule in rules:
        if any(pattern and re.match(f"(?im){pattern}", of) for pattern, of in zip(rule[2:], told, strict=True)):
            return Meaning(rule.means, said, rule.fix)
    return None
