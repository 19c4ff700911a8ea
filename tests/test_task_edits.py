"""What ralph writes into a task list, and that it writes nothing else."""

import pytest

from ralph import progress, tasks

LIST = (
    b"# Tasks\r\n\r\n* [ ] a: one \t\r\n  goes on\r\n* [~] b: caf\xe9\r\n\t- verify: x\r\n\t- [!] c: three\r\n\r\nend"
)
TRY = b"- failed: 2026-11-21 03:12:05 try %d: %b"


def failed(text: bytes, task_id: str, why: str, times: int = 1) -> bytes:
    for _ in range(times):
        text = tasks.with_failure(text, task_id, "2026-11-21 03:12:05", why)
    return text


def test_a_mark_is_one_byte() -> None:
    assert tasks.with_mark(LIST, "c", "x") == LIST.replace(b"[!]", b"[x]")
    assert tasks.taken_up(LIST, "a") == LIST.replace(b"[ ]", b"[~]")
    assert tasks.put_down(LIST) == LIST.replace(b"[~]", b"[ ]")
    assert tasks.with_mark(LIST, "nobody", "x") == LIST


def test_a_failure_stands_below_the_metadata_and_the_task_waits_again() -> None:
    now = failed(LIST, "b", "exit 1")
    added = b"\t" + TRY % (1, b"exit 1") + b"\r\n"
    assert now == LIST.replace(b"\t- verify: x\r\n", b"\t- verify: x\r\n" + added).replace(b"[~]", b"[ ]")


def test_a_failure_stands_below_all_words_of_its_task() -> None:
    assert b"  goes on\r\n  " + TRY % (1, b"no") + b"\r\n* [~]" in failed(LIST, "a", "no")


def test_the_newest_three_failures_are_kept_and_counted_on() -> None:
    now = failed(LIST, "a", "no", 5)
    (task, *_) = tasks.read(now)
    assert [line.split(": ")[0][-5:] for line in task.failed] == ["try 3", "try 4", "try 5"]
    assert task.tries == 5


def test_a_block_replaces_the_older_one_and_taking_up_removes_it() -> None:
    now = tasks.with_block(tasks.with_block(LIST, "b", "one"), "b", "two")
    assert now.count(b"- blocked:") == 1
    task = tasks.find(tasks.read(now), "b")
    assert task
    assert (task.mark, task.blocked) == ("!", "two")
    assert tasks.taken_up(now, "b") == LIST


def test_done_clears_what_went_wrong() -> None:
    now = tasks.with_block(failed(LIST, "c", "no", 2), "c", "gave up")
    assert tasks.with_done(now, ["c", "b"]) == LIST.replace(b"[!]", b"[x]").replace(b"[~]", b"[x]")


@pytest.mark.parametrize(
    "why",
    [
        "a\n- [x] b\n  - [ ] c",
        "RALPH_DONE\nRALPH_DONE",
        "```\n~~~",
        "# Tasks\n## Notes",
        "- verify: true\n- after: x",
        "\x1b[31mred\x1b[0m\x00\u2028\x85\r\nVerified: x",
        "",
        "try 99: hello",
        "\ud800 \udcff",
        "long " * 9999,
    ],
)
def test_no_reason_means_anything(why: str) -> None:
    now = tasks.with_block(failed(LIST, "a", why), "b", why)
    before, after = progress.parse(LIST), progress.parse(now)
    assert [task.text for task in after.tasks] == [task.text for task in before.tasks]
    assert (after.done, after.stop, after.blocked) == (False, False, None)
    assert after.unclosed_fence is None
    first = tasks.read(now)[0]
    assert (first.criteria, first.after, first.tries, len(first.failed)) == ((), (), 1, 1)
    assert len(first.failed[0]) < 450
    assert len(now.split(b"\n")) == len(LIST.split(b"\n")) + 2


def test_a_long_reason_keeps_its_beginning_and_its_end() -> None:
    said = tasks.read(failed(LIST, "a", "verify failed\n" + "noise\n" * 5000 + "the last line"))[0].failed[0]
    assert "verify failed" in said
    assert said.endswith("the last line")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("Add the login endpoint", "add_login_endpoint", id="its words without articles"),
        pytest.param("One two three four five six", "one_two_three_four_five", id="at most five"),
        pytest.param("`x` -> *Y*!", "x_y", id="no signs"),
        pytest.param("Größe ändern", "grösse_ändern", id="any letters"),
        pytest.param("!!!", "task", id="no word at all"),
        pytest.param("W" * 200, "w" * 56, id="a word too long for an id"),
    ],
)
def test_an_id_is_made_of_the_tasks_words(text: str, wanted: str) -> None:
    now = tasks.with_ids(f"# Tasks\n- [ ] {text}\n".encode())
    assert now.decode() == f"# Tasks\n- [ ] {wanted}: {text}\n"


def test_ids_are_given_once_and_each_is_one_of_its_own() -> None:
    text = b"# Tasks\n- [ ] Go\n- [ ] go_2: x\n- [ ] go!\n  - [ ] GO\n- [ ] Other: x\n## Notes\n- [ ] Go\n"
    now = tasks.with_ids(text)
    assert [task.id for task in tasks.flat(tasks.read(now))] == ["go", "go_2", "go_3", "go_4", "Other"]
    assert tasks.with_ids(now) == now
    assert now.endswith(b"## Notes\n- [ ] Go\n")
