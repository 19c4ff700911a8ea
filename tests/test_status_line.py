"""What fits into a row: the status line, texts that are wider than long, and the lines of what an agent does."""

import json
from types import SimpleNamespace
from typing import Any

from stories import api_retry, init, result, says, tool, tool_result

from ralph.progress import parse
from ralph.screen.text import clipped, columns, wrapped
from ralph.screen.view import View, status_line
from ralph.settings import Settings
from ralph.verdict import Tally

TASKS = b"# Progress\n\n## Status\n\nIN_PROGRESS\n\n## Task List\n\n" + b"- [x] done\n" * 3 + b"- [ ] open\n" * 12


def working(doing: str) -> Any:
    """A run in its seventh iteration, an hour after its start."""
    view = View(lambda _line: None)
    view.doing, view.heard_at = doing, view.heard_at - 12
    about = {"tally": Tally(iterations=6, cost_usd=3.41), "number": 7, "file": SimpleNamespace(last=parse(TASKS))}
    return SimpleNamespace(view=view, settings=Settings(), phase=None, crew=None, elapsed_s=lambda: 3720, **about)


LAYOUTS = {
    100: "task 4 of 15 · iteration 7 · 1h02m · $3.41 · Bash pytest -q tests/test_greeting.py · idle 12s",
    80: "task 4 of 15 · iteration 7 · 1h02m · $3.41 · Bash pytest -q tests/te… · idle 12s",
    70: "task 4 of 15 · iteration 7 · 1h02m · Bash pytest -q tests/… · idle 12s",
    40: "Bash pytest -q tests/test_gr… · idle 12s",
    24: "Bash pytest … · idle 12s",
    1: "…",
}
"""What the agent does gives way first, then cost, time, the iteration and the task."""


def test_the_status_line_says_what_fits() -> None:
    for width, line in LAYOUTS.items():
        assert status_line(working("Bash pytest -q tests/test_greeting.py"), width) == line
        assert columns(line) <= width


COLUMNS = {"plain": 5, "日本語": 6, "\uff37\uff29": 4, "e\u0301tude": 5, "a\u200bb\u200d": 2, "☁\ufe0f": 2, "…·▸⎿✗": 5}
ROWS = {
    "one two three": ["one two", "three"],
    "one\n\ntwo": ["one", "", "two"],
    "abcdefghijklm": ["abcdefghi", "jklm"],
    "日本語日本語": ["日本語日", "本語"],
    "    indented text": ["    indented"[:9], "ted text"],
    "\t\x1b[2J": ["    \ufffd[2J"],
}


def test_a_text_has_columns_in_which_it_is_clipped_and_wrapped() -> None:
    for text, width in COLUMNS.items():
        assert (columns(text), clipped(text, width)) == (width, text)
        assert columns(clipped(text, width - 1)) < width
        assert clipped(text, width - 1).endswith("…")
    for text, rows in ROWS.items():
        assert list(wrapped(text, 9)) == rows
    assert sum(map(len, wrapped("x" * 2_000_000, 80))) == 2_000_000, "an endless line takes no time"


SLOW, READ = tool("Bash", command="pytest"), tool("Read", tool_id="t2", file_path="a.py")
SUB = tool("Grep", tool_id="t3", parent="t1", pattern="foo")
DOES = {
    "nothing is known": ([], "working"),
    "the model has the prompt": ([init()], "thinking"),
    "a tool runs": ([SLOW], "Bash pytest"),
    "one of two still runs": ([SLOW, READ, tool_result("x", tool_id="t2")], "Bash pytest"),
    "the later one does": ([SLOW, READ, tool_result("x")], "Read a.py"),
    "a sub-agent thinks": ([SLOW, SUB, tool_result("x", tool_id="t3", parent="t1")], "Bash pytest"),
    "it tries again by itself": ([init(), api_retry()], "retrying (529 overloaded)"),
    "its result is there": ([says("Hello."), result()], "leaving"),
    "something has woken it since": ([result(), init()], "thinking"),
}


def test_what_the_agent_does() -> None:
    for when, (events, doing) in DOES.items():
        view = View(lambda _line: None)
        stream, before = view.begin(), view.heard_at
        for event in events:
            stream.sees(json.dumps(event).encode() + b"\n")
        assert (view.doing, view.heard_at > before) == (doing, bool(events)), when
