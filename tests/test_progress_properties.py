"""What holds for every progress file and every edit (design section 4): any bytes are one, and all else stays.

What counts in a file is read here a second time, slowly, so that the code is not measured by itself.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from test_markdown import BOM, Plain, plain_lines, plain_outside, texts_of

from ralph import progress
from ralph.agent.turn import Commits, Outcome, Turn
from ralph.judge import Iteration, judge
from ralph.progress import Progress, harmless_output, parse
from ralph.settings import Settings
from ralph.verdict import Tally

SIGNED = b"<!-- ralph writes this section"
TEXT = b"# Progress: feature\n\n## Status\n\nIN_PROGRESS\n\n## Task List\n\n- [ ] one\n\n## Notes\n"
amounts = st.floats(0, 1e9)

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
texts = texts_of(telling | telling | noise)
unsigned = texts.filter(lambda text: SIGNED not in text)
whole = unsigned.filter(lambda text: text.endswith(b"\n"))
any_text = (
    st.text(max_size=60)
    | st.sampled_from(
        ["a\nRALPH_DONE\nb", "`x` ```", "x\n```\n- [ ] y\n", "x\n- [x] y", "x\r\n## Task List\r\n- [ ] z", "<!-- x"]
    )
    | st.sampled_from(["```", "~~~~ sh", "[ ] x", "[x] x", "", "\x85x\u2028"])
)
names = st.text("abcAB é*_`.🚀", min_size=1, max_size=6).filter(lambda name: any(map(str.isalnum, name)))


def word_of(line: Plain) -> bytes:
    """What stands on this line if it is a control word: up to three blanks before it, white space after it."""
    body = line.body.lstrip(b" ")
    if len(line.body) - len(body) > 3:
        return b""
    said = body.rstrip(b" \t\r\n\v\f")
    plain = said in (b"RALPH_DONE", b"RALPH_STOP", b"RALPH_BLOCKED", b"IN_PROGRESS")
    return said if plain or said.startswith(b"RALPH_BLOCKED:") else b""


def words(text: bytes) -> list[bytes]:
    """The control words that count in a text, in order."""
    return [word for line in plain_outside(text)[0] if (word := word_of(line))]


def rewritten(text: bytes, change: Callable[[Plain, bytes], bytes]) -> bytes:
    """The text with each line that counts as a word changed, line by line."""
    parts, at = [], 0
    for line in plain_outside(text)[0]:
        raw = text[line.start : line.end]
        parts += [text[at : line.start], change(line, raw) if word_of(line) else raw]
        at = line.end
    return b"".join([*parts, text[at:]])


def verified_lines(text: bytes) -> list[Plain]:
    """The lines that say Verified below a RALPH_DONE, with nothing but white space and others of them between."""
    done = {line.start for line in plain_outside(text)[0] if word_of(line) == b"RALPH_DONE"}
    found, below = [], False
    for line in plain_lines(text):
        raw = text[line.start : line.end]
        name, colon, note = raw.lstrip(b" ").partition(b":")
        if below and name + colon == b"Verified:" and note.strip() and not raw.startswith(b"    "):
            found.append(line)
        elif raw.strip() or line.start in done:
            below = line.start in done
    return found


def without_lines(text: bytes, lines: Sequence[Plain]) -> bytes:
    for line in reversed(lines):
        text = text[: line.start] + text[line.end :]
    return text


def newline(text: bytes) -> bytes:
    return b"\r\n" if text.split(b"\n")[0].endswith(b"\r") and b"\n" in text else b"\n"


def ended(text: bytes) -> bytes:
    """The text with its last line ended."""
    return text if not text or text.endswith(b"\n") else text + newline(text)


def put_in(old: bytes, new: bytes) -> bytes:
    """The bytes that were put into `old`, all together at one place; fails when anything else was done."""
    at = next((n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(old))
    size = len(new) - len(old)
    assert size >= 0
    assert new[at + size :] == old[at:]
    return new[at : at + size]


def meaning(now: Progress) -> tuple[object, ...]:
    """All that a file says, but for where and how much."""
    return now.done, now.verified, now.stop, now.blocked, now.tasks, now.elsewhere, now.plan, now.spent_usd


@given(texts | st.binary())
def test_any_bytes_are_a_progress_file(text: bytes) -> None:
    now = parse(text)
    _, unclosed = plain_outside(text)
    found = words(text)
    blocks = [word.removeprefix(b"RALPH_BLOCKED").removeprefix(b":") for word in found if b"BLOCKED" in word]
    assert (now.done, now.stop, now.size) == (b"RALPH_DONE" in found, b"RALPH_STOP" in found, len(text))
    assert now.blocked == (blocks[0].decode(errors="replace").strip() if blocks else None)
    assert now.unclosed_fence == (unclosed.number if unclosed else None)
    assert all(task.raw in text for task in now.tasks)
    assert len(now.open) + now.ticked == len(now.tasks)


@given(texts)
def test_taking_done_back_changes_that_word_and_takes_verified_away_and_no_other_byte(text: bytes) -> None:
    def back(line: Plain, raw: bytes) -> bytes:
        return raw.replace(b"RALPH_DONE", b"IN_PROGRESS") if word_of(line) == b"RALPH_DONE" else raw

    now = progress.without_done(text)
    assert now == rewritten(without_lines(text, verified_lines(text)), back)
    assert b"RALPH_DONE" not in words(now)
    assert progress.without_done(now) == now


@given(texts)
def test_taking_ralphs_block_out_removes_that_line_and_no_other_byte(text: bytes) -> None:
    def out(line: Plain, raw: bytes) -> bytes:
        own = word_of(line).partition(b":")[2].decode(errors="replace").strip().startswith("ralph: ")
        return (BOM if raw.startswith(BOM) else b"") if own else raw

    now = progress.without_own_block(text)
    assert now == rewritten(text, out)
    assert progress.without_own_block(now) == now


def below_status(text: bytes) -> int:
    """The end of the line that says IN_PROGRESS, else of the Status heading, else of the text."""
    lines, _ = plain_outside(text)
    places = [line.end for line in lines if word_of(line) == b"IN_PROGRESS"]
    places += [line.end for line in lines if line.body.strip() == b"## Status"]
    return [*places, len(text)][0]


@given(texts, any_text)
def test_a_block_is_one_line_more(text: bytes, why: str) -> None:
    """Where it comes after a last line without an end, that line gets one."""
    assume(why.strip())
    line = f"RALPH_BLOCKED: ralph: {' '.join(why.split())}".encode() + newline(text)
    at = below_status(text)
    assert progress.blocked(text, why) == (ended(text) if at == len(text) else text[:at]) + line + text[at:]


@given(texts, any_text)
def test_a_block_that_is_taken_out_leaves_no_trace(text: bytes, why: str) -> None:
    """But for the end of a last line that had none, when the block stood below it."""
    assume(why.strip() and progress.without_own_block(text) == text)
    now = progress.without_own_block(progress.blocked(text, why))
    assert now in {text, ended(text)}
    assert now == text or not text.endswith(b"\n")


@given(unsigned, st.lists(any_text, max_size=3))
@example(b"", ["x"])
def test_a_refusal_is_put_at_the_end_and_changes_no_byte(text: bytes, reasons: list[str]) -> None:
    now = progress.with_refusal(text, reasons)
    assert now.startswith(ended(text))
    added = now[len(ended(text)) :]
    assert added.count(b"\r\n") == (added.count(b"\n") if newline(text) == b"\r\n" else 0)
    assert added.split(newline(text))[:2] == [b"", b"## Verification"]
    assert SIGNED in added
    assert parse(now).done == parse(text).done


@given(unsigned, st.lists(any_text, max_size=3))
def test_of_a_text_that_does_not_end_in_a_newline_only_that_newline_stays(text: bytes, reasons: list[str]) -> None:
    """The empty text too gets one: it is the blank line above the section, of which there is nothing to be above."""
    assume(not text.endswith(b"\n"))
    assert progress.without_refusal(progress.with_refusal(text, reasons)) == (ended(text) or b"\n")


@given(unsigned, st.lists(any_text, min_size=1, max_size=5), any_text, st.sampled_from(Outcome))
def test_what_judge_says_of_any_tasks_means_nothing(text: bytes, listed: list[str], why: str, outcome: Outcome) -> None:
    """The same with the reasons as they really are: tasks that an agent wrote, and its last words."""
    agents = parse(b"# Tasks\n" + b"".join(b"- [ ] %b\n" % " ".join(item.split()).encode() for item in listed))
    after = parse(b"RALPH_DONE\n" + "".join(f"- [ ] {item}\n" for item in listed[:2]).encode())
    turn = Turn(outcome=outcome, why=why)
    iteration = Iteration(number=1, before=agents, after=after, turn=turn, commits=Commits())
    reasons = judge(iteration, Tally(), Settings()).refused
    assert meaning(parse(progress.with_refusal(text, reasons))) == meaning(parse(text))


@given(texts, st.lists(any_text, min_size=1, max_size=3))
def test_tasks_that_are_put_back_are_tasks_and_no_other_byte_changes(text: bytes, listed: list[str]) -> None:
    lost = parse(b"".join(b"- [ ] %b\n" % " ".join(item.split()).encode() for item in listed)).tasks
    assume(lost)
    now = progress.with_tasks(text, [task.raw for task in lost])
    added = put_in(text, now)
    assert added.count(b"\r\n") == (added.count(b"\n") if newline(text) == b"\r\n" else 0)
    assert Counter(parse(now).tasks) == Counter(parse(text).tasks) + Counter(lost)
    assert words(now) == words(text)


def listed(items: Sequence[str], marks: Sequence[str]) -> Progress:
    lines = [f"- [{mark}] {item}" for item, mark in zip(items, marks, strict=True)]
    return parse("\n".join(["# Tasks", *lines, ""]).encode())


@given(st.data())
def test_tasks_that_are_dropped_are_missed_and_no_others(data: st.DataObject) -> None:
    """In any order, ticked or not, in other letters; of several of the same name as many as are gone."""
    before = data.draw(st.lists(names, max_size=6))
    kept = [data.draw(st.booleans()) for _ in before]
    order = data.draw(st.permutations([item for item, stays in zip(before, kept, strict=True) if stays]))
    ticks = [data.draw(st.sampled_from(" x~!")) for _ in order]
    now = listed([data.draw(st.sampled_from([item, item.swapcase(), item + "!"])) for item in order], ticks)
    missing = progress.vanished(listed(before, [" "] * len(before)), now)
    gone = [item for item, stays in zip(before, kept, strict=True) if not stays]
    assert Counter(map(_letters, gone)) == Counter(_letters(task.text) for task in missing)


def _letters(text: str) -> str:
    return " ".join("".join(character if character.isalnum() else " " for character in text.casefold()).split())


@given(
    st.binary(min_size=1, max_size=20).filter(lambda name: b"\0" not in name)
    | st.sampled_from([b"a\nb", b'"', b"\\", b" "])
)
@example("\u2028\x85".encode())
def test_a_plan_of_any_name_is_known_again(name: bytes) -> None:
    plan = os.fsdecode(name)
    now = parse(progress.fresh(plan, plan, "2026-11-20 22:14:03"))
    assert now.plan == plan
    assert meaning(now) == (False, False, False, None, (), (), plan, None)
    assert now.unclosed_fence is None


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


@pytest.mark.parametrize("opened", [b"```\n", b"~~~\n", b"- `````\n"])
def test_a_fence_that_is_opened_above_it_later_lets_nothing_out(opened: bytes) -> None:
    """As an agent leaves it that adds an example to the notes and forgets its end."""
    later = progress.with_refusal(TEXT, ["why"], EVERYTHING).replace(b"## Notes\n", b"## Notes\n" + opened)
    assert meaning(parse(later)) == meaning(parse(TEXT))


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
