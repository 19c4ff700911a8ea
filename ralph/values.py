"""What a setting's text means. Each of these raises ValueError with what is allowed."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def unless(word: str, read: Callable[[str], T]) -> Callable[[str], T | None]:
    """The same, where this word means None: no limit."""

    def parse(text: str) -> T | None:
        try:
            return None if text.lower() == word else read(text)
        except ValueError as error:
            raise ValueError(f"{error}, or {word}") from None

    return parse


def matching(form: str, meaning: Callable[[re.Match[str]], T], allowed: str) -> Callable[[str], T]:
    """What a text of this form means; one that means nothing, not even zero, is refused too."""

    def parse(text: str) -> T:
        found = re.fullmatch(form, text, re.ASCII)
        if not text or found is None or (value := meaning(found)) is None:
            raise ValueError(allowed)
        return value

    return parse


def _seconds(found: re.Match[str]) -> float:
    hours, minutes, seconds, bare = found.groups(default="0")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds) + float(bare)


_DURATION = r"(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9}(?:\.\d{1,6})?)s)?|(\d{1,9}(?:\.\d{1,6})?)"
"""A number without a unit is seconds, but only alone: `1h30` is half an hour to people."""
_PATTERN = r"(?!/|(?:.*/)?\.\.(?:/|$))(?:\./)?(.+)"
count = matching(r"\d{1,9}", lambda found: int(found[0]) or None, "write a whole number from 1")
duration = matching(_DURATION, _seconds, "is no duration; write 2s, 90m, 4h or 1h30m")
usd = matching(r"\$?(\d{1,7}(?:\.\d{1,4})?)", lambda it: float(it[1]) or None, "write US dollars such as 5 or 2.50")
percent = matching(r"(\d{1,2})%", lambda it: int(it[1]) / 100 or None, "write a part of the context such as 60%")
truth = matching(r"(?i:(true|yes|on|1)|false|no|off|0)", lambda it: it[1] is not None, "write true or false")
address = matching(r"https?://[^\s/]+\S*", lambda found: found[0], "is no web address; write https://…")
pattern = matching(_PATTERN, lambda it: it[1], "is no pattern of files in the project; write one such as 'tests/**'")

EFFORTS = ("none", "low", "medium", "high", "xhigh", "max")
effort = matching(
    f"(?i:med|{'|'.join(EFFORTS)})",
    lambda found: {"med": "medium"}.get(found[0].lower(), found[0].lower()),
    "write none, low, medium (or med), high, xhigh or max",
)
"""How hard claude thinks; the real one takes any other word without complaint, and ignores it."""


def bound(text: str) -> float:
    """A duration that bounds something."""
    if seconds := duration(text):
        return seconds
    raise ValueError("leaves no time; write 90m, 4h or 1h30m")


def some(text: str) -> str:
    """Any text but none."""
    if not text:
        raise ValueError("is empty")
    return text


def one_of(*choices: str) -> Callable[[str], str]:
    """Reads one of these words."""
    allowed = f"write {', '.join(choices[:-1])} or {choices[-1]}"
    return matching(f"(?i:{'|'.join(choices)})", lambda found: found[0].lower(), allowed)


def words(text: str) -> tuple[str, ...]:
    """The words, as a shell parts them."""
    try:
        return tuple(shlex.split(some(text)))
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {error}") from error


def path(text: str) -> Path:
    """A path; `~` is the home folder."""
    return Path(some(text)).expanduser()
