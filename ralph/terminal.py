"""Terminals: whether somebody sees what is printed, and text that cannot drive one."""

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
