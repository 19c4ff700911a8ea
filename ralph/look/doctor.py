"""`ralph doctor`: whether a run would find what it needs, a line for each subject, with the remedy."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from ralph.look.checks import Check, checks
from ralph.options import Asked
from ralph.screen import Detail
from ralph.screen.text import draws, is_terminal, terminal_size, wrapped
from ralph.words import counted, plain

_LEVELS = ("ok", "warning", "bad")
_WORDS = {"ok": "ok   ", "warning": "warn ", "bad": "BAD  "}
_SIGNS = {"ok": ("32", "✓ "), "warning": ("33", "! "), "bad": ("31", "✗ ")}
_SUBJECT_COLUMNS = 12
_NARROWEST = 20


def doctor(asked: Asked, *, live: bool, as_json: bool) -> int:
    """Looks at everything and says what it saw, what needs mending last; 1 when something does, else 0."""
    if live and not as_json:
        print("Asking claude and the channels, which can take a minute.", flush=True)
    seen = list(checks(asked, live=live))
    bad = dict.fromkeys(check.subject for check in seen if check.level == "bad")
    if as_json:
        print(json.dumps({"ok": not bad, "checks": [_told(check) for check in seen]}))
        return 1 if bad else 0
    subjects = [list(its) for _, its in groupby(seen, lambda check: check.subject)]
    for its in sorted(subjects, key=lambda its: max(_LEVELS.index(check.level) for check in its)):
        for check in its if asked.detail is Detail.VERBOSE else _brief(its):
            print("\n".join(_shown(check)))
    mending = f"{counted(len(bad), 'thing')} to mend: {', '.join(bad)}."
    print(mending if bad else "A run would find what it needs.")
    return 1 if bad else 0


def _told(check: Check) -> dict[str, object]:
    found = {"name": check.subject, "ok": check.level == "ok", "level": check.level}
    return {**found, "said": check.said, "remedy": check.fix}


def _brief(its: Sequence[Check]) -> Iterable[Check]:
    """What is not right; else in a line what is."""
    wrong = [check for check in its if check.level != "ok"]
    return wrong or [replace(its[0], said=" · ".join(check.said for check in its))]


def _shown(check: Check) -> Iterator[str]:
    """Its rows, and below them the remedy; a command stands on a line of its own, to be copied."""
    colour, sign = _SIGNS[check.level]
    mark = sign if os.environ.get("NO_COLOR") else f"\x1b[{colour}m{sign}\x1b[0m"
    mark, columns = (mark, len(sign)) if draws() else (_WORDS[check.level], len(_WORDS[check.level]))
    margin = " " * (columns + _SUBJECT_COLUMNS)
    room = max(_NARROWEST, terminal_size().columns - len(margin)) if is_terminal(1) else None
    prose, _, commands = check.fix.partition("\n") if check.level != "ok" else ("", "", "")
    rows = [*wrapped(" ".join(check.said.split()), room), *(wrapped(f"→ {prose}", room) if prose else ())]
    yield f"{mark}{check.subject:{_SUBJECT_COLUMNS}}{rows[0]}"
    yield from (margin + row for row in rows[1:])
    yield from (f"    {plain(command)}" for command in commands.splitlines())
