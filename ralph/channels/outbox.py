"""Notices and signs of life on their way, in the background."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ralph.channels.channel import Channel, deliver
from ralph.channels.dialects import Notice

_MOST_WAITING = 20
"""Notices for one channel; more pile up only behind a destination that does not answer."""
_URL = "RALPH_HEARTBEAT_URL"
_MONITOR = Channel(
    path=Path("--heartbeat-url"),
    name="heartbeat",
    needs=[_URL],
    secret=[_URL],
    request={"url": "{{ RALPH_HEARTBEAT_URL }}", "method": "GET"},
)
_SIGN_OF_LIFE = Notice("alive")


def fetch(url: str) -> str:
    """Gives the monitor at this address a sign of life; "" or the failure in words. Raises nothing."""
    return deliver(_MONITOR, _SIGN_OF_LIFE, {_URL: url})


class _Lane:
    """What is on its way to one channel; as long as there is something, a thread sends it, one after the other."""

    def __init__(self, channel: Channel, values: Mapping[str, str], complain: Callable[[str], None]) -> None:
        self._channel, self._values, self._complain = channel, values, complain
        self._lock, self._failing = threading.Lock(), False
        self.waiting = list[Notice]()
        """The first is being sent."""

    def put(self, notice: Notice) -> None:
        """Never waits; of too many the oldest is dropped."""
        with self._lock:
            self.waiting.append(notice)
            del self.waiting[1:-_MOST_WAITING]
            if len(self.waiting) == 1:
                with contextlib.suppress(RuntimeError):  # no more threads: the end of the run says what was not sent
                    threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while first := self.waiting[:1]:
            why = deliver(self._channel, first[0], self._values)
            with self._lock:
                known = self._failing and first == [_SIGN_OF_LIFE]  # a monitor that is down for a week is one news
                if why and self.waiting and not known:
                    self._tell(first[0], why)
                self._failing = bool(why)
                del self.waiting[:1]
                if not self.waiting:  # or give_up() was quicker
                    return

    def give_up(self) -> None:
        """Complains about each that is left."""
        with self._lock:
            for notice in self.waiting:
                self._tell(notice, "no time left")
            self.waiting.clear()

    def _tell(self, notice: Notice, why: str) -> None:
        self._complain(": ".join(filter(None, (self._channel.name, "not sent", notice.title, why))))


class Outbox:
    """What is on its way to all channels, and to the monitor that raises the alarm when signs of life stay away."""

    def __init__(
        self,
        channels: Iterable[Channel],
        values: Mapping[str, str],
        complain: Callable[[str], None],
        monitor: str | None = None,
    ) -> None:
        self._lanes = [_Lane(channel, values, complain) for channel in channels]
        self._monitors = [_Lane(_MONITOR, {_URL: monitor}, complain)] if monitor else []

    def send(self, notice: Notice) -> None:
        """Queues the notice for every channel and returns at once."""
        for lane in self._lanes:
            lane.put(notice)

    def beat(self) -> None:
        """Asks for a sign of life and returns at once; those asked for while one is on its way become one."""
        for lane in self._monitors:
            if not lane.waiting:
                lane.put(_SIGN_OF_LIFE)

    def pending(self) -> bool:
        """Whether anything is still on its way."""
        return any(lane.waiting for lane in (*self._lanes, *self._monitors))

    def close(self) -> None:
        """Gives up on what is still on its way, and says so."""
        for lane in (*self._lanes, *self._monitors):
            lane.give_up()
