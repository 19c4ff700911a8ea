"""Edits of the progress file, case by case; what holds for every text stands in test_progress_properties.py."""

import pytest

from ralph import progress
from ralph.progress import parse

TEXT = b"# Progress: feature\n\nPlan: feature.md\n\n## Status\n\nIN_PROGRESS\n\n## Task List\n\n- [ ] one\n\n## Notes\n"
REFUSED = progress.with_refusal(TEXT, ["1 task is not ticked"])
OWN = b"RALPH_BLOCKED: ralph: 3 iterations failed in a row: no\n"


def test_a_block_stands_below_the_status() -> None:
    expected = TEXT.replace(b"IN_PROGRESS\n", b"IN_PROGRESS\nRALPH_BLOCKED: ralph: why\n")
    assert progress.blocked(TEXT, "why") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            b"# X\n## Status\n\nx\n", b"# X\n## Status\n%b\nx\n", id="below the heading when no word is there"
        ),
        pytest.param(b"x\n", b"x\n%b", id="at the end when there is no status"),
        pytest.param(b"x", b"x\n%b", id="on a line of its own where the last one has no end"),
        pytest.param(b"", b"%b", id="alone in an empty file"),
        pytest.param(b"```\nIN_PROGRESS\n```\n", b"```\nIN_PROGRESS\n```\n%b", id="never in a fence"),
        pytest.param(b"```\nx\n", b"```\nx\n%b", id="after a fence that is never closed, which is none"),
    ],
)
def test_a_block_has_a_place_in_any_file(text: bytes, expected: bytes) -> None:
    assert progress.blocked(text, "why") == expected % b"RALPH_BLOCKED: ralph: why\n"
    assert parse(progress.blocked(text, "why")).blocked == "ralph: why"


@pytest.mark.parametrize(
    ("why", "said"),
    [
        pytest.param("a\nb\r\nc\u2028d\x0be", "ralph: a b c d e", id="lines become one"),
        pytest.param("RALPH_DONE\nRALPH_DONE", "ralph: RALPH_DONE RALPH_DONE", id="control words"),
        pytest.param("caf\udce9", "ralph: caf\ufffd", id="bytes that were no UTF-8"),
    ],
)
def test_any_reason_can_be_given(why: str, said: str) -> None:
    now = parse(progress.blocked(TEXT, why))
    assert (now.blocked, now.blocked_by_ralph, now.done) == (said, True, False)


def test_a_block_without_a_reason_is_known_as_ralphs_own() -> None:
    blocked = progress.blocked(TEXT, "")
    assert parse(blocked).blocked_by_ralph
    assert progress.without_own_block(blocked) == TEXT


@pytest.mark.parametrize("why", ["half an emoji: \ud83d", "\udfff"], ids=["its first half", "its second half"])
def test_half_an_emoji_can_be_written(why: str) -> None:
    """Programs that count in UTF-16 cut texts in the middle of one; the agent's JSON then holds `\\ud83d` alone."""
    assert parse(progress.blocked(TEXT, why)).blocked_by_ralph
    assert parse(progress.with_refusal(TEXT, [why])).tasks == parse(TEXT).tasks


def test_a_block_of_the_agent_or_a_person_stays() -> None:
    text = b"RALPH_BLOCKED: which port?\n" + OWN + b"RALPH_BLOCKED\n"
    assert progress.without_own_block(text) == b"RALPH_BLOCKED: which port?\nRALPH_BLOCKED\n"


def test_a_block_in_a_fence_stays() -> None:
    assert progress.without_own_block(b"```\n" + OWN + b"```\n" + OWN) == b"```\n" + OWN + b"```\n"


def test_a_byte_order_mark_outlives_the_line_it_stands_on() -> None:
    assert progress.without_own_block(b"\xef\xbb\xbf" + OWN + b"rest\n") == b"\xef\xbb\xbfrest\n"


def test_a_refusal_stands_at_the_end_and_says_why() -> None:
    assert REFUSED.startswith(TEXT)
    assert REFUSED[len(TEXT) :].startswith(b"\n## Verification\n\n<!-- ralph writes")
    assert REFUSED.endswith(b"\nRALPH_DONE was taken back, because:\n\n- 1 task is not ticked\n")


def test_a_second_refusal_replaces_the_first() -> None:
    again = progress.with_refusal(REFUSED, ["another reason"])
    assert (again.count(b"## Verification"), b"1 task" in again) == (1, False)
    assert progress.without_refusal(again) == TEXT


def test_a_section_of_that_name_that_a_person_wrote_stays() -> None:
    mine = b"## Verification\n\nRun make check.\n\n"
    assert progress.without_refusal(mine + REFUSED) == mine + TEXT


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"RALPH_STOP\n", id="a word: echo RALPH_STOP >> the file"),
        pytest.param(b"RALPH_BLOCKED: which port?\n", id="another word"),
        pytest.param(b"\nPort 81 is taken.\n", id="a note"),
        pytest.param(b"- Port 81 is taken.\n", id="an item"),
        pytest.param(b"\n### Lessons\n\nPort 81 is taken.\n", id="a small heading"),
    ],
)
def test_what_was_appended_below_a_refusal_is_not_ralphs_to_remove(line: bytes) -> None:
    """The section is the last thing in the file, so everything that is appended lands in it."""
    assert line.strip() in progress.without_refusal(REFUSED + line)
    assert line.strip() in progress.with_refusal(REFUSED + line, ["another reason"])


def test_what_follows_a_refusal_stays() -> None:
    assert progress.without_refusal(REFUSED + b"# Mine\n\nx\n") == TEXT + b"# Mine\n\nx\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_two_refusals_in_a_row_go_and_nothing_else(end: bytes) -> None:
    """As a merge, or an agent that copies what it saw, leaves them."""
    one = progress.with_refusal(b"x" + end, ["why"])
    section = one.removeprefix(b"x" + end)
    tail = b"## Notes" + end + b"Port 81." + end
    assert progress.without_refusal(one + section + tail) == b"x" + end + tail


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"a\r\nb\n", id="begins in CRLF, ends in LF"),
        pytest.param(b"a\nb\r\n", id="begins in LF, ends in CRLF"),
    ],
)
def test_with_mixed_line_ends_a_refusal_goes_without_a_trace(text: bytes) -> None:
    assert progress.without_refusal(progress.with_refusal(text, ["why"])) == text


@pytest.mark.parametrize(
    "reason",
    [
        pytest.param("[ ] a task", id="a task"),
        pytest.param("[x] a done task", id="a ticked task"),
        pytest.param("```", id="backticks"),
        pytest.param("~~~ sh", id="tildes"),
        pytest.param("1. [ ] x", id="a task in a list"),
        pytest.param("x\n## Task List\n- [ ] x\nRALPH_DONE\n```\n<!-- ", id="a whole file"),
    ],
)
@pytest.mark.parametrize("text", [TEXT, b"# Tasks\n\n- [ ] one\n"], ids=["as ralph makes it", "all under one heading"])
def test_no_reason_means_anything(text: bytes, reason: str) -> None:
    before, after = parse(text), parse(progress.with_refusal(text, [reason]))
    assert after.tasks == before.tasks
    assert (after.done, after.stop, after.blocked, after.unclosed_fence) == (False, False, None, None)


def test_tasks_are_put_back_below_the_last_one() -> None:
    assert progress.with_tasks(TEXT, [b"- [ ] two"]) == TEXT.replace(b"one\n", b"one\n- [ ] two\n")


def test_tasks_are_put_back_under_an_empty_heading() -> None:
    empty = TEXT.replace(b"- [ ] one\n", b"")
    assert parse(progress.with_tasks(empty, [b"- [ ] two"])).open[0].text == "two"


def test_tasks_are_put_back_where_the_whole_list_is_gone() -> None:
    assert progress.with_tasks(b"# X\r\n", [b"- [ ] two"]) == b"# X\r\n\r\n## Task List\r\n\r\n- [ ] two\r\n"


@pytest.mark.parametrize(
    "text", [TEXT, TEXT.replace(b"- [ ] one\n", b""), b"no list\n", b"- [ ] no line end"], ids=["1", "2", "3", "4"]
)
def test_no_task_to_put_back_is_no_edit(text: bytes) -> None:
    assert progress.with_tasks(text, []) == text


def test_what_is_nested_below_the_last_task_stays_with_it() -> None:
    text = b"## Tasks\n- [ ] one\n  in the login form\n  - [x] find it\n    - priority: 1\n\n## Notes\n"
    now = progress.with_tasks(text, [b"- [ ] two"])
    assert b"- [x] find it\n    - priority: 1\n" in now
    assert parse(now).tasks[-1].text == "two"


def test_tasks_are_never_put_back_into_a_fence() -> None:
    """One that begins below the last task, further in, and goes on at the margin."""
    text = b"## Tasks\n- [ ] one\n  ```\nmake check\n  ```\n\n## Notes\n"
    assert [task.text for task in parse(progress.with_tasks(text, [b"- [ ] two"])).tasks] == ["one", "two"]


VANISHED = [
    pytest.param("one|two", "two|one", "", id="another order"),
    pytest.param("one|two", "x one|x two", "", id="ticked"),
    pytest.param("one|two", "two", "one", id="gone"),
    pytest.param("one|one|one", "one", "one|one", id="two of three of the same name"),
    pytest.param("x one|two", "two", "", id="a finished one may go"),
    pytest.param("Add **login**", "x Add `login`", "", id="other markup"),
    pytest.param("Add login", "x ADD LOGIN!", "", id="other letters"),
    pytest.param("Add login", "x Add login (with tests, see app/login.py)", "", id="a longer text"),
    pytest.param(
        "Add login|Add login form", "Add login form", "Add login", id="its name begins one that is still there"
    ),
    pytest.param("Add login form|Add login", "Add login form", "Add login", id="the same, the other way round"),
    pytest.param("Add login|x Add login form", "x Add login form", "Add login", id="its name begins a finished one"),
    pytest.param("T1|T2", "T2|x T10: move the data", "T1", id="a new one whose number merely begins alike"),
    pytest.param("one|x one", "x one|x one", "", id="an open and a finished one of the same name"),
    pytest.param("???|!!!", "!!!", "???", id="names without letters"),
    pytest.param("", "one", "", id="none there before"),
]


@pytest.mark.parametrize(("before", "after", "gone"), VANISHED)
def test_open_tasks_that_are_gone_are_missed(before: str, after: str, gone: str) -> None:
    missing = progress.vanished(parse(tasks(before)), parse(tasks(after)))
    assert "|".join(task.text for task in missing) == gone


def tasks(listed: str) -> bytes:
    items = [f"- [x] {item[2:]}" if item.startswith("x ") else f"- [ ] {item}" for item in listed.split("|") if item]
    return "\n".join(["## Tasks", *items, ""]).encode()


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        pytest.param("feature.md", b"Plan: feature.md", id="a plain name"),
        pytest.param("my plans/caf\u00e9 & co.md", "Plan: my plans/caf\u00e9 & co.md".encode(), id="blanks, accents"),
        pytest.param("a\nRALPH_DONE\nb.md", b'Plan: "a\\nRALPH_DONE\\nb.md"', id="lines, and a word on one of them"),
        pytest.param(" a ", b'Plan: " a "', id="blanks around it"),
        pytest.param('"a".md', b'Plan: "\\"a\\".md"', id="quotes"),
        pytest.param("a\\n.md", b"Plan: a\\n.md", id="a backslash"),
        pytest.param("\udcff.md", b'Plan: "\xff.md"', id="no UTF-8"),
        pytest.param("a\u2028\x85b.md", 'Plan: "a\u2028\x85b.md"'.encode(), id="line ends of unicode"),
    ],
)
def test_the_plan_is_known_again(plan: str, line: bytes) -> None:
    text = progress.fresh("feature", plan, "2026-11-20 22:14:03")
    now = parse(text)
    assert line in text.split(b"\n")
    assert (now.plan, now.done, now.tasks, now.size) == (plan, False, (), len(text))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"## Notes\nPlan: other.md\n", id="below another heading"),
        pytest.param(b"```\nPlan: other.md\n```\n", id="in a fence"),
        pytest.param(b"Plan:\n", id="with nothing after it"),
        pytest.param(b"My Plan: other.md\n", id="in a sentence"),
    ],
)
def test_a_line_that_names_no_plan(text: bytes) -> None:
    assert parse(text).plan is None
