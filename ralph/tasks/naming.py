"""The ids that ralph gives to tasks: made of their own words, and each only once."""

import re
from collections.abc import Iterable

_ARTICLES = {"a", "an", "the"}
_MOST_WORDS = 5
_LONGEST = 56
"""Leaves room for `_2` within the 64 characters of an id."""


def new_ids(texts: Iterable[str], taken: Iterable[str]) -> list[str]:
    """An id for each of the texts, none of them taken; ids that differ in capitals only count as the same."""
    used = {name.casefold() for name in taken}
    last: dict[str, int] = {}
    given = []
    for text in texts:
        base = _base(text)
        name = base
        while name in used:
            last[base] = last.get(base, 1) + 1
            name = f"{base}_{last[base]}"
        used.add(name)
        given.append(name)
    return given


def _base(text: str) -> str:
    words = [word for word in re.findall(r"[^\W_]+", text.casefold()) if word not in _ARTICLES]
    return "_".join(words[:_MOST_WORDS])[:_LONGEST].rstrip("_") or "task"
