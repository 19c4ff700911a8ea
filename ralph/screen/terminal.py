"""Terminals: whether somebody sees what is printed, how much fits, and text that cannot drive one."""

import contextlib
import os
import re

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text with everything visible that could steer a terminal: control characters, escapes, bidi overrides."""
    return _UNSAFE.sub(lambda found: "" if found[0] == "\r" else "\N{REPLACEMENT CHARACTER}", text)


def attended() -> bool:
    """Whether somebody sees what is printed."""
    return is_terminal(1) or is_terminal(2)


def is_terminal(fd: int) -> bool:
    """Whether this file descriptor is one; no if it is closed."""
    try:
        return os.isatty(fd)
    except OSError:
        return False


def same(fd: int, other: int) -> bool:
    """Whether both are the same terminal, also where one of them was opened as /dev/tty."""
    if not (is_terminal(fd) and is_terminal(other)):
        return False
    return os.fstat(fd).st_rdev == os.fstat(other).st_rdev or (_controls(fd) and _controls(other))


def _controls(fd: int) -> bool:
    """Whether it is the terminal that controls this process."""
    try:
        return os.tcgetpgrp(fd) > 0
    except OSError:
        return False


def size() -> os.terminal_size:
    """Columns and lines of the terminal that is stdout, as they are now."""
    try:
        now = os.get_terminal_size(1)
    except OSError:
        now = os.terminal_size((0, 0))
    if now.columns and now.lines:
        return now
    import shutil  # noqa: PLC0415 - nearly every terminal says it itself

    return shutil.get_terminal_size()


def in_front() -> bool:
    """Whether what is typed at the terminal that is stdout comes to this process; a job in the background shares it."""
    try:
        return os.tcgetpgrp(1) == os.getpgrp()
    except OSError:  # it is not the one that controls this process
        return True


class Taken:
    """The terminal that is stdout, which does not echo what is typed while this process draws on it.

    An echo would move what is drawn, and Enter would leave a copy of it for good. The keys wait for whoever reads next.
    A process forked before knows what its parent has taken, and can clean up when that one is dead.
    """

    def __init__(self) -> None:
        import mmap  # noqa: PLC0415 - only what draws there pays for it

        self._is_taken = mmap.mmap(-1, 1)
        try:  # opened again, so that not waiting for a stopped terminal is no matter of others who share it
            self.fd = os.open(os.ttyname(1), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            self.fd = -1

    def take(self) -> None:
        """Only where this process is in front: a job in the background has to leave the terminal alone."""
        if not self._is_taken[0] and _controls(1) and in_front():
            self._is_taken[0] = self._has_switched(on=False)

    def give_back(self) -> None:
        """The echo as it was."""
        if self._is_taken[0]:
            self._is_taken[0] = 0
            self._has_switched(on=True)

    def clean_up(self) -> None:
        """After the death of who drew there: erases that, from where its cursor rests."""
        if self._is_taken[0]:
            self.give_back()
            with contextlib.suppress(OSError):
                os.write(self.fd, b"\x1b[J\x1b[?7h")

    def _has_switched(self, *, on: bool) -> bool:
        """Leaves a terminal alone that somebody has taken who reads key by key, as a shell does."""
        import termios  # noqa: PLC0415 - only who draws pays for it

        try:
            modes = termios.tcgetattr(self.fd)
            if not modes[3] & termios.ICANON or bool(modes[3] & termios.ECHO) == on:
                return False
            modes[3] ^= termios.ECHO
            termios.tcsetattr(self.fd, termios.TCSANOW, modes)
        except (OSError, ValueError, termios.error):
            return False
        return True


def go_on() -> None:
    """Lets the terminal that is stdout print again if somebody has pressed Ctrl+S.

    Linux undoes only what was done in the same way, so first it is stopped in this one.
    """
    import termios  # noqa: PLC0415 - nobody presses Ctrl+S and leaves

    with contextlib.suppress(OSError, termios.error):
        termios.tcflow(1, termios.TCOOFF)
        termios.tcflow(1, termios.TCOON)
