"""Signals as plain facts: which one asked ralph to stop, how urgently, and a wait that they cut short."""

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import IO

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_ASKED_AGAIN_S = 0.1
"""Seconds from which on a second signal is a second wish: a closing terminal sends SIGHUP twice at once."""
_received: list[tuple[signal.Signals, float]] = []
_bell: list[int] = []


def install_handlers(on_suspend: Callable[[], None] = lambda: None) -> None:
    """From now on signals only leave a note here; Ctrl+Z calls `on_suspend`, and does nothing else.

    The agent would continue alone behind a suspended ralph. An ignored SIGHUP (nohup) stays ignored. SIGINT does not,
    as a script's background job inherits it: programs started from here have the default again.
    """
    _received.clear()
    _bell[:] = os.pipe()
    os.set_blocking(_bell[1], False)
    signal.set_wakeup_fd(_bell[1], warn_on_full_buffer=False)
    for number in _ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: _received.append((signal.Signals(number), time.monotonic())))
    signal.signal(signal.SIGCHLD, lambda *_: None)  # its byte in the pipe ends a wait at once
    signal.signal(signal.SIGTSTP, lambda *_: on_suspend())
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # `stty tostop`: printing from the background must not stop ralph
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def interrupted() -> signal.Signals | None:
    """The signal that asked ralph to stop, or None."""
    return _received[0][0] if _received else None


def describe_signal() -> str:
    """The name of the signal that came, for people; empty as long as none did."""
    return _received[0][0].name.replace("SIGINT", "Ctrl+C") if _received else ""


def is_impatient() -> bool:
    """Whether somebody asked twice, or with SIGQUIT: end things without waiting for them."""
    return any(number == signal.SIGQUIT or at - _received[0][1] > _ASKED_AGAIN_S for number, at in _received)


def clear_received() -> None:
    """Nobody has asked for anything yet."""
    _received.clear()


def wait(seconds: float, *others: int | IO[bytes]) -> bool:
    """Whether one of these can be read; until then it sleeps, up to that long, or until a signal or a child's end.

    Of the latter only the main thread hears at once: where another one took the byte, it would sleep on.
    """
    bell = _bell[:1] if threading.current_thread() is threading.main_thread() else []
    ready, _, _ = select.select([*bell, *others], [], [], max(0.0, seconds))
    if bell and bell[0] in ready:
        os.read(bell[0], 4096)
    return any(one in ready for one in others)


def send_signal(kill: Callable[[int, int], None], pid: int, number: int) -> None:
    """Sends the signal by os.kill or os.killpg to somebody who may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        kill(pid, number)
        kill(pid, signal.SIGCONT)  # what is stopped hears nothing else


def die_by_signal(number: int) -> None:
    """Ends this process by that signal, so that the shell sees 128+n and its loops stop too."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
