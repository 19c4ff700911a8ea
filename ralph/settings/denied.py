"""What the agent may not use: rules of one's own, and the names of lists that ship with ralph."""

import re
from collections.abc import Iterator, Sequence

from ralph.settings import values

_LISTS = {
    "git-write": (
        (
            "git commit, git push, git pull, git merge, git rebase, git checkout, git reset, git stash, "
            "git cherry-pick, git revert, git branch -d, git branch -D, git branch --delete"
        ),
        "leave your changes in the working tree; who reads them commits",
    ),
    "not-uv": (
        (
            "pip, pip3, python -m pip, python3 -m pip, conda, poetry, pipenv, virtualenv, python -m venv, "
            "python3 -m venv, pytest, python -m pytest, python3 -m pytest"
        ),
        "`uv add`, `uv sync`, `uv run pytest`",
    ),
}
"""Commands, each with all that may follow it, and what to do instead: what changes the repository's history, its
branches, or takes work out of the working tree; other ways to install Python packages, and to run tests, than uv."""


def parse_deny_list(text: str) -> tuple[str, ...]:
    """The rules and lists that a setting names. Raises ValueError for a list that is not there."""
    names = values.names(text)
    for name in names:
        if re.fullmatch("[a-z]+-[a-z-]+", name) and name not in _LISTS:  # no tool is called so
            raise ValueError(f"{name} is not a list; there are {', '.join(_LISTS)}")
    return names


def deny_rules(denied: Sequence[str]) -> Iterator[str]:
    """All of them as rules for claude, such as `Bash(git push:*)`, in the place of each list its content."""
    for name in denied:
        if name in _LISTS:
            yield from (f"Bash({command}:*)" for command in _LISTS[name][0].split(", "))
        else:
            yield name


def describe_denied(denied: Sequence[str]) -> list[str]:
    """What the prompt says of each: the commands of a list with what to do instead."""
    return ["{} ({})".format(*_LISTS[name]) if name in _LISTS else f"`{name}`" for name in denied]
