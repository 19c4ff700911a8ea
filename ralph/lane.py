"""What waits for one destination and the thread that sends it, so that a slow destination delays nobody."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")

LIMIT = 20
"""Items that may be on their way; more pile up only behind a destination that does not answer."""


class Lane(Generic[Item]):
    """Sends items one by one with `deliver`, and gives those that did not get through to `fail`, with the reason.

    Of more than `limit`, the one being sent included, the oldest that is `minor` is dropped, else the oldest.
    """

    def __init__(
        self,
        *,
        name: str,
        deliver: Callable[[Item], str],
        fail: Callable[[Item, str], None],
        limit: int = LIMIT,
        minor: Callable[[Item], bool] = lambda _: False,
    ) -> None:
        self._name, self._deliver, self._fail = name, deliver, fail
        self._limit, self._minor = limit, minor
        self._changed = threading.Condition()
        self._queue: deque[Item] = deque()  # an item stays in front while it is being sent
        self._finishing = False
        self._thread: threading.Thread | None = None

    def put(self, item: Item) -> None:
        """Queues the item; never waits and never fails."""
        with self._changed:
            if self._finishing:
                return
            self._queue.append(item)
            if len(self._queue) > self._limit:
                del self._queue[self._least_useful()]
            self._changed.notify()
            if self._thread is None:
                self._start()

    def pending(self) -> bool:
        """Whether an item waits or is being sent."""
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
        for item in left:
            self._fail(item, "no time left")

    def _least_useful(self) -> int:
        """The oldest minor item, else the oldest; neither the one being sent nor the newest."""
        waiting = range(1, len(self._queue) - 1)
        return next((place for place in waiting if self._minor(self._queue[place])), 1)

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        with contextlib.suppress(RuntimeError):  # no more threads: the next item tries again
            thread.start()
            self._thread = thread

    def _work(self) -> None:
        while (item := self._next()) is not None:
            failure = self._deliver(item)
            with self._changed:
                if not self._queue:  # join() has given up on it
                    return
                self._queue.popleft()
            if failure:
                self._fail(item, failure)

    def _next(self) -> Item | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._finishing)
            return self._queue[0] if self._queue else None
