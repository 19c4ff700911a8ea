"""What holds for every progress file and every edit (design section 4): any bytes are one, and all else stays.

What counts as code is asked of the code itself; its cases are in test_progress_text.py.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ralph import progress
from ralph.progress import Progress, Task, harmless_output, parse
from ralph.progress.reading import BOM, blocks

SIGNED = b"<!-- ralph writes this section"

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
unsigned = texts.filter(lambda text: SIGNED not in text)
any_text = (
    st.text(max_size=60)
    | st.sampled_from(
        ["a\nRALPH_DONE\nb", "`x` ```", "x\n```\n- [ ] y\n", "x\n- [x] y", "x\r\n## Task List\r\n- [ ] z", "<!-- x"]
    )
    | st.sampled_from(["```", "~~~~ sh", "[ ] x", "[x] x", "", "\x85x\u2028"])
)
names = st.text("abcAB é*_`.🚀", min_size=1, max_size=6).filter(lambda name: any(map(str.isalnum, name)))


def counting(text: bytes, kind: bytes) -> list[bytes]:
    """The lines of that kind that count: outside of code, and at most three blanks to the right."""
    return [line.body for line in blocks(text).lines if re.fullmatch(rb" {0,3}(%b)\s*" % kind, line.body)]


def others(text: bytes, kind: bytes) -> bytes:
    """All that is not on a line of that kind, with the last line ended."""
    kept, at, text = [], 0, ended(text)
    for line in blocks(text).lines:
        if re.fullmatch(rb" {0,3}(%b)\s*" % kind, line.body):
            kept.append(text[at : line.start])
            at = line.end
    return b"".join([*kept, text[at:]])


def newline(text: bytes) -> bytes:
    return b"\r\n" if text.split(b"\n")[0].endswith(b"\r") and b"\n" in text else b"\n"


def ended(text: bytes) -> bytes:
    """The text with its last line ended."""
    return text if text in (b"", BOM) or text.endswith(b"\n") else text + newline(text)


def meaning(now: Progress) -> tuple[object, ...]:
    """All that a file says, but for where and how much."""
    tasks = [[_said(task) for task in each] for each in (now.tasks, now.elsewhere)]
    return now.done, now.verified, now.stop, now.blocked, tasks, now.plan, now.spent_usd


def _said(task: Task) -> tuple[str, str]:
    return task.text, task.mark


@given(texts | st.binary())
def test_any_bytes_are_a_progress_file(text: bytes) -> None:
    now = parse(text)
    reasons = [
        line.decode(errors="replace").partition(":")[2].strip() for line in counting(text, b"RALPH_BLOCKED(:.*)?")
    ]
    assert (now.done, now.size) == (bool(counting(text, b"RALPH_DONE")), len(text))
    assert now.stop == bool(counting(text, b"RALPH_STOP"))
    assert now.blocked == (reasons[0] if reasons else None)
    assert all(text[task.line.start : task.line.end].startswith(task.line.body) for task in now.tasks)


STATUS = b"RALPH_DONE|IN_PROGRESS|## Status|Verified:.*|"
OWN_BLOCK = rb"RALPH_BLOCKED:\s*ralph: .*"
EDITS: dict[str, tuple[Callable[[bytes], bytes], bytes]] = {
    "done": (lambda text: progress.with_status(text, "RALPH_DONE"), STATUS),
    "in progress": (lambda text: progress.with_status(text, "IN_PROGRESS"), STATUS),
    "verified": (lambda text: progress.with_verified(text, "now abc"), b"Verified:.*"),
    "not verified": (progress.without_verified, b"Verified:.*"),
    "no block": (progress.without_own_block, OWN_BLOCK),
    "spent": (lambda text: progress.with_spent(text, 12.5), b"Spent:.*"),
}


@pytest.mark.parametrize(("change", "kind"), EDITS.values(), ids=EDITS)
@given(text=texts)
def test_an_edit_changes_lines_of_its_kind_and_no_other_byte(
    change: Callable[[bytes], bytes], kind: bytes, text: bytes
) -> None:
    now = change(text)
    assert others(now, kind) == others(text, kind)
    assert now.startswith(BOM) == text.startswith(BOM)
    assert change(now) == now, "once is enough"


@given(texts)
def test_an_edit_says_what_it_shall(text: bytes) -> None:
    was, done, going = map(parse, (text, EDITS["done"][0](text), EDITS["in progress"][0](text)))
    assert (done.done, done.verified, going.done) == (True, False, False)
    assert (done.tasks, done.stop, done.blocked) == (was.tasks, was.stop, was.blocked)
    assert parse(EDITS["verified"][0](text)).verified == was.done
    assert not parse(progress.without_own_block(text)).blocked_by_ralph
    assert meaning(parse(EDITS["spent"][0](text)))[:-1] == meaning(was)[:-1]
    assert parse(EDITS["spent"][0](text)).spent_usd == 12.5


@given(texts, any_text)
def test_a_block_is_one_line_more_and_taken_out_leaves_no_trace(text: bytes, why: str) -> None:
    assume(why.strip())
    line = f"RALPH_BLOCKED: ralph: {' '.join(why.split())}".encode() + newline(text)
    now = progress.blocked(text, why)
    before, _, after = now.partition(line)
    assert before + after in {text, ended(text)}
    assert counting(now, re.escape(line.strip()))
    assert progress.without_own_block(now) in {progress.without_own_block(one) for one in (text, ended(text))}


@given(texts, st.lists(any_text, min_size=1, max_size=3))
def test_tasks_that_are_put_back_are_tasks_and_no_other_byte_changes(text: bytes, listed: list[str]) -> None:
    lost = parse(b"".join(b"- [ ] %b\n" % " ".join(item.split()).encode() for item in listed)).tasks
    assume(lost)
    now = progress.with_tasks(text, [task.line.body for task in lost])
    at = next((n for n, (one, other) in enumerate(zip(text, now, strict=False)) if one != other), len(text))
    assert now[at + len(now) - len(text) :] == text[at:], "all were put in at one place"
    assert Counter(map(_said, parse(now).tasks)) == Counter(map(_said, (*parse(text).tasks, *lost)))
    assert meaning(parse(now))[:4] == meaning(parse(text))[:4]


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
    assert meaning(now) == (False, False, False, None, [[], []], plan, None)


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
    | st.text("\x1b[]0;1mK\x07\\\r\n\t\x9b\x08 `~>", max_size=40)
)
reasons = st.lists(any_text, max_size=3)


@given(texts, unsigned, reasons, outputs)
@example(b"", b"", ["x"], "")
@example(b"", b"```\nRALPH_STOP\n", ["x"], EVERYTHING)
def test_a_refusal_means_nothing_changes_no_byte_and_goes_without_a_trace(
    above: bytes, text: bytes, why: list[str], output: str
) -> None:
    """Of a text that does not end in a newline only that newline stays; the blank line above makes one of no text."""
    now = progress.with_refusal(text, why, output)
    added = now[len(ended(text)) :]
    assert now.startswith(ended(text))
    assert added.count(b"\r\n") == (added.count(b"\n") if newline(text) == b"\r\n" else 0)
    assert added.split(newline(text))[:2] == [b"", b"## Verification"]
    assert meaning(parse(now)) == meaning(parse(text))
    assert progress.without_refusal(now) == (ended(text) if text not in (b"", BOM) else text + b"\n")
    bare = parse(ended(above) + progress.with_refusal(text, why))
    assert meaning(parse(ended(above) + now)) == meaning(bare), "whatever is put above it later"


@given(unsigned.filter(lambda text: text.endswith(b"\n")), reasons, outputs, outputs, unsigned)
def test_a_refusal_replaces_another_and_what_is_appended_below_it_stays(
    text: bytes, why: list[str], first: str, second: str, tail: bytes
) -> None:
    once = progress.with_refusal(text, why, first)
    assert progress.with_refusal(progress.with_refusal(text, why, second), why, first) == once
    assume(meaning(parse(text + b"RALPH_STOP\n")) != meaning(parse(text + b"```\nRALPH_STOP\n```\n")))
    assert progress.without_refusal(once + tail) == text + tail


@given(outputs | st.lists(st.integers(0, 400), max_size=70).map(lambda sizes: "\n".join("x" * n for n in sizes)))
def test_what_is_shown_has_bounds_and_drives_no_terminal(raw: str) -> None:
    shown = harmless_output(raw)
    lines = shown.split("\n")
    assert (len(lines) <= 61, max(map(len, lines)) <= 200) == (True, True)
    assert not re.search("[^\t\n -~\xa0-\U0010ffff]", shown)
    assert [line.rstrip() for line in lines] == lines
    assert harmless_output(shown) == shown
