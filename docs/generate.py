"""Writes the table of docs/settings.md, and .env.example, from the settings and channels that there are.

python docs/generate.py
"""
# ruff: noqa: INP001 - a script, in no package

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

from ralph.settings.table import BY_VARIABLE, ON_COMMAND_LINE, PRIVATE, TABLE, Setting

TOP = Path(__file__).resolve().parents[1]
_NOBODY = {"model": "the agent's own", "effort": "the agent's own", "max-turns": "the agent's own"}
_HEAD = """\
# ralph's settings. Copy what you need to ~/.ralph.env (chmod 600) or, what is neither a secret nor
# RALPH_AGENT, to ./.ralph.env in a project. Everything here is a comment and shows the default,
# where there is one. It is made by docs/generate.py; docs/settings.md says more.
"""
_PRIVATE = "All that follows only from ~/.ralph.env and the environment; `ralph notify setup` asks for it."


def documents() -> dict[Path, str]:
    """What stands in each file when it is up to date."""
    settings, example = TOP / "docs" / "settings.md", TOP / ".env.example"
    before, begin, rest = settings.read_text(encoding="utf-8").partition("<!-- made by docs/generate.py -->\n")
    _, end, after = rest.partition("<!-- until here -->\n")
    return {settings: f"{before}{begin}{_table()}{end}{after}", example: "\n".join(_example()) + "\n"}


def _table() -> str:
    rows = [f"| {_options(one)} | `{one.variable}` | {_default(one)} | {_meaning(one)} |" for one in ON_COMMAND_LINE]
    return "\n".join(["| option | variable | default | meaning |", "|---|---|---|---|", *rows, ""])


def _options(one: Setting) -> str:
    if not one.metavar:
        return f"`--{one.name}`, `--no-{one.name}`"
    names = [one.name, *([one.alias] if one.alias else [])]
    metavar = one.metavar.replace("|", r"\|")
    return ", ".join(f"`--{name} {metavar}`" for name in names)


def _default(one: Setting) -> str:
    return f"`{one.default}`" if one.default else _NOBODY.get(one.name, "none")


def _meaning(one: Setting) -> str:
    return re.sub("<plan>_PROGRESS.md|'tests/[*][*]'|PROMPT_<mode>.md", r"`\g<0>`", one.meaning)


def _example() -> Iterator[str]:
    yield _HEAD
    for one in (one for one in ON_COMMAND_LINE if one.sources != PRIVATE):
        yield from _entry(_meaning(one).replace("`", ""), [(one.variable, one.default)])
    yield from (f"# {line}" for line in wrap(_PRIVATE, 98))
    yield ""
    for one in (one for one in TABLE if one.sources == PRIVATE):
        yield from _entry(one.meaning, [(one.variable, one.default)])
    for file in sorted((TOP / "notify").glob("*.toml")):
        channel = tomllib.loads(file.read_text(encoding="utf-8"))
        names, defaults = [*channel["needs"], *channel.get("optional", [])], channel.get("defaults", {})
        if names[0] in BY_VARIABLE:  # a setting, too
            continue
        title = file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        yield from _entry(title, [(name, str(defaults.get(name, ""))) for name in names])


def _entry(meaning: str, lines: list[tuple[str, str]]) -> Iterator[str]:
    yield from (f"# {line}" for line in wrap(meaning[0].upper() + meaning[1:], 98))
    yield from (f"#{name}={value}" for name, value in lines)
    yield ""


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text, encoding="utf-8")
