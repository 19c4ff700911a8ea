"""`ralph notify`: setting a channel up in a conversation, and trying them out."""

import os
import socket
import sys
from collections.abc import Mapping, Sequence

import click

from ralph import sources
from ralph.channels import Channel, Notice, configured, deliver

_REMOVE = "-"


def usage(channels: Sequence[Channel]) -> str:
    """What `ralph notify` can do, and every channel with its settings."""
    lines = [
        "Usage: ralph notify setup    choose a channel and enter its settings",
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
    body = f"Notices from {socket.gethostname()} arrive here."
    notice = Notice(event="test", title="Ralph Test", body=body)
    for channel in channels:
        if 0 < len(missing := channel.missing(values)) < len(channel.needs):
            click.echo(f"{channel.name}: off, because {' and '.join(missing)} is not set")
    if not (ready := configured(channels, values)):
        click.echo("No channel is set up, so nothing was sent. Run `ralph notify setup` first.")
        return 1
    failed = False
    for channel in ready:
        why = deliver(channel, notice, values)
        click.echo(f"{channel.name}: FAILED: {why}" if why else f"{channel.name}: sent")
        failed |= bool(why)
    return int(failed)


def setup(channels: Sequence[Channel]) -> int:
    """Asks for the settings of one channel, writes them in one go, offers a test; the exit code."""
    path = sources.home_file()
    before = sources.kept(path)
    click.echo("ralph can send notices through these channels:\n")
    for channel in channels:
        state = "" if channel.missing(before) else "  (is set up)"
        click.echo(f"  {channel.name:<10} {channel.title}{state}")
    names = click.Choice([channel.name for channel in channels], case_sensitive=False)
    name = click.prompt("\nWhich one do you want to set up or change?", type=names, show_choices=False)
    channel = next(channel for channel in channels if channel.name == name)
    click.echo(f"\nEnter keeps what is there, {_REMOVE} removes it. Secrets do not show while you type.")
    changed = _asked(channel, before)
    if changed:
        sources.keep(path, changed)
    click.echo(f"\nWritten to {path}, which only you can read." if changed else "\nNothing changed.")
    values = sources.channel_values()
    if missing := channel.missing(values):
        click.echo(f"Without {' and '.join(missing)}, {channel.name} stays off.")
        return 0
    return test([channel], values) if click.confirm("\nSend a test notice now?", default=True) else 0


def _asked(channel: Channel, before: Mapping[str, str]) -> dict[str, str | None]:
    """What shall change, None being removed; what is optional is asked only when the channel has what it needs."""
    after = dict(before)
    for name in channel.names:
        if name in channel.optional and channel.missing(after):
            break
        click.echo(f"\n  {name}: {_explained(channel, name)}")
        if name in os.environ:
            click.echo("  (It is set in the environment too, which comes before the file.)")
        secret, there = name in channel.secret, before.get(name, "")
        shown = f" [{'***' if secret else there}]" if there else ""
        hidden = secret and sys.stdin.isatty()
        answer = click.prompt(f"  value{shown}", default="", show_default=False, hide_input=hidden).strip()
        after[name] = "" if answer == _REMOVE else answer or there
    return {name: text or None for name, text in after.items() if text != before.get(name, "")}


def _explained(channel: Channel, name: str) -> str:
    needed = "" if name in channel.needs else "optional; "
    default = f" (default {channel.defaults[name]})" if name in channel.defaults else ""
    return f"{needed}{channel.help.get(name, f'see {channel.path}')}{default}"
