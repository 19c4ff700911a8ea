"""`ralph notify`: setting channels up in a conversation, and trying them out."""

import os
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from ralph import envfile
from ralph.channels import Channel, Notice, configured, deliver, settings_names
from ralph.errors import RalphError

REMOVE = "-"


def usage(channels: Sequence[Channel]) -> str:
    """What `ralph notify` can do, and every channel with its settings."""
    lines = [
        "Usage: ralph notify setup    choose channels and enter their settings",
        "       ralph notify test     send a test notice through every channel that is set up",
        "",
        "A channel is on when all the settings it needs are given, in the environment or in ~/.ralph.env:",
    ]
    for channel in channels:
        lines += ["", f"  {channel.name}: {channel.title}"]
        lines += [f"    {name:<28} {_explained(channel, name)}" for name in channel.names]
    return "\n".join([*lines, "", "A file in ~/.ralph/notify/ adds a channel of your own."])


def test(channels: Sequence[Channel], values: Mapping[str, str]) -> int:
    """Sends a test notice to each channel that is set up and says what became of it; 1 if any failed or none is."""
    ready = configured(channels, values)
    for channel in channels:
        missing = channel.missing(values)
        if 0 < len(missing) < len(channel.needs):
            click.echo(f"{channel.name}: off, because {' and '.join(missing)} is not set")
    if not ready:
        click.echo("No channel is set up, so nothing was sent. Run `ralph notify setup` first.")
        return 1
    notice = Notice(
        event="test",
        title="Ralph Test",
        body=f"Notices from {socket.gethostname()} arrive here.",
        emoji_code=":robot_face:",
    )
    failures = 0
    for channel in ready:
        why = deliver(channel, notice, values)
        click.echo(f"{channel.name}: FAILED: {why}" if why else f"{channel.name}: sent")
        failures += bool(why)
    return 1 if failures else 0


def setup(env_path: Path, channels: Sequence[Channel]) -> int:
    """Asks for the settings of the chosen channels, writes them in one go, offers a test; the exit code."""
    entries, problems = envfile.read(env_path)
    if problems:
        raise RalphError("\n".join([*problems, "Mend that first; nothing was changed."]), 1)
    before = {entry.name: entry.value for entry in entries}
    after = dict(before)
    click.echo("ralph can send notices through these channels:\n")
    for number, channel in enumerate(channels, 1):
        state = "  (is set up)" if not channel.missing(before) else ""
        click.echo(f"  {number}  {channel.name:<10} {channel.title}{state}")
    click.echo()
    chosen = _choose(channels, configured(channels, before))
    if chosen:
        click.echo(f"\nEnter keeps what is there, {REMOVE} removes it. Secrets do not show while you type.")
    for channel in chosen:
        _ask_for(channel, after)
    _write(env_path, before, after)
    return _offer_test(chosen, after)


def _choose(channels: Sequence[Channel], present: Sequence[Channel]) -> tuple[Channel, ...]:
    known = {str(number): channel for number, channel in enumerate(channels, 1)}
    known |= {channel.name.lower(): channel for channel in channels}

    def chosen(answer: str) -> tuple[Channel, ...]:
        words = re.split(r"[\s,]+", answer.strip().lower())
        if unknown := [word for word in words if word and word not in known]:
            raise click.UsageError(f"{unknown[0]} is not in the list")
        return tuple({known[word].name: known[word] for word in words if word}.values())

    default = " ".join(channel.name for channel in present)
    answer: tuple[Channel, ...] = click.prompt(
        "Which ones do you want to set up or change? (names or numbers)",
        default=default,
        show_default=bool(default),
        value_proc=chosen,
    )
    return answer


def _ask_for(channel: Channel, values: dict[str, str]) -> None:
    """Puts the answers into `values`; what is optional is asked only when the channel has what it needs."""
    click.echo(f"\n{channel.title}")
    for name in channel.needs:
        _ask(channel, name, values)
    if missing := channel.missing(values):
        click.echo(f"  Without {' and '.join(missing)}, {channel.name} stays off.")
        return
    for name in channel.optional:
        _ask(channel, name, values)


def _ask(channel: Channel, name: str, values: dict[str, str]) -> None:
    click.echo(f"\n  {name}: {_explained(channel, name)}")
    if name in os.environ:
        click.echo("  (It is set in the environment too, which comes before the file.)")
    present = values.get(name, "")
    shown = _masked(present) if name in channel.secret else present
    answer: str = click.prompt(
        f"  value [{shown}]" if shown else "  value",
        default="",
        show_default=False,
        hide_input=name in channel.secret and sys.stdin.isatty(),
        value_proc=_storable,
    )
    if answer == REMOVE:
        values.pop(name, None)
    elif answer:
        values[name] = answer


def _storable(answer: str) -> str:
    """The answer as an env file can hold it; else click asks again."""
    answer = answer.strip()
    try:
        envfile.quoted(answer)
    except RalphError as error:
        raise click.UsageError(error.message) from error
    return answer


def _masked(secret: str) -> str:
    """Enough of a secret to recognise it."""
    return f"***{secret[-4:]}" if len(secret) >= 16 else "***" if secret else ""


def _explained(channel: Channel, name: str) -> str:
    needed = "" if name in channel.needs else "optional; "
    default = f" (default {channel.defaults[name]})" if name in channel.defaults else ""
    return f"{needed}{channel.help.get(name, 'see ' + str(channel.path))}{default}"


def _write(env_path: Path, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    changes = {
        name: after.get(name) for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)
    }
    if not changes:
        click.echo("\nNothing changed.")
        return
    envfile.update(env_path, changes)
    click.echo(f"\nWritten to {env_path}, which only you can read.")


def _offer_test(chosen: Sequence[Channel], values: Mapping[str, str]) -> int:
    """Tries the chosen channels with what a run would use."""
    in_effect = {**values, **{name: os.environ[name] for name in settings_names(chosen) if name in os.environ}}
    ready = configured(chosen, in_effect)
    if not ready or not click.confirm("\nSend a test notice now?", default=True):
        return 0
    return test(ready, in_effect)
