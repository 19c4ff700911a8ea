"""The progress file's text (design section 4): what counts in it, by cases; any bytes are one, and edits keep all else.

What counts as code the properties ask of the code itself; the cases tell it.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ralph_driver import progress_text
from test_tasks import words

from ralph.plan import progress
from ralph.plan.progress import Progress, parse, shorten_output
from ralph.plan.progress.reading import BOM, read_unfenced_lines_and_fences

TEXT = progress_text("one").encode()


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("   RALPH_DONE \t", True),
        ("~~~ text\n```\n~~~\nRALPH_DONE", True),
        ("- 1) ```\nx\n  ```\nRALPH_DONE", True),
        ("```\nRALPH_DONE\n``` sh", True),
        ("~~~~~\n\nRALPH_DONE", True),
        ("```\n- ```\nRALPH_DONE\n```", False),
        ("    RALPH_DONE", False),
        ("`````\n```\nRALPH_DONE\n```\n`````", False),
        ("`RALPH_DONE`", False),
        ("- RALPH_DONE", False),
        ("Do not write RALPH_DONE yet.", False),
    ],
)
def test_a_word_counts_on_a_line_of_its_own_outside_of_code(text: str, done: bool) -> None:
    assert parse(progress_text("one", status=text).encode()).done is done
    assert parse(BOM + b"caf\xe9 \xff\r\n" + text.replace("\n", "\r\n").encode()).done is done


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("## Tasks\n- [ ] a\n- [x] b\n- [X] c\n* [ ] d\n+ [x] e\n", "3/5"),
        ("### Task overview\n- [ ] a\n#### First\n- [x] b\n", "1/2"),
        ("## Tasks\n- [ ] a\n## Acceptance\n- [x] b\n- [ ] c\n", "0/1"),
        ("- [ ] a\n~~~\n- [ ] b\n~~~\n- [x] c\n- [2026-01-29] x\n- []\n- [ ]b\n", "1/2"),
        ("Tasks\n=====\r\n- [ ] a\r\n\n```\n- [x] b", "1/2"),
    ],
)
def test_tasks_are_counted_as_people_mean_them(text: str, count: str) -> None:
    assert parse(text.encode()).ticked_of_total == f"{count} tasks"


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        ("Add **login**", "x ADD `login`!", ""),
        ("Add login", "x Add login (with tests, see app/login.py)", ""),
        ("Add login|x Add login form", "x Add login form", "Add login"),
        ("Add login|Add login", "Add login form", "Add login"),
        ("one|two|x one", "two|x ONE!", "one"),
        ("T1|T2", "T2|x T10: move the data", "T1"),
    ],
)
def test_open_tasks_that_are_gone_are_missed(before: str, after: str, gone: str) -> None:
    was, now = (parse(progress_text(*tasks.split("|")).encode()) for tasks in (before, after))
    assert "|".join(task.whole for task in progress.vanished_open_tasks(was, now)) == gone


@pytest.mark.parametrize(
    ("text", "now"),
    [
        ("## Tasks\n- [ ] a\n  - more\n\nText\n", "## Tasks\n- [ ] a\n  - more\n- [ ] new\n\nText\n"),
        ("## Tasks\n\n## Notes\n", "## Tasks\n\n- [ ] new\n\n## Notes\n"),
        ("## Tasks\nNone yet.\n\n## Notes\n", "## Tasks\nNone yet.\n- [ ] new\n\n## Notes\n"),
        ("## Tasks\r\n\r\n```\r\n- [ ] x\r\n```", "## Tasks\r\n\r\n```\r\n- [ ] x\r\n```\r\n- [ ] new\r\n"),
        ("# Progress", "# Progress\n\n## Task List\n\n- [ ] new\n"),
    ],
)
def test_a_new_task_stands_at_the_end_of_the_list(text: str, now: str) -> None:
    assert progress.with_tasks_added(text.encode(), [b"- [ ] new"]).decode() == now


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;31mFAILED\x1b[0m a\x1b[K", "FAILED a"),
        ("\x1b]0;make\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        ("\x1b]0;never ended\nb", "\nb"),
        ("\x1b(Ba\x1b7\x1bcb\x9b31mc\x1b", "abc"),
        ("a\x00\x07\x08\x7f\x85b\tc\u2028d\u202e", "ab\tcd"),
        ("10%\r50%\r100%\ndone\r\r\n\n  a  \n\n", "100%\ndone\n\n  a"),
        ("\n".join(["x" * 201, *map(str, range(60))]), "\n".join(["…", *map(str, range(60))])),
        ("x" * 201, "x" * 199 + "…"),
    ],
)
def test_output_is_shown_as_a_terminal_would(raw: str, shown: str) -> None:
    assert shorten_output(raw) == shown


def test_a_refusal_says_why_and_what_was_put_into_it_stays() -> None:
    why = ["`make test` exited with 2"]
    refused = progress.with_refusal(TEXT, why, "FAILED test_login\n\n1 failed\n")
    said = b"because:\n>\n> - `make test` exited with 2\n>\n>     FAILED test_login\n>\n>     1 failed\n\n"
    assert refused.startswith(TEXT + b"\n## Verification\n\n<!-- ralph writes")
    assert progress.with_refusal(refused, why) == progress.with_refusal(TEXT, why)
    assert refused.endswith(said)
    for where in (b">\n", b">     FAILED"):
        assert b"mine\n" in progress.without_refusal(refused.replace(where, b"mine\n" + where))
    shorter = refused.replace(b">     FAILED test_login\n", b"")
    assert progress.without_refusal(shorter + b"    Port 81.\n") == TEXT + b"    Port 81.\n"
    for half in ("half an emoji: \ud83d", "caf\udce9"):  # programs that count in UTF-16 cut a character in its middle
        assert parse(progress.with_run_blocked(TEXT, half)).blocked_by_ralph
        assert parse(progress.with_refusal(TEXT, [half])).tasks == parse(TEXT).tasks


# What holds for every text.

telling = st.sampled_from(
    b"RALPH_DONE|   RALPH_DONE \t|    RALPH_DONE|\tRALPH_DONE|- RALPH_DONE|`RALPH_DONE`|ralph_done|RALPH_DONE."
    b"|RALPH_STOP|RALPH_BLOCKED|RALPH_BLOCKED: which port?|RALPH_BLOCKED: ralph: no|RALPH_BLOCKED:ralph: no"
    b"|# Progress: x|## Status|## Task List|# Tasks|## Notes|### Acceptance|## Verification|Plan: feature.md|#no"
    b"|IN_PROGRESS|RALPH_DONE\r|RALPH_DONE\nVerified: x|Verified: 2026-11-21 abc|  Verified:x|Verified:|    Verified: x"
    b"|Started: now|Spent: $1.2345|Spent: 1,234.5 USD|Spent: no"
    b"|- [ ] one|  - [x] two|* [X] three|1. [~] four|+ [!] five|- [2026-01-29] no|- [] no|- more|> quoted|text|<!-- x"
    b"|```|```sh|  ````|~~~|- ```|    ```|`````|``` a`b".split(b"|")
)
noise = st.binary(max_size=12) | st.sampled_from([b"", b" ", b"\x00", b"caf\xe9", "é\u2028".encode(), b"\xff\xfe"])
whole_lines = st.lists(st.tuples(telling | telling | noise, st.sampled_from([b"\n", b"\n", b"\r\n"])), max_size=14)
texts = st.builds(
    lambda bom, lines, last: bom + b"".join(line + end for line, end in lines) + last,
    st.sampled_from([b"", BOM]),
    whole_lines,
    telling | noise | st.just(b""),
)
outputs = st.lists(telling.map(lambda line: line.decode(errors="replace")) | words, max_size=8).map("\n".join)


def ended(text: bytes) -> bytes:
    """The same with its last line ended as its first one is."""
    if text in (b"", BOM) or text.endswith(b"\n"):
        return text
    return text + (b"\r\n" if text.split(b"\n")[0].endswith(b"\r") and b"\n" in text else b"\n")


def others(text: bytes, kind: bytes) -> bytes:
    """All but the lines of that kind that count, outside of code."""
    text = ended(text)
    lines = [
        line
        for line in read_unfenced_lines_and_fences(text).unfenced_lines
        if re.fullmatch(rb" {0,3}(%b)\s*" % kind, line.body)
    ]
    return progress.replace_ranges(text, [(line.start, line.end, b"") for line in lines])


def meaning(text: bytes) -> Progress:
    """All that a file says, but for how long it is and under which headings."""
    return parse(ended(text))._replace(size=0, headings=())


VERIFIED = b"Verified:.*"
STATUS = b"RALPH_DONE|IN_PROGRESS|## Status|Verified:.*|"
EDITS: dict[str, tuple[Any, bytes, Any]] = {
    "done": (partial(progress.with_status, word="RALPH_DONE"), STATUS, lambda _, now: now.done and not now.verified),
    "in progress": (partial(progress.with_status, word="IN_PROGRESS"), STATUS, lambda _, now: not now.done),
    "verified": (
        partial(progress.with_done_verified, note="now"),
        VERIFIED,
        lambda was, now: was.done == bool(now.verified),
    ),
    "not verified": (
        partial(progress.without_control_lines, word="Verified"),
        VERIFIED,
        lambda _, now: not now.verified,
    ),
    "no block": (
        partial(progress.without_control_lines, word="RALPH_BLOCKED"),
        rb"RALPH_BLOCKED(?::.*)?",
        lambda _, now: now.blocked is None,
    ),
    "spent": (partial(progress.with_spent, spent_usd=12.5), b"Spent:.*", lambda _, now: now.spent_usd == 12.5),
}


@pytest.mark.parametrize(("change", "kind", "says"), EDITS.values(), ids=EDITS)
@given(text=texts | st.binary())
def test_an_edit_says_what_it_should_and_changes_no_other_byte(
    change: Callable[[bytes], bytes], kind: bytes, says: Callable[..., bool], text: bytes
) -> None:
    now = change(text)
    assert others(now, kind) == others(text, kind)
    assert now.startswith(BOM) == text.startswith(BOM)
    assert change(now) == now, "once is enough"
    assert says(parse(text), parse(now))
    assert [(one.whole, one.mark) for one in parse(now).tasks] == [(one.whole, one.mark) for one in parse(text).tasks]


@given(texts, texts, st.lists(words, max_size=3), outputs)
@example(b"", b"", ["x"], "")
@example(b"", b"```\nRALPH_STOP\n", ["x"], "`````text\nRALPH_STOP\n~~~~~\n- [ ] x")
def test_a_refusal_means_nothing_changes_no_byte_and_goes_without_a_trace(
    above: bytes, text: bytes, why: list[str], output: str
) -> None:
    """Of a text that does not end in a newline only that newline stays; the blank line above makes one of no text."""
    now = progress.with_refusal(text, why, output)
    assert now.startswith(ended(text))
    assert meaning(now) == meaning(text)
    assert progress.without_refusal(now) == (ended(text) if text not in (b"", BOM) else text + b"\n")
    bare = ended(above) + progress.with_refusal(text, why)
    assert meaning(ended(above) + now) == meaning(bare), "whatever is put above it later"
