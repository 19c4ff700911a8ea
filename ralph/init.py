"""`ralph init`: settings for the project of this folder, with the command that verifies it."""

import re
import shlex
from pathlib import Path
from textwrap import wrap

import click

from ralph import files
from ralph.errors import RalphError
from ralph.settings import BY_VARIABLE

_SEEN = (
    ("Makefile", "(?m)^check:", "make check"),
    ("Makefile", "(?m)^test:", "make test"),
    ("pyproject.toml uv.lock", "", "uv run pytest"),
    ("pyproject.toml", r"\[tool\.uv", "uv run pytest"),
    ("pyproject.toml", "", "python -m pytest"),
    ("package.json pnpm-lock.yaml", '"test":', "pnpm test"),
    ("package.json yarn.lock", '"test":', "yarn test"),
    ("package.json", r'"test":(?! "echo \\"Error: no test)', "npm test"),
    ("go.mod", "", "go test ./..."),
    ("Cargo.toml", "", "cargo test"),
    ("pom.xml", "", "mvn -q test"),
)
"""Files that are there, what stands in the first of them, and the command that then verifies the project."""
_WORTH = "STRICT MAX_TIME MAX_COST MODEL EFFORT ROLES ONLY DENY AUTO_COMMIT"


def init() -> None:
    """Settings for this project, in ./.ralph.env, with the verify command that was found."""
    found: dict[str, str] = {}
    for names, pattern, command in _SEEN:
        first, *others = map(Path, names.split())
        is_there = first.is_file() and all(path.is_file() for path in others)
        if is_there and re.search(pattern, files.held(first).decode(errors="replace")):
            found.setdefault(str(first), command)
    verify, *more = found.values() or [""]
    lines = ["# ralph's settings in this project; `ralph help settings` explains all of them.", ""]
    lines += [f"{'' if verify else '#'}RALPH_VERIFY={shlex.quote(verify) if verify else ''}"]
    lines += [f"#RALPH_VERIFY={shlex.quote(command)}" for command in more]
    for setting in (BY_VARIABLE[f"RALPH_{name}"] for name in _WORTH.split()):
        lines += ["", *wrap(setting.meaning, 96, initial_indent="# ", subsequent_indent="# ")]
        lines += [f"#{setting.variable}={setting.default}"]
    try:
        with Path(".ralph.env").open("x", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))
    except OSError as error:
        fix = f"write RALPH_VERIFY={shlex.quote(verify)} into it" if verify else ""
        raise RalphError(f"./.ralph.env: {error.strerror}; nothing was changed", 1, fix=fix) from error
    for name, command in found.items():
        click.echo(f"{name}: {command}")
    told = (
        f"no RALPH_DONE counts before this passes: {verify}" if verify else "no check was found; set RALPH_VERIFY there"
    )
    click.echo(f"./.ralph.env is written; {told}")
