"""Whatever an agent does to the progress file, its tasks stay as they were and its notes are not lost."""

from hypothesis import example, given
from hypothesis import strategies as st
from test_progress_properties import telling, texts, words

from ralph import progress, tasks
from ralph.tasks.mending import Mended, mend

NOTE = b"what I learned \xe9 \t, byte for byte"

LIST = b"""# Progress: x

Plan: x.md
Started: now

## Status

IN_PROGRESS

## Task List

- [~] a: One
  - verify: Run `true` - exits with code 0
- [ ] b: Two
  - after: a
  - [ ] c: Three

## Notes

old
"""
hostile = telling | st.sampled_from(
    b"- [x] a: One|- [ ] b: Two|- [x] new|  - [x] c: Three|  - verify: Run `false`|  - after: b|## Proposed|# Big"
    b"|  - blocked: no|     RALPH_DONE|     # Tasks|\xef\xbb\xbf- [x] b: Two"
    b"|## Task List|### Task 1|```|~~~|- ```|\t# Tasks"
    b"|<!-- ralph writes this section, 2 lines of reasons, and removes it when done holds -->|## Verification".split(
        b"|"
    )
)


@st.composite
def edits(draw: st.DrawFn, text: bytes) -> bytes:
    """The text after some edits of lines by somebody who means no good."""
    lines = text.split(b"\n")
    for _ in range(draw(st.integers(1, 5))):
        at, end = sorted(draw(st.integers(0, len(lines))) for _ in range(2))
        what = draw(st.sampled_from(["put in", "take out", "move", "copy", "tick", "indent"]))
        if what == "put in":
            lines[at:at] = draw(st.lists(hostile, min_size=1, max_size=3))
        elif what == "take out":
            del lines[at : at + draw(st.integers(1, 4))]
        elif what == "move":
            lines = lines[:at] + lines[end:] + lines[at:end]
        elif what == "copy":
            lines += lines[at:end]
        elif what == "tick":
            lines = [line.replace(b"[ ]", b"[x]").replace(b"[~]", b"[x]") for line in lines]
        else:
            lines[at:end] = [draw(st.sampled_from([b"  ", b"\t", b"> "])) + line for line in lines[at:end]]
    return draw(st.sampled_from([b"\n", b"\n", b"\r\n"])).join(lines)


befores = st.just(LIST) | texts | st.builds(lambda more: LIST + more, texts) | edits(LIST)
pairs = befores.flatmap(lambda before: st.tuples(st.just(before), edits(before) | texts | st.binary()))


def check(before: bytes, after: bytes) -> bytes:
    found = mend(before, after)
    was, now, left = progress.parse(before), progress.parse(found.text), progress.parse(after)
    assert tasks.read(found.text) == tasks.read(before)
    assert (now.done, now.verified, now.tasks) == (was.done, was.verified, was.tasks)
    assert (now.plan, now.spent_usd) == (was.plan, was.spent_usd)
    assert (b"IN_PROGRESS" in words(found.text)) == (b"IN_PROGRESS" in words(before))
    assert mend(before, found.text) == Mended(text=found.text)
    assert now.stop >= left.stop
    assert (now.blocked is not None) >= (left.blocked is not None)
    return found.text


@given(pairs)
@example((LIST, b""))
@example((b"", LIST))
def test_nothing_that_an_agent_does_changes_what_is_ralphs(pair: tuple[bytes, bytes]) -> None:
    before, after = pair
    text = check(before, after)
    assert mend(before, text).text == text


@given(edits(LIST), st.integers(0, 3))
def test_what_it_wrote_in_its_notes_is_still_there(after: bytes, blank: int) -> None:
    end = b"\n" * blank + b"\n## Notes\n\n" + NOTE + b"\n"
    assert NOTE in check(LIST, after + end)


@given(edits(LIST))
def test_the_same_tampering_again_is_undone_again(after: bytes) -> None:
    once = check(LIST, after)
    check(once, after)


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=5))
def test_free_text_in_the_notes_is_no_tampering(lines: list[bytes]) -> None:
    after = LIST + b"".join(b"note " + line + b"\n" for line in lines)
    assert mend(LIST, after).text == after
    ticked = mend(LIST, after.replace(b"- [ ] b: Two", b"- [x] b: Two"))
    assert ticked.text == after
    assert ticked.what == ('"- [ ] b: Two" became "- [x] b: Two"',)


@st.composite
def written_into(draw: st.DrawFn, text: bytes, name: bytes) -> tuple[bytes, list[bytes]]:
    """The text with some lines of a person's, each known by its words, and these."""
    kinds = [b"- [ ] %b: more", b"  - after: %b", b"  - verify: %b holds", b"%b, a note", b"- %b", b"## %b"]
    lines, mine = text.split(b"\n"), []
    for number in range(draw(st.integers(1, 3))):
        word = b"%b%d" % (name, number)
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(kinds)) % word)
        mine.append(word)
    return b"\n".join(lines), mine


@given(st.data())
def test_what_a_person_writes_is_never_lost(data: st.DataObject) -> None:
    """Between iterations it counts; during one it stands in the file afterwards, or in what is told to be undone."""
    before, between = data.draw(written_into(LIST, b"between"))
    cheated = data.draw(edits(before))
    after, during = data.draw(written_into(cheated, b"during"))
    found = mend(before, after)
    check(before, after)
    protected = tasks.read(before)
    for word in between:
        was_task = any(word.decode() in repr(task) for task in tasks.flat(protected))
        assert not was_task or word in found.text
        assert word in found.text or word.decode() in found.diff or word not in after
    for word in during:
        assert word in found.text or word.decode() in found.diff
