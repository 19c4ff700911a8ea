"""Parsers from a setting's text to its value. Each raises ValueError with what is allowed."""

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def or_unlimited(read: Callable[[str], T]) -> Callable[[str], T | None]:
    """Returns a parser that reads "off" and "unlimited" as None, and all else with `read`."""

    def parse(text: str) -> T | None:
        try:
            return None if text.lower() in ("off", "unlimited") else read(text)
        except ValueError as error:
            raise ValueError(f"{error}, off or unlimited") from None

    return parse


def parse_matching(form: str, meaning: Callable[[re.Match[str]], T | None], allowed: str) -> Callable[[str], T]:
    """Returns a parser for texts that match `form`; it also rejects those for which `meaning` returns None."""

    def parse(text: str) -> T:
        found = re.fullmatch(form, text, re.ASCII | re.IGNORECASE)
        value = meaning(found) if found else None
        if value is None:
            raise ValueError(f"write {allowed}")
        return value

    return parse


def parse_one_of(words: str) -> Callable[[str], str]:
    """Returns a parser for one of these words, which are separated by bars; `med` is ralph1's word for medium."""
    form = words.replace("medium", "medium|med")
    return parse_matching(form, lambda found: re.sub("^med$", "medium", found[0].lower()), words.replace("|", " or "))


def _seconds(found: re.Match[str]) -> float:
    hours, minutes, seconds, bare = map(float, found.groups(default="0"))
    return hours * 3600 + minutes * 60 + seconds + bare


_DURATION = r"(?=.)(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9}(?:\.\d{1,6})?)s)?|(\d{1,9}(?:\.\d{1,6})?)"
"""A number without a unit is seconds, but only on its own: people read the 30 in `1h30` as minutes."""


def _expand_home(found: re.Match[str]) -> Path:
    return Path(os.path.expanduser(found[0]))  # noqa: PTH111 - Path raises at ~nobody


_PATTERN = r"(?!/|(?:.*/)?\.\.(?:/|$))(?:\./)?(.+)"
_NAME = r"(?:[^\s,()]|\((?:[^()]|\([^()]*\))*\))+"
"""A tool's name and what it is limited to, in parentheses, where commas and blanks do not separate names."""
some = parse_matching(r"(?s:.+)", lambda found: found[0], "something")
count = parse_matching(r"\d{1,9}", lambda found: int(found[0]) or None, "a whole number from 1")
duration = parse_matching(_DURATION, _seconds, "a time such as 2s, 90m, 4h or 1h30m")
bound = parse_matching(_DURATION, lambda found: _seconds(found) or None, "a time such as 90m, 4h or 1h30m")
usd = parse_matching(
    r"\$?(\d{1,7}(?:\.\d{1,4})?)", lambda found: float(found[1]) or None, "US dollars such as 5 or 2.50"
)
percent = parse_matching(r"(\d{1,2})%", lambda found: int(found[1]) / 100 or None, "a part of the context such as 60%")
truth = parse_matching(r"(true|yes|on|1)|false|no|off|0", lambda found: bool(found[1]), "true or false")
ladder = parse_matching(
    "[^,]+(?:,[^,]+)*", lambda found: tuple(map(str.strip, found[0].split(","))), "models as haiku,opus"
)
address = parse_matching(r"\w+://[^\s/]+\S*", lambda found: found[0], "an address such as https://…")
path = parse_matching(r"(?s:.+)", _expand_home, "a path")
jsonl = parse_matching(r"(?s:.+\.jsonl)", _expand_home, "a file of its own such as attempts.jsonl")
_pattern = parse_matching(_PATTERN, lambda found: found[1], "a pattern of files in the project such as 'tests/**'")
names = parse_matching(
    rf"{_NAME}(?:[\s,]+{_NAME})*", lambda found: tuple(re.findall(_NAME, found[0])), "names such as Read, Bash(ls:*)"
)
"""Separated by commas and blanks."""


def parse_folder(text: str) -> Path:
    """Returns the path of an existing folder."""
    found = path(text)
    if not found.is_dir():
        raise ValueError("is not a folder")
    return found


def parse_words(text: str) -> tuple[str, ...]:
    """Returns the words, split as a shell does."""
    return tuple(shlex.split(some(text)))


def parse_patterns(text: str) -> tuple[str, ...]:
    """Returns the patterns, split as a shell splits words."""
    return tuple(map(_pattern, parse_words(text)))


def as_group(read: Callable[[str], tuple[str, ...]]) -> Callable[[str], tuple[tuple[str, ...]]]:
    """Returns a parser that makes what `read` returns into one group, which is empty if it contains "none"."""

    def parse(text: str) -> tuple[tuple[str, ...]]:
        found = read(text)
        return (() if "none" in found else found,)

    return parse
