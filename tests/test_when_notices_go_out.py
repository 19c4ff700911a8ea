"""Which notices a run sends, seen by a script of the user's (design sections 5 and 9)."""

from pathlib import Path

import pytest
from ralph_driver import Project, progress_text
from stories import Agent, at_limit, fails, step


@pytest.fixture
def mailbox(project: Project) -> Path:
    """A file that gets each notice, ended by a NUL."""
    box = project.root.parent / "box"
    box.touch()
    script = project.home / "send"
    script.write_text(f'#!/bin/sh\nprintf "%s\\0" "$1" >> {box}\nexit 7\n')
    script.chmod(0o755)
    project.env["RALPH_CUSTOM_NOTIFY_SCRIPT"] = str(script)
    return box


def sent(box: Path) -> list[str]:
    return box.read_text().split("\0")[:-1]


def test_the_first_notice_tells_plan_mode_and_repository(project: Project, agent: Agent, mailbox: Path) -> None:
    """A channel whose settings stand in the home."""
    script = project.env.pop("RALPH_CUSTOM_NOTIFY_SCRIPT")
    (project.home / ".ralph.env").write_text(f'export RALPH_CUSTOM_NOTIFY_SCRIPT="{script}"\n')
    agent.story(step())
    project.build("1")
    assert "Ralph Started\nPlan: feature\nMode: build\nRepo: repo" in sent(mailbox)[0]


@pytest.mark.parametrize(
    ("frequency", "progress"),
    [
        pytest.param("3", [1, 3, 6], id="every third"),
        pytest.param("off", [], id="none"),
    ],
)
def test_progress_is_told_after_the_first_and_every_nth(
    project: Project, agent: Agent, mailbox: Path, frequency: str, progress: list[int]
) -> None:
    project.has_tasks("one")
    agent.story(step(), repeat=True)
    project.build("6", "--notify-frequency", frequency, "--max-stalls", "off")
    first, *middle, last = sent(mailbox)
    assert "Started" in first
    assert "6" in last
    assert len(middle) == len(progress)
    assert all(f"#{number} · 0/1 tasks" in text for number, text in zip(progress, middle, strict=True)), middle


def test_a_finished_plan_is_told(project: Project, agent: Agent, mailbox: Path) -> None:
    agent.story(step(writes_done=True))
    project.build()
    assert len(sent(mailbox)) == 3, "started, progress, done"


def test_the_reason_to_stop_is_told(project: Project, agent: Agent, mailbox: Path) -> None:
    project.has_tasks("one")
    agent.story(step(blocks="which database?"))
    project.build()
    assert "which database?" in sent(mailbox)[-1]


def test_failures_are_told(project: Project, agent: Agent, mailbox: Path) -> None:
    agent.story(fails(), fails("disk on fire"))
    project.build("--max-failures", "2")
    assert "2 iterations failed in a row: disk on fire" in sent(mailbox)[-1]


def test_a_limit_is_told(project: Project, agent: Agent, mailbox: Path) -> None:
    agent.story(at_limit())
    project.build("--no-wait")
    assert "session limit" in sent(mailbox)[-1]


def test_planning_is_told(project: Project, agent: Agent, mailbox: Path) -> None:
    agent.story(step(adds="one"))
    project.plan()
    first, last = sent(mailbox)
    assert "Mode: plan" in first
    assert "feature_PROGRESS.md" in last


@pytest.mark.parametrize("status", ["RALPH_DONE", "RALPH_STOP", "RALPH_BLOCKED: x"])
def test_a_run_that_ends_before_it_begins_tells_nobody(
    project: Project, agent: Agent, mailbox: Path, status: str
) -> None:
    project.progress.write_text(progress_text("x one", status=status))
    project.build()
    assert not agent.calls
    assert not sent(mailbox)


def test_a_run_in_which_no_agent_worked_tells_nobody(project: Project, agent: Agent, mailbox: Path) -> None:
    project.progress.write_text(progress_text("x one", status="RALPH_DONE"))
    assert project.build("--verify", "true").code == 0
    assert "\nVerified: " in project.progress_text, "otherwise it ended before it was a run"
    assert not agent.calls
    assert not sent(mailbox)


def test_an_agent_that_is_missing_is_told_nobody(project: Project, mailbox: Path) -> None:
    assert project.build("--agent", "./missing").code == 1
    assert not sent(mailbox)
