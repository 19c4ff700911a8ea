"""What holds for every task list: any graph is finished in a legal order, and edits change what they mean to change."""

from hypothesis import example, given
from hypothesis import strategies as st
from test_progress_properties import any_text, texts

from ralph import progress, tasks
from ralph.tasks import Task

nested = st.sampled_from(
    b"  - verify: x|  - after: a|    - priority: 2|\t- failed: now try 2: no|- blocked: no|  - [ ] b: sub|\t- [!] sub"
    b"|- [ ] a: one|- [~] a: again|  - [x] `c`: x|  goes on|  ```|- [ ] The Same|- [ ] the same|1. [ ] 2nd"
    b"|- [ ] !".split(b"|")
)
some = st.lists(nested, max_size=12).map(b"\n".join)
lists = st.builds(lambda body, rest: b"# Tasks\n" + body + rest, some, texts) | texts
ids = st.sampled_from(["a", "b", "c", "the_same", "nobody"])


@st.composite
def graphs(draw: st.DrawFn) -> bytes:
    """A list of tasks and subtasks without cycles, in any order in the file."""
    count = draw(st.integers(1, 8))
    lines = []
    for number in range(count):
        before = draw(st.lists(st.sampled_from(range(number)), max_size=3, unique=True)) if number else []
        subtasks = draw(st.integers(0, 3))
        block = [f"- [{draw(st.sampled_from('   x'))}] t{number}: x"]
        block += [f"  - after: {', '.join(f't{other}' for other in before)}"] if before else []
        block += [f"  - priority: {draw(st.integers(0, 3))}"] if draw(st.booleans()) else []
        block += ["  - failed: no\n  - failed: no" for _ in range(draw(st.integers(0, 1)))]
        for below in range(subtasks):
            block.append(f"  - [ ] t{number}_{below}: x")
            if below and draw(st.booleans()):
                block.append(f"    - after: t{number}_{draw(st.integers(0, below - 1))}")
        lines.append("\n".join(block))
    return ("# Tasks\n" + "\n".join(draw(st.permutations(lines))) + "\n").encode()


def above(read: tuple[Task, ...], task: Task) -> list[Task]:
    """The task and those it is part of, outermost first."""
    for one in read:
        if one == task:
            return [one]
        if found := above(one.subtasks, task):
            return [one, *found]
    return []


def may_begin(read: tuple[Task, ...], task: Task) -> bool:
    """The rule once more, slowly."""
    known = {one.id: one for one in tasks.flat(read)}
    return (
        task.mark == " "
        and not task.subtasks
        and all(known[other].done for one in above(read, task) for other in one.after)
    )


def priority(read: tuple[Task, ...], task: Task) -> float:
    return next((one.priority for one in reversed(above(read, task)) if one.priority is not None), float("inf"))


@given(graphs(), st.data())
def test_any_graph_is_finished_in_a_legal_order(text: bytes, data: st.DataObject) -> None:
    assert tasks.problems(tasks.read(text)) == []
    while task := tasks.select(read := tasks.read(text)):
        ready = [one for one in tasks.flat(read) if may_begin(read, one)]
        assert task in ready
        assert priority(read, task) == min(priority(read, one) for one in ready)
        alike = [one for one in ready if priority(read, one) == priority(read, task)]
        assert (task.tries, alike.index(task)) == min((one.tries, alike.index(one)) for one in alike)
        if data.draw(st.integers(0, 4)) == 4:
            text = tasks.with_failure(text, task.id, "now", "no")
        else:
            text = tasks.with_done(tasks.taken_up(text, task.id), [one.id for one in tasks.chain(read, task.id)])
    assert all(task.done for task in tasks.read(text))
    assert tasks.stuck(tasks.read(text)) == ""


@given(graphs(), st.data())
def test_what_a_blocked_task_holds_up_is_said(text: bytes, data: st.DataObject) -> None:
    leaves = [task.id for task in tasks.flat(tasks.read(text)) if not task.subtasks and task.mark == " "]
    blocked = data.draw(st.sets(st.sampled_from(leaves), min_size=1)) if leaves else set()
    for task_id in sorted(blocked):
        text = tasks.with_block(text, task_id, "why not")
    while task := tasks.select(read := tasks.read(text)):
        text = tasks.with_done(text, [one.id for one in tasks.chain(read, task.id)])
    said = tasks.stuck(tasks.read(text))
    assert bool(said) == bool(blocked)
    assert said.count("is blocked: why not") == min(len(blocked), 6)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=10))
def test_a_cycle_is_found_where_nothing_can_be_selected_any_more(edges: list[tuple[int, int]]) -> None:
    lines = []
    for number in range(7):
        lines.append(f"- [ ] t{number}: x")
        lines += [f"  - after: t{other}" for one, other in edges if one == number]
    text = "\n".join(["# Tasks", *lines, ""]).encode()
    found = bool(tasks.problems(tasks.read(text)))
    while task := tasks.select(tasks.read(text)):
        text = tasks.with_done(text, [task.id])
    assert found == bool(tasks.stuck(tasks.read(text)))


@given(lists | st.binary())
def test_any_bytes_are_a_task_list_and_its_tasks_are_those_that_count(text: bytes) -> None:
    read = tasks.flat(tasks.read(text))
    counted = progress.parse(text).tasks
    assert [(task.mark, task.mark == "x") for task in read] == [(task.mark.lower(), task.done) for task in counted]
    assert all(task.text.endswith(one.text) for one, task in zip(read, counted, strict=True))
    lines = text.split(b"\n")
    assert all(task.raw in lines[one.line - 1] for one, task in zip(read, counted, strict=True))
    tasks.problems(tasks.read(text))
    tasks.select(tasks.read(text))
    tasks.stuck(tasks.read(text))


@given(lists)
@example(b"# Tasks\n- [ ] verify: x\n- [ ] task\n- [ ] !")
def test_ids_are_put_in_and_no_other_byte_changes(text: bytes) -> None:
    now = tasks.with_ids(text)
    before, after = tasks.flat(tasks.read(text)), tasks.flat(tasks.read(now))
    new = [task.id for one, task in zip(before, after, strict=True) if not one.id]
    assert all(new)
    assert len({*new, *(task.id for task in before if task.id)}) == len(new) + len({t.id for t in before if t.id})
    assert [(task.text, task.mark) for task in after] == [(task.text, task.mark) for task in before]
    assert tasks.with_ids(now) == now
    for task_id in reversed(new):
        at = now.rindex(f"{task_id}: ".encode())
        now = now[:at] + now[at + len(f"{task_id}: ".encode()) :]
    assert now == text


@given(lists, ids, st.sampled_from(" ~x!"))
def test_a_mark_changes_one_byte(text: bytes, task_id: str, mark: str) -> None:
    now = tasks.with_mark(text, task_id, mark)
    task = tasks.find(tasks.read(text), task_id)
    different = [n for n, pair in enumerate(zip(text, now, strict=True)) if pair[0] != pair[1]]
    assert len(different) == bool(task and task.mark != mark)
    assert getattr(tasks.find(tasks.read(now), task_id), "mark", mark) == mark


@given(lists, ids, any_text)
def test_a_failure_is_one_line_and_reads_as_nothing_else(text: bytes, task_id: str, why: str) -> None:
    now = tasks.with_failure(text, task_id, "now", why)
    before, after = tasks.flat(tasks.read(text)), tasks.flat(tasks.read(now))
    for one, other in zip(before, after, strict=True):
        assert (one.id, one.text, one.after, one.criteria, one.priority, one.blocked) == (
            other.id, other.text, other.after, other.criteria, other.priority, other.blocked,
        )  # fmt: skip
    old, new = tasks.find(tasks.read(text), task_id), tasks.find(tasks.read(now), task_id)
    if old and new:
        assert new.tries == old.tries + 1
        assert new.failed[:-1] == old.failed[max(0, len(old.failed) - 2) :]
    was, is_now = progress.parse(text), progress.parse(now)
    assert (was.done, was.verified, was.stop, was.blocked, was.plan, was.spent_usd) == (
        is_now.done, is_now.verified, is_now.stop, is_now.blocked, is_now.plan, is_now.spent_usd,
    )  # fmt: skip


@given(lists, ids, any_text)
def test_done_takes_everything_back_that_failing_wrote(text: bytes, task_id: str, why: str) -> None:
    whole = text if text.endswith(b"\n") else text + progress.fresh("x", "x", "x")[-1:]
    marked = tasks.with_done(whole, [task_id])
    spoiled = tasks.with_block(tasks.with_failure(marked, task_id, "now", why), task_id, why)
    assert tasks.with_done(spoiled, [task_id]).lower() == marked.lower()
