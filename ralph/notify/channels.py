"""Channels: files that say which settings a destination needs and what it gets; and the delivery of notices to them."""

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
"""Seconds for one notice to one channel: a program gets all of them, each of two HTTP attempts 6 of them."""
_ADDRESS = re.compile(r"https?://(?:[^\s/@'\"<>]*@)?([^\s/?#'\"<>]+)[^\s'\"<>]*")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""Slack and Telegram both want these three escaped this way, and no others:
https://docs.slack.dev/messaging/formatting-message-text, https://core.telegram.org/bots/api#html-style"""
_FILTERS: Mapping[str, Callable[..., str]] = {
    "cut": shorten,
    "cut_bytes": lambda text, most: shorten(text, most // 3),
    **dict.fromkeys(("html", "slack"), lambda text: text.translate(_ENTITIES)),
    # Text of the same length that cannot end the ``` block around it: backticks at its edges and in rows are replaced.
    "fenced": partial(re.compile(r"`(?=`)|(?<=`)`|^`|`$").sub, "\N{MODIFIER LETTER GRAVE ACCENT}"),
    # For Discord, outside of a code block: everything that would be markup is escaped.
    "markdown": partial(re.compile(r"([\\`*_~|<>#\[\]()-])").sub, r"\\\1"),
}
"""The filters that channel templates may apply to a text."""

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
"""The events that a channel gets unless it lists its own, each with the name of an emoji and the emoji."""


class Notice(NamedTuple):
    """Something that the user should know, without any markup."""

    event: str
    """One of EVENTS, or `alive`: a sign of life."""
    title: str = ""
    body: str = ""

    @property
    def variables(self) -> dict[str, str]:
        """The variables that channel templates can use for this notice."""
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
    """One destination: `request` or `command` says how to reach it; names in the other fields are RALPH_ settings."""

    path: Path
    name: str
    title: str = ""
    needs: Sequence[str] = ()
    optional: Sequence[str] = ()
    secret: Sequence[str] = ()
    help: Mapping[str, str] = {}
    defaults: Mapping[str, str] = {}
    request: Mapping[str, Any] = {}
    """The arguments for `ralph.notify.http.send_request`; strings in it are templates."""
    command: Sequence[str] = ()
    """A program and its arguments, which are templates too."""
    checked: bool = False
    """Whether the command's exit code says if the notice got through."""
    events: Sequence[str] = tuple(EVENTS)
    """The events that the channel gets."""

    @property
    def setting_names(self) -> Sequence[str]:
        """The names of its settings in the order of the file, the required ones first."""
        return [*self.needs, *self.optional]

    def missing(self, values: Mapping[str, str]) -> Sequence[str]:
        """Returns the required settings that have no value."""
        return [name for name in self.needs if not values.get(name)]


def load_channels() -> Mapping[str, Channel]:
    """Returns all channels by name: the built-in ones, and the user's, which replace built-in ones of the same name.

    None comes from the project, which the agent can write. Raises RalphError for a malformed file.
    """
    channels = dict[str, Channel]()
    for folder in (files.data_folder("notify"), Path.home() / ".ralph" / "notify"):
        for path in sorted(folder.glob("*.toml")):
            try:
                table = tomllib.loads(path.read_text(encoding="utf-8"))
                channels[path.stem] = Channel(path, path.stem, **table)
            except (OSError, ValueError, TypeError) as error:  # unreadable, not TOML, or an unknown key
                raise RalphError(f"{path}: not a channel file: {error}") from error
    return channels


def configured_channels(values: Mapping[str, str]) -> Sequence[Channel]:
    """Returns the channels that have all required settings; the others are off."""
    channels = load_channels().values() if any(values.values()) else ()
    return [channel for channel in channels if not channel.missing(values)]


def deliver_notice(
    channel: Channel, notice: Notice, values: Mapping[str, str], *, timeout_s: float = _DELIVERY_S
) -> str:
    """Sends the notice now, and returns "" or the failure in words, without secrets. Raises nothing."""
    settings = {name: values.get(name) or channel.defaults.get(name, "") for name in channel.setting_names}
    variables = settings | notice.variables
    try:
        if channel.command:
            failure = _run(channel, fill_templates(channel.command, variables), timeout_s)
        else:
            failure = _send(fill_templates(channel.request, variables), timeout_s)
    except Exception as error:  # noqa: BLE001 - whatever a channel file causes must not end a run
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
    """Sends the request, and once more if the trouble may pass: network, server, too many requests.

    Returns "" or the failure in words.
    """
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
    """The text with each address cut down to its host."""
    return _ADDRESS.sub(r"\1", text)


def _hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with *** for secrets and parts of them longer than 8 characters, except the hosts of addresses."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be a part of another
        for hidden in (secret, *re.split("[/?&=@#]+", secret.replace(hide_addresses(secret), ""))):
            text = text.replace(hidden, "***") if len(hidden) > 8 else text
    return text


def fill_templates(template: Any, variables: Mapping[str, str]) -> Any:
    """Returns the template with each string in it rendered on its own; leaves out table entries that come out empty."""
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
    """Sends notices in the background, with a thread for each channel that has something to send."""

    def __init__(self, channels: Iterable[Channel], values: Mapping[str, str], complain: Callable[[str], None]) -> None:
        self._values, self._complain, self._lock = values, complain, threading.Lock()
        self._waiting = [(channel, list[Notice]()) for channel in channels]
        """The queue of each channel; its first notice is being sent."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the channels that get a notice when a run is done."""
        return [channel.name for channel, _ in self._waiting if "done" in channel.events]

    def send(self, notice: Notice) -> None:
        """Queues the notice for every channel that gets such an event, unless it is in that queue already."""
        for channel, waiting in self._waiting:
            with self._lock:
                if notice.event not in channel.events or notice in waiting:
                    continue
                waiting.append(notice)
                if len(waiting) == 1:
                    with contextlib.suppress(RuntimeError):  # out of threads: the end of the run reports what is left
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
        """Whether any notice is still waiting or being sent."""
        return any(waiting for _, waiting in self._waiting)

    def close(self) -> None:
        """Gives up on the notices not sent yet, and reports each."""
        with self._lock:
            for channel, waiting in self._waiting:
                for notice in waiting:
                    self._complain(_not_sent_line(channel, notice, "no time left"))
                waiting.clear()


def _not_sent_line(channel: Channel, notice: Notice, why: str) -> str:
    return ": ".join(filter(None, [channel.name, "not sent", notice.title, why]))
