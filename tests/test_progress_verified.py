"""What ralph notes in the progress file for itself: that done is verified, and what the plan cost."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_markdown import BOM, plain_outside
from test_progress_properties import (
    any_text,
    ended,
    meaning,
    newline,
    texts,
    verified_lines,
    without_lines,
    word_of,
)

from ralph import progress
from ralph.progress import parse

DONE = b"# Progress: x\n\nPlan: x.md\nStarted: now\n\n## Status\n\nRALPH_DONE\n\n## Task List\n\n- [x] one\n"
amounts = st.floats(0, 1e9)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("RALPH_DONE\nVerified: 2026-11-21 03:10:00 4e91917\n", id="as ralph writes it"),
        pytest.param("RALPH_DONE\r\nVerified: yes \t\r\n", id="with the line ends of Windows and blanks"),
        pytest.param("RALPH_DONE\nVerified: yes", id="without an end of its line"),
        pytest.param("RALPH_DONE\n\n \t\n   Verified:yes\n", id="further down and further in"),
        pytest.param("```\nRALPH_DONE\n```\nRALPH_DONE\nVerified: yes\n", id="below the one that counts"),
        pytest.param("RALPH_DONE\nVerified: yes\nRALPH_DONE\n", id="below the first of two"),
    ],
)
def test_done_is_verified(text: str) -> None:
    assert parse(text.encode()).verified


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("RALPH_DONE\n", id="without the line"),
        pytest.param("RALPH_DONE\nVerified:\n", id="without a word on it"),
        pytest.param("RALPH_DONE\nVerified:  \r\nyes\n", id="without a word on it but one below"),
        pytest.param("RALPH_DONE\n    Verified: yes\n", id="in a block of code"),
        pytest.param("RALPH_DONE\n- Verified: yes\n", id="in a list"),
        pytest.param("RALPH_DONE\nverified: yes\n", id="in lower case"),
        pytest.param("RALPH_DONE\nAll tests pass.\nVerified: yes\n", id="below another line"),
        pytest.param("RALPH_DONE\n```\nVerified: yes\n```\n", id="in a fence"),
        pytest.param("Verified: yes\nRALPH_DONE\n", id="above it"),
        pytest.param("RALPH_DONE\nRALPH_DONE\nVerified: yes\n", id="below the second of two"),
        pytest.param("IN_PROGRESS\nVerified: yes\n", id="below another word"),
        pytest.param("- RALPH_DONE\nVerified: yes\n", id="below a RALPH_DONE that does not count"),
        pytest.param("Verified: yes\n", id="below none"),
    ],
)
def test_done_is_not_verified(text: str) -> None:
    assert not parse(text.encode()).verified


def test_the_note_stands_right_below_done() -> None:
    expected = DONE.replace(b"RALPH_DONE\n", b"RALPH_DONE\nVerified: 2026-11-21 03:10:00 4e91917\n")
    assert progress.with_verified(DONE, "2026-11-21 03:10:00\n4e91917 ") == expected


def test_a_new_note_replaces_the_old_ones() -> None:
    forged = DONE.replace(b"RALPH_DONE\n", b"RALPH_DONE\n\nVerified: a\nVerified: b\n \nVerified: c\n")
    now = progress.with_verified(forged, "d")
    assert now == DONE.replace(b"RALPH_DONE\n", b"RALPH_DONE\nVerified: d\n\n \n")


def test_a_note_without_a_word_counts_too() -> None:
    assert parse(progress.with_verified(DONE, " \n")).verified


def test_where_nothing_is_done_nothing_is_verified() -> None:
    text = DONE.replace(b"RALPH_DONE", b"IN_PROGRESS\nVerified: a")
    assert progress.with_verified(text, "b") == text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"RALPH_DONE\n\n## Notes\n\nVerified: the login, by hand.\n", id="in the notes"),
        pytest.param(b"RALPH_DONE\nThe tests pass.\nVerified: twice.\n", id="in prose"),
        pytest.param(b"IN_PROGRESS\nVerified: the login.\n", id="below another word"),
        pytest.param(b"```\nRALPH_DONE\nVerified: a\n```\n", id="in a fence"),
    ],
)
def test_what_else_begins_with_that_word_stays(text: bytes) -> None:
    assert progress.without_verified(text) == text
    assert b"Verified: " in progress.without_done(text)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_a_claim_that_is_taken_back_is_not_verified_any_more(end: bytes) -> None:
    text = progress.with_verified(DONE, "a").replace(b"\n", end)
    back = DONE.replace(b"RALPH_DONE", b"IN_PROGRESS").replace(b"\n", end)
    assert progress.without_done(text) == back
    assert progress.in_progress(text) == back


def test_a_hundred_thousand_forged_lines_go_at_once() -> None:
    assert progress.without_done(b"RALPH_DONE\n" + b"Verified: a\n" * 100_000) == b"IN_PROGRESS\n"


@given(texts)
def test_any_done_is_verified_by_the_line_below_it(text: bytes) -> None:
    done = [line.start for line in plain_outside(text)[0] if word_of(line) == b"RALPH_DONE"]
    second = [*done, len(text), len(text)][1]
    assert parse(text).verified == any(line.start < second for line in verified_lines(text))


@given(texts)
def test_taking_the_note_away_removes_its_lines_and_no_other_byte(text: bytes) -> None:
    now = progress.without_verified(text)
    assert now == without_lines(text, verified_lines(text))
    assert not parse(now).verified
    assert progress.without_verified(now) == now


@given(texts, any_text)
def test_a_note_is_one_line_more(text: bytes, note: str) -> None:
    assume(parse(text).done and not text.endswith(b"\r"))
    bare = progress.without_verified(text)
    now = progress.with_verified(text, note)
    (line,) = verified_lines(now)
    assert now[line.start : line.end] == f"Verified: {' '.join(note.split()) or 'passed'}".encode() + newline(bare)
    assert without_lines(now, [line]) in {bare, ended(bare)}
    assert meaning(parse(bare)) == meaning(parse(progress.without_verified(now)))
    assert parse(now).verified
    assert progress.with_verified(now, note) == now


@given(texts, any_text)
def test_without_done_there_is_nothing_to_note(text: bytes, note: str) -> None:
    text = progress.without_done(text)
    assert progress.with_verified(text, note) == text


@pytest.mark.parametrize(
    ("line", "dollars"),
    [
        pytest.param(b"Spent: $12.3456", 12.3456, id="as ralph writes it"),
        pytest.param(b"Spent: 12.34", 12.34, id="without a currency"),
        pytest.param(b"Spent: $ 7 \t", 7, id="whole dollars and blanks"),
        pytest.param(b"Spent:7", 7, id="no blank"),
        pytest.param(b"   Spent: $7", 7, id="further in"),
        pytest.param(b"Spent: $1,234.50", 1234.5, id="thousands"),
        pytest.param(b"Spent: $1,234,567", 1234567, id="millions"),
        pytest.param(b"Spent: 12.34 USD so far", 12.34, id="words behind it"),
        pytest.param(b"Spent: 12.34USD", 12.34, id="a currency behind it"),
        pytest.param(b"Spent: $0.0000", 0, id="nothing"),
        pytest.param(b"Spent: $12.34.", 12.34, id="a full stop"),
        pytest.param(b"Spent: $12.34, mostly on tests", 12.34, id="a comma"),
        pytest.param(b"Spent:", None, id="no amount"),
        pytest.param(b"Spent: all of it", None, id="words"),
        pytest.param(b"Spent: $1.2.3", None, id="two points"),
        pytest.param(b"Spent: 12,34", None, id="a comma as a point"),
        pytest.param(b"Spent: $1,2345", None, id="a comma in the wrong place"),
        pytest.param(b"Spent: 1e3", None, id="a power of ten"),
        pytest.param(b"Spent: -3", None, id="less than nothing"),
        pytest.param(b"Spent: nan", None, id="no number"),
        pytest.param(b"Spent: $" + b"9" * 400, None, id="more than there is"),
        pytest.param(b"spent: $7", None, id="in lower case"),
        pytest.param(b"- Spent: $7", None, id="in a list"),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""], ids=["LF", "CRLF", "no line end"])
def test_what_a_plan_cost(line: bytes, dollars: float | None, end: bytes) -> None:
    assert parse(b"# Progress: x\n\nPlan: x.md\n" + line + end).spent_usd == dollars


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"## Notes\nSpent: $7\n", id="below another heading"),
        pytest.param(b" ## Notes\nSpent: $7\n", id="below another heading that stands further in"),
        pytest.param(b"```\nSpent: $7\n```\n", id="in a fence"),
    ],
)
def test_a_line_that_says_nothing_of_the_plans_cost(text: bytes) -> None:
    assert parse(text).spent_usd is None
    assert progress.with_spent(text, 1) == b"Spent: $1.0000\n" + text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b"Plan: a\nStarted: b\n\nx\n", b"Plan: a\nStarted: b\n%b\nx\n", id="below Started"),
        pytest.param(b"Started: b\n# Progress\nPlan: a\n", b"Started: b\n%b# Progress\nPlan: a\n", id="the same"),
        pytest.param(b"# Progress\n\nPlan: a\n\nx\n", b"# Progress\n\nPlan: a\n%b\nx\n", id="below Plan"),
        pytest.param(b"# Progress: y\n\nx\n", b"# Progress: y\n%b\nx\n", id="below the title"),
        pytest.param(b"# Tasks\n- [ ] a\n", b"%b# Tasks\n- [ ] a\n", id="at the top"),
        pytest.param(b"## Status\n# Progress\nPlan: a\n", b"%b## Status\n# Progress\nPlan: a\n", id="in no section"),
        pytest.param(BOM + b"RALPH_DONE\n", BOM + b"%bRALPH_DONE\n", id="behind a byte order mark"),
        pytest.param(BOM + b"Plan: a", BOM + b"Plan: a\n%b", id="below a line without an end"),
        pytest.param(b"```\nPlan: a\n```\n", b"%b```\nPlan: a\n```\n", id="never in a fence"),
        pytest.param(b"", b"%b", id="alone in an empty file"),
        pytest.param(BOM, BOM + b"%b", id="alone behind a byte order mark"),
        pytest.param(b"Spent: $3\nPlan: a\n", b"%bPlan: a\n", id="where it stood"),
        pytest.param(b"Spent: lots", b"Spent: $12.5000 lots", id="before what could not be read"),
        pytest.param(b"Spent:.5\n", b"Spent: $12.5000 .5\n", id="the same, where it looks like a number"),
        pytest.param(b"Spent: 3 USD \nPlan: a\n", b"Spent: $12.5000 USD \nPlan: a\n", id="before the same words"),
    ],
)
def test_the_cost_has_its_place(text: bytes, expected: bytes) -> None:
    now = progress.with_spent(text, 12.5)
    assert now == expected.replace(b"%b", b"Spent: $12.5000\n")
    assert parse(now).spent_usd == 12.5


@given(texts, amounts)
def test_noting_the_cost_changes_one_line_and_no_other_byte(text: bytes, dollars: float) -> None:
    assume(text != BOM)
    now = progress.with_spent(text, dollars)
    old, new = ended(text).split(b"\n"), ended(now).split(b"\n")
    at = next(n for n, line in enumerate(new) if b"Spent: $%.4f" % dollars in line)
    more = len(new) - len(old)
    mark = BOM if more and at == 0 and text.startswith(BOM) else b""
    assert new[:at] == old[:at]
    assert mark + b"\n".join(new[at + 1 :]) == b"\n".join(old[at + 1 - more :])
    assert more in {0, 1}
    assert more or (b"Spent:" in old[at] and new[at].endswith(b"\r") == old[at].endswith(b"\r"))


@given(texts, amounts, amounts)
def test_the_cost_is_known_again_and_means_nothing_else(text: bytes, dollars: float, more: float) -> None:
    now = progress.with_spent(text, dollars)
    assert parse(now).spent_usd == float(f"{dollars:.4f}")
    assert meaning(parse(now))[:-1] == meaning(parse(text))[:-1]
    assert progress.with_spent(progress.with_spent(now, more), dollars) == now
