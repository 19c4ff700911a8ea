"""What a program printed, as it can stand in a text: its end, without what steers a terminal."""

import re

_ESCAPE = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, movements of the cursor
    "|(?:\x1b[]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)?"  # titles, links, pictures
    "|\x1b[ -/]*[0-~]"
)
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters but for tab and newline, other line ends, and what turns the direction of writing."""
_MOST_LINES = 60
_MOST_CHARACTERS = 6000
_LONGEST_LINE = 300
_CUT = "…"


def harmless_output(raw: str) -> str:
    """The last lines of it, for people and agents to read; lines that a program printed over count as it left them.

    At most 60 lines of 300 characters, and 6000 characters in all; a first line `…` where there was more.
    """
    text = _ESCAPE.sub("", re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", raw))
    lines = "\n".join(_as_left(line) for line in text.split("\n")).rstrip("\n").split("\n")
    kept: list[str] = []
    room = _MOST_CHARACTERS - len(_CUT)
    for line in reversed(lines[-_MOST_LINES:]):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    cut = [_CUT] if len(kept) < len(lines) else []
    return "\n".join([*cut, *reversed(kept)])


def _as_left(line: str) -> str:
    """What a terminal shows of a line in the end: progress bars go back to its start again and again."""
    last = _UNSEEN.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip()
    return last if len(last) <= _LONGEST_LINE else last[: _LONGEST_LINE - len(_CUT)] + _CUT
