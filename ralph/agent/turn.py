"""A turn: what came of running the agent once, and what an error in its own words means.

An error is the account's limit, a matter for a person, or trouble that passes. That is looked for only in text that is
known to be the agent's own error. Still each pattern is anchored, because a model may talk about such messages. The
patterns are strings: the first error compiles them, and an iteration without one never pays.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


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


_JOINT = r" ?[·∙•|\u2013\u2014-] ?"
_END = rf"(?=\.|{_JOINT}| *$)"
_MOMENT = r"(?:[A-Z][a-z]+ \d+(?:, \d{4})?(?:,| at) )?\d+(?::\d+)? ?[ap]m(?: \([^()]+\))?"
_LIMIT = (
    r"(?:You've (?:hit|reached) your (?:[\w.'-]+ ){0,4}limit"
    r"|You're out of (?:extra usage|usage credits)"
    r"|(?:Claude (?:AI |Code )?usage|usage|\d+-hour|session|daily|weekly|(?:Opus|Sonnet|Haiku|Fable)(?: [\d.]+)?)"
    r"(?: weekly)? limit reached)"
    rf"(?:(?:{_JOINT}resets|\. Your limit will reset)(?: at)? {_MOMENT}|\|\d{{9,11}})?"
    rf"(?:(?:\. |{_JOINT})(?:run )?/[a-z-]+ .{{1,120}})?\.?$"
)
_PERSON = (
    r"(?:API Error: )?(?:\d{3} )?"
    r"(?:Credit balance (?:is )?too low"
    r"|You've hit your (?:org's )?monthly spend limit"
    rf"|You've hit your org's monthly usage limit(?!{_JOINT}resets)"
    rf"|You've hit your (?:[\w']+ ){{0,4}}limit{_JOINT}(?:contact|ask) your admin[^.]*"
    r"|You're out of usage credits(?=\.)"  # goes on with "/model to switch models": this one is for credits only
    r"|You have reached your specified [\w -]*usage limits"
    r"|Your org(?:anization)? is out of usage(?: credits)?"
    r"|Your organization's usage credit cap is reached.*"
    r"|Your usage allocation has been disabled(?: by your admin)?"
    r"|Your group's usage limit is set to \$0"
    r"|Your seat type doesn't include (?:extra )?usage(?: credits)?"
    r"|This service is disabled for your org"
    r"|(?:Usage credits(?: are)?|Extra usage is) required for (?:1M|long) context(?: requests)?"
    rf"|[\w.]+(?: [\d.]+)? requires usage credits){_END}"
)
_PASSING = (
    r"(?:API Error: (?:Unable to connect(?! to API: )"  # what follows that colon is a certificate, which does not pass
    r"|Connection to the API was lost|The socket connection was closed|Repeated 529 Overloaded"
    r"|Server is temporarily limiting requests)"
    r"|API Error:? \(?(?:408|5\d\d)\b"
    rf"|API Error: (?:Overloaded|Connection error|Request timed out|The operation timed out){_END}"
    r"|(?:Error: )?Request timed out\.?$"
    r"|\w+ is experiencing high load, please use /model to switch to \w+\.?$"
    r"|(?:API |Type)?Error: (?:No messages returned(?: from query)?|fetch failed|socket hang up"
    r"|(?:request to \S+ failed, reason: )?(?:getaddrinfo |connect |read |write )?"
    r"(?:E(?:NOTFOUND|AI_AGAIN|TIMEDOUT|PIPE)|ECONN(?:RESET|REFUSED|ABORTED)|E(?:NET|HOST)(?:UNREACH|DOWN))"
    rf"(?: \(?[\w.:\[\]-]+\)?)?){_END})"
)
_HOPELESS: tuple[tuple[tuple[str, ...], tuple[int, ...], str], ...] = (
    (("authentication_failed", "oauth_org_not_allowed"), (401, 403), "log in by starting claude once, or mend the key"),
    (("billing_error",), (402,), "add credit, or log in with another account"),
    (("model_not_found",), (404,), "choose another --model"),
)
"""Errors that no waiting mends, by the `error` of the agent's last message and by HTTP status."""
REFUSALS = (
    (r"cannot be used with root", "run as an ordinary user, or in a container set IS_SANDBOX=1"),
    (r"cannot be launched inside another Claude Code session", "unset CLAUDECODE"),
    (r"error: unknown option|Invalid MCP configuration|Settings file not found", "see the arguments after --"),
    (r"is not valid JSON|Session ID .* already in use|No conversation found", "see the arguments after --"),
)
"""What the real agent writes to standard error when it refuses to start at all, and what is to be done."""


class Meaning(NamedTuple):
    """What came of a turn, why, and what a person can do about it."""

    outcome: Outcome
    why: str = ""
    fix: str = ""


def meaning(said: str, kind: str = "", status: object = None) -> Meaning | None:
    """What an error means; None when it is nothing known, and a failure of the iteration.

    `kind` and the HTTP `status` are those that the agent's stream names beside the words, where there is one.
    """
    for kinds, codes, remedy in _HOPELESS:
        if kind in kinds or status in codes:
            return Meaning(Outcome.HOPELESS, said, remedy)
    text = said.strip().translate({0x2019: "'", 0xA0: " ", 0x202F: " "})
    if _matches(_PERSON, text):
        return Meaning(Outcome.HOPELESS, said, "no waiting mends this: add credit, or ask who pays")
    if _matches(_PASSING, text):
        return Meaning(Outcome.TROUBLE, said)
    if status == 429 or kind == "rate_limit" or (len(text.splitlines()) == 1 and _matches(_LIMIT, text)):
        return Meaning(Outcome.LIMIT, said)
    if kind in ("server_error", "overloaded") or (isinstance(status, int) and status >= 500):
        return Meaning(Outcome.TROUBLE, said)
    return None


def _matches(pattern: str, text: str) -> bool:
    return re.match(f"(?im){pattern}", text) is not None
