"""Which files an iteration may change: `--only`."""

import fnmatch
import re
from collections.abc import Sequence

_EITHER = re.compile(r"\{([^{}]*)\}")


def allowed(name: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns covers this file.

    `*` and `?` stay within a folder, `**` goes through folders, `[abc]` and `{a,b}` are one of them; what ends in a
    plain name covers the folder of that name with all in it.
    """
    for pattern in patterns:
        wanted = "**" if pattern in (".", "./") else pattern.removeprefix("./").lstrip("/")
        if found := _EITHER.search(wanted):
            either = [wanted[: found.start()] + one + wanted[found.end() :] for one in found[1].split(",")]
            covers = allowed(name, either)
        elif wanted.endswith("/"):
            covers = _covers(f"{wanted}**".split("/"), name.split("/"))
        else:
            *above, last = wanted.split("/")
            below = [] if set(last) & set("*?[") else ["**"]
            covers = any(_covers([*above, last, *more], name.split("/")) for more in ([], below))
        if covers:
            return True
    return False


def _covers(wanted: Sequence[str], parts: Sequence[str]) -> bool:
    if not wanted:
        return not parts
    first, *rest = wanted
    if first == "**":
        return any(_covers(rest, parts[skipped:]) for skipped in range(not rest, len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], first) and _covers(rest, parts[1:])
