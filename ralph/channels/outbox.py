"""Notices and signs of life on their way, in the background."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ralph.channels.channel import Channel, deliver
from ralph.channels.dialects import Notice

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
_SIGN_OF_LIFE = Notice("alive")


def fetch(url: str) -> str:
    """Gives the monitor at this address a sign of life; "" or the failure in words. Raises nothing."""
    return deliver(_MONITOR, _SIGN_OF_LIFE, {"RALPH_HEARTBEAT_URL": url})


class _Queue:
    """What is on its way to one channel; as long as there is something, a thread sends it, one after the other."""

    def __init__(self, channel: Channel, values: Mapping[str, str], complain: Callable[[str], None]) -> None:
        self._channel, self._values, self._complain = channel, values, complain
        self._lock = threading.Lock()
        self._failing = False
        self.notices: list[Notice] = []
        """The first of them is being sent."""

    def put(self, notice: Notice) -> None:
        """Never waits; of too many the oldest is dropped."""
        with self._lock:
            self.notices.append(notice)
            del self.notices[1:-_MOST_WAITING]
            if len(self.notices) == 1:
                with contextlib.suppress(RuntimeError):  # no more threads: the end of the run says what was not sent
                    threading.Thread(target=self._work, args=(notice,), daemon=True).start()

    def _work(self, notice: Notice) -> None:
        while True:
            why = deliver(self._channel, notice, self._values)
            with self._lock:
                if not self.notices:  # give_up() was quicker on it
                    return
                if why and not (self._failing and notice is _SIGN_OF_LIFE):  # a monitor down for a week is one news
                    self._tell(notice, why)
                self._failing = bool(why)
                del self.notices[0]
                if not self.notices:
                    return
                notice = self.notices[0]

    def give_up(self) -> None:
        """Complains about each that is left."""
        with self._lock:
            for notice in self.notices:
                self._tell(notice, "no time left")
            self.notices.clear()

    def _tell(self, notice: Notice, why: str) -> None:
        self._complain(": ".join(filter(None, (self._channel.name, "not sent", notice.title, why))))


class Outbox:
    """What is on its way to all channels, and to the monitor that raises the alarm when signs of life stay away."""

    def __init__(
        self,
        channels: Iterable[Channel],
        values: Mapping[str, str],
        complain: Callable[[str], None],
        *,
        monitor: str | None = None,
    ) -> None:
        self._channels = [_Queue(channel, values, complain) for channel in channels]
        self._monitors = [_Queue(_MONITOR, {"RALPH_HEARTBEAT_URL": monitor}, complain)] if monitor else []

    def send(self, notice: Notice) -> None:
        """Queues the notice for every channel and returns at once."""
        for queue in self._channels:
            queue.put(notice)

    def beat(self) -> None:
        """Asks for a sign of life and returns at once; those asked for while one is on its way become one."""
        for queue in self._monitors:
            if not queue.notices:
                queue.put(_SIGN_OF_LIFE)

    def pending(self) -> bool:
        """Whether anything is still on its way."""
        return any(queue.notices for queue in (*self._channels, *self._monitors))

    def close(self) -> None:
        """Gives up on what is still on its way, and says so."""
        for queue in (*self._channels, *self._monitors):
            queue.give_up()
