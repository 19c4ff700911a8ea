"""Notices and signs of life on their way, in the background."""

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ralph import process
from ralph.channels import http
from ralph.channels.channel import Channel
from ralph.channels.dialects import Notice, clean, cut, filled
from ralph.errors import RalphError

_DELIVERY_S = 15.0
"""Seconds for one notice to one channel: a program has them all, each of two tries to send it 6 of them."""
_MOST_WAITING = 20
"""Notices for one channel; more pile up only behind a destination that does not answer."""
_MONITOR = Channel(
    path=Path("--heartbeat-url"),
    name="heartbeat",
    title="A monitor that raises the alarm when no signs of life come",
    needs=("RALPH_HEARTBEAT_URL",),
    secret=("RALPH_HEARTBEAT_URL",),
    request={"url": "{{ RALPH_HEARTBEAT_URL }}", "method": "GET"},
)
_SIGN_OF_LIFE = Notice(event="alive", title="", body="", emoji_code="")


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


def fetch(url: str) -> str:
    """Gives the monitor at this address a sign of life; "" or the failure in words. Raises nothing."""
    return deliver(_MONITOR, _SIGN_OF_LIFE, {"RALPH_HEARTBEAT_URL": url})


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
        with http.ask(**{"method": "POST", **request}, timeout_s=timeout_s * 0.4, redirects=plain) as answer:
            status = answer.status_code
            told = "" if plain or status < 300 else http.beginning(answer)
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


class _Queue:
    """What is on its way to one channel; as long as there is something, a thread sends it, one after the other."""

    def __init__(self, channel: Channel, values: Mapping[str, str], complain: Callable[[str], None]) -> None:
        self._channel, self._values, self._complain = channel, values, complain
        self._lock = threading.Lock()
        self._notices: list[Notice] = []  # the first of them is being sent
        self._thread: threading.Thread | None = None
        self._failing = False

    def put(self, notice: Notice) -> None:
        """Never waits and never fails; of too many the oldest is dropped."""
        with self._lock:
            self._notices.append(notice)
            del self._notices[1:-_MOST_WAITING]
            if self._thread is None:
                thread = threading.Thread(target=self._work, args=(self._notices[0],), daemon=True)
                with contextlib.suppress(RuntimeError):  # no more threads: the next notice tries again
                    thread.start()
                    self._thread = thread

    def pending(self) -> bool:
        """Whether something waits or is being sent."""
        return bool(self._notices)

    def close(self, deadline: float) -> None:
        """Waits until that time of the monotonic clock, then gives up on what is left."""
        if thread := self._thread:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            for notice in self._notices:
                self._tell(notice, "no time left")
            self._notices.clear()

    def _work(self, notice: Notice) -> None:
        while True:
            why = deliver(self._channel, notice, self._values)
            with self._lock:
                if not self._notices:  # close() has given up on it
                    return
                if why and not (self._failing and notice is _SIGN_OF_LIFE):  # a monitor down for a week is one news
                    self._tell(notice, why)
                self._failing = bool(why)
                del self._notices[0]
                if not self._notices:
                    self._thread = None
                    return
                notice = self._notices[0]

    def _tell(self, notice: Notice, why: str) -> None:
        self._complain(": ".join(filter(None, (self._channel.name, "not sent", notice.title, why))))


class Outbox:
    """Notices on their way to all channels, in the background."""

    def __init__(
        self,
        channels: Iterable[Channel],
        values: Mapping[str, str],
        complain: Callable[[str], None],
        *,
        mark: str = "",
    ) -> None:
        """With a `mark` before each title nobody takes the notices for real."""
        self._queues = [_Queue(channel, values, complain) for channel in channels]
        self._mark = mark

    def send(self, notice: Notice) -> None:
        """Queues the notice for every channel and returns at once."""
        marked = notice._replace(title=f"{self._mark}{notice.title}") if self._mark else notice
        for queue in self._queues:
            queue.put(marked)

    def pending(self) -> bool:
        """Whether any notice is still on its way."""
        return any(queue.pending() for queue in self._queues)

    def close(self, timeout_s: float) -> None:
        """Waits at most that long for what is queued, and complains about what did not get through."""
        deadline = time.monotonic() + timeout_s
        for queue in self._queues:
            queue.close(deadline)


class Heartbeat(Outbox):
    """Signs of life for a monitor that raises the alarm when they stay away: an address fetched in the background."""

    def __init__(self, url: str | None, complain: Callable[[str], None]) -> None:
        super().__init__([_MONITOR] if url else [], {"RALPH_HEARTBEAT_URL": url or ""}, complain)

    def beat(self) -> None:
        """Asks for a sign of life and returns at once; those asked for while one is on its way become one."""
        if not self.pending():
            self.send(_SIGN_OF_LIFE)
