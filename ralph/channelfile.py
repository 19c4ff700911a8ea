"""Channel files: what a destination is called, which settings it needs and what it sends, read from TOML."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralph import files
from ralph.errors import RalphError
from ralph.http import Json, Request

_KEYS = ("title", "needs", "optional", "secret", "help", "defaults", "request", "command")
_REQUEST_KEYS = ("url", "method", "headers", "json", "body")


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One destination: `request` or `command` says how to reach it, the names are RALPH_ settings."""

    name: str
    title: str
    needs: tuple[str, ...]
    optional: tuple[str, ...]
    secret: tuple[str, ...]
    help: Mapping[str, str]
    defaults: Mapping[str, str]
    request: Request | None
    command: tuple[str, ...]
    path: Path

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


class _MalformedError(ValueError):
    """What is wrong with a channel file; `_channel` adds which one."""


def default_folders() -> tuple[Path, ...]:
    """Built-in channels, then the person's; not the project's, which the agent can write."""
    return (files.data("notify"), files.home() / ".ralph" / "notify")


def load(folders: Sequence[Path]) -> tuple[Channel, ...]:
    """Every channel of these folders by name; a later folder's file replaces an earlier one's of the same name."""
    paths = {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}
    return tuple(_channel(paths[name]) for name in sorted(paths))


def settings_names(channels: Iterable[Channel]) -> frozenset[str]:
    """Every setting that some channel knows."""
    return frozenset(name for channel in channels for name in channel.names)


def configured(channels: Iterable[Channel], values: Mapping[str, str]) -> tuple[Channel, ...]:
    """The channels that have all they need; the others are off."""
    return tuple(channel for channel in channels if not channel.missing(values))


def _channel(path: Path) -> Channel:
    import tomllib  # noqa: PLC0415 - 10 ms that `ralph --help` need not pay

    try:
        return _parsed(path, tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise RalphError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # bad TOML, bad UTF-8, or _MalformedError
        raise RalphError(f"{path}: {error}") from error


def _parsed(path: Path, table: dict[str, Any]) -> Channel:
    _only_known("", table, _KEYS)
    if ("request" in table) == ("command" in table):
        raise _MalformedError("needs either [request] or command")
    channel = Channel(
        name=path.stem,
        title=_text("title", table.get("title", path.stem.capitalize())),
        needs=_texts("needs", table.get("needs", [])),
        optional=_texts("optional", table.get("optional", [])),
        secret=_texts("secret", table.get("secret", [])),
        help=_text_table("help", table.get("help", {})),
        defaults=_text_table("defaults", table.get("defaults", {})),
        request=_request(_table("request", table["request"])) if "request" in table else None,
        command=_texts("command", table.get("command", [])),
        path=path,
    )
    _check_names(channel)
    if not channel.request and not channel.command:
        raise _MalformedError("command is empty")
    return channel


def _check_names(channel: Channel) -> None:
    for name in channel.names:
        if not re.fullmatch(r"RALPH_[A-Z0-9_]+", name):
            raise _MalformedError(f"{name}: a setting is named RALPH_ and capitals")
    for key, names in (("secret", channel.secret), ("help", channel.help), ("defaults", channel.defaults)):
        if unknown := [name for name in names if name not in channel.names]:
            raise _MalformedError(f"{key}: {', '.join(unknown)} is neither in needs nor in optional")


def _request(table: dict[str, Any]) -> Request:
    _only_known("request.", table, _REQUEST_KEYS)
    if "url" not in table:
        raise _MalformedError("request.url is missing")
    if "json" in table and "body" in table:
        raise _MalformedError("request.json and request.body exclude each other")
    return Request(
        url=_text("request.url", table["url"]),
        method=_text("request.method", table.get("method", "POST")),
        headers=_text_table("request.headers", table.get("headers", {})),
        json=_json_table("request.json", table["json"]) if "json" in table else None,
        body=_text("request.body", table["body"]) if "body" in table else None,
    )


def _only_known(prefix: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    if unknown := [key for key in table if key not in known]:
        raise _MalformedError(f"unknown key {prefix}{unknown[0]}; known are {', '.join(known)}")


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _MalformedError(f"{key} must be a text")
    return value


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _MalformedError(f"{key} must be a list of texts")
    return tuple(_text(f"each of {key}", item) for item in value)


def _table(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _MalformedError(f"{key} must be a table")
    return value


def _text_table(key: str, value: Any) -> dict[str, str]:
    return {name: _text(f"{key}.{name}", item) for name, item in _table(key, value).items()}


def _json_table(key: str, value: Any) -> dict[str, Json]:
    return {name: _json(f"{key}.{name}", item) for name, item in _table(key, value).items()}


def _json(key: str, value: Any) -> Json:
    """TOML knows dates and times, which JSON does not."""
    if isinstance(value, dict):
        return _json_table(key, value)
    if isinstance(value, list):
        return [_json(key, item) for item in value]
    if isinstance(value, (str, bool, int, float)):
        return value
    raise _MalformedError(f"{key} must be a text, a number, true or false, a list or a table")
