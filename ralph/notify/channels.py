"""Channels: files that say which settings a destination needs and what it gets; and the delivery of notices to them."""

import html
import os
import re
import threading
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from ralph import files
from ralph.errors import RalphError
from ralph.process.programs import call_program
from ralph.words import one_line, shorten, without_control_codes

Strings = Sequence[str]
Values = Mapping[str, str]
"""What RALPH_ settings, or the variables of a template, are set to."""
# Seconds for one notice to one channel: a program gets all of them, each of two HTTP attempts 6 of them.
_DELIVERY_S = 15.0
_ADDRESS = re.compile(r"https?://(?:[^\s/@'\"<>]*@)?([^\s/?#'\"<>]+)[^\s'\"<>]*")
# What splits a secret into the pieces that an answer may repeat; the host of an address is none of them.
_SEPARATOR = re.compile(r"^https?://[^\s/?#]*|[/?&=@#]+")
# The filters that channel templates may apply to a text.
_FILTERS = {
    "cut": shorten,
    # Slack and Telegram both want &, < and > escaped this way, and no others:
    # https://docs.slack.dev/messaging/formatting-message-text, https://core.telegram.org/bots/api#html-style
    "html": partial(html.escape, quote=False),
    # Text of the same length that cannot end the ``` block around it: backticks at its edges and in rows are replaced.
    "fenced": partial(re.compile(r"`(?=`)|(?<=`)`|^`|`$").sub, "\N{MODIFIER LETTER GRAVE ACCENT}"),
    # For Discord, outside of a code block: everything that would be markup is escaped.
    "markdown": partial(re.compile(r"([\\`*_~|<>#\[\]()-])").sub, r"\\\1"),
}

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
    title: str = "sign of life"
    """In ralph's own words."""
    body: str = ""

    @property
    def template_values(self) -> dict[str, str]:
        """The variables that channel templates can use for this notice."""
        body = without_control_codes(self.body)
        name, _, emoji = EVENTS.get(self.event, "").partition(" ")
        return self._asdict() | {
            "body": body,
            "message": f"{self.title}\n{body}",
            "emoji": emoji,
            "emoji_code": f":{name}:",
        }


class Channel(NamedTuple):
    """One destination: `request` or `command` says how to reach it; names in the other fields are RALPH_ settings."""

    path: Path
    name: str
    title: str = ""
    needs: Strings = ()
    optional: Strings = ()
    secret: Strings = ()
    help: Mapping[str, str] = {}
    defaults: Mapping[str, str] = {}
    request: Mapping[str, Any] = {}
    """The arguments for `request_status_and_error`; strings in it are templates."""
    command: Strings = ()
    """A program and its arguments, which are templates too."""
    checked: bool = False
    """Whether the command's exit code says if the notice got through."""
    events: Strings = tuple(EVENTS)
    """The events that the channel gets."""

    @property
    def setting_names(self) -> Strings:
        """The names of its settings in the order of the file, the required ones first."""
        return [*self.needs, *self.optional]

    def missing(self, values: Values) -> Strings:
        """Returns the required settings that have no value."""
        return [name for name in self.needs if not values.get(name)]


def read_channel_files() -> Mapping[str, Channel]:
    """Returns all channels by name: the built-in ones, and the user's, which replace built-in ones of the same name.

    None comes from the project, which the agent can write. Raises RalphError for a malformed file.
    """
    channels = dict[str, Channel]()
    for folder in (files.builtin_folder("notify"), Path.home() / ".ralph" / "notify"):
        for path in sorted(folder.glob("*.toml")):
            try:
                table = tomllib.loads(path.read_text(encoding="utf-8"))
                channels[path.stem] = Channel(path, path.stem, **table)
            except (OSError, ValueError, TypeError) as error:  # unreadable, not TOML, or an unknown key
                raise RalphError(f"{path}: not a channel file: {error}") from error
    return channels


def configured_channels(values: Values) -> Sequence[Channel]:
    """Returns the channels that have all required settings; the others are off."""
    return [channel for channel in read_channel_files().values() if not channel.missing(values)]


def deliver_notice(channel: Channel, notice: Notice, values: Values, *, timeout_s: float = _DELIVERY_S) -> str:
    """Sends the notice now, and returns "" or the failure in words, without secrets. Raises nothing."""
    settings = {name: values.get(name) or channel.defaults.get(name, "") for name in channel.setting_names}
    try:
        failure = _deliver(channel, settings | notice.template_values, timeout_s)
    except Exception as error:  # noqa: BLE001 - whatever a channel file causes must not end a run
        failure = f"{channel.path}: {type(error).__name__}: {error}"
    failure = cut_urls_to_hosts(without_control_codes(failure))
    secrets = (piece for name in channel.secret for piece in _SEPARATOR.split(settings.get(name, "")) if len(piece) > 8)
    for secret in sorted(secrets, key=len, reverse=True):  # one may be a part of another
        failure = failure.replace(secret, "***")
    return one_line(failure, 250)


def _deliver(channel: Channel, variables: Values, timeout_s: float) -> str:
    """Delivers with these variables, and returns "" or the failure in words; may raise anything.

    A request is sent once more if the trouble may pass: network, server, too many requests.
    """
    if channel.command:
        program, *arguments = fill_templates(channel.command, variables)
        program = os.path.expanduser(program)  # noqa: PTH111 - a Path would turn ./notify into notify
        code = call_program([program, *arguments], timeout_s=timeout_s).code
        if code < 0:
            return f"{program}: killed by signal {-code}; it has {timeout_s:g} s"
        return f"{program}: exit code {code}" if channel.checked and code else ""
    request = fill_templates(channel.request, variables)
    for pause_s in (timeout_s / 15, 0):
        status, text = request_status_and_error(**request, timeout_s=timeout_s * 0.4)
        if 0 < status < 300:
            return ""
        if 0 < status < 500 and status != 429:
            break
        time.sleep(pause_s)
    answer = f"HTTP {status}: {text}".removesuffix(": ") if status else text
    return f"{cut_urls_to_hosts(request['url'])}: {answer}"


def request_status_and_error(  # noqa: PLR0913 - what a request is made of
    url: str,
    method: str = "POST",
    *,
    timeout_s: float,
    headers: Mapping[str, str] = {},
    json: Any = None,
    body: str = "",
) -> tuple[int, str]:
    """Returns the status, and how the answer begins if it is not a success; 0 and the reason if no answer comes.

    A redirect is an answer. `timeout_s` limits the time to connect, and each silence: an answer that comes in drips
    may take longer.
    """
    import requests  # noqa: PLC0415 - 80 ms that only a run that sends should pay

    try:
        with requests.request(
            method,
            url,
            headers={"User-Agent": "ralph"} | {name: text.encode() for name, text in headers.items()},
            json=json,
            data=body.encode(),
            timeout=timeout_s,
            allow_redirects=False,
            auth=lambda prepared: prepared,  # else ~/.netrc would replace an Authorization header
            stream=True,
        ) as answer:
            message = next(answer.iter_content(500), b"") if answer.status_code >= 300 else b""
            return answer.status_code, message.decode("utf-8", "replace").strip()
    except requests.Timeout:
        return 0, f"no answer within {timeout_s:g} s"
    except Exception as error:  # noqa: BLE001 - requests lets through other errors that odd addresses and answers cause
        cause: BaseException = error  # requests and urllib3 wrap the system's message in one with the address
        while inner := cause.__context__:
            cause = inner
        return 0, getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def cut_urls_to_hosts(text: str) -> str:
    """The text with each address cut down to its host."""
    return _ADDRESS.sub(r"\1", text)


def fill_templates(template: Any, variables: Values) -> Any:
    """Returns the template with each string in it rendered on its own; leaves out table entries that come out empty."""
    match template:
        case list():
            return [fill_templates(item, variables) for item in template]
        case dict():
            return {key: text for key, item in template.items() if (text := fill_templates(item, variables)) != ""}
        case str():
            environment = SandboxedEnvironment(undefined=StrictUndefined)
            environment.filters |= _FILTERS
            return environment.from_string(template).render(variables)
    return template


class Outbox:
    """Sends notices in the background, with a thread for each configured channel that has something to send."""

    def __init__(self, values: Values, complain: Callable[[str], None]):
        self._values, self._complain = values, complain
        # The queue of each channel; its first notice is being sent.
        self._waiting = [(channel, list[Notice]()) for channel in configured_channels(values)]

    @property
    def channels_notified_when_done(self) -> Strings:
        """The names of the channels that get a notice when a run is done."""
        return [channel.name for channel, _ in self._waiting if "done" in channel.events]

    def send(self, notice: Notice) -> None:
        """Queues the notice for every channel that gets such an event."""
        for channel, waiting in self._waiting:
            if notice.event in channel.events:
                waiting.append(notice)
                if len(waiting) == 1:
                    threading.Thread(
                        target=self._send_waiting_or_complain, args=(channel, waiting), daemon=True
                    ).start()

    def _send_waiting_or_complain(self, channel: Channel, waiting: list[Notice]) -> None:
        while waiting:
            notice = waiting[0]
            why = deliver_notice(channel, notice, self._values)
            if why and waiting:  # else close() was quicker
                self._complain(f"{channel.name}: not sent: {notice.title}: {why}")
            del waiting[:1]

    def has_pending(self) -> bool:
        """Whether any notice is still waiting or being sent."""
        return any(waiting for _, waiting in self._waiting)

    def drop_pending(self) -> None:
        """Gives up on the notices not sent yet, and reports each."""
        for channel, waiting in self._waiting:
            for notice in waiting:
                self._complain(f"{channel.name}: not sent: {notice.title}: no time left")
            waiting.clear()
