"""The tasks of strict mode: what is read, which is next, what is stuck, what cannot be, and what ralph writes."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.plan import progress, tasks
from ralph.plan.tasks import Task, edits

LIST = b"""# Progress: x

Plan: x.md
Started: 2026-11-20 22:14:03
Spent: $1.2500

## Status

IN_PROGRESS

## Task List

- [X] **auth-01:** One
- [~] auth-02: Two
  - verify: Run `pytest` - exits with code 0
  - after: auth-01, `db-01`
  ```
  - verify: an example
  ```
  - priority:\xc2\xa01
  - verify:\xc2\xa0File `x.py` exists
  - failed: 2026-11-21 03:12:05 attempt 1: no
  - blocked: nobody knows
  - [ ] sub: Part
\t\t- verify: File `y.py` exists
- no task
  - verify: not that of the task
1. [!] `db-01`: Three
- [ ] No id: here, for it is two words

## Notes

- [x] elsewhere: not a task
```sh
make
```
"""


def of(text: str) -> Sequence[Task]:
    """The tasks of these lines, which a bar separates; each has the text x."""
    listed = re.sub(r"(\[.\] [\w.-]+)", r"- \1: x", text.replace("|", "\n"))
    return tasks.read_tasks(f"# Tasks\n{listed}\n".encode())


def test_a_task_is_read_with_what_is_nested_below_it_and_ids_may_be_in_stars_and_backticks() -> None:
    one, two, sub, *others = tasks.read_tasks(LIST)
    assert (two.id, two.text, two.mark, two.number) == ("auth-02", "Two", "~", 14)
    assert (two.after, two.priority, two.failed_tries) == (["auth-01", "db-01"], 1, 1)
    assert two.note_values("verify") == ["Run `pytest` - exits with code 0", "File `x.py` exists"]
    assert two.note_values("failed") + two.note_values("blocked") == [
        "2026-11-21 03:12:05 attempt 1: no",
        "nobody knows",
    ]
    assert (sub.id, sub.mark, sub.note_values("verify"), sub.above) == ("sub", " ", ["File `y.py` exists"], (two,))
    listed = [(task.id, task.mark, task.text) for task in (one, *others)]
    nameless = ("", " ", "No id: here, for it is two words")
    assert listed == [("auth-01", "x", "One"), ("db-01", "!", "Three"), nameless]


NEXT = {
    "[x] a|  [!] a1|[~] b|[!] c|[ ] d|  - after: a": "d",
    "[ ] a|[ ] b|  - priority: 2|[ ] c|  - priority: 1": "c",
    "[ ] a|[ ] b|  - priority: 1|  [ ] b1": "b1",
    "[ ] a|  - failed: no|[ ] b": "b",
    "[ ] a|[ ] b|  - priority: 1|  - failed: no": "b",
    "[ ] a|  - after: b|[ ] b": "b",
    "[ ] a|  - after: b|  [ ] a1|[ ] b": "b",
    "[ ] a|  [ ] a1|    - after: a2|  [ ] a2": "a2",
    "[ ] a|  - verify: x|  [x] a1": "a",
    "[ ] a|  [x] a1|[!] b|  [ ] b1|[ ] c|  - after: b": "",
}


@pytest.mark.parametrize(("listed", "wanted"), NEXT.items(), ids=NEXT)
def test_the_next_task_is_the_first_that_waits_for_nothing_by_priority_then_by_tries(listed: str, wanted: str) -> None:
    assert tasks.select_next(of(listed)) == tasks.find_task(of(listed), wanted)


def test_a_list_that_cannot_be_worked_on_says_where() -> None:
    for listed, said in [
        ("[ ] a|[ ] a", "3: a is the id of another task, too; each needs one of its own"),
        ("[ ] a|  - after: b|[ ] b|  - after: a|[ ] c|  - after: a", "2: these tasks wait for each other: a, b"),
        ("[ ] a|  [ ] b|    - after: a", "2: these tasks wait for each other: a, b"),
        ("[ ] a|  - after: b|  [ ] a1|[ ] b|  - after: a1", "4: these tasks wait for each other: a1, b"),
    ]:
        assert tasks.find_problems(of(listed)) == [f"line {said}"]


# What ralph writes into the list, and that it writes nothing else.

EDITED = b"# Tasks\r\n\r\n* [ ] a: one \t\r\n  goes on\r\n* [~] b: \xe9\r\n\t- verify: x\r\n\t- [!] c: three\r\n\r\nend"


def test_each_edit_changes_its_lines_and_no_other_byte() -> None:
    assert edits.with_mark(EDITED, " ", "c", "b") == EDITED.replace(b"[!]", b"[ ]").replace(b"[~]", b"[ ]")
    assert edits.with_ids_and_tidy_marks(EDITED) == EDITED.replace(b"[~]", b"[ ]")
    failed = re.sub(
        rb"failed: [-0-9 :]{19} attempt", b"failed: now attempt", edits.with_failure(EDITED, "b", "exit\n1")
    )
    added = b"\t- verify: x\r\n\t- failed: now attempt 1: exit / 1\r\n"
    assert failed == EDITED.replace(b"\t- verify: x\r\n", added).replace(b"[~]", b"[ ]")
    assert b"  goes on\r\n  - failed: " in edits.with_failure(EDITED, "a", "no")
    assert b"c: three\r\n\t  - failed: " in edits.with_failure(EDITED, "c", "no")
    now = edits.with_mark(
        edits.with_mark(EDITED, "!", "b", note="blocked", why="one"), "!", "b", note="blocked", why="two"
    )
    assert [(task.mark, task.note_values("blocked")) for task in tasks.read_tasks(now)] == [
        (" ", []),
        ("!", ["two"]),
        ("!", []),
    ]
    marks, again = list[str](), now
    for _ in range(3):
        again = edits.with_mark(again, "!", "b", note="blocked", why=f"{edits.BY_AGENT}needs a")
        again = edits.with_ticks_reopening_blocked(again, "a")
        marks.append(tasks.read_tasks(again)[1].mark)
    assert marks == [" ", " ", "!"], "an agent's word is doubted twice"
    assert edits.with_mark(now, "~", "b") == EDITED
    texts = {"Add the login endpoint": "add_login_endpoint", "`x` -> *Größe*!": "x_grösse", "!!!": "task"}
    texts["W" * 200] = "w" * 56
    assert [tasks.new_id(text, ["Task_2"]) for text in texts] == [*texts.values()]
    assert edits.with_ids(b"# Tasks\n- [ ] One\n- [ ] one\n") == b"# Tasks\n- [ ] one: One\n- [ ] one_2: one\n"


# What holds for every list.

nested = st.sampled_from(
    b"  - verify: x|  - after: a|    - priority: 2|\t- failed: now attempt 2: no|- blocked: no|  - [ ] b: sub"
    b"|\t- [!] sub|- [ ] a: one|- [~] a: again|  - [x] `c`: x|  goes on|  ```|- [ ] The Same|- [ ] the same"
    b"|1. [ ] 2nd|# Tasks|- [ ] !|RALPH_DONE|## Notes|Verified: x|```|~~~"
    b"|- more|> quoted|caf\xe9|\r|\xef\xbb\xbf- [ ] c: x".split(b"|")
)
lists = st.lists(nested, max_size=16).map(lambda lines: b"# Tasks\n" + b"\n".join(lines))
ids = st.sampled_from(["a", "b", "c", "the_same", "nobody"])
words = st.text(max_size=60) | st.just(
    "a\nRALPH_DONE\n```\n- [ ] y\n- after: x\n# Tasks\ud800\x1b[1m\0\u2028\x85\nVerified: x"
)


@given(lists | st.binary())
def test_of_any_bytes_the_tasks_are_those_that_count_and_ids_are_put_in_and_nothing_else(text: bytes) -> None:
    before = tasks.read_tasks(text)
    seen = progress.parse(text)
    assert [*seen.open] == [task for task in before if task.mark != "x"]
    assert seen.ticked + len(seen.open) == len(before)
    assert all(task.whole.endswith(task.text) and task.id in task.whole for task in before)
    assert all(task.line.body in text.split(b"\n")[task.number - 1] for task in before)
    listed = tasks.read_tasks(edits.with_ids_and_tidy_marks(text))
    assert tasks.why_stuck(listed) or tasks.select_next(listed) or all(task.is_done for task in listed)
    tasks.find_problems(before)
    now = edits.with_ids(text)
    after = tasks.read_tasks(now)
    assert [(task.text, task.mark) for task in after] == [(task.text, task.mark) for task in before]
    assert edits.with_ids(now) == now
    for task in reversed([task for one, task in zip(before, after, strict=True) if not one.id]):
        head, _, tail = now.rpartition(f"{task.id}: ".encode())
        now = head + tail
    assert now == text


@given(lists, ids, words)
def test_a_failure_is_one_line_that_reads_as_nothing_else_and_done_takes_it_back(
    text: bytes, task_id: str, why: str
) -> None:
    text += b"\n"
    now = edits.with_failure(text, task_id, why)
    old, new = tasks.find_task(tasks.read_tasks(text), task_id), tasks.find_task(tasks.read_tasks(now), task_id)
    assert (old and old.failed_tries + 1) == (new and new.failed_tries)
    done = edits.with_mark(text, "x", task_id)
    spoiled = edits.with_mark(edits.with_failure(done, task_id, why), "!", task_id, note="blocked", why=why)
    assert edits.with_mark(spoiled, "x", task_id).lower() == done.lower(), "what was a line of its own would stay"
