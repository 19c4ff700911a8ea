"""Which files an iteration may change: `--only`."""

import functools
import re
from collections.abc import Sequence

_WILD = re.compile(r"[*?\[{]")
_PARTS = re.compile(r"\*\*/|/\*\*$|\*\*|\*|\?|\[[!^]?\]?[^]/]*\]|\{[^{}]*\}|\\.|.", re.DOTALL)
_ONE = {"**/": "(?:[^/]+/)*", "/**": "/.+", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def allowed(name: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns covers this file.

    `*` and `?` stay within a folder, `**` goes through folders, `[abc]` and `{a,b}` are one of them; what ends in a
    plain name covers the folder of that name with all in it.
    """
    return any(_expression(pattern).fullmatch(name) for pattern in patterns)


@functools.cache
def _expression(pattern: str) -> re.Pattern[str]:
    if pattern in (".", "./"):
        return re.compile(".*", re.DOTALL)
    bare = pattern.removeprefix("./").lstrip("/").rstrip("/")
    last = bare.rpartition("/")[2]
    below = "(?:/.+)?" if not _WILD.search(last) else "/.+" if pattern.endswith("/") else ""
    return re.compile(_translated(bare) + below, re.DOTALL)


def _translated(glob: str) -> str:
    return "".join(_piece(found[0]) for found in _PARTS.finditer(glob))


def _piece(part: str) -> str:
    if part in _ONE:
        return _ONE[part]
    if len(part) > 1 and part[0] == "\\":
        return re.escape(part[1])
    if len(part) > 1 and part[0] == "{":
        return "(?:" + "|".join(map(_translated, part[1:-1].split(","))) + ")"
    if len(part) > 1 and part[0] == "[":
        return _one_of(part[1:-1])
    return re.escape(part)


def _one_of(characters: str) -> str:
    """A class of characters, which never holds the slash; `[z-a]` holds nothing."""
    negated = characters[:1] in ("!", "^")
    said = characters[negated:].replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]").replace("^", r"\^")
    # set operations, which Python warns of
    said = re.sub(r"([&|~])(?=\1)", r"\\\1", said)
    try:
        re.compile(f"[{said}]")
    except re.error:
        return "(?!)"
    return f"(?!/)[{'^' if negated else ''}{said}]"
