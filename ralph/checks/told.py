"""Who hears of a run: channels and the monitor; and the file that holds their secrets."""

import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from ralph import channels, sources
from ralph.channels import Channel, Notice
from ralph.channels.dialects import filled
from ralph.checks.check import Check
from ralph.settings import Settings, Source

_SET_UP = "ralph notify setup"


def env_file() -> Check:
    """Whether only its owner can read the person's env file."""
    path = sources.home_file()
    if not path.exists():
        return Check(name="env file", ok=True, said=f"there is no {path}")
    if not sources.open_to_others(path):
        return Check(name="env file", ok=True, said=f"{path} is yours alone")
    what = f"{path} can be read by others and may hold secrets"
    return Check(name="env file", ok=False, said=what, remedy=f"chmod 600 {path}", obstacle=False)


def told(*, live: bool) -> list[Check]:
    """The channels that are set up, or nearly; with `live` each gets a notice."""
    known, values = channels.load(channels.default_folders()), sources.channel_values()
    ready = channels.configured(known, values)
    look = _tried if live else _named
    with ThreadPoolExecutor() as pool:  # one that is dead takes its time
        found = list(pool.map(lambda channel: look(channel, values), ready))
    found += [_half(channel, values) for channel in known if 0 < len(channel.missing(values)) < len(channel.needs)]
    found += _only_here("channel", sorted(channels.settings_names(ready)))
    if not ready:
        what = "none is set up: nobody hears how a run ends"
        found.append(Check(name="channel", ok=False, said=what, remedy=_SET_UP, obstacle=False))
    return found


def _named(channel: Channel, values: Mapping[str, str]) -> Check:
    program = _program(channel, values)
    if program and not shutil.which(program):
        what = f"{channel.name}: {program} is not there, or not executable"
        return Check(name="channel", ok=False, said=what, remedy=_SET_UP)
    return Check(name="channel", ok=True, said=f"{channel.name} is set up; not tried, --live does")


def _program(channel: Channel, values: Mapping[str, str]) -> str:
    if not channel.command:
        return ""
    first: str = filled(channel.command[0], _notice(), channel.settings(values))
    return os.path.expanduser(first)  # noqa: PTH111 - a Path would turn ./notify into notify


def _tried(channel: Channel, values: Mapping[str, str]) -> Check:
    why = channels.deliver(channel, _notice(), values)
    if why:
        return Check(name="channel", ok=False, said=f"{channel.name}: not sent: {why}", remedy=_SET_UP)
    return Check(name="channel", ok=True, said=f"{channel.name}: a notice was sent")


def _half(channel: Channel, values: Mapping[str, str]) -> Check:
    what = f"{channel.name} is off, because {' and '.join(channel.missing(values))} is not set"
    return Check(name="channel", ok=False, said=what, remedy=_SET_UP, obstacle=False)


def _only_here(name: str, variables: Sequence[str]) -> list[Check]:
    """What the environment says of them and no file does."""
    kept = {one.variable for one in sources.in_file(sources.home_file(), Source.HOME_FILE)[0]}
    lost = [variable for variable in variables if os.environ.get(variable) and variable not in kept]
    if not lost:
        return []
    what = f"{' and '.join(lost)}: only in this environment, which cron does not have"
    return [Check(name=name, ok=False, said=what, remedy=f"write that into {sources.home_file()}", obstacle=False)]


def _notice() -> Notice:
    import socket  # noqa: PLC0415 - only who sends needs it

    body = f"ralph doctor on {socket.gethostname()} tries whether notices arrive. Nothing is running."
    return Notice(event="test", title="Ralph Doctor", body=body, emoji_code=":robot_face:")


def heartbeat(settings: Settings, *, live: bool) -> list[Check]:
    """Whether the monitor, if there is one, can be reached; it takes that for a sign of life."""
    if settings.heartbeat_url is None:
        return [Check(name="heartbeat", ok=True, said="no monitor is told")]
    why = channels.fetch(settings.heartbeat_url) if live else ""
    if why:
        return [Check(name="heartbeat", ok=False, said=why, remedy="see --heartbeat-url")]
    how = "the monitor was told" if live else "a monitor is told; not tried, --live does"
    return [Check(name="heartbeat", ok=True, said=how), *_only_here("heartbeat", ["RALPH_HEARTBEAT_URL"])]
