"""What counts in a progress file (design section 4): control words and tasks."""

import re

import pytest
from ralph_driver import Project
from stories import Agent, step

from ralph.judge import tasks
from ralph.progress import parse

HEAD = "# Progress: feature\n\nPlan: feature.md\n\n## Status\n\n"
TAIL = "\n\n## Task List\n\n- [ ] one\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("RALPH_DONE", id="alone"),
        pytest.param("RALPH_DONE  \t", id="with trailing blanks"),
        pytest.param("   RALPH_DONE", id="after three spaces"),
        pytest.param("IN_PROGRESS\n\nRALPH_DONE", id="beside IN_PROGRESS"),
        pytest.param("```\nx\n```\nRALPH_DONE", id="after a closed fence"),
        pytest.param("~~~ text\n```\n~~~\nRALPH_DONE", id="after a tilde fence that holds backticks"),
        pytest.param("````\n```\n````\nRALPH_DONE", id="after a longer fence that holds a shorter"),
        pytest.param("`x` ```y``` z\nRALPH_DONE", id="after a line of inline code"),
    ],
)
class TestAWordCounts:
    def test_in_a_plain_file(self, text: str) -> None:
        assert parse((HEAD + text + TAIL).encode()).done

    def test_in_a_file_of_windows(self, text: str) -> None:
        assert parse(b"\xef\xbb\xbf" + (HEAD + text + TAIL).replace("\n", "\r\n").encode()).done

    def test_at_the_end_of_a_file_that_is_no_utf_8(self, text: str) -> None:
        assert parse(b"caf\xe9 \x00 \xff\xfe\n" + text.encode()).done


def test_a_word_counts_in_the_first_line_after_a_bom() -> None:
    assert parse(b"\xef\xbb\xbfRALPH_DONE\r\n").done


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("    RALPH_DONE", id="after four spaces, which is code"),
        pytest.param("```\nRALPH_DONE\n```", id="in a fence"),
        pytest.param("~~~\nRALPH_DONE\n~~~", id="in a tilde fence"),
        pytest.param("  ```text\nRALPH_DONE\n  ```", id="in an indented fence"),
        pytest.param("`````\n```\nRALPH_DONE\n```\n`````", id="in a fence in a longer fence"),
        pytest.param("```\n~~~\nRALPH_DONE\n~~~\n```", id="in a tilde fence in a fence"),
        pytest.param("```\nRALPH_DONE\n``` x\n```", id="before what does not close its fence"),
        pytest.param("`RALPH_DONE`", id="in backticks"),
        pytest.param("ralph_done", id="in lower case"),
        pytest.param("- RALPH_DONE", id="in a list"),
        pytest.param("Do not write RALPH_DONE yet.", id="in a sentence"),
        pytest.param("RALPH_DONE.", id="with a full stop"),
        pytest.param("**RALPH_DONE**", id="in bold"),
        pytest.param("> RALPH_DONE", id="in a quotation"),
        pytest.param("# RALPH_DONE", id="as a heading"),
        pytest.param("Status: RALPH_DONE", id="after a label"),
    ],
)
def test_a_word_does_not_count(text: str) -> None:
    assert not parse((HEAD + text + TAIL).encode()).done


@pytest.mark.parametrize(
    ("text", "done"),
    [
        pytest.param(b"\xef\xbb\xbfcaf\xe9 \x00\r\n```\r\nx\r\n```\r\n  RALPH_DONE \t\r\n", True, id="it counts"),
        pytest.param(b"# RALPH_DONE\n\n```\nRALPH_DONE\n```\nWrite `RALPH_DONE`.\n", False, id="it does not"),
    ],
)
def test_a_start_that_finds_it_calls_nobody_and_says_nothing(
    project: Project, agent: Agent, text: bytes, *, done: bool
) -> None:
    project.progress.write_bytes(text)
    agent.story(step())
    run = project.build("1")
    assert (run.code, len(agent.calls), not run.text) == ((0, 0, True) if done else (3, 1, False)), run.text
    assert project.progress.read_bytes() == text


@pytest.mark.parametrize("fence", ["```", "~~~~~"])
def test_an_unclosed_fence_is_no_fence_and_is_said(project: Project, agent: Agent, fence: str) -> None:
    project.progress.write_text(f"{HEAD}IN_PROGRESS\n\n{fence}\n\nRALPH_BLOCKED: help{TAIL}")
    run = project.ralph_tty("feature.md")
    assert (run.code, agent.calls) == (4, [])
    agent.story(step(), step())
    project.progress.write_text(f"{HEAD}IN_PROGRESS\n\n{fence}{TAIL}")
    assert "fence" in project.build("2").stderr


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("## Tasks\n- [ ] a\n- [x] b\n- [X] c\n* [ ] d\n+ [x] e\n", "3/5", id="every mark and bullet"),
        pytest.param("### Task overview\n- [ ] a\n#### First\n- [x] b\n", "1/2", id="subsections"),
        pytest.param("## Tasks\n- [ ] a\n## Acceptance\n- [x] b\n- [ ] c\n", "0/1", id="not another section's list"),
        pytest.param("## Other\n- [x] b\n# Tasks\n- [ ] a\n", "0/1", id="nor one before"),
        pytest.param("## Tasks\n- [2026-01-29] x\n- [ ] a\n- []\n- [ ]b\n", "0/1", id="no dates and the like"),
        pytest.param("## Tasks\n- [ ] a\n```\n- [ ] b\n```\n", "0/1", id="nothing in a fence"),
        pytest.param("## Todo\n- [ ] a\n## Notes\n- [ ] b\n", "0/1", id="no heading: all but the notes"),
        pytest.param("- [ ] a\n~~~\n- [ ] b\n~~~\n- [x] c\n", "1/2", id="no heading: all but fences"),
        pytest.param("## Tasks\r\n- [ ] a\r\n- [x] b\r\n", "1/2", id="lines of Windows"),
        pytest.param("Tasks\n=====\n- [ ] a\n\n```\n- [x] b", "1/2", id="an unclosed fence hides nothing"),
    ],
)
def test_tasks_are_counted_as_people_mean_them(text: str, count: str) -> None:
    assert tasks(parse(text.encode())) == f"{count} tasks"


def test_as_they_are_counted_they_are_shown(project: Project, agent: Agent) -> None:
    project.progress.write_text("## Tasks\n- [ ] a\n- [x] b\n")
    agent.story(step())
    assert re.search(r"^#1 · 1/2 tasks", project.build("1").text, re.MULTILINE)
