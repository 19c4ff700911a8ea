"""Folders that turn read-only or vanish: said in one line, nothing lost, and once mended the same command goes on."""

from pathlib import Path

import pytest
from offspring import Offspring
from ralph_driver import Project, Run
from stories import Agent, init, marks, raw, result, runs, starts, step, ticks, waits_for

BUILD = ("feature.md", "build", "--delay", "0")
ONE_DONE = "- [x] one\n- [ ] two\n"


def says(run: Run, *words: str) -> None:
    """In ralph's own words, with these in them."""
    assert run.code == 1, run.text
    assert all(word in run.stderr for word in words), run.text
    assert "Traceback" not in run.stderr, run.text


def goes_on(project: Project, agent: Agent) -> None:
    agent.story(step(ticks="all", writes_done=True))
    run = project.build()
    assert run.code == 0, run.text
    assert "- [x] one\n- [x] two\n" in project.progress_text


# Read-only.


def transcripts(project: Project) -> Path:
    (folder,) = project.state.glob("ralph/*-*/transcripts")
    return folder


def test_a_working_directory_that_is_read_only(project: Project, agent: Agent, no_override: list[str]) -> None:
    project.has_tasks("x one", "two")
    project.root.chmod(0o500)
    says(project.ralph(*BUILD, prefix=no_override), "feature_PROGRESS.md: cannot be written: Permission denied")
    project.root.chmod(0o700)
    assert (len(agent.calls), ONE_DONE in project.progress_text) == (0, True)
    goes_on(project, agent)


@pytest.mark.parametrize("what", ["state home", "transcripts"])
def test_a_state_folder_that_is_read_only(project: Project, agent: Agent, no_override: list[str], what: str) -> None:
    project.has_tasks("x one", "two")
    folder = project.state
    if what == "transcripts":
        agent.story(step())
        assert project.build("1").code == 3
        folder = transcripts(project)
    folder.chmod(0o500)
    before = len(agent.calls)
    says(project.ralph(*BUILD, prefix=no_override), str(folder), "Permission denied")
    folder.chmod(0o700)
    assert (len(agent.calls), ONE_DONE in project.progress_text) == (before, True)
    goes_on(project, agent)


@pytest.mark.parametrize("what", ["working directory", "transcripts"])
def test_a_folder_that_turns_read_only_while_an_agent_works(
    project: Project, agent: Agent, offspring: Offspring, no_override: list[str], what: str
) -> None:
    project.has_tasks("one", "two")
    server = starts(offspring.sleeper("server"))
    agent.story(raw(init(), server, ticks("one"), marks("on"), waits_for("go"), result()))
    running = project.start(*BUILD, prefix=no_override)
    offspring.pid("server")
    folder = project.root if what == "working directory" else transcripts(project)
    folder.chmod(0o500)
    agent.let("go")
    run = running.wait()
    folder.chmod(0o700)
    says(run, "Permission denied")
    assert (len(agent.calls), offspring.alive(), ONE_DONE in project.progress_text) == (1, [], True)
    goes_on(project, agent)


# Vanished.


@pytest.mark.parametrize("again", [False, True], ids=["nothing is there", "another one is there"])
def test_a_working_directory_that_was_moved_away(
    project: Project, agent: Agent, offspring: Offspring, again: bool
) -> None:
    """A worktree that was made anew is another folder: what ralph has locked is no longer where people look."""
    away = project.root.with_name("away")
    project.has_tasks("one", "two")
    moves = f"mv {project.root} {away}" + (f" && cp -r {away} {project.root}" if again else "")
    agent.story(step(starts(offspring.sleeper("server")), ticks="first", after=[runs(moves)]))
    says(project.build(), f"{project.root}: the working directory is gone")
    assert (len(agent.calls), offspring.alive()) == (1, [])
    if not again:
        away.rename(project.root)
    assert ONE_DONE in project.progress_text
    goes_on(project, agent)


def test_a_working_directory_that_was_removed(project: Project, agent: Agent, offspring: Offspring) -> None:
    """What is left of the progress file is what it said before, and where."""
    project.has_tasks("x one", "two", notes="What nobody else knows.\n")
    before = project.progress.read_bytes()
    agent.story(step(starts(offspring.sleeper("server")), after=[runs(f"rm -r {project.root}")]))
    run = project.build()
    (kept,) = project.state.glob("ralph/*-*/kept/*")
    says(run, str(kept))
    assert (len(agent.calls), offspring.alive(), kept.read_bytes()) == (1, [], before)
