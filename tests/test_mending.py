"""What an agent may not change in the progress file is undone, and what it may is kept."""

from hypothesis import example, given
from hypothesis import strategies as st
from test_tasks import LIST as BEFORE

from ralph.plan import progress, tasks
from ralph.plan.tasks.edits import RestoredList, restore_ralphs_sections

NOTE = b"\nA new note \t\nof mine, caf\xe9.\n"


def undone(after: bytes, before: bytes = BEFORE) -> RestoredList:
    """What is undone, looked at as ralph will look at it."""
    found = restore_ralphs_sections(before, after)
    assert restore_ralphs_sections(before, found.text) == RestoredList(text=found.text)
    assert tasks.format_task_lines(tasks.read_tasks(found.text)) == tasks.format_task_lines(tasks.read_tasks(before))
    was, now = progress.parse(before), progress.parse(found.text)
    assert (now.done, now.verified) == (was.done, was.verified)
    assert (now.plan, now.spent_usd) == (was.plan, was.spent_usd)
    return found


def test_what_is_free_stays_byte_for_byte() -> None:
    for after in (
        BEFORE + NOTE,
        BEFORE + b"## Messages\n\n- [x] done?\n\n## Proposed\n\n- [ ] more\n",
        BEFORE.replace(b"IN_PROGRESS\n", b"IN_PROGRESS\n\nRALPH_BLOCKED: no key\n"),
        BEFORE.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + BEFORE,
    ):
        assert undone(after) == RestoredList(after)


TICKED = BEFORE.replace(b"[ ]", b"[x]").replace(b"[~]", b"[x]")


def test_what_is_ralphs_is_put_back_and_named_and_every_other_byte_stays() -> None:
    for after, what in [
        (TICKED.replace(b"IN_PROGRESS", b"RALPH_DONE"), '"- [x] auth-02: Two" added'),
        (BEFORE.replace(b"`pytest`", b"`true`"), '"- verify: Run `pytest` - exits with code 0" removed'),
        (BEFORE.replace(b"Spent: $1.2500", b"Spent: $0.0000"), '"Spent: $0.0000" added'),
        (BEFORE.replace(b"Plan: x.md\n", b""), '"Plan: x.md" removed'),
    ]:
        for mark in (b"", progress.BOM):
            found = undone(mark + after + NOTE, mark + BEFORE)
            assert found.text == mark + BEFORE + NOTE
            assert what in found.what


def test_new_tasks_become_proposals_and_are_not_tampering() -> None:
    new = b"  - [ ] Write docs\n    - verify: File `x` exists\n    - [ ] index\n"
    found = undone(BEFORE.replace(b"- [ ] No id", new + b"- [ ] No id") + NOTE)
    assert found == RestoredList(BEFORE + NOTE + b"\n## Proposed\n\n" + new)
    again = undone(found.text.replace(b"- [ ] No id", b"- [ ] Another\n- [ ] No id"))
    assert again == RestoredList(found.text + b"- [ ] Another\n")


def test_what_ralph_wrote_about_done_is_its_own() -> None:
    before = progress.with_refusal(BEFORE, ["the check failed"], "1 failed\n")
    found = undone(progress.without_refusal(before) + NOTE, before)
    assert ('"> - the check failed" removed' in found.what, NOTE in found.text) == (True, True)
    assert b"## Verification" not in progress.without_refusal(found.text)
    assert b"## Verification" not in undone(progress.with_refusal(BEFORE, ["all is well"])).text


def test_a_section_of_the_agents_with_the_title_of_one_of_ralphs_stays() -> None:
    before = b"# x\n\n## Status\n\nIN_PROGRESS\n\n## Phase\n\n- [ ] three: Three\n\n## Phase\n\nWhat was learned.\n"
    assert undone(before.replace(b"[ ] three", b"[x] three"), before).text == before


# Whatever an agent does to it.

hostile = st.sampled_from(
    b"- [x] auth-01: One|- [ ] auth-02: Two|- [x] new|  - [x] sub: Part|  - verify: Run `false`|  - after: b|# Big"
    b"|RALPH_DONE|   RALPH_STOP|RALPH_BLOCKED: why?|IN_PROGRESS|Verified: x|Spent: $9|Plan: y.md|## Status|## Proposed"
    b"|  - blocked: no|     RALPH_DONE|     # Tasks|\xef\xbb\xbf- [x] auth-02: Two|## Task List|### Task 1|```|~~~"
    b"|- ```|\t# Tasks|<!-- ralph writes this section, 2 lines of reasons, and removes it when done holds -->"
    b"|## Verification|# Notes|### Acceptance|caf\xe9".split(b"|")
)


@st.composite
def edits(draw: st.DrawFn, text: bytes = BEFORE) -> bytes:
    """The text after some edits of lines by somebody who means no good."""
    lines = text.split(b"\n")
    for _ in range(draw(st.integers(1, 5))):
        at, end = sorted(draw(st.integers(0, len(lines))) for _ in range(2))
        indent = draw(st.sampled_from([b"  ", b"\t", b"> "]))
        forms = [
            lines[:at] + draw(st.lists(hostile, min_size=1, max_size=3)) + lines[at:],
            lines[:at] + lines[at + draw(st.integers(1, 4)) :],
            lines[:at] + lines[end:] + lines[at:end],
            lines + lines[at:end],
            [line.replace(b"[ ]", b"[x]").replace(b"[~]", b"[x]") for line in lines],
            lines[:at] + [indent + line for line in lines[at:end]] + lines[end:],
        ]
        lines = draw(st.sampled_from(forms))
    return draw(st.sampled_from([b"\n", b"\n", b"\r\n"])).join(lines)


befores = st.just(BEFORE) | st.lists(hostile, max_size=12).map(b"\n".join) | edits()


@example((BEFORE, BEFORE.replace(b"## Task List", b"```\n## Task List")))
@example((BEFORE, BEFORE + TICKED[TICKED.index(b"## Task List") : TICKED.index(b"## Notes")]))
@example((BEFORE, BEFORE[BEFORE.index(b"## Notes") :]))
@example((BEFORE, BEFORE + b"\n   RALPH_DONE\t\n\n  Verified: me\n"))
@given(befores.flatmap(lambda before: st.tuples(st.just(before), edits(before) | edits() | st.binary())))
def test_nothing_that_an_agent_does_changes_what_is_ralphs(pair: tuple[bytes, bytes]) -> None:
    before, after = pair
    found = undone(after, before)
    was, now, left = map(progress.parse, (before, found.text, after))
    assert now.stop >= left.stop
    assert now.blocked == left.blocked or was.blocked is not None, "a stop is kept also where its place is put back"
