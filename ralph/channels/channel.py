"""Channels: files that say which settings a destination needs and what it gets, and how a notice gets there."""

import functools
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph import files, process
from ralph.channels import http
from ralph.errors import RalphError
from ralph.words import plain, shortened

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

_DELIVERY_S = 15.0
"""Seconds for one notice to one channel: a program has them all, each of two tries to send it 6 of them."""
_NONE: Mapping[str, Any] = {}


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
"""What a channel is told of, unless it says of what, with an emoji: its name and itself."""


class Notice(NamedTuple):
    """Something that people should know, free of any markup."""

    event: str
    """One of EVENTS, or `alive`: a sign of life."""
    title: str = ""
    body: str = ""

    @property
    def variables(self) -> dict[str, str]:
        """What the templates of channels may say of it."""
        title, body = " ".join(clean(self.title).split()), clean(self.body)
        message = f"{title}\n{body}" if body else title
        name, _, emoji = EVENTS.get(self.event, "").partition(" ")
        said = {"event": self.event, "title": title, "body": body, "message": message}
        return said | {"emoji": emoji, "emoji_code": f":{name}:"}


class Channel(NamedTuple):
    """One destination: `request` or `command` says how to reach it, the names are RALPH_ settings."""

    path: Path
    name: str
    title: str = ""
    needs: Sequence[str] = ()
    optional: Sequence[str] = ()
    secret: Sequence[str] = ()
    help: Mapping[str, str] = _NONE
    defaults: Mapping[str, str] = _NONE
    request: Mapping[str, Any] = _NONE
    """What `ralph.channels.http.ask` takes, its strings being templates."""
    command: Sequence[str] = ()
    """A program and its arguments, templates too."""
    checked: bool = False
    """The command says by its exit code whether it got through."""
    events: Sequence[str] = ()
    """What it is told of; all but signs of life, where it does not say."""

    @property
    def names(self) -> Sequence[str]:
        """Its settings in the order of the file, the needed ones first."""
        return [*self.needs, *self.optional]

    def settings(self, values: Mapping[str, str]) -> dict[str, str]:
        """Its settings as the templates get them: the value, else the default, else ""."""
        return {name: values.get(name, "").strip() or self.defaults.get(name, "") for name in self.names}

    def missing(self, values: Mapping[str, str]) -> Sequence[str]:
        """What it needs and has not got."""
        return [name for name in self.needs if not values.get(name, "").strip()]


def load(folders: Sequence[Path] = ()) -> Sequence[Channel]:
    """Every channel of these folders by name; a later folder's file replaces an earlier one's of the same name.

    Without folders: the built-in channels, then the person's; not the project's, which the agent can write.
    """
    folders = folders or (files.data("notify"), Path.home() / ".ralph" / "notify")
    paths = {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}
    return [_channel(paths[name]) for name in sorted(paths)]


def configured(values: Mapping[str, str]) -> Sequence[Channel]:
    """The channels that have all they need; the others are off."""
    return [channel for channel in load() if not channel.missing(values)] if values else []


def _channel(path: Path) -> Channel:
    import tomllib  # noqa: PLC0415 - 7 ms that a run for which nothing is set need not pay

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        channel = Channel(path, path.stem, **({"title": path.stem.capitalize()} | table))
    except (OSError, ValueError, TypeError) as error:  # unreadable, no TOML, or a key that no channel has
        raise RalphError(f"{path}: is no channel file: {error}") from error
    if unknown := {*channel.secret, *channel.help, *channel.defaults} - {
        *channel.names
    }:  # such a secret would be shown
        raise RalphError(f"{path}: {', '.join(sorted(unknown))} is neither in needs nor in optional")
    return channel


def deliver(channel: Channel, notice: Notice, values: Mapping[str, str], *, timeout_s: float = _DELIVERY_S) -> str:
    """Sends the notice now; "" or the failure in words, which hold no secret. Raises nothing."""
    settings = channel.settings(values)
    variables = settings | notice.variables
    try:
        if channel.command:
            failure = _run(filled(channel.command, variables), timeout_s, checked=channel.checked)
        else:
            failure = _send(filled(channel.request, variables), timeout_s)
    except Exception as error:  # noqa: BLE001 - whatever a channel file brings about, it never ends a run
        failure = f"{channel.path}: {type(error).__name__}: {error}"
    line = without_secrets(clean(failure), [settings[name] for name in channel.secret])
    return shortened(" ".join(line.split()), 250)


def _run(argv: Sequence[str], timeout_s: float, *, checked: bool) -> str:
    program = os.path.expanduser(argv[0])  # noqa: PTH111 - a Path would turn ./notify into notify
    try:
        done = process.call([program, *argv[1:]], timeout_s=timeout_s)
    except OSError as error:
        return f"{program}: {error.strerror}"
    if done.timed_out:
        return f"{program}: still running after {timeout_s:g} s"
    return f"{program}: exit code {done.code}" if checked and done.code else ""


def _send(request: Mapping[str, Any], timeout_s: float) -> str:
    """Makes the request, and once more where the trouble may pass: with the network, the server, too many requests.

    Only a plain GET follows redirects: more would be lost, or shown.
    """
    name = http.host(request.get("url", ""))
    if not name:
        return "its address is no web address"
    is_plain = request.get("method") == "GET" and not request.get("headers")
    for pause_s in (timeout_s / 15, 0):
        try:
            status, told = http.ask(**{"method": "POST", **request}, timeout_s=timeout_s * 0.4, redirects=is_plain)
            failure = f"HTTP {status} from {name}: {told}" if status >= 300 else ""
        except RalphError as error:
            status, failure = 500, f"{name}: {error.message}"
        if status < 500 and status != 429:
            break
        time.sleep(pause_s)
    return failure.rstrip(": ")


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with addresses shown as their host, and with secrets and parts of secrets as ***."""
    text = re.sub(r"https?://[^\s\"'<>]+", lambda found: http.host(found[0]), text)
    for secret in secrets:
        parts = [part for part in re.split(r"[/?&=@#]+", secret) if len(part) > 8 and part != http.host(secret)]
        for hidden in sorted({secret, *parts} - {""}, key=len, reverse=True):
            text = text.replace(hidden, "***")
    return text


def filled(template: Any, variables: Mapping[str, str]) -> Any:
    """The same with every string in it rendered, each by itself; what comes out empty in a table is left out."""
    if isinstance(template, str):
        return _environment().from_string(template).render(variables)
    if isinstance(template, list):
        return [filled(item, variables) for item in template]
    if isinstance(template, Mapping):
        return {key: text for key, item in template.items() if (text := filled(item, variables)) != ""}
    return template


def clean(text: str) -> str:
    """The text without what could drive a terminal, and without halves of characters, which nobody can send."""
    return plain(text).encode("utf-8", "replace").decode()


def cut(text: str, most: int) -> str:
    """The text, ended by an ellipsis where it is longer than so many bytes of UTF-8: no platform counts more."""
    data = text.encode()
    return text if len(data) <= most else data[: most - len("…".encode())].decode(errors="ignore") + "…"


def fenced(text: str) -> str:
    """Text of the same length that cannot end the ``` block around it: backticks at its edges and in rows change."""
    return re.sub(r"`(?=`)|(?<=`)`|^`|`$", "\N{MODIFIER LETTER GRAVE ACCENT}", text)


def escaped(text: str) -> str:
    """Text for Slack and for Telegram's HTML, which both want these three written as entities and no others.

    https://docs.slack.dev/messaging/formatting-message-text, https://core.telegram.org/bots/api#html-style
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def markdown(text: str) -> str:
    """Text outside a code block for Discord, with everything escaped that would be markup."""
    return re.sub(r"([\\`*_~|<>#\[\]()-])", r"\\\1", text)


@functools.cache
def _environment() -> "SandboxedEnvironment":
    from jinja2 import StrictUndefined  # noqa: PLC0415 - 40 ms that only a run that sends pays
    from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415 - same

    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    own = {"cut": cut, "cut_bytes": cut, "fenced": fenced, "html": escaped, "slack": escaped, "markdown": markdown}
    environment.filters.update(own)
    return environment
