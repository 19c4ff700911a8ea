"""What counts in a progress file (design section 4): control words and tasks."""

import re

import pytest
from ralph_driver import Project
from stories import Agent, step

HEAD = "# Progress: feature\n\nPlan: feature.md\n\n## Status\n\n"
TAIL = "\n\n## Task List\n\n- [ ] one\n"


def is_done(project: Project, agent: Agent, text: bytes) -> bool:
    """Whether a start finds RALPH_DONE in this file: then nothing is called, and not a word said."""
    project.progress.write_bytes(text)
    agent.story(step())
    run = project.build("1")
    assert (run.code, len(agent.calls)) in {(0, 0), (3, 1)}, run.text
    assert project.progress.read_bytes() == text
    return run.code == 0


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
    def test_in_a_plain_file(self, project: Project, agent: Agent, text: str) -> None:
        assert is_done(project, agent, (HEAD + text + TAIL).encode())

    def test_in_a_file_of_windows(self, project: Project, agent: Agent, text: str) -> None:
        assert is_done(project, agent, b"\xef\xbb\xbf" + (HEAD + text + TAIL).replace("\n", "\r\n").encode())

    def test_at_the_end_of_a_file_that_is_no_utf_8(self, project: Project, agent: Agent, text: str) -> None:
        assert is_done(project, agent, b"caf\xe9 \x00 \xff\xfe\n" + text.encode())


def test_a_word_counts_in_the_first_line_after_a_bom(project: Project, agent: Agent) -> None:
    assert is_done(project, agent, b"\xef\xbb\xbfRALPH_DONE\r\n")


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
def test_a_word_does_not_count(project: Project, agent: Agent, text: str) -> None:
    assert not is_done(project, agent, (HEAD + text + TAIL).encode())


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
def test_tasks_are_counted_as_people_mean_them(project: Project, agent: Agent, text: str, count: str) -> None:
    project.progress.write_bytes(text.encode())
    agent.story(step())
    run = project.build("1")
    assert re.search(rf"^#1 · {count} tasks", run.text, re.MULTILINE), run.text
