"""Generates the parts of the reference pages and .env.example that come from tables in the code.

python docs/generate.py
"""
# ruff: noqa: INP001 - a script, in no package

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

import click

from ralph import cli
from ralph.run.stop_rules import Reason
from ralph.settings.table import BY_VARIABLE, ON_COMMAND_LINE, PRIVATE, TABLE, Setting

TOP = Path(__file__).resolve().parents[1]
_NOBODY = {"model": "the agent's own", "effort": "the agent's own", "max-turns": "the agent's own"}
_HEAD = """\
# ralph's settings. Copy what you need to ~/.ralph.env (chmod 600) or to ./.ralph.env in a project.
# Every setting here is a comment and shows its default, if it has one. docs/settings.md says more.
# docs/generate.py makes this file.
"""
_PRIVATE = (
    "Set everything below in ~/.ralph.env or in the environment, never in a file of a project. "
    "`ralph notify setup` asks for the settings of channels."
)


def documents() -> dict[Path, str]:
    """Returns the up-to-date text of each file."""
    tables = {"settings.md": _table(), "commands.md": _commands(), "exit-codes.md": _ends(), "mcp.md": _tools()}
    found = {TOP / "docs" / name: _with_table(TOP / "docs" / name, table) for name, table in tables.items()}
    return {**found, TOP / ".env.example": "\n".join(_example()) + "\n"}


def _with_table(page: Path, table: str) -> str:
    before, begin, rest = page.read_text(encoding="utf-8").partition("<!-- made by docs/generate.py -->\n")
    _, end, after = rest.partition("<!-- until here -->\n")
    return f"{before}{begin}{table}{end}{after}"


def _commands() -> str:
    """Returns what `ralph help VERB` prints for each verb, without the options that it shares with a run."""
    of_a_run = {f"--{one.hyphenated_name}" for one in ON_COMMAND_LINE}
    parts = []
    for name, command in cli.ralph.commands.items():
        if command.hidden:
            continue
        context = click.Context(command, info_name=f"ralph {name}")
        options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        takes_all = of_a_run <= {word for one in options for word in one.opts}
        without = {"-C", *(of_a_run if takes_all else ())}
        rows = [f"| {_names(one)} | {_quoted(one.help or '')} |" for one in options if not without & {*one.opts}]
        parts += [f"## ralph {name}", f"`ralph {name} {' '.join(command.collect_usage_pieces(context))}`"]
        parts.append(inspect.cleandoc(command.help or ""))
        if rows:
            parts.append("\n".join(["| option | meaning |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _names(one: click.Option) -> str:
    choices = f"[{'|'.join(one.type.choices)}]" if isinstance(one.type, click.Choice) else ""
    metavar = "" if one.is_flag else f" {one.metavar or choices}"
    return ", ".join(f"`{name}{metavar}`".replace("|", r"\|") for name in one.opts)


def _ends() -> str:
    """Returns the words with which a run ends, and how to continue."""
    told = [
        (one.code, one.label, one.move.format("the progress file")) for one in Reason if one is not Reason.INTERRUPTED
    ]
    rows = [f"| {code} | {label} | {move} |" for code, label, move in told]
    return "\n".join(["| code | the last line says | to continue |", "|---|---|---|", *rows, ""])


def _tools() -> str:
    """Returns the tools with their arguments, and the description that an agent reads."""
    tree = ast.parse((TOP / "ralph" / "commands" / "mcp.py").read_text(encoding="utf-8"))
    (tools,) = (one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "TaskTools")
    rows = ["| tool | arguments | description for the agent |", "|---|---|---|"]
    for one in tools.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
            names = ", ".join(f"`{argument.arg}`" for argument in one.args.args[1:])
            words = " ".join((ast.get_docstring(one) or "").split())
            rows.append(f"| `ralph_{one.name}` | {names} | {words} |")
    return "\n".join([*rows, ""])


def _table() -> str:
    rows = [f"| {_options(one)} | `{one.variable}` | {_default(one)} | {_meaning(one)} |" for one in ON_COMMAND_LINE]
    return "\n".join(["| option | variable | default | meaning |", "|---|---|---|---|", *rows, ""])


def _options(one: Setting) -> str:
    if not one.metavar:
        return f"`--{one.hyphenated_name}`, `--no-{one.hyphenated_name}`"
    names = [one.hyphenated_name, *([one.alias] if one.alias else [])]
    metavar = one.metavar.replace("|", r"\|")
    return ", ".join(f"`--{name} {metavar}`" for name in names)


def _default(one: Setting) -> str:
    return f"`{one.default}`" if one.default else _NOBODY.get(one.hyphenated_name, "none")


def _meaning(one: Setting) -> str:
    return _quoted(f"{one.meaning} (with --{one.needs.split()[-1]})" if one.needs else one.meaning)


def _quoted(text: str) -> str:
    return re.sub("<plan>_PROGRESS.md|'tests/[*][*]'|PROMPT_<mode>.md", r"`\g<0>`", text)


def _example() -> Iterator[str]:
    yield _HEAD
    for one in (one for one in ON_COMMAND_LINE if one.sources != PRIVATE):
        yield from _entry(_meaning(one).replace("`", ""), [(one.variable, one.default)])
    yield from (f"# {line}" for line in wrap(_PRIVATE, 98))
    yield ""
    for one in (one for one in TABLE if one.sources == PRIVATE):
        yield from _entry(_meaning(one).replace("`", ""), [(one.variable, one.default)])
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
