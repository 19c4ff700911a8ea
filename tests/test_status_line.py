"""What fits into a row: the status line, texts that are wider than long, and the lines of what an agent does."""

import json
from typing import Any

import pytest
from stories import api_retry, error_result, init, result, says, tool, tool_result, weighs

from ralph.agent.stream import Stream
from ralph.clock import Clock
from ralph.progress import parse
from ralph.screen.screen import Screen
from ralph.screen.statusline import Status
from ralph.screen.text import LINE_LIMIT, clipped, columns, wrapped
from ralph.screen.view import View
from ralph.verdict import Tally

Event = dict[str, Any]
TASKS = b"# Progress\n\n## Status\n\nIN_PROGRESS\n\n## Task List\n\n" + b"- [x] done\n" * 3 + b"- [ ] open\n" * 12


class Stopped(Clock):
    """A clock that somebody sets."""

    at = 0.0

    def running(self) -> float:
        return self.at


def working(doing: str) -> Status:
    """In the seventh iteration, an hour after the start."""
    view = View(lambda _line: None, lambda: None, pays=False)
    clock = Stopped()
    status = Status(view, clock)
    status.iterates(Tally(iterations=6, cost_usd=3.41), parse(TASKS), 7)
    clock.at = 3720
    view.doing, view.heard_at = doing, view.heard_at - 12
    return status


@pytest.mark.parametrize(
    ("width", "line"),
    [
        pytest.param(
            100,
            "task 4 of 15 · iteration 7 · 1h02m · $3.41 · Bash pytest -q tests/test_greeting.py · idle 12s",
            id="all of it where there is room",
        ),
        pytest.param(
            80,
            "task 4 of 15 · iteration 7 · 1h02m · $3.41 · Bash pytest -q tests/te… · idle 12s",
            id="what the agent does gives way first",
        ),
        pytest.param(
            70,
            "4/15 · #7 · 1h02m · $3.41 · Bash pytest -q tests/test_gree… · idle 12s",
            id="then the words around the figures",
        ),
        pytest.param(40, "4/15 · #7 · Bash pytest -q tests/… · 12s", id="then time and money"),
        pytest.param(24, "Bash pytest -q tests/te…", id="at last all but what the agent does"),
        pytest.param(1, "…", id="where nothing fits there is no error"),
    ],
)
def test_the_status_line_says_what_fits(width: int, line: str) -> None:
    assert working("Bash pytest -q tests/test_greeting.py").line(width) == line
    assert columns(line) <= width


def test_what_is_unknown_is_left_out_of_it() -> None:
    clock = Stopped()
    status = Status(View(lambda _line: None, lambda: None, pays=False), clock)
    assert status.line(40) == "0s · starting · 0s"
    status.does("next iteration", 30)
    clock.at = 10
    assert status.line(40) == "10s · next iteration · 20s left"


@pytest.mark.parametrize(
    ("text", "width"),
    [
        pytest.param("plain", 5, id="ASCII"),
        pytest.param("日本語", 6, id="wide letters"),
        pytest.param("\uff37\uff29", 4, id="full-width letters"),
        pytest.param("e\u0301tude", 5, id="a combining accent"),
        pytest.param("☁\ufe0f", 2, id="a sign that a selector makes an emoji"),
        pytest.param("…·▸⎿✗", 5, id="ralph's own signs"),
    ],
)
def test_the_columns_of_a_text(text: str, width: int) -> None:
    assert columns(text) == width
    assert clipped(text, width) == text
    assert columns(clipped(text, width - 1)) < width
    assert clipped(text, width - 1).endswith("…")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        pytest.param("one two three", ["one two", "three"], id="words are kept whole"),
        pytest.param("one two t", ["one two t"], id="what just fits"),
        pytest.param("one\n\ntwo", ["one", "", "two"], id="lines end where they end"),
        pytest.param("abcdefghijklm", ["abcdefghi", "jklm"], id="a word that is too long is cut"),
        pytest.param("    indented text", ["    indented"[:9], "ted text"], id="an indent is no word"),
        pytest.param("\tx", ["    x"], id="a tab has its columns"),
        pytest.param("\x1b[2J", ["\ufffd[2J"], id="nothing drives the terminal"),
    ],
)
def test_words_are_wrapped(text: str, rows: list[str]) -> None:
    assert list(wrapped(text, 9)) == rows


def test_where_there_is_no_edge_lines_stay_and_of_an_endless_one_the_beginning() -> None:
    assert list(wrapped("a b\n" * 2 + "x" * 99, None)) == ["a b", "a b", "x" * 99]
    assert list(wrapped("abcdef\nghi", 9, 4)) == ["abc…", "ghi"]
    assert sum(map(len, wrapped("x" * 2_000_000, 80))) == 2_000_000


# The screen, without a terminal.


def test_a_line_of_ralphs_own_cannot_drive_a_terminal_and_ends_somewhere(capfd: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.open()
    screen.say("one \x1b[2J")
    screen.say("y" * 2 * LINE_LIMIT)
    screen.complain("two\r")
    screen.close()
    out, err = capfd.readouterr()
    assert (out, err) == ("one \ufffd[2J\n" + "y" * (LINE_LIMIT - 1) + "…\n", "two\n")


# What the agent does.


def watched(*events: Event, width: int | None = None) -> tuple[View, list[str]]:
    """A view that has seen these, and its lines."""
    lines: list[str] = []
    view = View(lines.append, lambda: width, pays=False)
    stream = Stream(view.show, view.tell)
    view.begin(stream)
    for event in events:
        before = view.heard_at
        stream.sees(json.dumps(event).encode() + b"\n")
        assert view.heard_at > before
    return view, lines


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        pytest.param(says("A\n\nB\n"), ["  A", "  ", "  B"], id="several lines"),
        pytest.param(
            says("Words that are too wide for the row of this terminal."),
            ["  Words that are too wide for the row of", "  this terminal."],
            id="words are wrapped",
        ),
        pytest.param(says("Inside.", parent="t1"), ["      Inside."], id="a sub-agent is indented"),
        pytest.param(says("x" * 9000), ["  " + "x" * 38] * 105 + ["  " + "x" * 9 + "…"], id="an endless line"),
        pytest.param(tool("Ba\nsh\t", command="ls"), ["  ▸ Ba sh  ls"], id="a call is one row"),
        pytest.param(
            error_result("error_during_execution", "[ede_diagnostic] result_type=user", "It went wrong."),
            ["  ✗ It went wrong."],
            id="no place in the agent's own code",
        ),
        pytest.param(result(), [], id="the cost has a place of its own"),
    ],
)
def test_what_a_person_sees_of_it(event: Event, lines: list[str]) -> None:
    assert watched(event, width=40)[1] == lines


def test_how_much_of_its_context_it_used_is_said_in_the_end() -> None:
    assert watched(init(), weighs(74_000, says("Done.")), result())[1][-1] == "  context 37%"


SLOW, READ = tool("Bash", command="pytest"), tool("Read", tool_id="t2", file_path="a.py")
SUB = tool("Grep", tool_id="t3", parent="t1", pattern="foo")


@pytest.mark.parametrize(
    ("events", "doing"),
    [
        pytest.param([], "starting", id="nothing is known"),
        pytest.param([init()], "thinking", id="the model has the prompt"),
        pytest.param([SLOW], "Bash pytest", id="a tool runs"),
        pytest.param([SLOW, READ, tool_result("x", tool_id="t2")], "Bash pytest", id="one of two still runs"),
        pytest.param([SLOW, READ, tool_result("x")], "Read a.py", id="the later one does"),
        pytest.param([SLOW, SUB, tool_result("x", tool_id="t3", parent="t1")], "Bash pytest", id="a sub-agent thinks"),
        pytest.param([init(), api_retry()], "retrying (529 overloaded)", id="it tries again by itself"),
        pytest.param([says("Hello."), result()], "leaving", id="its result is there"),
        pytest.param([result(), init()], "thinking", id="something has woken it since"),
    ],
)
def test_what_the_agent_does(events: list[Event], doing: str) -> None:
    assert watched(*events)[0].doing == doing


def test_what_an_agent_does_that_only_prints() -> None:
    view, _ = watched()
    view.tell("Compiling.")
    assert view.doing == "working"
    view, _ = watched(SLOW)
    view.tell("Beware.")
    assert view.doing == "Bash pytest"
    view.ending()
    assert view.doing == "ending the agent"
