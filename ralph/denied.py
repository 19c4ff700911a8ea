"""What the agent may not use: rules of one's own, and the names of lists that are files."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ralph import values

_LIST = re.compile("[a-z]+(?:-[a-z]+)+")
"""A name of this form is a list's, and no tool's."""


def names(text: str) -> tuple[str, ...]:
    """The rules and lists that a setting names. Raises ValueError for a list that is not there."""
    said, lists = values.names(text), _lists()
    if missing := [name for name in said if _LIST.fullmatch(name) and name not in lists]:
        raise ValueError(f"{missing[0]} is no list; there are {', '.join(lists)}")
    return said


def rules(denied: Sequence[str]) -> list[str]:
    """All of them as rules for claude, such as `Bash(git push:*)`, in the place of each list what stands in it."""
    return [rule for name in denied for rule in ([f"Bash({one}:*)" for one in _list(name)[0]] or [name])]


def told(denied: Sequence[str]) -> Iterator[str]:
    """What an agent is told of each: the commands of a list with what to do instead."""
    for name in denied:
        commands, instead = _list(name)
        yield f"{', '.join(f'`{one}`' for one in commands)} ({instead})" if commands else f"`{name}`"


def _list(name: str) -> tuple[Sequence[str], str]:
    import tomllib  # noqa: PLC0415 - 7 ms that only who denies something pays

    if not _LIST.fullmatch(name):
        return (), ""
    table = tomllib.loads(_lists()[name].read_text(encoding="utf-8"))
    return table["commands"], table["instead"]


def _lists() -> dict[str, Path]:
    """By name; a person's own come before those that ship with ralph."""
    folders = Path(__file__).parent / "deny", Path.home() / ".ralph" / "deny"
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}
