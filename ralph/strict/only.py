"""Which files an iteration may change: `--only`."""

import fnmatch
import re
from collections.abc import Sequence

_EITHER = re.compile(r"\{([^{}]*)\}")


def allowed(name: str, groups: Sequence[Sequence[str]]) -> bool:
    """Whether a pattern of each group covers this file; none does of a group that is empty."""
    return all(any(covers(pattern, name) for pattern in group) for group in groups)


def covers(pattern: str, name: str) -> bool:
    """Whether a file of this name is meant.

    `*` and `?` stay within a folder, `**` goes through folders, `[abc]` and `{a,b}` are one of them; what ends in a
    plain name covers the folder of that name with all in it.
    """
    pattern = "**" if pattern in (".", "./") else pattern.removeprefix("./").lstrip("/")
    if found := _EITHER.search(pattern):
        before, after = pattern[: found.start()], pattern[found.end() :]
        return any(covers(before + one + after, name) for one in found[1].split(","))
    if pattern.endswith("/"):
        return _matches(f"{pattern}**".split("/"), name.split("/"))
    wanted, parts = pattern.split("/"), name.split("/")
    is_plain = not set(wanted[-1]) & set("*?[")
    return _matches(wanted, parts) or (is_plain and _matches([*wanted, "**"], parts))


def _matches(wanted: Sequence[str], parts: Sequence[str]) -> bool:
    if not wanted:
        return not parts
    first, *rest = wanted
    if first == "**":
        return any(_matches(rest, parts[skipped:]) for skipped in range(not rest, len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], first) and _matches(rest, parts[1:])
