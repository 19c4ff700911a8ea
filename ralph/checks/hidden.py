"""Lines without secrets."""

import os
import re
from collections.abc import Callable, Iterable, Iterator

from ralph import channels, sources
from ralph.errors import RalphError
from ralph.settings import Given

_KEYS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "_PAT")
_SAID = re.compile(
    r"""(?ix) (
        (?:key|token|secret|password|passwd|_pat) =             # assigned
        | --[\w-]*(?:key|token|secret|password) [ ]             # an option
        | -(?:key|token): [ ]*                                  # a header
        | \bauthorization: [ ]* (?:(?:bearer|basic|token)[ ])?
        | \bbearer[ ] (?=\S{8})
        | (?<!\S) (?:-u|--user) [ =]? (?=["']?[^\s:]+:)         # who:password, of curl
    ) (?: "[^"]*" | '[^']*' | [^\s,)"']+ )"""
)
_ADDRESS = re.compile(r"https?://(?:[^\s/@'\"<>]*@)?([^\s/?#'\"<>]+)[^\s'\"<>]*")
"""Of which the host may be shown; the rest is seen to be missing, in a line that somebody may want to copy."""
_SHORT = 4
"""What is so short is no secret, and would be found everywhere."""


def hider(given: Iterable[Given]) -> Callable[[str], str]:
    """What makes of a line one that shows no secret: none of the channels', no address, no key of the environment."""
    secrets = [one for one in {*_of_channels(), *_of_environment(), *_of_settings(given)} if len(one) > _SHORT]
    return lambda line: _SAID.sub(r"\1***", channels.without_secrets(_ADDRESS.sub(r"\1/***", line), secrets))


def _of_channels() -> Iterator[str]:
    folders = channels.default_folders()
    try:
        known = channels.load(folders)
    except (RalphError, OSError):  # a file of the person's own is not right; some check says so
        known = channels.load(folders[:1])
    values = sources.channel_values()
    yield from (values.get(name, "").strip() for channel in known for name in channel.secret)


def _of_environment() -> Iterator[str]:
    """What is named like a key; a path is none, though its parts may be in many lines."""
    for name, value in os.environ.items():
        if name.upper().endswith(_KEYS) and not value.startswith(("/", "~", ".")):
            yield value.strip()


def _of_settings(given: Iterable[Given]) -> Iterator[str]:
    """Also one that is malformed, as its complaint would repeat it."""
    yield from (one.text.strip() for one in given if one.variable == "RALPH_HEARTBEAT_URL")
