"""Signals as plain facts: which one asked ralph to stop, how urgently, and a wait that they cut short."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_received: list[int] = []
_bell: list[int] = []


def install(on_suspend: Callable[[], None]) -> None:
    """From now on signals only leave a note here; `on_suspend` is called when somebody types Ctrl+Z.

    The agent would go on alone behind a suspended ralph, so that is refused. An inherited ignored SIGHUP (nohup) stays
    ignored. SIGINT gets a handler even where a script's background job inherits it ignored: programs started from here
    then have the default again.
    """
    ring, wake = os.pipe()
    os.set_blocking(ring, False)
    os.set_blocking(wake, False)
    _bell[:] = [ring, wake]
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in _ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _note)
    signal.signal(signal.SIGCHLD, _nothing)  # its byte in the pipe ends a wait at once
    signal.signal(signal.SIGTSTP, lambda _number, _frame: on_suspend())
    signal.signal(
        signal.SIGTTOU, signal.SIG_IGN
    )  # printing from the background under `stty tostop` must not stop ralph
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def forget() -> None:
    """Back to a process that hears of nothing and ignores being asked to end: the guardian's part."""
    signal.set_wakeup_fd(-1)
    _bell.clear()
    _received.clear()
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def _note(number: int, _frame: FrameType | None) -> None:
    _received.append(number)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def interrupted() -> int | None:
    """The signal that asked ralph to stop, or None."""
    return _received[0] if _received else None


def impatient() -> bool:
    """Whether somebody asked twice, or with SIGQUIT: end things without waiting for them."""
    return len(_received) > 1 or signal.SIGQUIT in _received


def wait(seconds: float) -> None:
    """Sleeps up to that long; any signal ends it, also one that came just before, also a child's end."""
    if not _bell:
        select.select([], [], [], seconds)
        return
    ready, _, _ = select.select(_bell[:1], [], [], max(0.0, seconds))
    if ready:
        with contextlib.suppress(BlockingIOError):
            os.read(_bell[0], 4096)


def pause(seconds: float) -> None:
    """Sleeps that long unless somebody asks ralph to stop."""
    deadline = time.monotonic() + seconds
    while not _received and (left := deadline - time.monotonic()) > 0:
        wait(left)


def name(number: int) -> str:
    """What a person calls the signal."""
    return "Ctrl+C" if number == signal.SIGINT else signal.Signals(number).name


def die_by(number: int) -> None:
    """Ends this process by that signal, so that the shell sees 128+n and its loops stop too."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
