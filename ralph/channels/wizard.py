"""`ralph notify`: setting channels up in a conversation, and trying them out."""

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from ralph import sources
from ralph.channels import Channel, Notice, configured, deliver, settings_names
from ralph.errors import RalphError

_REMOVE = "-"


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
    body = f"Notices from {socket.gethostname()} arrive here."
    notice = Notice(event="test", title="Ralph Test", body=body, emoji_code=":robot_face:")
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


def setup(env_path: Path, channels: Sequence[Channel]) -> int:
    """Asks for the settings of the chosen channels, writes them in one go, offers a test; the exit code."""
    before = sources.kept(env_path)
    after = dict(before)
    chosen = _choose(channels, before)
    if chosen:
        click.echo(f"\nEnter keeps what is there, {_REMOVE} removes it. Secrets do not show while you type.")
    for channel in chosen:
        _ask_for(channel, after)
    names = [name for name in before | after if before.get(name) != after.get(name)]
    if names:
        sources.keep(env_path, {name: after.get(name) for name in names})
    click.echo(f"\nWritten to {env_path}, which only you can read." if names else "\nNothing changed.")
    in_effect = after | {name: os.environ[name] for name in settings_names(chosen) if name in os.environ}
    ready = configured(chosen, in_effect)
    return test(ready, in_effect) if ready and click.confirm("\nSend a test notice now?", default=True) else 0


def _choose(channels: Sequence[Channel], values: Mapping[str, str]) -> Sequence[Channel]:
    click.echo("ralph can send notices through these channels:\n")
    known: dict[str, Channel] = {}
    for number, channel in enumerate(channels, 1):
        known |= {str(number): channel, channel.name.lower(): channel}
        state = "" if channel.missing(values) else "  (is set up)"
        click.echo(f"  {number}  {channel.name:<10} {channel.title}{state}")

    def chosen(answer: str) -> Sequence[Channel]:
        words = answer.lower().replace(",", " ").split()
        if unknown := [word for word in words if word not in known]:
            raise click.UsageError(f"{unknown[0]} is not in the list")
        return list({known[word].name: known[word] for word in words}.values())

    question = "\nWhich ones do you want to set up or change? (names or numbers)"
    default = " ".join(channel.name for channel in configured(channels, values))
    answer: Sequence[Channel] = click.prompt(question, default, show_default=bool(default), value_proc=chosen)
    return answer


def _ask_for(channel: Channel, values: dict[str, str]) -> None:
    """Puts the answers into `values`; what is optional is asked only when the channel has what it needs."""
    click.echo(f"\n{channel.title}")
    for name in channel.names:
        if name in channel.optional and channel.missing(values):
            break
        click.echo(f"\n  {name}: {_explained(channel, name)}")
        if name in os.environ:
            click.echo("  (It is set in the environment too, which comes before the file.)")
        shown, secret = values.get(name, ""), name in channel.secret
        if secret and shown:
            shown = f"***{shown[-4:]}" if len(shown) >= 16 else "***"
        answer = click.prompt(
            f"  value [{shown}]" if shown else "  value",
            default="",
            show_default=False,
            hide_input=secret and sys.stdin.isatty(),
            value_proc=_storable,
        )
        if answer:
            values[name] = answer
        if answer == _REMOVE:
            del values[name]
    if missing := channel.missing(values):
        click.echo(f"  Without {' and '.join(missing)}, {channel.name} stays off.")


def _storable(answer: str) -> str:
    """The answer as an env file can hold it; else click asks again."""
    try:
        return sources.can_be_kept(answer.strip())
    except RalphError as error:
        raise click.UsageError(error.message) from error


def _explained(channel: Channel, name: str) -> str:
    needed = "" if name in channel.needs else "optional; "
    default = f" (default {channel.defaults[name]})" if name in channel.defaults else ""
    return f"{needed}{channel.help.get(name, f'see {channel.path}')}{default}"
