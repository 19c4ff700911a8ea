"""Which notices a run sends, seen by a script of the user's (design sections 5 and 9)."""

from pathlib import Path

import pytest
from ralph_driver import Project, progress_text
from stories import Act, Agent, at_limit, fails, step


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
        ("3", [1, 3, 6]),
        ("off", []),
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


@pytest.mark.parametrize(
    ("acts", "args", "told"),
    [
        pytest.param([step(writes_done=True)], (), "Ralph Complete!", id="a finished plan"),
        pytest.param([step(blocks="which database?")], (), "Ralph Blocked which database?", id="a person is needed"),
        pytest.param(
            [fails(), fails("disk on fire")],
            ("--max-failures", "2"),
            "Ralph Blocked 2 iterations failed in a row: disk on fire",
            id="failures",
        ),
        pytest.param([at_limit()], ("--no-wait",), "Ralph Stopped session limit", id="a limit"),
    ],
)
def test_the_reason_of_the_end_is_told(
    project: Project, agent: Agent, mailbox: Path, *, acts: list[Act], args: tuple[str, ...], told: str
) -> None:
    agent.story(*acts)
    project.build(*args)
    words = iter(sent(mailbox)[-1].split())
    assert all(word in words for word in told.split()), "in this order"


def test_a_run_in_which_no_agent_worked_tells_nobody(project: Project, agent: Agent, mailbox: Path) -> None:
    project.progress.write_text(progress_text("x one", status="RALPH_BLOCKED: x"))
    assert project.build().code == 4
    project.progress.write_text(progress_text("one"))
    assert project.build("--agent", "./missing").code == 1
    project.progress.write_text(progress_text("x one", status="RALPH_DONE"))
    assert project.build("--verify", "true").code == 0
    assert "\nVerified: " in project.progress_text, "otherwise it ended before it was a run"
    assert (agent.calls, sent(mailbox)) == ([], [])


def test_the_mode_and_its_round_are_told(project: Project, agent: Agent, mailbox: Path) -> None:
    done = step(ticks="all", writes_done=True)
    agent.story(step(adds="one"), done, step(adds="two"), done, step())
    run = project.ralph("feature.md", "all", "--notify-frequency", "1", "--delay", "0")
    assert run.code == 0, run.text
    first, planned, built, validated, _, last = sent(mailbox)
    assert all("\nMode: plan\n" in one for one in (first, planned))
    assert "Mode" not in built, "where it is none, it is build"
    assert "\nMode: validate 1/3\nIteration 3 completed\n" in validated
    assert "\nMode: validate" in last
