"""What counts in a progress file, and its edits, case by case; what holds for all is in test_progress_properties.py."""

import pytest
from ralph_driver import Project
from stories import Agent, step

from ralph import progress
from ralph.judge import tasks
from ralph.progress import harmless_output, parse

HEAD, TAIL = "# Progress: feature\n\nPlan: feature.md\n\n## Status\n\n", "\n\n## Task List\n\n- [ ] one\n"
TEXT = f"{HEAD}IN_PROGRESS{TAIL}\n## Notes\n".encode()
WHY = ["`make test` exited with 2"]
REFUSED = progress.with_refusal(TEXT, WHY, "FAILED test_login\n\n1 failed\n")
BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("   RALPH_DONE \t", True),
        ("~~~ text\n```\n~~~\nRALPH_DONE", True),
        ("- 1) ```\nx\n  ```\nRALPH_DONE", True),
        ("```\nx\n````` \nRALPH_DONE", True),
        ("```\nRALPH_DONE\n``` sh", True),
        ("```\n- ```\nRALPH_DONE\n```", False),
        ("    RALPH_DONE", False),
        ("`````\n```\nRALPH_DONE\n```\n`````", False),
        ("`RALPH_DONE`", False),
        ("- RALPH_DONE", False),
        ("Do not write RALPH_DONE yet.", False),
    ],
)
def test_a_word_counts_on_a_line_of_its_own_outside_of_code(text: str, done: bool) -> None:
    assert parse((HEAD + text + TAIL).encode()).done is done
    assert parse(BOM + b"caf\xe9 \xff\r\n" + text.replace("\n", "\r\n").encode()).done is done


def test_an_unclosed_fence_is_no_fence_and_a_long_file_is_said_once(project: Project, agent: Agent) -> None:
    project.progress.write_text(f"{HEAD}IN_PROGRESS\n\n~~~~~\n\nRALPH_BLOCKED: help{TAIL}")
    run = project.ralph_tty("feature.md")
    assert (run.code, agent.calls) == (4, [])
    agent.story(step(), step())
    project.progress.write_text(f"{HEAD}IN_PROGRESS\n\n```{TAIL}{'words ' * 10_000}\n")
    assert project.build("2").stderr.count("60 kB") == 1, "every iteration pays for reading it"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("## Tasks\n- [ ] a\n- [x] b\n- [X] c\n* [ ] d\n+ [x] e\n", "3/5"),
        ("### Task overview\n- [ ] a\n#### First\n- [x] b\n", "1/2"),
        ("## Tasks\n- [ ] a\n## Acceptance\n- [x] b\n- [ ] c\n", "0/1"),
        ("## Tasks\n- [2026-01-29] x\n- [ ] a\n- []\n- [ ]b\n", "0/1"),
        ("- [ ] a\n~~~\n- [ ] b\n~~~\n- [x] c\n", "1/2"),
        ("Tasks\n=====\r\n- [ ] a\r\n\n```\n- [x] b", "1/2"),
    ],
)
def test_tasks_are_counted_as_people_mean_them(text: str, count: str) -> None:
    assert tasks(parse(text.encode())) == f"{count} tasks"


@pytest.mark.parametrize(
    ("line", "dollars"),
    [
        (b"Spent: $12.3456", 12.3456),
        (b"Spent: $1,234,567.50", 1234567.5),
        (b"Spent: 12.34USD, mostly on tests", 12.34),
        (b"Spent: all of it", None),
        (b"## Notes\nSpent: $7", None),
        (b"```\nSpent: $7\n```", None),
    ],
)
def test_what_a_plan_cost(line: bytes, dollars: float | None) -> None:
    for end in (b"\n", b"\r\n", b""):
        assert parse(b"# Progress: x\n\nPlan: x.md\n" + line + end).spent_usd == dollars


def test_a_reason_with_half_a_character_can_be_written() -> None:
    """Programs that count in UTF-16 cut a character in its middle; the agent's JSON then holds `\\ud83d` alone."""
    for why in ("half an emoji: \ud83d", "caf\udce9"):
        assert parse(progress.blocked(TEXT, why)).blocked_by_ralph
        assert parse(progress.with_refusal(TEXT, [why])).tasks == parse(TEXT).tasks


def test_a_refusal_stands_at_the_end_and_says_why_with_the_output_below() -> None:
    assert REFUSED.startswith(TEXT + b"\n## Verification\n\n<!-- ralph writes")
    said = b"because:\n>\n> - `make test` exited with 2\n>\n>     FAILED test_login\n>\n>     1 failed\n\n"
    assert REFUSED.endswith(said)
    for blank in ("", "\n \n", "\x1b[0m\r\n"):
        assert progress.with_refusal(TEXT, WHY, blank) == progress.with_refusal(TEXT, WHY)


def test_what_was_put_into_it_stays_and_what_was_shortened_takes_nothing_along() -> None:
    for where in (b">\n", b">     FAILED"):
        assert b"mine\n" in progress.without_refusal(REFUSED.replace(where, b"mine\n" + where))
    shorter = REFUSED.replace(b">     FAILED test_login\n", b"")
    assert progress.without_refusal(shorter + b"    Port 81.\n") == TEXT + b"    Port 81.\n"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;31mFAILED\x1b[0m a\x1b[K", "FAILED a"),
        ("\x1b]0;make\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        ("\x1b]0;never ended\nb", "\nb"),
        ("\x1b(Ba\x1b7\x1bcb\x9b31mc\x1b", "abc"),
        ("a\x00\x07\x08\x7f\x85b\tc\u2028d\u202e", "ab\tcd"),
        ("10%\r50%\r100%\ndone\r\r\n", "100%\ndone"),
        ("\n  a  \n\n b\t\n\n\n", "\n  a\n\n b"),
        ("x" * 201, "x" * 199 + "…"),
        ("\n".join(map(str, range(61))), "\n".join(["…", *map(str, range(1, 61))])),
    ],
)
def test_output_is_shown_as_a_terminal_would(raw: str, shown: str) -> None:
    assert harmless_output(raw) == shown


def listed(items: str) -> bytes:
    lines = [f"- [x] {item[2:]}" if item.startswith("x ") else f"- [ ] {item}" for item in items.split("|") if item]
    return "\n".join(["## Tasks", *lines, ""]).encode()


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        ("x one|two", "two", ""),
        ("Add **login**", "x ADD `login`!", ""),
        ("Add login", "x Add login (with tests, see app/login.py)", ""),
        ("Add login|x Add login form", "x Add login form", "Add login"),
        ("Add login|Add login", "Add login form", "Add login"),
        ("T1|T2", "T2|x T10: move the data", "T1"),
        ("one|x one", "x one|x one", ""),
        ("???|!!!", "!!!", "???"),
    ],
)
def test_open_tasks_that_are_gone_are_missed(before: str, after: str, gone: str) -> None:
    missing = progress.vanished(parse(listed(before)), parse(listed(after)))
    assert "|".join(task.text for task in missing) == gone
