"""Lines without secrets."""

import os
import re
from collections.abc import Callable, Iterable, Iterator

from ralph import channels, said
from ralph.errors import RalphError
from ralph.settings import Given

_KEYS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_ASSIGNED = re.compile(r"(?i)([\w-]*(?:key|token|secret|password)=)[^\s,)]+")
_SHORT = 4
"""What is so short is no secret, and would be found everywhere."""


def hider(given: Iterable[Given]) -> Callable[[str], str]:
    """What makes of a line one that shows no secret: none of the channels', no address, no key of the environment."""
    secrets = [one for one in {*_of_channels(), *_of_environment(), *_of_settings(given)} if len(one) > _SHORT]
    return lambda line: _ASSIGNED.sub(r"\1***", channels.without_secrets(line, secrets))


def _of_channels() -> Iterator[str]:
    folders = channels.default_folders()
    try:
        known = channels.load(folders)
    except (RalphError, OSError):  # a file of the person's own is not right; some check says so
        known = channels.load(folders[:1])
    values = said.channel_values()
    yield from (values.get(name, "").strip() for channel in known for name in channel.secret)


def _of_environment() -> Iterator[str]:
    """What is named like a key; a path is none, though its parts may be in many lines."""
    for name, value in os.environ.items():
        if name.upper().endswith(_KEYS) and "/" not in value:
            yield value.strip()


def _of_settings(given: Iterable[Given]) -> Iterator[str]:
    """Also one that is malformed, as its complaint would repeat it."""
    yield from (one.text.strip() for one in given if one.variable == "RALPH_HEARTBEAT_URL")
