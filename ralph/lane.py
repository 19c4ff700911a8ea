"""One channel's waiting notices and the thread that sends them, so that a slow channel delays nobody."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

from ralph.dialects import Notice

LIMIT = 20
"""Notices that may wait; more pile up only behind a channel that does not answer."""


class Lane:
    """Sends notices one by one with `deliver`, and gives those that did not get through to `fail`, with the reason."""

    def __init__(self, *, name: str, deliver: Callable[[Notice], str], fail: Callable[[Notice, str], None]) -> None:
        self._name, self._deliver, self._fail = name, deliver, fail
        self._changed = threading.Condition()
        self._queue: deque[Notice] = deque()  # a notice stays in front while it is being sent
        self._finishing = False
        self._thread: threading.Thread | None = None

    def put(self, notice: Notice) -> None:
        """Queues the notice; never waits and never fails."""
        with self._changed:
            if self._finishing:
                return
            self._queue.append(notice)
            if len(self._queue) > LIMIT:
                del self._queue[self._least_useful()]
            self._changed.notify()
            if self._thread is None:
                self._start()

    def pending(self) -> bool:
        """Whether a notice waits or is being sent."""
        with self._changed:
            return bool(self._queue)

    def finish(self) -> None:
        """Lets the thread end when the queue is empty; nothing more is taken."""
        with self._changed:
            self._finishing = True
            self._changed.notify()

    def join(self, deadline: float) -> None:
        """Waits for the queue until that time of the monotonic clock, then gives up on what is left."""
        if self._thread:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        with self._changed:
            left = list(self._queue)
            self._queue.clear()
        for notice in left:
            self._fail(notice, "no time left")

    def _least_useful(self) -> int:
        """The oldest progress notice, else the oldest; neither the one being sent nor the newest."""
        waiting = range(1, len(self._queue) - 1)
        return next((place for place in waiting if self._queue[place].event == "progress"), 1)

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        with contextlib.suppress(RuntimeError):  # no more threads: the next notice tries again
            thread.start()
            self._thread = thread

    def _work(self) -> None:
        while notice := self._next():
            failure = self._deliver(notice)
            with self._changed:
                if not self._queue:  # join() has given up on it
                    return
                self._queue.popleft()
            if failure:
                self._fail(notice, failure)

    def _next(self) -> Notice | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._finishing)
            return self._queue[0] if self._queue else None
