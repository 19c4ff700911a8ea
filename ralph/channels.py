"""Channels: notices and signs of life on their way, in the background, and the only HTTP in ralph."""

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from ralph import process
from ralph.channelfile import Channel, Request, configured, default_folders, load, settings_names
from ralph.dialects import Notice, clean, cut, filled, filler
from ralph.errors import RalphError
from ralph.lane import Lane

if TYPE_CHECKING:
    import requests

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
_HOPS = 2
"""Redirects that are followed: to https, and to the name that a server prefers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """How one request went; an empty `failure` is a success."""

    failure: str = ""
    told: str = ""
    """What the server said about it; it may repeat a secret."""
    again: bool = False
    """The trouble may pass: with the network, the server, or too many requests."""


def deliver(channel: Channel, notice: Notice, values: Mapping[str, str], *, timeout_s: float = DELIVERY_S) -> str:
    """Sends the notice now; "" or the failure in words, which hold no secret. Raises nothing."""
    secrets = [values.get(name, "").strip() for name in channel.secret]
    return _without_secrets(_send(channel, notice, values, timeout_s), secrets)


def _send(channel: Channel, notice: Notice, values: Mapping[str, str], timeout_s: float) -> str:
    try:
        fill = filler(notice, channel.settings(values))
        if channel.request:
            tried = _request(filled(channel.request, fill), timeout_s)
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
        tried = _request(Request(url=url, method="GET", headers={}, json=None, body=None), _BEAT_S)
    except Exception as error:  # noqa: BLE001 - no more threads, requests just being upgraded: it never ends a run
        tried = _Try(failure=f"{type(error).__name__}: {error}")
    return _without_secrets(tried.failure, [url])


def _request(request: Request, timeout_s: float) -> _Try:
    """Two tries and the pause between them fit into the time."""
    import requests  # noqa: F401, PLC0415 - 80 ms that only a run that sends pays, and no try is charged with

    first = _try(request, timeout_s * 0.4)
    if not first.again:
        return first
    time.sleep(timeout_s / 15)
    return _try(request, timeout_s * 0.4)


def _try(request: Request, timeout_s: float) -> _Try:
    """One request, in a thread of its own: nothing else bounds a slow name server or an answer that comes in drips.

    Given up on, the thread ends with its connection or with ralph.
    """
    host = _host(request.url)
    if not host:
        return _Try(failure="its address is no web address")
    outcome: SimpleQueue[_Try] = SimpleQueue()
    threading.Thread(target=lambda: outcome.put(_exchange(request, host, timeout_s)), daemon=True).start()
    with contextlib.suppress(Empty):
        return outcome.get(timeout=timeout_s)
    return _too_late(host, timeout_s)


def _exchange(request: Request, host: str, timeout_s: float, hops: int = _HOPS) -> _Try:
    import requests  # noqa: PLC0415 - as in _request

    try:
        with requests.request(
            request.method,
            request.url,
            headers={"User-Agent": "ralph"} | {name: text.encode() for name, text in request.headers.items()},
            json=request.json,
            data=None if request.body is None else request.body.encode(),
            timeout=timeout_s,
            allow_redirects=False,  # requests would take along what ~/.netrc has for the next host
            stream=True,
            auth=lambda prepared: prepared,  # else a line in ~/.netrc would replace the Authorization header
        ) as response:
            if hops and (onward := _redirected(request, response)):
                return _exchange(onward, _host(onward.url), timeout_s, hops - 1)
            return _judged(response, host)
    except requests.Timeout:
        return _too_late(host, timeout_s)
    except Exception as error:  # noqa: BLE001 - requests lets through what odd addresses and headers bring about
        return _Try(failure=f"{host}: {_cause(error)}", again=not isinstance(error, ValueError))


def _redirected(request: Request, response: "requests.Response") -> Request | None:
    """The next request of a plain GET; any other would lose its content or show its headers to somebody else."""
    if not response.is_redirect or request.method != "GET" or request.headers:
        return None
    url = urljoin(request.url, response.headers["Location"])
    return replace(request, url=url) if _host(url) else None


def _too_late(host: str, timeout_s: float) -> _Try:
    return _Try(failure=f"{host}: no answer within {timeout_s:g} s", again=True)


def _judged(response: "requests.Response", host: str) -> _Try:
    status = response.status_code
    if status < 300:
        return _Try()
    told = ""
    with contextlib.suppress(OSError):  # the status says enough
        told = next(response.iter_content(2000), b"").decode("utf-8", "replace").strip()
    return _Try(failure=f"HTTP {status} from {host}", told=told, again=status >= 500 or status == 429)


def _cause(error: BaseException) -> str:
    """The system's own words below what requests and urllib3 wrap around them (their words show the address)."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _host(url: str) -> str:
    """The host of a web address, which is all of it that may be shown; "" if it is none."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        return parts.hostname or "" if parts.scheme in {"http", "https"} else ""
    return ""


def _without_secrets(text: str, secrets: Iterable[str]) -> str:
    """One line of 250 characters at most, without secrets."""
    return cut(" ".join(without_secrets(clean(text), secrets).split()), 250)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with addresses shown as their host, and with secrets and parts of secrets as ***."""
    text = re.sub(r"https?://[^\s\"'<>]+", lambda found: _host(found[0]), text)
    for secret in secrets:
        parts = [part for part in re.split(r"[/?&=@#]+", secret) if len(part) > 8 and part != _host(secret)]
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
