"""What holds for every progress file and every edit (design section 4): any bytes are one, and all else stays.

What counts in a file is read here a second time, slowly, so that the code is not measured by itself; but for code
fences, whose cases are in test_progress_text.py.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from hypothesis import assume, example, given
from hypothesis import strategies as st

from ralph import progress
from ralph.progress import Progress, harmless_output, parse
from ralph.progress.reading import BOM, Line, blocks

SIGNED = b"<!-- ralph writes this section"
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
line_ends = st.sampled_from([b"\n", b"\n", b"\r\n"])


def texts_of(line: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Texts of such lines, with any line ends, perhaps a byte order mark, perhaps no final newline."""
    whole = st.lists(st.tuples(line, line_ends), max_size=14).map(lambda all_: b"".join(a + b for a, b in all_))
    return st.builds(lambda bom, text, last: bom + text + last, st.sampled_from([b"", BOM]), whole, line | st.just(b""))


texts = texts_of(telling | telling | noise)
unsigned = texts.filter(lambda text: SIGNED not in text)
any_text = (
    st.text(max_size=60)
    | st.sampled_from(
        ["a\nRALPH_DONE\nb", "`x` ```", "x\n```\n- [ ] y\n", "x\n- [x] y", "x\r\n## Task List\r\n- [ ] z", "<!-- x"]
    )
    | st.sampled_from(["```", "~~~~ sh", "[ ] x", "[x] x", "", "\x85x\u2028"])
)
names = st.text("abcAB é*_`.🚀", min_size=1, max_size=6).filter(lambda name: any(map(str.isalnum, name)))


def word_of(line: Line) -> bytes:
    """What stands on this line if it is a control word: up to three blanks before it, white space after it."""
    body = line.body.lstrip(b" ")
    if len(line.body) - len(body) > 3:
        return b""
    said = body.rstrip(b" \t\r\n\v\f")
    plain = said in (b"RALPH_DONE", b"RALPH_STOP", b"RALPH_BLOCKED", b"IN_PROGRESS")
    return said if plain or said.startswith(b"RALPH_BLOCKED:") else b""


def words(text: bytes) -> list[bytes]:
    """The control words that count in a text, in order."""
    return [word for line in blocks(text).lines if (word := word_of(line))]


def rewritten(text: bytes, change: Callable[[Line, bytes], bytes]) -> bytes:
    """The text with each line that counts as a word changed, line by line."""
    parts, at = [], 0
    for line in blocks(text).lines:
        raw = text[line.start : line.end]
        parts += [text[at : line.start], change(line, raw) if word_of(line) else raw]
        at = line.end
    return b"".join([*parts, text[at:]])


def verified_lines(text: bytes) -> list[Line]:
    """The lines that say Verified below a RALPH_DONE, with nothing but white space and others of them between."""
    found, below = [], False
    for line in blocks(text).lines:
        name, colon, _ = line.body.lstrip(b" ").partition(b":")
        if below and name + colon == b"Verified:" and not line.body.startswith(b"    "):
            found.append(line)
        elif line.body.strip():
            below = word_of(line) == b"RALPH_DONE"
    return found


def without_lines(text: bytes, lines: Sequence[Line]) -> bytes:
    for line in reversed(lines):
        text = text[: line.start] + text[line.end :]
    return text


def newline(text: bytes) -> bytes:
    return b"\r\n" if text.split(b"\n")[0].endswith(b"\r") and b"\n" in text else b"\n"


def ended(text: bytes) -> bytes:
    """The text with its last line ended."""
    return text if text in (b"", BOM) or text.endswith(b"\n") else text + newline(text)


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
    unclosed = blocks(text).unclosed
    found = words(text)
    reasons = [word.removeprefix(b"RALPH_BLOCKED").removeprefix(b":") for word in found if b"BLOCKED" in word]
    assert (now.done, now.stop, now.size) == (b"RALPH_DONE" in found, b"RALPH_STOP" in found, len(text))
    assert now.blocked == (reasons[0].decode(errors="replace").strip() if reasons else None)
    assert now.unclosed_fence == (text.count(b"\n", 0, unclosed.start) + 1 if unclosed else None)
    assert all(text[task.line.start : task.line.end].startswith(task.line.body) for task in now.tasks)
    assert now.verified == bool(verified_lines(text))


@given(texts, st.sampled_from([b"RALPH_DONE", b"IN_PROGRESS"]))
def test_a_status_changes_that_word_and_takes_verified_away_and_no_other_byte(text: bytes, word: bytes) -> None:
    other = b"IN_PROGRESS" if word == b"RALPH_DONE" else b"RALPH_DONE"

    def changed(line: Line, raw: bytes) -> bytes:
        return raw.replace(other, word) if word_of(line) == other else raw

    bare, now = progress.without_verified(text), progress.with_status(text, word.decode())
    assert bare == without_lines(text, verified_lines(text))
    if {b"RALPH_DONE", b"IN_PROGRESS"} & set(words(bare)):
        assert now == rewritten(bare, changed)
    else:
        assert put_in(bare, now).split() in ([word], [b"##", b"Status", word])
    assert (word in words(now), other in words(now)) == (True, False)
    assert progress.with_status(now, word.decode()) == now


@given(texts)
def test_taking_ralphs_block_out_removes_that_line_and_no_other_byte(text: bytes) -> None:
    def out(line: Line, raw: bytes) -> bytes:
        own = word_of(line).partition(b":")[2].decode(errors="replace").strip().startswith("ralph: ")
        return b"" if own else raw

    now = progress.without_own_block(text)
    assert now == rewritten(text, out)
    assert progress.without_own_block(now) == now


def below_status(text: bytes) -> int:
    """The end of the line that says IN_PROGRESS, else of the Status heading, else of the text."""
    lines = blocks(text).lines
    places = [line.end for line in lines if word_of(line) == b"IN_PROGRESS"]
    places += [line.end for line in lines if line.body.strip() == b"## Status"]
    return [*places, len(text)][0]


@given(texts, any_text)
def test_a_block_is_one_line_more_and_taken_out_leaves_no_trace(text: bytes, why: str) -> None:
    """Where it comes after a last line without an end, that line gets one."""
    assume(why.strip())
    line = f"RALPH_BLOCKED: ralph: {' '.join(why.split())}".encode() + newline(text)
    at = below_status(text)
    now = progress.blocked(text, why)
    assert now == (ended(text) if at == len(text) else text[:at]) + line + text[at:]
    assert progress.without_own_block(now) in {progress.without_own_block(one) for one in (text, ended(text))}


@given(texts, st.lists(any_text, min_size=1, max_size=3))
def test_tasks_that_are_put_back_are_tasks_and_no_other_byte_changes(text: bytes, listed: list[str]) -> None:
    lost = parse(b"".join(b"- [ ] %b\n" % " ".join(item.split()).encode() for item in listed)).tasks
    assume(lost)
    now = progress.with_tasks(text, [task.line.body for task in lost])
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


@given(st.text(min_size=1, max_size=20).filter(lambda name: name.split() == [name]))
@example("my plans/café & co.md")
def test_a_plan_of_any_name_is_known_again(plan: str) -> None:
    now = parse(progress.fresh(plan, plan, "2026-11-20 22:14:03"))
    assert meaning(now) == (False, False, False, None, (), (), plan, None)
    assert now.unclosed_fence is None


@given(texts, names.map(str.strip))
def test_a_note_of_a_check_is_one_line_more_below_done(text: bytes, note: str) -> None:
    assume(not text.endswith(b"\r"))
    bare, now = progress.without_verified(text), progress.with_verified(text, note)
    if not parse(text).done:
        assert now == text
        return
    (line,) = verified_lines(now)
    assert now[line.start : line.end] == f"Verified: {note}".encode() + newline(bare)
    assert without_lines(now, [line]) in {bare, ended(bare)}
    assert progress.with_verified(now, note) == now


@given(texts, amounts, amounts)
def test_noting_the_cost_changes_one_line_and_no_other_byte(text: bytes, dollars: float, more: float) -> None:
    now = progress.with_spent(text, dollars)
    old, new = ended(text).removeprefix(BOM).split(b"\n"), ended(now).removeprefix(BOM).split(b"\n")
    at = next(n for n, line in enumerate(new) if b"Spent: $%.4f" % dollars == line.rstrip(b"\r"))
    longer = len(new) - len(old)
    assert (new[:at], new[at + 1 :]) == (old[:at], old[at + 1 - longer :])
    assert longer == 1 or (longer == 0 and old[at].startswith(b"Spent:"))
    assert now.startswith(BOM) == text.startswith(BOM)
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

<!-- ralph writes this section, the 3 quoted lines below, and removes it when done holds -->
> ```
"""
outputs = (
    st.lists(telling.map(lambda line: line.decode(errors="replace")) | any_text, max_size=8).map("\n".join)
    | st.just(EVERYTHING)
    | st.text(max_size=80)
    | st.text("\x1b[]0;1mK\x07\\\r\n\t\x9b\x08 `~>", max_size=40)
)
reasons = st.lists(any_text, max_size=3)


@given(unsigned, reasons, outputs)
@example(b"", ["x"], "")
@example(b"```\nRALPH_STOP\n", ["x"], EVERYTHING)
def test_a_refusal_means_nothing_changes_no_byte_and_goes_without_a_trace(
    text: bytes, why: list[str], output: str
) -> None:
    """Of a text that does not end in a newline only that newline stays; the blank line above makes one of no text."""
    now = progress.with_refusal(text, why, output)
    added = now[len(ended(text)) :]
    assert now.startswith(ended(text))
    assert added.count(b"\r\n") == (added.count(b"\n") if newline(text) == b"\r\n" else 0)
    assert added.split(newline(text))[:2] == [b"", b"## Verification"]
    assert meaning(parse(now)) == meaning(parse(text))
    assert parse(now).unclosed_fence == parse(text).unclosed_fence
    assert progress.without_refusal(now) == (ended(text) if text not in (b"", BOM) else text + b"\n")


@given(texts, unsigned, reasons, outputs)
def test_whatever_is_put_above_it_later_no_output_means_anything(
    above: bytes, text: bytes, why: list[str], output: str
) -> None:
    bare, full = (parse(ended(above) + progress.with_refusal(text, why, said)) for said in ("", output))
    assert meaning(full) == meaning(bare)
    assert full.unclosed_fence == bare.unclosed_fence


@given(unsigned.filter(lambda text: text.endswith(b"\n")), reasons, outputs, outputs, unsigned)
def test_a_refusal_replaces_another_and_what_is_appended_below_it_stays(
    text: bytes, why: list[str], first: str, second: str, tail: bytes
) -> None:
    once = progress.with_refusal(text, why, first)
    assert progress.with_refusal(progress.with_refusal(text, why, second), why, first) == once
    assume(parse(text).unclosed_fence is None)
    assert progress.without_refusal(once + tail) == text + tail


@given(outputs | st.lists(st.integers(0, 400), max_size=70).map(lambda sizes: "\n".join("x" * n for n in sizes)))
def test_what_is_shown_has_bounds_and_drives_no_terminal(raw: str) -> None:
    shown = harmless_output(raw)
    lines = shown.split("\n")
    assert (len(lines) <= 61, max(map(len, lines)) <= 200) == (True, True)
    assert not re.search("[^\t\n -~\xa0-\U0010ffff]", shown)
    assert [line.rstrip() for line in lines] == lines
    assert harmless_output(shown) == shown
