"""Channels: files that say which settings a destination needs and what it gets, and how a notice gets there."""

import os
import re
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ralph import files, process
from ralph.channels import http
from ralph.channels.dialects import Notice, clean, cut, filled
from ralph.errors import RalphError

_DELIVERY_S = 15.0
"""Seconds for one notice to one channel: a program has them all, each of two tries to send it 6 of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One destination: `request` or `command` says how to reach it, the names are RALPH_ settings."""

    path: Path
    name: str
    title: str
    needs: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    help: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)
    """What `ralph.channels.http.ask` takes, its strings being templates."""
    command: tuple[str, ...] = ()
    """A program and its arguments, templates too."""
    checked: bool = False
    """The command says by its exit code whether it got through."""

    def __post_init__(self) -> None:
        """Raises ValueError where the keys, each right by itself, do not fit together."""
        if bool(self.request) == bool(self.command):
            raise ValueError("needs either [request] or command")
        if wrong := [name for name in self.names if not re.fullmatch(r"RALPH_[A-Z0-9_]+", name)]:
            raise ValueError(f"{wrong[0]}: a setting is named RALPH_ and capitals")
        if unknown := {*self.secret, *self.help, *self.defaults} - {*self.names}:
            raise ValueError(f"{', '.join(sorted(unknown))} is neither in needs nor in optional")

    @property
    def names(self) -> tuple[str, ...]:
        """Its settings in the order of the file, the needed ones first."""
        return (*self.needs, *self.optional)

    def settings(self, values: Mapping[str, str]) -> dict[str, str]:
        """Its settings as the templates get them: the value, else the default, else ""."""
        return {name: values.get(name, "").strip() or self.defaults.get(name, "") for name in self.names}

    def missing(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """What it needs and has not got."""
        return tuple(name for name in self.needs if not values.get(name, "").strip())


def load(folders: Sequence[Path] = ()) -> tuple[Channel, ...]:
    """Every channel of these folders by name; a later folder's file replaces an earlier one's of the same name.

    Without folders: the built-in channels, then the person's; not the project's, which the agent can write.
    """
    folders = folders or (files.data("notify"), Path.home() / ".ralph" / "notify")
    paths = {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}
    return tuple(_channel(paths[name]) for name in sorted(paths))


def configured(channels: Iterable[Channel], values: Mapping[str, str]) -> tuple[Channel, ...]:
    """The channels that have all they need; the others are off."""
    return tuple(channel for channel in channels if not channel.missing(values))


def _channel(path: Path) -> Channel:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        _check(table, _KEYS)
        _check(table.get("request", {}), _REQUEST, "request.")
        tuples = {key: tuple(value) for key, value in table.items() if isinstance(value, list)}
        return Channel(path=path, name=path.stem, **{"title": path.stem.capitalize(), **table, **tuples})
    except OSError as error:
        raise RalphError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError) as error:  # bad TOML, bad UTF-8, a number for a text, or what does not fit together
        raise RalphError(f"{path}: {error}") from error


_TYPES = {str: "a text", list: "a list of texts", dict: "a table", bool: "true or false"}
_KEYS = dict.fromkeys(("needs", "optional", "secret", "command"), list) | {"title": str, "checked": bool}
_KEYS |= dict.fromkeys(("help", "defaults", "request"), dict)
_REQUEST = {"url": str, "method": str, "headers": dict, "json": dict, "body": str}


def _check(table: Mapping[str, Any], types: Mapping[str, type], prefix: str = "") -> None:
    """Raises ValueError at the first key that is unknown, or whose value is of another type than it should be."""
    for key, value in table.items():
        if key not in types:
            raise ValueError(f"unknown key {prefix}{key}; known are {', '.join(types)}")
        if type(value) is not types[key]:
            raise ValueError(f"{prefix}{key} must be {_TYPES[types[key]]}")


def deliver(channel: Channel, notice: Notice, values: Mapping[str, str], *, timeout_s: float = _DELIVERY_S) -> str:
    """Sends the notice now; "" or the failure in words, which hold no secret. Raises nothing."""
    settings = channel.settings(values)
    variables = settings | notice.variables
    try:
        if channel.command:
            failure = _run(filled([*channel.command], variables), timeout_s, checked=channel.checked)
        else:
            failure = _send(filled(channel.request, variables), timeout_s)
    except Exception as error:  # noqa: BLE001 - whatever a channel file brings about, it never ends a run
        failure = f"{channel.path}: {type(error).__name__}: {error}"
    line = without_secrets(clean(failure), [settings[name] for name in channel.secret])
    return cut(" ".join(line.split()), 250)


def _run(argv: Sequence[str], timeout_s: float, *, checked: bool) -> str:
    program = os.path.expanduser(argv[0])  # noqa: PTH111 - a Path would turn ./notify into notify
    try:
        done = process.call([program, *argv[1:]], timeout_s=timeout_s)
    except OSError as error:
        return f"{program}: {error.strerror}"
    if done.timed_out:
        return f"{program}: still running after {timeout_s:g} s"
    return f"{program}: exit code {done.code}" if checked and done.code else ""


def _send(request: Mapping[str, Any], timeout_s: float, *, again: bool = True) -> str:
    """Makes the request, and once more where the trouble may pass: with the network, the server, too many requests.

    Only a plain GET follows redirects: more would be lost, or shown.
    """
    if not (name := http.host(request.get("url", ""))):
        return "its address is no web address"
    plain = request.get("method") == "GET" and not request.get("headers")
    try:
        status, told = http.ask(**{"method": "POST", **request}, timeout_s=timeout_s * 0.4, redirects=plain)
        told = "" if plain else told
        failure = f"HTTP {status} from {name}" if status >= 300 else ""
    except RalphError as error:
        status, told, failure = 500, error.message, name
    if again and (status >= 500 or status == 429):
        time.sleep(timeout_s / 15)
        return _send(request, timeout_s, again=False)
    return f"{failure}: {told}" if told else failure


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with addresses shown as their host, and with secrets and parts of secrets as ***."""
    text = re.sub(r"https?://[^\s\"'<>]+", lambda found: http.host(found[0]), text)
    for secret in secrets:
        parts = [part for part in re.split(r"[/?&=@#]+", secret) if len(part) > 8 and part != http.host(secret)]
        for hidden in sorted({secret, *parts} - {""}, key=len, reverse=True):
            text = text.replace(hidden, "***")
    return text
