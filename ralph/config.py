"""`ralph notify` and `ralph config`: what holds for all projects, kept in ~/.ralph.env; `ralph init`: for this one."""

import os
import re
import shlex
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap

import click
from dotenv import set_key, unset_key

from ralph import files, sources
from ralph.channels import Channel, Notice, deliver, load
from ralph.errors import RalphError
from ralph.settings import BY_VARIABLE, Source, resolve

HEADER = "# Settings of ralph for all projects; `ralph notify setup` writes here, and so may you.\n\n"
_PRIVATE = 0o600
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


def config(what: str, choice: str) -> None:  # noqa: ARG001 - there is only `commit`
    """Settings for all projects, kept in ~/.ralph.env: `ralph config commit on|off|status`."""
    path = sources.home_file()
    if choice != "status":
        keep(path, {"RALPH_AUTO_COMMIT": "true" if choice == "on" else "false"})
        click.echo(f"auto-commit is {choice} in {path}")
    said, problems = sources.collected([], [])
    counts = resolve([one for one in said if one.variable == "RALPH_AUTO_COMMIT"], problems=problems)
    where = counts.said["auto_commit"].where if counts.said else "default"
    click.echo(f"auto-commit is {'on' if counts.auto_commit else 'off'} ({where})")


def notify(what: str) -> int:
    """Channels that tell people how it goes: `setup` asks for their settings, `test` tries them."""
    channels = load()
    if what == "test":
        return test(channels, sources.channel_values())
    if not sys.stdin.isatty():
        raise RalphError("ralph notify setup asks questions and needs a terminal", fix="or write ~/.ralph.env yourself")
    return setup(channels)


def test(channels: Sequence[Channel], values: Mapping[str, str]) -> int:
    """Sends a test notice to each channel that is set up and says what became of it; 1 if any failed or none is."""
    notice = Notice("test", "Ralph Test", f"Notices from {socket.gethostname()} arrive here.")
    came = list[str]()
    for channel in channels:
        missing = channel.missing(values)
        if not missing:
            came.append(deliver(channel, notice, values))
            click.echo(f"{channel.name}: " + (f"FAILED: {came[-1]}" if came[-1] else "sent"))
        elif len(missing) < len(channel.needs):
            click.echo(f"{channel.name}: off, because {' and '.join(missing)} is not set")
    if not came:
        names = ", ".join(channel.name for channel in channels)
        click.echo(f"No channel is set up, so nothing was sent. Run `ralph notify setup` first; there are {names}.")
    return int(any(came) or not came)


def setup(channels: Sequence[Channel]) -> int:
    """Asks for the settings of one channel, writes them in one go, offers a test; the exit code."""
    path = sources.home_file()
    before = kept(path)
    click.echo("ralph can send notices through these channels:\n")
    for channel in channels:
        click.echo(f"  {channel.name:<10} {channel.title}{'' if channel.missing(before) else '  (is set up)'}")
    by_name = {channel.name: channel for channel in channels}
    names = click.Choice([*by_name], case_sensitive=False)
    channel = by_name[click.prompt("\nWhich one do you want to set up or change?", type=names, show_choices=False)]
    click.echo("\nEnter keeps what is there, - removes it. Secrets do not show while you type.")
    after = _asked(channel, before)
    changed = {name: text or None for name, text in after.items() if text != before.get(name, "")}
    if changed:
        keep(path, changed)
    click.echo(f"\nWritten to {path}, which only you can read." if changed else "\nNothing changed.")
    values = sources.channel_values()
    if missing := channel.missing(values):
        click.echo(f"Without {' and '.join(missing)}, {channel.name} stays off.")
        return 0
    return test([channel], values) if click.confirm("\nSend a test notice now?", default=True) else 0


def _asked(channel: Channel, before: Mapping[str, str]) -> dict[str, str]:
    """What shall be set; what is optional is asked only when the channel has what it needs."""
    after = dict(before)
    for name in channel.names:
        if name in channel.optional and channel.missing(after):
            break
        needed = "" if name in channel.needs else "optional; "
        default = f" (default {channel.defaults[name]})" if name in channel.defaults else ""
        click.echo(f"\n  {name}: {needed}{channel.help.get(name, f'see {channel.path}')}{default}")
        if name in os.environ:
            click.echo("  (It is set in the environment too, which comes before the file.)")
        secret, there = name in channel.secret, before.get(name, "")
        label = f"  value [{'***' if secret else there}]" if there else "  value"
        hidden = secret and sys.stdin.isatty()
        answer = click.prompt(label, default="", show_default=False, hide_input=hidden).strip()
        after[name] = "" if answer == "-" else answer or there
    return after


def kept(path: Path) -> dict[str, str]:
    """What an env file sets. Raises RalphError where it cannot be read whole: an edit could land in an open quote."""
    given, problems = sources.in_file(path, Source.HOME_FILE)
    if problems:
        raise RalphError.of([*problems, RalphError("Mend that first; nothing was changed.")], 1)
    return {one.variable: one.text for one in reversed(given)}


def keep(path: Path, values: Mapping[str, str | None]) -> None:
    """Sets names in an env file, or removes those that are None; from then on only its owner can read it."""
    real = Path(os.path.realpath(path))  # dotenv would put a file in the place of a link
    present = kept(real)
    if real.exists() and not real.is_file():  # a link to /dev/null, say
        raise RalphError(f"{path}: is no regular file, so it is not edited", 1)
    if any(set(text or "") & set("\\\r\n\0") for text in values.values()):  # not every python-dotenv reads it back
        raise RalphError("a value must be a single line, without a backslash")
    try:
        if not real.exists():
            files.replace(real, HEADER.encode(), mode=_PRIVATE)
        real.chmod(_PRIVATE)
        for name, text in values.items():
            if text is not None:
                set_key(real, name, text, export=True)
            elif name in present:
                unset_key(real, name)
    except (OSError, ValueError) as error:  # the latter where it is not UTF-8
        raise RalphError(f"{path}: cannot be written: {error}", 1) from error


def init() -> None:
    """Settings for this project, in ./.ralph.env, with the verify command that was found."""
    found: dict[str, str] = {}
    for names, pattern, command in _SEEN:
        paths = [Path(name) for name in names.split()]
        if all(path.is_file() for path in paths) and re.search(pattern, files.held(paths[0]).decode(errors="replace")):
            found.setdefault(paths[0].name, command)
    verify, *more = found.values() or [""]
    lines = ["# ralph's settings in this project; `ralph help settings` explains all of them.", ""]
    lines += [f"RALPH_VERIFY={shlex.quote(verify)}", *(f"#RALPH_VERIFY={shlex.quote(command)}" for command in more)]
    for setting in (BY_VARIABLE[f"RALPH_{name}"] for name in _WORTH.split()):
        lines += ["", *wrap(setting.meaning, 96, initial_indent="# ", subsequent_indent="# ")]
        lines += [f"#{setting.variable}={setting.default}"]
    try:
        with Path(".ralph.env").open("x", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))
    except OSError as error:
        fix = f"write RALPH_VERIFY={shlex.quote(verify)} into it" if verify else ""
        raise RalphError(f"./.ralph.env: {error.strerror}", 1, fix=fix) from error
    for name, command in found.items():
        click.echo(f"{name}: {command}")
    told = (
        f"no RALPH_DONE counts before this passes: {verify}" if verify else "no check was found; set RALPH_VERIFY there"
    )
    click.echo(f"./.ralph.env is written; {told}")
