"""What fits into a row: the status line, texts that are wider than long, and words that come in pieces."""

from collections.abc import Sequence
from typing import Any

import pytest
from stories import api_retry, error_result, init, result, says, tool, tool_result

from ralph.screen.live import LiveArea
from ralph.screen.statusline import Now, status_line
from ralph.screen.text import LINE_LIMIT, Rows, clipped, columns
from ralph.screen.view import View

WORKING = Now(
    doing="Bash pytest -q tests/test_greeting.py",
    clock="idle 12s",
    task=4,
    tasks=15,
    iteration=7,
    elapsed_s=3720,
    cost="$3.41",
)


@pytest.mark.parametrize(
    ("now", "width", "line"),
    [
        pytest.param(
            WORKING,
            100,
            "task 4 of 15 · iteration 7 · 1h02m · $3.41 · Bash pytest -q tests/test_greeting.py · idle 12s",
            id="all of it where there is room",
        ),
        pytest.param(
            WORKING,
            80,
            "task 4 of 15 · iteration 7 · 1h02m · $3.41 · Bash pytest -q tests/te… · idle 12s",
            id="what the agent does gives way first",
        ),
        pytest.param(
            WORKING,
            70,
            "task 4/15 · #7 · 1h02m · $3.41 · Bash pytest -q tests/test… · idle 12s",
            id="then the words around the figures",
        ),
        pytest.param(WORKING, 40, "4/15 · #7 · Bash pytest -q tests/… · 12s", id="then time and money"),
        pytest.param(WORKING, 24, "Bash pytest -q tests/te…", id="at last all but what the agent does"),
        pytest.param(WORKING, 1, "…", id="where nothing fits there is no error"),
        pytest.param(Now(doing="starting"), 40, "starting", id="what is unknown is left out"),
    ],
)
def test_the_status_line_says_what_fits(now: Now, width: int, line: str) -> None:
    assert status_line(now, width) == line
    assert columns(line) <= width


@pytest.mark.parametrize(
    ("text", "width"),
    [
        pytest.param("plain", 5, id="ASCII"),
        pytest.param("日本語", 6, id="wide letters"),
        pytest.param("\uff37\uff29", 4, id="full-width letters"),
        pytest.param("e\u0301tude", 5, id="a combining accent"),
        pytest.param("a\u200bb\u200d", 2, id="zero-width characters"),
        pytest.param("🎉 ok", 5, id="an emoji"),
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
    ("pieces", "limit", "rows"),
    [
        pytest.param(["one two ", "three"], None, ["one two", "three"], id="words are kept whole"),
        pytest.param(["o", "n", "e two", " t"], None, ["one two t"], id="in whatever pieces they come"),
        pytest.param(["one\n\ntwo\n"], None, ["one", "", "two", ""], id="lines end where they end"),
        pytest.param(["abcdefghijklm"], None, ["abcdefghi", "jklm"], id="a word that is too long is cut"),
        pytest.param(["日本語日本語"], None, ["日本語日", "本語"], id="a wide letter is not halved"),
        pytest.param(["    indented text"], None, ["    indented"[:9], "ted text"], id="an indent is no word"),
        pytest.param(["\tx"], None, ["    x"], id="a tab has its columns"),
        pytest.param(["abc", "def", "ghi"], 4, ["abcd…"], id="of an endless line only the beginning"),
        pytest.param(["abcd\nefghi"], 4, ["abcd", "efgh…"], id="each line has its own limit"),
    ],
)
def test_words_are_wrapped(pieces: list[str], limit: int | None, rows: list[str]) -> None:
    cut = Rows(limit)
    assert [row for piece in pieces for row in cut.add(piece, 9)] + list(cut.end()) == rows


# The live area, without a terminal: then it takes the size from the environment.


@pytest.fixture
def area(monkeypatch: pytest.MonkeyPatch) -> LiveArea:
    """One of 40 columns."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "24")
    return LiveArea(colour=False)


def test_whatever_is_said_in_it_is_one_row(area: LiveArea) -> None:
    area.row = "  row\n\x1b[2J\tof words"
    area.status = lambda _width: "verifying: one\n\tthe other\r\n" + "x" * 99
    drawn = area.draw(b"").decode()
    assert drawn.count("\n") == 1
    assert drawn.count("\t") == drawn.count("\x1b[2J") == 0
    assert "  row \ufffd[2J of words\x1b" in drawn
    assert "verifying: one  the other " in drawn


def test_it_is_written_again_only_when_it_has_changed(area: LiveArea) -> None:
    area.status = lambda _width: "thinking"
    assert area.draw(b"")
    assert area.draw(b"") == b""
    area.row = "  Words"
    assert area.draw(b"")


def test_a_low_terminal_has_none(area: LiveArea, monkeypatch: pytest.MonkeyPatch) -> None:
    area.status = lambda _width: "thinking"
    monkeypatch.setenv("LINES", "3")
    assert area.draw(b"a line\n") == b"a line\n"


def test_a_mistake_in_it_costs_no_line(area: LiveArea) -> None:
    area.row = "  Words"
    area.draw(b"")
    area.status = lambda width: str(1 // (width - width))
    assert area.draw(b"a line\n") == b"\r\x1b[Ja line\n"
    assert area.draw(b"another\n") == b"another\n"


# Words.


class Terminal:
    """A terminal of 40 columns, remembered."""

    width = 40

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.unfinished = ""

    def words(self, rows: Sequence[str], row: str) -> None:
        self.lines += rows
        self.unfinished = row


Event = dict[str, Any]


def part(kind: str, parent: str | None = None, **more: object) -> Event:
    return {"type": "stream_event", "event": {"type": kind, **more}, "parent_tool_use_id": parent}


def piece(text: str, parent: str | None = None) -> Event:
    return part("content_block_delta", parent, delta={"type": "text_delta", "text": text})


MESSAGE = part("message_start", message={})
TEXT = part("content_block_start", content_block={"type": "text", "text": ""})


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        pytest.param([says("Hello.")], ["Hello."], id="only whole"),
        pytest.param([piece("Hel"), piece("lo."), says("Hello.")], ["Hello."], id="in pieces and whole"),
        pytest.param([piece("Hel"), says("Hello.")], ["Hello."], id="the last piece did not come"),
        pytest.param([piece("One."), says("One."), piece("Two."), says("Two.")], ["One.", "Two."], id="two texts"),
        pytest.param([piece("Sub.", "t1"), says("Sub.", parent="t1")], ["    Sub."], id="a sub-agent in pieces"),
        pytest.param([says("One."), says("One.")], ["One.", "One."], id="the same said twice"),
        pytest.param(
            [piece("It br"), says("It is sent anew.")], ["It br", "It is sent anew."], id="one that broke off"
        ),
        pytest.param([piece("A\n\nB\n"), says("A\n\nB\n")], ["A", "", "B", ""], id="several lines"),
        pytest.param(
            [piece("Hel"), says("Sub.", parent="t1"), piece("lo."), says("Hello.")],
            ["    Sub.", "Hello."],
            id="a sub-agent between",
        ),
        pytest.param(
            [MESSAGE, TEXT, piece("It br"), MESSAGE, TEXT, piece("It is anew."), says("It is anew.")],
            ["It br", "It is anew."],
            id="one that broke off, and then in pieces",
        ),
        pytest.param(
            [piece("It br"), api_retry(), piece("It is anew."), says("It is anew.")],
            ["It br", "… 529 overloaded: try 1 of 10 in 1s", "It is anew."],
            id="one that broke off before it is tried again",
        ),
        pytest.param(
            [piece("It br"), tool("Bash", command="ls"), piece("It is anew."), says("It is anew.")],
            ["It br", "▸ Bash ls", "It is anew."],
            id="one that broke off before a tool",
        ),
        pytest.param(
            [piece("Hel"), tool("Bash", command="ls", parent="t0"), piece("lo."), says("Hello.")],
            ["    ▸ Bash ls", "Hello."],
            id="a sub-agent's tool between",
        ),
        pytest.param(
            [piece("On"), says("One."), piece("e."), TEXT, piece("Two."), says("Two.")],
            ["One.", "e.", "Two."],
            id="a piece that comes after the whole",
        ),
        pytest.param(
            [piece("\ud83d"), piece("\ude00"), says("\ud83d\ude00")], ["\ud83d\ude00"], id="halves of a letter"
        ),
    ],
)
@pytest.mark.parametrize("is_live", [True, False], ids=["on a terminal", "in a pipe"])
def test_what_is_said_is_shown_once(events: list[Event], lines: list[str], *, is_live: bool) -> None:
    terminal = Terminal()
    view = View(terminal.lines.append, width=40, pays=False, live=terminal if is_live else None)
    for event in events:
        view.show(event)
    view.end()
    assert terminal.lines == [f"  {line}" for line in lines]
    assert terminal.unfinished == ""


def test_of_a_line_without_an_end_the_beginning_is_shown() -> None:
    terminal = Terminal()
    view = View(terminal.lines.append, width=40, pays=False, live=terminal)
    view.show(piece("x" * 3000))
    view.show(says("x" * 9000))
    assert "".join(line.strip() for line in terminal.lines) == "x" * LINE_LIMIT + "…"


def test_a_call_is_one_row_whatever_its_tool_is_called() -> None:
    terminal = Terminal()
    View(terminal.lines.append, width=None, pays=False).show(tool("Ba\nsh\t", command="ls"))
    assert terminal.lines == ["  ▸ Ba sh  ls"]


def test_where_the_agent_was_interrupted_in_its_own_code_is_nothing_for_a_person() -> None:
    terminal = Terminal()
    errors = ["[ede_diagnostic] result_type=user", "It went wrong."]
    View(terminal.lines.append, width=None, pays=False).show(error_result("error_during_execution", *errors))
    assert terminal.lines == ["  ✗ It went wrong.", "  $0.01"]


# What the agent does.

SLOW, READ = tool("Bash", command="pytest"), tool("Read", tool_id="t2", file_path="a.py")
SUB = tool("Grep", tool_id="t3", parent="t1", pattern="foo")


@pytest.mark.parametrize(
    ("events", "doing"),
    [
        pytest.param([], "starting", id="nothing is known"),
        pytest.param([init()], "thinking", id="the model has the prompt"),
        pytest.param([init(), MESSAGE, TEXT, piece("Hel")], "answering", id="words come"),
        pytest.param([TEXT, piece("Hello."), says("Hello.")], "thinking", id="after them more may come"),
        pytest.param(
            [part("content_block_start", content_block={"type": "tool_use", "name": "Edit"})],
            "calling Edit",
            id="the arguments of a call come",
        ),
        pytest.param([SLOW], "Bash pytest", id="a tool runs"),
        pytest.param([SLOW, tool_result("ok")], "thinking", id="it has ended"),
        pytest.param([SLOW, READ, tool_result("x", tool_id="t2")], "Bash pytest", id="one of two still runs"),
        pytest.param([SLOW, READ, tool_result("x")], "Read a.py", id="the later one does"),
        pytest.param([SLOW, SUB, tool_result("x", tool_id="t3", parent="t1")], "Bash pytest", id="a sub-agent thinks"),
        pytest.param([SLOW, says("Hm.", parent="t1")], "Bash pytest", id="a sub-agent speaks"),
        pytest.param([init(), api_retry()], "retrying (529 overloaded)", id="it tries again by itself"),
        pytest.param([says("Hello."), result()], "leaving", id="its result is there"),
        pytest.param([result(), init()], "thinking", id="something has woken it since"),
    ],
)
def test_what_the_agent_does(events: list[Event], doing: str) -> None:
    view = View(lambda _line: None, width=None, pays=False)
    for event in events:
        before = view.heard_at
        view.show(event)
        assert view.heard_at > before
    assert view.doing == doing


def test_what_an_agent_does_that_only_prints() -> None:
    view = View(lambda _line: None, width=None, pays=False)
    view.tell("Compiling.")
    assert view.doing == "working"
    view.show(SLOW)
    view.tell("Beware.")
    assert view.doing == "Bash pytest"
    view.ending()
    assert view.doing == "ending the agent"
