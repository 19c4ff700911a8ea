"""What the agent may not use: the user's own rules, and named lists that ship with ralph."""

from collections.abc import Iterator, Sequence

LISTS = {
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
"""Each list's commands, denied whatever follows them, and what to do instead. `git-write` has what changes the
repository's history or branches, or takes work out of the working tree; `not-uv` has the ways to install Python
packages, and to run tests, other than uv."""


def deny_rules(denied: Sequence[str]) -> Iterator[str]:
    """Yields them as rules for claude, such as `Bash(git push:*)`; a list becomes one rule for each of its commands."""
    for name in denied:
        if name in LISTS:
            yield from (f"Bash({command}:*)" for command in LISTS[name][0].split(", "))
        else:
            yield name


def describe_denied(denied: Sequence[str]) -> list[str]:
    """Returns what the prompt says about each: for a list, its commands and what to do instead."""
    return ["{} ({})".format(*LISTS[name]) if name in LISTS else f"`{name}`" for name in denied]
