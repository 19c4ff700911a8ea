"""Notices on their way, in the background."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping

from ralph.channels.channel import EVENTS, Channel, Notice, deliver

_MOST_WAITING = 20
"""Notices for one channel; more pile up only behind a destination that does not answer."""


class _Lane:
    """What is on its way to one channel; as long as there is something, a thread sends it, one after the other."""

    def __init__(self, channel: Channel, values: Mapping[str, str], complain: Callable[[str], None]) -> None:
        self.channel, self._values, self._complain = channel, values, complain
        self._lock, self._complaint = threading.Lock(), ""
        self.waiting = list[Notice]()
        """The first is being sent."""

    def put(self, notice: Notice) -> None:
        """Never waits; of two that are the same the second is dropped, and of too many the oldest."""
        with self._lock:
            if notice not in self.waiting:
                self.waiting.append(notice)
                del self.waiting[1:-_MOST_WAITING]
                if len(self.waiting) == 1:
                    with contextlib.suppress(RuntimeError):  # no more threads: the end of the run says what is left
                        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while first := self.waiting[:1]:
            why = deliver(self.channel, first[0], self._values)
            with self._lock:
                if self.waiting:  # else give_up() was quicker
                    self._tell(first[0], why)
                del self.waiting[:1]
                if not self.waiting:
                    return

    def give_up(self) -> None:
        """Complains about each that is left."""
        with self._lock:
            for notice in self.waiting:
                self._tell(notice, "no time left")
            self.waiting.clear()

    def _tell(self, notice: Notice, why: str) -> None:
        """A monitor that is down for a week is one news."""
        said = ": ".join(filter(None, (self.channel.name, "not sent", notice.title, why))) if why else ""
        if said and said != self._complaint:
            self._complain(said)
        self._complaint = said


class Outbox:
    """What is on its way to all channels."""

    def __init__(self, channels: Iterable[Channel], values: Mapping[str, str], complain: Callable[[str], None]) -> None:
        self._lanes = [_Lane(channel, values, complain) for channel in channels]

    def send(self, notice: Notice) -> None:
        """Queues the notice for every channel that is told of such an event, and returns at once."""
        for lane in self._lanes:
            if notice.event in (lane.channel.events or EVENTS):
                lane.put(notice)

    def beat(self) -> None:
        """Gives a sign of life to who waits for them, and returns at once."""
        self.send(Notice("alive"))

    def pending(self) -> bool:
        """Whether anything is still on its way."""
        return any(lane.waiting for lane in self._lanes)

    def close(self) -> None:
        """Gives up on what is still on its way, and says so."""
        for lane in self._lanes:
            lane.give_up()
