"""Whoever dies in the middle of a save or of a commit leaves half of it; the next start goes on all the same."""

import os
import signal
import sys

import pytest
from ralph_driver import Project, eventually, marked
from stories import Act, Agent, hangs, init, marks, raw, runs, step, ticks
from test_resume import dies

BUILD = ("feature.md", "build", "--delay", "0")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="macOS hides the environments of processes")


def everything_dies(project: Project, agent: Agent, mark: str, *acts: Act) -> None:
    """A run whose agent has just done `acts`, as when the power fails."""
    agent.story(raw(init(), *acts, marks("on"), hangs()))
    running = project.start(*BUILD)
    eventually(lambda: agent.reached("on"))
    dies(running)
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not marked(mark))


@pytest.mark.parametrize("lock", ["HEAD.lock", "refs/heads/main.lock"])
def test_the_lock_of_a_commit_is_removed_and_said(project: Project, agent: Agent, mark: str, lock: str) -> None:
    """Beside the one of the index, git locks these for a moment; with any of them nobody can commit any more."""
    project.has_tasks("one", "two")
    everything_dies(project, agent, mark, ticks("one"), runs(f": > .git/{lock}"))
    agent.story(step(ticks="all", writes_done=True, commits="the rest"))
    run = project.build()
    assert (run.code, project.git("log", "-1", "--format=%s")) == (0, "the rest\n"), run.text
    assert lock in run.stderr


def test_a_file_that_was_saved_in_place_is_brought_back(project: Project, agent: Agent, mark: str) -> None:
    project.has_tasks("x one", "two", notes="What nobody else knows.\n")
    everything_dies(project, agent, mark, runs(": > feature_PROGRESS.md"))
    agent.story(step(ticks="all", writes_done=True))
    run = project.build()
    assert run.code == 0, run.text
    assert "- [x] one\n- [x] two\n" in project.progress_text
    assert "What nobody else knows.\n" in project.progress_text
