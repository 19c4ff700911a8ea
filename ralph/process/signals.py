"""Records signals: which one asked ralph to stop, and how urgently; and offers a wait that signals cut short."""

import contextlib
import os
import select
import signal
import threading
import time
from typing import IO

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Seconds after which another signal counts as a second request: a closing terminal sends SIGHUP twice at once.
_ASKED_AGAIN_S = 0.1
_received: list[tuple[signal.Signals, float]] = []
_wakeup_pipe: list[int] = []


def install_handlers() -> None:
    """From now on, has signals that ask ralph to stop only recorded here, and Ctrl+Z do nothing.

    If ralph were suspended, the agent would continue alone. An ignored SIGHUP (nohup) stays ignored. An ignored SIGINT,
    which a script's background job inherits, does not: programs started from here have the default action again.
    """
    _received.clear()
    _wakeup_pipe[:] = os.pipe()
    os.set_blocking(_wakeup_pipe[1], False)
    signal.set_wakeup_fd(_wakeup_pipe[1], warn_on_full_buffer=False)
    for number in _ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: _received.append((signal.Signals(number), time.monotonic())))
    signal.signal(signal.SIGCHLD, lambda *_: None)  # its byte in the pipe ends a wait at once
    signal.signal(signal.SIGTSTP, lambda *_: None)  # what is ignored, programs started from here would ignore, too
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # `stty tostop`: printing from the background must not stop ralph
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def interrupted() -> signal.Signals | None:
    """The signal that asked ralph to stop, or None."""
    return _received[0][0] if _received else None


def describe_signal() -> str:
    """The name of the signal that asked ralph to stop, for messages; empty if none did."""
    return _received[0][0].name.replace("SIGINT", "Ctrl+C") if _received else ""


def is_impatient() -> bool:
    """Whether somebody asked twice, or with SIGQUIT, to stop: then end things without waiting for them."""
    return any(number == signal.SIGQUIT or at - _received[0][1] > _ASKED_AGAIN_S for number, at in _received)


def sleep_until_signal(seconds: float) -> None:
    """Sleeps up to that long; in the main thread a signal or a child's end cuts that short."""
    has_input_within(seconds)


def has_input_within(seconds: float, *inputs: int | IO[bytes]) -> bool:
    """Whether one of `inputs` can be read within that time; a signal or a child's end makes the wait shorter.

    Only in the main thread do they: if another thread took the byte, the main thread would sleep on.
    """
    bell = _wakeup_pipe[:1] if threading.current_thread() is threading.main_thread() else []
    ready, _, _ = select.select([*bell, *inputs], [], [], max(0.0, seconds))
    if bell and bell[0] in ready:
        os.read(bell[0], 4096)
    return any(one in ready for one in inputs)


def send_signal(pid: int, number: int) -> None:
    """Sends the signal to a process, or for a negative `pid` to a group, that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        os.kill(pid, signal.SIGCONT)  # a stopped process handles no other signal


def die_by_signal(number: int) -> None:
    """Ends this process by that signal, so that the shell sees 128+n and its loops stop too."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
