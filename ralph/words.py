"""Formats figures, names and foreign text for people."""

import re
import time
from collections.abc import Sequence

REASON_LENGTH = 200
"""The most characters of a reason within a longer line."""
_COLOR_CODES = re.compile("\r|\x1b\\[[\\d;:]*[mK]")
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def without_control_codes(text: str) -> str:
    """The text without color codes; a visible sign replaces what could control a terminal or cannot be encoded."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", _COLOR_CODES.sub("", text))


def format_duration(seconds: float) -> str:
    """`2s`, `6m12s`, `1h02m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def timestamp() -> str:
    """The current time, as ralph writes it into files for people."""
    return time.strftime("%Y-%m-%d %H:%M:%S")


def format_moment(at: float, now: float) -> str:
    """`03:10`, with the date if it is not within a day of now."""
    return time.strftime("%H:%M" if abs(at - now) < 86_400 else "%Y-%m-%d %H:%M", time.localtime(at))


def format_age(at: float, now: float) -> str:
    """`12s ago`, `5h02m ago`; the date if it is more than a day ago."""
    return f"{format_duration(max(0.0, now - at))} ago" if now - at < 86_400 else format_moment(at, now)


def plural(number: int, what: str) -> str:
    """`1 commit`, `2 commits`."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def usd_or_empty(cost: float | None, *, at_least: bool = False) -> str:
    """`$0.41`, `≥ $0.41` for a lower bound; empty for None."""
    return "" if cost is None else f"{'≥ ' if at_least else ''}${cost:.2f}"


def shorten(text: str, most: int, *, end: bool = False) -> str:
    """At most that many characters from the beginning, or from the end; `…` marks what is missing."""
    if len(text) <= most:
        return text
    return "…" + text[1 - most :] if end else text[: most - 1] + "…"


def one_line(text: str, most: int) -> str:
    """The text on one line of at most that many characters: its first line, and as many of its last lines as fit."""
    first, *more = [" ".join(line.split()) for line in text.split("\n") if line.strip()] or [""]
    parts = [first, *more]
    while more and len(" / ".join(parts)) > most:
        parts = [shorten(first, most // 2), "…", *more]
        del more[0]
    return shorten(" / ".join(parts), most)


def join_names(names: Sequence[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
