"""Channels: notices and signs of life on their way, in the background."""

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from ralph import http, process
from ralph.channelfile import Channel, configured, default_folders, load, settings_names
from ralph.dialects import Notice, clean, cut, filled, filler
from ralph.errors import RalphError
from ralph.lane import Lane

__all__ = [
    "Channel",
    "Heartbeat",
    "Notice",
    "Outbox",
    "configured",
    "default_folders",
    "deliver",
    "fetch",
    "load",
    "settings_names",
    "without_secrets",
]

DELIVERY_S = 15.0
"""Seconds that one notice may take to reach one channel, the retry included."""
_BEAT_S = 10.0
"""The same for a sign of life."""


def deliver(channel: Channel, notice: Notice, values: Mapping[str, str], *, timeout_s: float = DELIVERY_S) -> str:
    """Sends the notice now; "" or the failure in words, which hold no secret. Raises nothing."""
    secrets = [values.get(name, "").strip() for name in channel.secret]
    return _without_secrets(_send(channel, notice, values, timeout_s), secrets)


def _send(channel: Channel, notice: Notice, values: Mapping[str, str], timeout_s: float) -> str:
    try:
        fill = filler(notice, channel.settings(values))
        if channel.request:
            tried = http.send(filled(channel.request, fill), timeout_s)
            return f"{tried.failure}: {tried.told}" if tried.told else tried.failure
        return _run([fill(argument) for argument in channel.command], timeout_s)
    except RalphError as error:
        return f"{channel.path}: {error.message}"
    except Exception as error:  # noqa: BLE001 - whatever a channel file brings about, it never ends a run
        return f"{channel.path}: {type(error).__name__}: {error}"


def _run(argv: Sequence[str], timeout_s: float) -> str:
    program = os.path.expanduser(argv[0])  # noqa: PTH111 - a Path would turn ./notify into notify
    try:
        done = process.call([program, *argv[1:]], timeout_s=timeout_s)
    except OSError as error:
        return f"{program}: {error.strerror}"
    return f"{program}: still running after {timeout_s:g} s" if done.timed_out else ""


def fetch(url: str) -> str:
    """Gets the address; "" or the failure in words, without the server's, which may repeat it. Raises nothing."""
    try:
        tried = http.send(http.Request(url=url, method="GET", headers={}, json=None, body=None), _BEAT_S)
    except Exception as error:  # noqa: BLE001 - no more threads, requests just being upgraded: it never ends a run
        tried = http.Sent(failure=f"{type(error).__name__}: {error}")
    return _without_secrets(tried.failure, [url])


def _without_secrets(text: str, secrets: Iterable[str]) -> str:
    """One line of 250 characters at most, without secrets."""
    return cut(" ".join(without_secrets(clean(text), secrets).split()), 250)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with addresses shown as their host, and with secrets and parts of secrets as ***."""
    text = re.sub(r"https?://[^\s\"'<>]+", lambda found: http.host(found[0]), text)
    for secret in secrets:
        parts = [part for part in re.split(r"[/?&=@#]+", secret) if len(part) > 8 and part != http.host(secret)]
        for hidden in sorted({secret, *parts} - {""}, key=len, reverse=True):
            text = text.replace(hidden, "***")
    return text


class Outbox:
    """Notices on their way to all channels, in the background."""

    def __init__(self, channels: Iterable[Channel], values: Mapping[str, str], complain: Callable[[str], None]) -> None:
        self._lanes = [_lane(channel, values, complain) for channel in channels]

    def send(self, notice: Notice) -> None:
        """Queues the notice for every channel and returns at once."""
        for lane in self._lanes:
            lane.put(notice)

    def pending(self) -> bool:
        """Whether any notice is still on its way."""
        return any(lane.pending() for lane in self._lanes)

    def close(self, timeout_s: float) -> None:
        """Waits at most that long for what is queued, and complains about what did not get through."""
        deadline = time.monotonic() + timeout_s
        for lane in self._lanes:
            lane.finish()
        for lane in self._lanes:
            lane.join(deadline)


def _lane(channel: Channel, values: Mapping[str, str], complain: Callable[[str], None]) -> Lane[Notice]:
    return Lane(
        name=channel.name,
        deliver=lambda notice: deliver(channel, notice, values),
        fail=lambda notice, why: complain(f"{channel.name}: not sent: {notice.title}: {why}"),
        minor=lambda notice: notice.event == "progress",
    )


class Heartbeat:
    """Signs of life for a monitor that raises the alarm when they stay away: an address fetched in the background."""

    def __init__(self, url: str | None, complain: Callable[[str], None]) -> None:
        self._url, self._complain = url, complain
        self._failing = False
        self._lane = Lane(name="heartbeat", deliver=self._deliver, fail=self._fail, limit=2)

    def beat(self) -> None:
        """Asks for a sign of life and returns at once; those asked for while one is on its way become one."""
        if self._url:
            self._lane.put(self._url)

    def pending(self) -> bool:
        """Whether a sign of life is still on its way."""
        return self._lane.pending()

    def close(self, timeout_s: float) -> None:
        """Waits at most that long for what is on its way."""
        self._lane.finish()
        self._lane.join(time.monotonic() + timeout_s)

    def _deliver(self, url: str) -> str:
        failure = fetch(url)
        self._failing &= bool(failure)
        return failure

    def _fail(self, _url: str, why: str) -> None:
        """Complains about the first of a row: a monitor that is down for a week is one piece of news."""
        if not self._failing:
            self._failing = True
            self._complain(f"heartbeat: not sent: {why}")
