"""Channels: files that say which settings a destination needs and what it gets; and notices on their way there."""

import contextlib
import os
import re
import threading
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from ralph import files
from ralph.errors import RalphError
from ralph.notify import http
from ralph.process.programs import call_program
from ralph.words import shorten, without_control_codes

_DELIVERY_S = 15.0
"""Seconds for one notice to one channel: a program has them all, each of two attempts to send it 6 of them."""
_ADDRESS = re.compile(r"https?://(?:[^\s/@'\"<>]*@)?([^\s/?#'\"<>]+)[^\s'\"<>]*")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""Slack and Telegram both want these three written so, and no others:
https://docs.slack.dev/messaging/formatting-message-text, https://core.telegram.org/bots/api#html-style"""
_FILTERS: Mapping[str, Callable[..., str]] = {
    "cut": shorten,
    "cut_bytes": lambda text, most: shorten(text, most // 3),
    **dict.fromkeys(("html", "slack"), lambda text: text.translate(_ENTITIES)),
    # Text of the same length that cannot end the ``` block around it: backticks at its edges and in rows change.
    "fenced": partial(re.compile(r"`(?=`)|(?<=`)`|^`|`$").sub, "\N{MODIFIER LETTER GRAVE ACCENT}"),
    # For Discord, outside of a code block: everything is escaped that would be markup.
    "markdown": partial(re.compile(r"([\\`*_~|<>#\[\]()-])").sub, r"\\\1"),
}
"""What the templates of channels may do with a text."""

EVENTS = {
    "started": "rocket 🚀",
    "planned": "clipboard 📋",
    "progress": "gear ⚙️",
    "done": "white_check_mark ✅",
    "stopped": "warning ⚠️",
    "blocked": "raised_hand ✋",
    "waiting": "hourglass ⌛",
    "test": "robot_face 🤖",
}
"""The events that a channel gets unless it lists its own, with an emoji: name and event."""


class Notice(NamedTuple):
    """Something that people should know, free of any markup."""

    event: str
    """One of EVENTS, or `alive`: a sign of life."""
    title: str = ""
    body: str = ""

    @property
    def variables(self) -> dict[str, str]:
        """What the templates of channels may say of it."""
        title, body = " ".join(without_control_codes(self.title).split()), without_control_codes(self.body)
        name, _, emoji = EVENTS.get(self.event, "").partition(" ")
        return {
            "event": self.event,
            "title": title,
            "body": body,
            "message": f"{title}\n{body}".rstrip(),
            "emoji": emoji,
            "emoji_code": f":{name}:",
        }


class Channel(NamedTuple):
    """One destination: `request` or `command` says how to reach it, the names are RALPH_ settings."""

    path: Path
    name: str
    title: str = ""
    needs: Sequence[str] = ()
    optional: Sequence[str] = ()
    secret: Sequence[str] = ()
    help: Mapping[str, str] = {}
    defaults: Mapping[str, str] = {}
    request: Mapping[str, Any] = {}
    """What `ralph.notify.http.ask` takes, its strings being templates."""
    command: Sequence[str] = ()
    """A program and its arguments, templates too."""
    checked: bool = False
    """The command says by its exit code whether it got through."""
    events: Sequence[str] = tuple(EVENTS)
    """The events that it gets."""

    @property
    def setting_names(self) -> Sequence[str]:
        """Its settings in the order of the file, the needed ones first."""
        return [*self.needs, *self.optional]

    def missing(self, values: Mapping[str, str]) -> Sequence[str]:
        """What it needs and has not got."""
        return [name for name in self.needs if not values.get(name)]


def load_channel() -> Mapping[str, Channel]:
    """Every channel by its name: the built-in ones, and the user's, of which one may replace one of the same name.

    None is the project's, which the agent can write.
    """
    channels = dict[str, Channel]()
    for folder in (files.data_folder("notify"), Path.home() / ".ralph" / "notify"):
        for path in sorted(folder.glob("*.toml")):
            try:
                table = tomllib.loads(path.read_text(encoding="utf-8"))
                channels[path.stem] = Channel(path, path.stem, **table)
            except (OSError, ValueError, TypeError) as error:  # unreadable, no TOML, or a key that no channel has
                raise RalphError(f"{path}: not a channel file: {error}") from error
    return channels


def configured_channels(values: Mapping[str, str]) -> Sequence[Channel]:
    """The channels that have all they need; the others are off."""
    return (
        [channel for channel in load_channel().values() if not channel.missing(values)] if any(values.values()) else []
    )


def deliver_notice(
    channel: Channel, notice: Notice, values: Mapping[str, str], *, timeout_s: float = _DELIVERY_S
) -> str:
    """Sends the notice now; "" or the failure in words, which hold no secret. Raises nothing."""
    settings = {name: values.get(name) or channel.defaults.get(name, "") for name in channel.setting_names}
    variables = settings | notice.variables
    try:
        if channel.command:
            failure = _run(channel, fill_templates(channel.command, variables), timeout_s)
        else:
            failure = _send(fill_templates(channel.request, variables), timeout_s)
    except Exception as error:  # noqa: BLE001 - whatever a channel file brings about, it never ends a run
        failure = f"{channel.path}: {type(error).__name__}: {error}"
    line = hide_addresses(" ".join(without_control_codes(failure).split()))
    return shorten(_hide_secrets(line, [settings.get(name, "") for name in channel.secret]), 250)


def _run(channel: Channel, argv: Sequence[str], timeout_s: float) -> str:
    program = os.path.expanduser(argv[0])  # noqa: PTH111 - a Path would turn ./notify into notify
    done = call_program([program, *argv[1:]], timeout_s=timeout_s)
    if done.code < 0:
        return f"{program}: killed by signal {-done.code}; it has {timeout_s:g} s"
    return f"{program}: exit code {done.code}" if channel.checked and done.code else ""


def _send(request: Mapping[str, Any], timeout_s: float) -> str:
    """Makes the request, and once more where the trouble may pass: with the network, the server, too many requests."""
    for pause_s in (timeout_s / 15, 0):
        status, text = http.send_request(**{"method": "POST", **request}, timeout_s=timeout_s * 0.4)
        if 0 < status < 500 and status != 429:
            break
        time.sleep(pause_s)
    if 0 < status < 300:
        return ""
    answer = f"HTTP {status}" if status else ""
    return ": ".join(filter(None, [hide_addresses(request["url"]), answer, text]))


def hide_addresses(text: str) -> str:
    """The text with addresses shown as their host."""
    return _ADDRESS.sub(r"\1", text)


def _hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with secrets and parts of secrets as ***, except the hosts of addresses."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be a part of another
        for hidden in (secret, *re.split("[/?&=@#]+", secret.replace(hide_addresses(secret), ""))):
            text = text.replace(hidden, "***") if len(hidden) > 8 else text
    return text


def fill_templates(template: Any, variables: Mapping[str, str]) -> Any:
    """What it is with every string in it rendered, each by itself; what comes out empty in a table is left out."""
    if isinstance(template, list):
        return [fill_templates(item, variables) for item in template]
    if isinstance(template, Mapping):
        table = {key: fill_templates(item, variables) for key, item in template.items()}
        return {key: item for key, item in table.items() if item != ""}
    if not isinstance(template, str):
        return template
    environment = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False)
    environment.filters |= _FILTERS
    return environment.from_string(template).render(variables)


class Outbox:
    """Notices on their way in the background: a thread for each channel for which something is there to be sent."""

    def __init__(self, channels: Iterable[Channel], values: Mapping[str, str], complain: Callable[[str], None]) -> None:
        self._values, self._complain, self._lock = values, complain, threading.Lock()
        self._waiting = [(channel, list[Notice]()) for channel in channels]
        """The first notice of each channel is being sent."""

    @property
    def names(self) -> Sequence[str]:
        """The channels that hear how a run ends."""
        return [channel.name for channel, _ in self._waiting if "done" in channel.events]

    def send(self, notice: Notice) -> None:
        """Queues the notice, unless it is there already, for every channel that gets such an event."""
        for channel, waiting in self._waiting:
            with self._lock:
                if notice.event not in channel.events or notice in waiting:
                    continue
                waiting.append(notice)
                if len(waiting) == 1:
                    with contextlib.suppress(RuntimeError):  # no more threads: the end of the run says what is left
                        threading.Thread(target=self._deliver_waiting, args=(channel, waiting), daemon=True).start()

    def _deliver_waiting(self, channel: Channel, waiting: list[Notice]) -> None:
        while first := waiting[:1]:
            why = deliver_notice(channel, first[0], self._values)
            with self._lock:
                if why and waiting:  # else close() was quicker
                    self._complain(_not_sent_line(channel, first[0], why))
                del waiting[:1]
                if not waiting:
                    return

    def has_pending(self) -> bool:
        """Whether anything is still on its way."""
        return any(waiting for _, waiting in self._waiting)

    def close(self) -> None:
        """Gives up on what is still on its way, and says so."""
        with self._lock:
            for channel, waiting in self._waiting:
                for notice in waiting:
                    self._complain(_not_sent_line(channel, notice, "no time left"))
                waiting.clear()


def _not_sent_line(channel: Channel, notice: Notice, why: str) -> str:
    return ": ".join(filter(None, [channel.name, "not sent", notice.title, why]))
