"""What the agent may not use: rules of one's own, and the names of lists that ship with ralph."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ralph import values


def names(text: str) -> tuple[str, ...]:
    """The rules and lists that a setting names. Raises ValueError for a list that is not there."""
    said, lists = values.names(text), _lists()
    for name in said:
        if re.fullmatch("[a-z]+(-[a-z]+)+", name) and name not in lists:  # no tool is called so
            raise ValueError(f"{name} is no list; there are {', '.join(lists)}")
    return said


def rules(denied: Sequence[str]) -> list[str]:
    """All of them as rules for claude, such as `Bash(git push:*)`, in the place of each list what stands in it."""
    lists = _lists() if denied else {}
    return [
        rule
        for name in denied
        for rule in ([f"Bash({one}:*)" for one in lists[name]["commands"]] if name in lists else [name])
    ]


def told(denied: Sequence[str]) -> list[str]:
    """What an agent is told of each: the commands of a list with what to do instead."""
    lists = _lists() if denied else {}
    return [_told(lists[name]) if name in lists else f"`{name}`" for name in denied]


def _told(one: Mapping[str, Any]) -> str:
    commands = ", ".join(f"`{command}`" for command in one["commands"])
    return f"{commands} ({one['instead']})"


def _lists() -> Mapping[str, Mapping[str, Any]]:
    import tomllib  # noqa: PLC0415 - 7 ms that only who denies something pays

    return tomllib.loads(Path(__file__).with_name("deny.toml").read_text(encoding="utf-8"))
