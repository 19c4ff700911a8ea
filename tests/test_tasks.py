"""The tasks of strict mode: what is read, which is next, what is stuck, and what cannot be."""

import time

import pytest

from ralph import progress, tasks
from ralph.tasks import Task

LIST = b"""# Progress: x

## Task List

- [ ] auth-02: Add the endpoint
  - after: auth-01, `db-01`
  - priority: 1
  - verify: Run `pytest` - exits with code 0
  - verify: File `x.py` exists
  - failed: 2026-11-21 03:12:05 try 4: no such file
  - blocked: nobody knows
  - [~] sub_one: A nested checkbox
\t\t- verify: File `y.py` exists
- [X] **auth-01:** With stars
1. [!] `db-01`: In backticks
- [ ] No id: here, for it is two words

## Notes

- [ ] elsewhere: not a task
"""


def of(text: str) -> tuple[Task, ...]:
    return tasks.read(f"# Tasks\n{text}".encode())


def the(text: bytes, task_id: str) -> Task:
    found = tasks.find(tasks.read(text), task_id)
    assert found
    return found


def test_a_task_is_read_with_what_is_nested_below_it() -> None:
    task = the(LIST, "auth-02")
    assert (task.text, task.mark, task.line) == ("Add the endpoint", " ", 5)
    assert (task.after, task.priority) == (("auth-01", "db-01"), 1)
    assert task.criteria == ("Run `pytest` - exits with code 0", "File `x.py` exists")
    assert (task.tries, task.blocked) == (4, "nobody knows")
    assert task.failed == ("2026-11-21 03:12:05 try 4: no such file",)
    assert [(below.id, below.mark, below.criteria) for below in task.subtasks] == [
        ("sub_one", "~", ("File `y.py` exists",))
    ]


def test_ids_may_stand_in_stars_and_backticks() -> None:
    read = [(task.id, task.mark, task.text) for task in tasks.read(LIST)]
    assert read == [
        ("auth-02", " ", "Add the endpoint"),
        ("auth-01", "x", "With stars"),
        ("db-01", "!", "In backticks"),
        ("", " ", "No id: here, for it is two words"),
    ]


def test_metadata_below_something_else_is_not_the_tasks() -> None:
    (task,) = of("- [ ] a: one\n- no task\n  - verify: not a's\n\n## Other\n  - verify: not a's either\n")
    assert task.criteria == ()


def test_metadata_in_a_fence_is_text() -> None:
    (task,) = of("- [ ] a: one\n  ```\n  - verify: an example\n  ```\n  - verify: real\n")
    assert task.criteria == ("real",)


def test_proposals_are_no_tasks() -> None:
    assert [task.id for task in tasks.read(b"# Tasks\n- [ ] a: one\n\n## Proposed\n\n- [ ] b: two\n")] == ["a"]
    assert progress.parse(b"## Proposed\n\n- [ ] b: two\n").tasks == ()


@pytest.mark.parametrize(
    ("listed", "wanted"),
    [
        pytest.param("- [ ] a: x\n- [ ] b: x\n", "a", id="the first"),
        pytest.param("- [x] a: x\n- [~] b: x\n- [!] c: x\n- [ ] d: x\n", "d", id="the first that waits"),
        pytest.param("- [ ] a: x\n  - after: b\n- [ ] b: x\n", "b", id="what the other comes after"),
        pytest.param("- [ ] a: x\n- [ ] b: x\n  - priority: 2\n- [ ] c: x\n  - priority: 1\n", "c", id="by priority"),
        pytest.param("- [ ] a: x\n  - failed: no\n- [ ] b: x\n", "b", id="with the fewest tries"),
        pytest.param(
            "- [ ] a: x\n- [ ] b: x\n  - priority: 1\n  - failed: no\n", "b", id="priority counts more than tries"
        ),
        pytest.param("- [ ] a: x\n  - [ ] a1: x\n- [ ] b: x\n", "a1", id="a subtask instead of its task"),
        pytest.param("- [ ] a: x\n  - after: b\n  - [ ] a1: x\n- [ ] b: x\n", "b", id="a subtask waits with its task"),
        pytest.param("- [ ] a: x\n- [ ] b: x\n  - priority: 1\n  - [ ] b1: x\n", "b1", id="and has its priority"),
        pytest.param("- [!] a: x\n  - [ ] a1: x\n- [ ] b: x\n", "b", id="none of a blocked task"),
        pytest.param("- [ ] a: x\n  - [x] a1: x\n- [ ] b: x\n  - after: a\n", "b", id="all subtasks done is done"),
    ],
)
def test_the_next_task_is(listed: str, wanted: str) -> None:
    found = tasks.select(of(listed))
    assert found
    assert found.id == wanted


def test_what_is_stuck_names_what_blocks_what() -> None:
    listed = of("- [!] a: x\n  - blocked: no key\n- [ ] b: x\n  - after: a\n- [ ] c: x\n  - after: b\n- [~] d: x\n")
    assert tasks.select(listed) is None
    assert tasks.stuck(listed) == "b waits for a; c waits for b; a is blocked: no key; d is in progress"
    assert tasks.stuck(of("- [x] a: x\n- [ ] b: x\n  - [x] b1: x\n")) == ""


def test_of_many_that_wait_some_are_named_and_the_cause_is() -> None:
    waiting = "".join(f"- [ ] t{n}: x\n  - after: a\n" for n in range(100))
    said = tasks.stuck(of(f"- [!] a: x\n{waiting}"))
    assert "and 94 more" in said
    assert said.endswith("a is blocked")


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        pytest.param("- [ ] a: x\n  - after: b\n", ["line 2: a comes after b, which is no task"], id="no such task"),
        pytest.param(
            "- [ ] a: x\n- [ ] a: y\n", ["lines 2, 3: a is the id of 2 tasks; each needs one of its own"], id="twice"
        ),
        pytest.param(
            "- [ ] a: x\n  - priority: high\n", ['line 3: priority: "high" is no whole number'], id="no number"
        ),
        pytest.param("- [ ] a: x\n  - after: a\n", ["line 2: a waits for itself"], id="itself"),
        pytest.param(
            "- [ ] a: x\n  - after: b\n- [ ] b: x\n  - after: a\n- [ ] c: x\n  - after: a\n",
            ["lines 2, 4: a, b wait for each other"],
            id="two in a ring, and one beside it",
        ),
        pytest.param(
            "- [ ] a: x\n  - [ ] b: x\n    - after: a\n", ["lines 2, 3: a, b wait for each other"], id="its own task"
        ),
        pytest.param(
            "- [ ] a: x\n  - after: b\n  - [ ] a1: x\n- [ ] b: x\n  - after: a1\n",
            ["lines 2, 4, 5: a, a1, b wait for each other"],
            id="through the task above",
        ),
        pytest.param("- [ ] a: x\n  - [ ] b: x\n  - [ ] c: x\n    - after: b\n", [], id="a sister is fine"),
    ],
)
def test_a_list_that_cannot_be_worked_on_says_where(listed: str, said: list[str]) -> None:
    assert tasks.problems(of(listed)) == said


def test_what_is_done_with_a_task_goes_up_as_long_as_nothing_beside_it_is_open() -> None:
    listed = of("- [ ] a: x\n  - [x] b: x\n  - [ ] c: x\n    - [ ] d: x\n- [ ] e: x\n")
    assert [task.id for task in tasks.chain(listed, "d")] == ["d", "c", "a"]
    more = of("- [ ] a: x\n  - [ ] b: x\n  - [ ] c: x\n    - [ ] d: x\n")
    assert [task.id for task in tasks.chain(more, "d")] == ["d", "c"]
    assert tasks.chain(more, "nobody") == ()


def test_thousands_of_tasks_in_a_chain_take_no_time() -> None:
    lines = [f"- [ ] t{n}: x\n  - after: t{n + 1}\n  - priority: 1\n  - verify: Run `x`\n" for n in range(4_000)]
    text = ("# Tasks\n" + "".join(lines) + "- [ ] t4000: x\n").encode()
    start = time.process_time()
    read = tasks.read(text)
    assert tasks.problems(read) == []
    found = tasks.select(read)
    assert found
    assert found.id == "t4000"
    assert "t0 waits for t1" in tasks.stuck(read)
    assert time.process_time() - start < 3  # measured 0.2 s; the square of that would be a minute
    ring = tasks.problems(tasks.read(text + b"  - after: t0\n"))
    assert len(ring) == 1
    assert "wait for each other" in ring[0]


def test_tasks_nested_a_thousand_deep_are_read() -> None:
    text = b"# Tasks\n" + b"".join(b" " * n + b"- [ ] t%d: x\n" % n for n in range(1000))
    read = tasks.read(text)
    assert len(tasks.flat(read)) == 1000
    assert read == tasks.read(text)
    assert tasks.select(read)
