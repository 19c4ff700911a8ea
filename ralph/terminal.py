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
    """Whether both are the same terminal."""
    return is_terminal(fd) and is_terminal(other) and os.fstat(fd).st_rdev == os.fstat(other).st_rdev


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


def go_on() -> None:
    """Lets the terminal that is stdout print again if somebody has pressed Ctrl+S.

    Linux undoes only what was done in the same way, so first it is stopped in this one.
    """
    import termios  # noqa: PLC0415 - nobody presses Ctrl+S and leaves

    with contextlib.suppress(OSError, termios.error):
        termios.tcflow(1, termios.TCOOFF)
        termios.tcflow(1, termios.TCOON)
