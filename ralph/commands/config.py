"""`ralph notify` and `ralph config` set what is in ~/.ralph.env, for all projects; `ralph init` makes ./.ralph.env."""

import os
import re
import shlex
import socket
from collections.abc import Mapping
from pathlib import Path

import click
from dotenv import set_key, unset_key

from ralph import files
from ralph.errors import RalphError
from ralph.notify.channels import Notice, deliver_notice, read_channel_files
from ralph.settings import sources

_SCRIPT = r'"test":(?!\s*"echo \\"Error: no test)'
# Files, a pattern in the first, and the verify command if both are there; the first row that fits wins.
_SEEN = (
    ("Makefile", "(?m)^check:", "make check"),
    ("Makefile", "(?m)^test:", "make test"),
    ("uv.lock", "", "uv run pytest"),
    ("pyproject.toml", "", "python -m pytest"),
    ("package.json and pnpm-lock.yaml", _SCRIPT, "pnpm test"),
    ("package.json and yarn.lock", _SCRIPT, "yarn test"),
    ("package.json", _SCRIPT, "npm test"),
    ("go.mod", "", "go test ./..."),
    ("Cargo.toml", "", "cargo test"),
    ("pom.xml", "", "mvn -q test"),
)


def set_or_show_auto_commit(choice: str) -> None:
    """Turns commits on or off for all projects, in ~/.ralph.env, or prints which it is."""
    if choice != "status":
        save_home_settings({"RALPH_AUTO_COMMIT": choice})
    counts = sources.resolve_only(sources.collect_settings(Path()), "RALPH_AUTO_COMMIT")
    where = counts.given["auto_commit"].where if counts.given else "default"
    click.echo(f"auto-commit is {'on' if counts.auto_commit else 'off'} ({where})")


def set_up_or_test_channels(what: str) -> int:
    """`setup` asks for the settings of a channel, `test` sends a notice through each; returns the exit code."""
    if what == "test":
        return _send_test_notices()
    if not os.isatty(0):
        raise RalphError("ralph notify setup asks questions and needs a terminal", fix="or write ~/.ralph.env yourself")
    channels, before = read_channel_files(), sources.channel_values()
    click.echo("ralph can send notices through these channels:\n")
    for channel in channels.values():
        click.echo(f"  {channel.name:<10} {channel.title}{'' if channel.missing(before) else '  (is set up)'}")
    names = click.Choice([*channels], case_sensitive=False)
    channel = channels[click.prompt("\nWhich one do you want to set up or change?", type=names, show_choices=False)]
    click.echo("\nEnter keeps what is there, - removes it. Secrets do not show while you type.")
    changed = {}
    for name in channel.setting_names:
        there, secret = before.get(name, ""), name in channel.secret
        click.echo(f"\n  {name}: {'' if name in channel.needs else 'optional; '}{channel.help.get(name, '')}")
        shown = f" [{'***' if secret else there}]" if there else ""
        answer = click.prompt(f"  value{shown}", default=there, show_default=False, hide_input=secret).strip()
        if answer != there:
            changed[name] = "" if answer == "-" else answer
    if changed:
        save_home_settings(changed)
    click.echo("\nTo see whether it works, run `ralph notify test`.")
    return 0


def _send_test_notices() -> int:
    """Sends a test notice to each channel that is set up and prints the result; returns 1 if one failed or none is."""
    values = sources.channel_values()
    failures = []
    notice = Notice("test", "Ralph Test", f"Notices from {socket.gethostname()} arrive here.")
    for channel in read_channel_files().values():
        missing = channel.missing(values)
        if not missing:
            failure = deliver_notice(channel, notice, values)
            failures.append(failure)
            click.echo(f"{channel.name}: " + (f"FAILED: {failure}" if failure else "sent"))
        elif len(missing) < len(channel.needs):
            click.echo(f"{channel.name}: off, because {' and '.join(missing)} is not set")
    if not failures:
        click.echo("No channel is set up, so nothing was sent. Run `ralph notify setup` first, which names them.")
    return int(any(failures) or not failures)


def save_home_settings(values: Mapping[str, str]) -> None:
    """Sets variables in ~/.ralph.env, or removes those that are empty; only its owner can read it afterwards.

    Raises RalphError if a line of it is malformed, since an edit could end up in an open quote.
    """
    path = sources.home_settings_path()
    real = Path(os.path.realpath(path))  # dotenv would put a file in the place of a link
    sources.channel_values()  # raises at a malformed line
    if re.search(r"[\\\r\n\0]", "".join(values.values())):  # not every python-dotenv reads it back
        raise RalphError("a value must be a single line, without a backslash")
    real.touch(0o600)
    real.chmod(0o600)
    for name, text in values.items():
        if text:
            set_key(real, name, text, export=True)
        else:
            unset_key(real, name)
    click.echo(f"Written to {path}, which only you can read.")


def create_settings_with_verify() -> None:
    """Writes settings for this project to ./.ralph.env, with the verify command that it finds."""
    found = []
    for names, pattern, command in _SEEN:
        paths = [Path(name) for name in names.split(" and ")]
        if all(map(Path.is_file, paths)) and re.search(pattern, files.read_text_or_empty(paths[0])):
            click.echo(f"{names}: {command}")
            found.append(f"RALPH_VERIFY={shlex.quote(command)}")
    lines = "\n#".join(found or ["RALPH_VERIFY="])
    with Path(".ralph.env").open("x", encoding="utf-8") as file:
        file.write(f"# ralph's settings in this project; `ralph help settings` explains all of them.\n\n{lines}\n")
    message = f"before RALPH_DONE counts: {found[0]}" if found else "no check was found; set RALPH_VERIFY there"
    click.echo(f"./.ralph.env is written; {message}")
