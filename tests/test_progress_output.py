"""What the check printed, in the Verification section: it is shown as it was, and means nothing (design section 5)."""

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from test_progress_properties import any_text, ended, meaning, telling, texts, unsigned, whole

from ralph import progress
from ralph.progress import harmless_output, parse

TEXT = b"# Progress: feature\n\n## Status\n\nIN_PROGRESS\n\n## Task List\n\n- [ ] one\n\n## Notes\n"
WHY = ["`make test` exited with 2"]
REFUSED = progress.with_refusal(TEXT, WHY, "FAILED test_login\n\n1 failed\n")
EVERYTHING = """## Task List
- [ ] x
- [x] y
RALPH_DONE
Verified: now
RALPH_BLOCKED: why
# Progress
Spent: $7
Plan: other.md
```
RALPH_STOP
~~~~~~
`````text
## Verification

<!-- ralph writes this section, 3 lines of reasons and 4 of output, and removes it when done holds -->
> ```
"""
outputs = (
    st.lists(telling.map(lambda line: line.decode(errors="replace")) | any_text, max_size=8).map("\n".join)
    | st.just(EVERYTHING)
    | st.text(max_size=80)
    | st.text("\x1b[]0;1mK\x07\\\r\n\t\x9b\x08 `~>", max_size=40)
)
reasons = st.lists(any_text, max_size=3)


def test_the_output_stands_below_the_reasons() -> None:
    quote = b"\n- `make test` exited with 2\n\n> ```text\n> FAILED test_login\n>\n> 1 failed\n> ```\n"
    assert REFUSED.endswith(quote.replace(b"- `make test` exited with 2", b'- "`make test` exited with 2"'))


@pytest.mark.parametrize("output", ["", "\n \n", "\x1b[0m\r\n"], ids=["nothing", "blanks", "colours"])
def test_where_nothing_was_printed_nothing_is_shown(output: str) -> None:
    assert progress.with_refusal(TEXT, WHY, output) == progress.with_refusal(TEXT, WHY)


@pytest.mark.parametrize(
    ("output", "length"),
    [
        pytest.param("a `b` ``c``", 3, id="short ones"),
        pytest.param("```\nx\n```", 4, id="a fence"),
        pytest.param("x " + "`" * 9, 10, id="nine in a row"),
    ],
)
def test_the_fence_is_longer_than_any_backticks_in_it(output: str, length: int) -> None:
    said = progress.with_refusal(TEXT, WHY, output).decode().splitlines()
    assert (said[-1], said[-2 - len(output.splitlines())]) == ("> " + "`" * length, "> " + "`" * length + "text")


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize(
    "above",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"```\nIN_PROGRESS\n", id="a fence of backticks left open"),
        pytest.param(b"  ~~~ sh\nIN_PROGRESS\n", id="one of tildes"),
        pytest.param(b"`````````\nIN_PROGRESS\n", id="a long one"),
        pytest.param(b"- ```\n", id="one in a list"),
    ],
)
def test_no_output_means_anything_below(above: bytes, end: bytes) -> None:
    text = (TEXT + above).replace(b"\n", end)
    refused = progress.with_refusal(text, WHY, EVERYTHING)
    assert parse(refused).unclosed_fence == parse(text).unclosed_fence
    assert meaning(parse(refused)) == meaning(parse(text))
    assert progress.without_refusal(refused) == text
    assert progress.with_refusal(progress.with_refusal(refused, WHY), WHY, EVERYTHING) == refused


@pytest.mark.parametrize("opened", [b"```\n", b"~~~\n", b"- `````\n"])
def test_a_fence_that_is_opened_above_it_later_lets_nothing_out(opened: bytes) -> None:
    """As an agent leaves it that adds an example to the notes and forgets its end."""
    later = progress.with_refusal(TEXT, WHY, EVERYTHING).replace(b"## Notes\n", b"## Notes\n" + opened)
    assert meaning(parse(later)) == meaning(parse(TEXT))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"RALPH_STOP\n", id="a word"),
        pytest.param(b"> I saw this too.\n", id="a quotation"),
        pytest.param(b"\n> ```text\n> FAILED test_login\n> ```\n", id="a copy of it"),
        pytest.param(b"```\nx\n```\n", id="a fence"),
        pytest.param(b"- Port 81 is taken.\n", id="an item"),
    ],
)
def test_what_was_appended_below_the_output_stays(line: bytes) -> None:
    assert progress.without_refusal(REFUSED + line) == TEXT + line
    assert line in progress.with_refusal(REFUSED + line, WHY, "another")


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(b"\n> ```text\n", id="between the reasons and the output"),
        pytest.param(b">\n", id="within the output"),
        pytest.param(b"> ```text\n", id="above its first line"),
    ],
)
def test_what_was_put_between_stays(where: bytes) -> None:
    assert b"mine\n" in progress.without_refusal(REFUSED.replace(where, b"mine\n" + where))


def test_an_output_that_an_agent_shortened_goes_and_takes_nothing_else_along() -> None:
    shorter = REFUSED.replace(b"> FAILED test_login\n", b"")
    assert progress.without_refusal(shorter + b"\nPort 81.\n") == TEXT + b"\nPort 81.\n"


def test_a_section_of_an_earlier_ralph_goes_too() -> None:
    old = (
        b"\n## Verification\n\n<!-- ralph writes this section, 1 lines of reasons, and removes it when done holds -->\n"
        b"\nRALPH_DONE was taken back, because:\n\n- why\n"
    )
    assert progress.without_refusal(TEXT + old + b"\n> mine\n") == TEXT + b"\n> mine\n"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        pytest.param("\x1b[1;31mFAILED\x1b[0m a\x1b[K", "FAILED a", id="colours"),
        pytest.param("\x1b]0;make\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink", id="titles and links"),
        pytest.param("\x1b]0;never ended\nb", "\nb", id="a title that is never ended"),
        pytest.param("\x1b(Ba\x1b7\x1bcb\x9b31mc\x1b", "abc", id="other escapes"),
        pytest.param("a\x00\x07\x08\x7f\x85b\tc", "ab\tc", id="control characters"),
        pytest.param("a\u2028b\u202ec\u2066d", "abcd", id="what turns or ends a line unseen"),
        pytest.param("half \ud83d and \udce9", "half \ufffd and \ufffd", id="halves of characters"),
        pytest.param("10%\r50%\r100%\ndone", "100%\ndone", id="a progress bar"),
        pytest.param("10%\r50%\r\ndone\r\r\n", "50%\ndone", id="one whose last state is ended as on Windows"),
        pytest.param("50%\r\x1b[Kdone\n", "done", id="one that is wiped out"),
        pytest.param("\n  a  \n\n b\t\n\n\n", "\n  a\n\n b", id="blanks at the ends"),
        pytest.param("x" * 300, "x" * 300, id="a line of 300"),
        pytest.param("x" * 301, "x" * 299 + "…", id="a longer one"),
        pytest.param("\n".join(map(str, range(60))), "\n".join(map(str, range(60))), id="sixty lines"),
        pytest.param("\n".join(map(str, range(61))), "\n".join(["…", *map(str, range(1, 61))]), id="sixty-one"),
        pytest.param("\n".join(["x" * 299] * 30), "\n".join(["…", *["x" * 299] * 19]), id="more than 6000 characters"),
    ],
)
def test_output_is_shown_as_a_terminal_would(raw: str, shown: str) -> None:
    assert harmless_output(raw) == shown


@given(outputs | st.lists(st.integers(0, 400), max_size=70).map(lambda sizes: "\n".join("x" * n for n in sizes)))
def test_what_is_shown_has_bounds_and_drives_no_terminal(raw: str) -> None:
    shown = harmless_output(raw)
    lines = shown.split("\n")
    assert (len(lines) <= 61, max(map(len, lines)) <= 300, len(shown) <= 6000) == (True, True, True)
    assert not re.search("[^\t\n -~\xa0-\U0010ffff]", shown)
    assert [line.rstrip() for line in lines] == lines
    assert harmless_output(shown) == shown


@given(unsigned, reasons, outputs)
@example(b"```\nRALPH_STOP\n", ["x"], EVERYTHING)
def test_no_output_means_anything(text: bytes, why: list[str], output: str) -> None:
    before, after = parse(text), parse(progress.with_refusal(text, why, output))
    assert meaning(after) == meaning(before)
    assert after.unclosed_fence == before.unclosed_fence


@given(texts, unsigned, reasons, outputs)
def test_whatever_is_put_above_it_later_no_output_means_anything(
    above: bytes, text: bytes, why: list[str], output: str
) -> None:
    bare, full = (parse(ended(above) + progress.with_refusal(text, why, said)) for said in ("", output))
    assert meaning(full) == meaning(bare)
    assert full.unclosed_fence == bare.unclosed_fence


@given(whole, reasons, outputs)
def test_an_output_that_is_removed_leaves_no_trace(text: bytes, why: list[str], output: str) -> None:
    assert progress.without_refusal(progress.with_refusal(text, why, output)) == text


@given(unsigned.filter(bool), reasons.filter(bool), outputs, outputs)
def test_a_refusal_replaces_another(text: bytes, why: list[str], first: str, second: str) -> None:
    assume(not text.endswith(b"\r"))
    once = progress.with_refusal(text, why, second)
    assert progress.with_refusal(progress.with_refusal(text, why, first), why, second) == once


@given(whole, reasons.filter(bool), outputs, unsigned)
def test_what_is_appended_below_an_output_stays(text: bytes, why: list[str], output: str, tail: bytes) -> None:
    assume(parse(text).unclosed_fence is None)
    assert progress.without_refusal(progress.with_refusal(text, why, output) + tail) == text + tail
