"""What fits into a row: the status line, texts that are wider than long, and words that come in pieces."""

from collections.abc import Sequence

import pytest

from ralph.display.rows import Rows, clipped, columns
from ralph.display.status_line import Now, status_line
from ralph.display.view import View

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


class Terminal:
    """A terminal of 40 columns, remembered."""

    width = 40

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.unfinished = ""

    def words(self, rows: Sequence[str], row: str) -> None:
        self.lines += rows
        self.unfinished = row


def says(text: str, parent: str | None = None) -> dict[str, object]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}, "parent_tool_use_id": parent}


def piece(text: str, parent: str | None = None) -> dict[str, object]:
    delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return {"type": "stream_event", "event": delta, "parent_tool_use_id": parent}


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        pytest.param([says("Hello.")], ["Hello."], id="only whole"),
        pytest.param([piece("Hel"), piece("lo."), says("Hello.")], ["Hello."], id="in pieces and whole"),
        pytest.param([piece("Hel"), says("Hello.")], ["Hello."], id="the last piece did not come"),
        pytest.param([piece("One."), says("One."), piece("Two."), says("Two.")], ["One.", "Two."], id="two texts"),
        pytest.param([piece("Sub.", "t1"), says("Sub.", "t1")], ["    Sub."], id="a sub-agent in pieces"),
        pytest.param([says("One."), says("One.")], ["One.", "One."], id="the same said twice"),
        pytest.param(
            [piece("It br"), says("It is sent anew.")], ["It br", "It is sent anew."], id="one that broke off"
        ),
        pytest.param([piece("A\n\nB\n"), says("A\n\nB\n")], ["A", "", "B", ""], id="several lines"),
        pytest.param(
            [piece("Hel"), says("Sub.", "t1"), piece("lo."), says("Hello.")],
            ["    Sub.", "Hello."],
            id="a sub-agent between",
        ),
        pytest.param(
            [piece("\ud83d"), piece("\ude00"), says("\ud83d\ude00")], ["\ud83d\ude00"], id="halves of a letter"
        ),
    ],
)
def test_what_is_said_is_shown_once(events: list[dict[str, object]], lines: list[str]) -> None:
    terminal = Terminal()
    view = View(terminal.lines.append, width=40, pays=False, live=terminal)
    for event in events:
        view.show(event)
    view.end()
    assert terminal.lines == [f"  {line}" for line in lines]
    assert terminal.unfinished == ""
