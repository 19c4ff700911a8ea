"""`ralph doctor`: whether a run would find what it needs, a line for each subject, with the remedy."""

import json
import os
from dataclasses import asdict
from itertools import groupby

from ralph.look.checks import Check, checks
from ralph.options import Asked
from ralph.screen import Detail
from ralph.screen.text import draws, is_terminal, terminal_size, wrapped
from ralph.words import counted, plain

_LEVELS = {"ok": "\x1b[32m✓\x1b[0m ", "warning": "\x1b[33m!\x1b[0m ", "bad": "\x1b[31m✗\x1b[0m "}
"""From the best to the worst, as they are drawn."""
_WORDS = {"ok": "ok   ", "warning": "warn ", "bad": "BAD  "}
_SUBJECT_COLUMNS = 12
_NARROWEST = 20


def doctor(asked: Asked, *, live: bool, as_json: bool) -> int:
    """Looks at everything and says what it saw, what needs mending last; 1 when something does, else 0."""
    if live and not as_json:
        print("Asking claude and the channels, which can take a minute.", flush=True)
    seen = list(checks(asked, live=live))
    bad = dict.fromkeys(one.subject for one in seen if one.level == "bad")
    if as_json:
        print(json.dumps({"ok": not bad, "checks": [asdict(one) for one in seen]}))
        return 1 if bad else 0
    subjects = [list(its) for _, its in groupby(seen, lambda one: one.subject)]
    for its in sorted(subjects, key=lambda its: max(list(_LEVELS).index(one.level) for one in its)):
        wrong = [one for one in its if one.level != "ok"]
        good = [Check("ok", " · ".join(one.said for one in its), subject=its[0].subject)]
        for check in its if asked.detail is Detail.VERBOSE else wrong or good:
            _print(check)
    print(f"{counted(len(bad), 'thing')} to mend: {', '.join(bad)}." if bad else "A run would find what it needs.")
    return 1 if bad else 0


def _print(check: Check) -> None:
    """Its rows, and below them the remedy; a command stands on a line of its own, to be copied."""
    drawn = draws() and not os.environ.get("NO_COLOR")
    margin = " " * (_SUBJECT_COLUMNS + (2 if drawn else 5))
    room = max(_NARROWEST, terminal_size().columns - len(margin)) if is_terminal(1) else None
    remedy, _, commands = check.fix.partition("\n")
    rows = [*wrapped(" ".join(check.said.split()), room), *(wrapped(f"→ {remedy}", room) if remedy else ())]
    mark = _LEVELS[check.level] if drawn else _WORDS[check.level]
    print(f"{mark}{check.subject:{_SUBJECT_COLUMNS}}{rows[0]}")
    for row in rows[1:]:
        print(margin + row)
    for command in commands.splitlines():
        print(f"    {plain(command)}")
