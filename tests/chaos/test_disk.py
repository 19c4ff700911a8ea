"""A disk that fills up, folders that turn read-only or vanish, saves that were cut short.

It is said in one line, nothing is lost or left running, and once it is mended the same command goes on.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from offspring import Offspring
from ralph_driver import Project, Run, eventually, kill, marked
from stories import Act, Agent, hangs, init, marks, raw, result, runs, says, starts, step, ticks, waits_for

BUILD = ("feature.md", "build", "--delay", "0")
FULL = ("No space left on device",)
ONE_DONE = "- [x] one\n- [ ] two\n"


def said(run: Run, *words: str) -> None:
    """In ralph's own words, with one of these in them."""
    assert (run.code, "Traceback" in run.stderr) == (1, False), run.text
    assert any(word in run.stderr for word in words), run.text


def goes_on(project: Project, agent: Agent) -> Run:
    """The same command finishes the plan."""
    agent.story(step(ticks="all", writes_done=True, commits="the rest"))
    run = project.build()
    assert run.code == 0, run.text
    assert "- [x] one\n- [x] two\n" in project.progress_text
    return run


# Full.


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for 8 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if os.geteuid() or not shutil.which("mount") or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root, and not in every container, can mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fills(disk: Path) -> str:
    """A command that leaves not one block free."""
    return f"cat /dev/zero > {disk}/filler 2>/dev/null || true"


def on_disk(project: Project, disk: Path, what: str) -> None:
    """Moves the working directory, the state folder or both there."""
    if what != "the state folder":
        project.root = Path(shutil.copytree(project.root, disk / "repo"))
    if what != "the working directory":
        project.state = disk / "state"
        project.env["XDG_STATE_HOME"] = str(project.state)


def test_a_disk_that_is_full_at_the_start(project: Project, agent: Agent, disk: Path) -> None:
    on_disk(project, disk, "the working directory")
    project.has_tasks("x one", "two")
    subprocess.run(fills(disk), shell=True, check=True)
    said(project.build(), *FULL)
    assert (agent.calls, ONE_DONE in project.progress_text) == ([], True)
    (disk / "filler").unlink()
    goes_on(project, agent)


def test_a_disk_that_an_agent_fills(project: Project, agent: Agent, offspring: Offspring, disk: Path) -> None:
    """Its own writes fail then, that of its last words among them."""
    on_disk(project, disk, "both")
    project.has_tasks("one", "two")
    server = starts(offspring.sleeper("server"))
    agent.story(raw(init(), server, ticks("one"), runs(fills(disk)), says("x" * 10_000), result()))
    said(project.build(), *FULL)
    assert (len(agent.calls), offspring.alive(), ONE_DONE in project.progress_text) == (1, [], True)
    assert not list(project.root.glob("*.ralph")) + list(project.root.glob(".*.ralph")), "half of an edit"
    (disk / "filler").unlink()
    goes_on(project, agent)


def test_a_disk_that_fills_while_the_agent_saves_in_place(project: Project, agent: Agent, disk: Path) -> None:
    """The file is empty then, and there is no room to bring it back."""
    on_disk(project, disk, "both")
    project.has_tasks("x one", "two", notes="What nobody else knows.\n")
    agent.story(raw(init(), runs(": > feature_PROGRESS.md"), runs(fills(disk)), exit_code=1))
    said(project.build(), *FULL)
    (disk / "filler").unlink()
    goes_on(project, agent)
    assert "What nobody else knows.\n" in project.progress_text


def test_a_plan_that_is_done_when_the_disk_of_the_state_fills(project: Project, disk: Path) -> None:
    """That it cannot be written down does not undo it."""
    on_disk(project, disk, "the state folder")
    project.has_tasks("one")
    silent = project.home / "silent"
    edit = "sed -i 's/ ] one/x] one/; s/IN_PROGRESS/RALPH_DONE/' *_PROGRESS.md"
    silent.write_text(f"#!/bin/sh\ncat >/dev/null\n{fills(disk)}\n{edit}")
    silent.chmod(0o755)
    run = project.build("--agent", str(silent))
    assert (run.code, "Traceback" in run.stderr) == (0, False), run.text
    assert "\nRALPH_DONE\n" in project.progress_text


# Read-only.


@pytest.mark.parametrize("what", ["the working directory", "transcripts"])
def test_a_folder_that_turns_read_only_while_an_agent_works(
    project: Project, agent: Agent, offspring: Offspring, no_override: list[str], what: str
) -> None:
    project.has_tasks("one", "two")
    server = starts(offspring.sleeper("server"))
    agent.story(raw(init(), server, ticks("one"), marks("on"), waits_for("go"), result()))
    running = project.start(*BUILD, prefix=no_override)
    eventually(lambda: agent.reached("on"))
    folder = project.root if what == "the working directory" else project.state_folders[0] / what
    folder.chmod(0o500)
    agent.let("go")
    run = running.wait()
    folder.chmod(0o700)
    said(run, "Permission denied")
    assert (len(agent.calls), offspring.alive(), ONE_DONE in project.progress_text) == (1, [], True)
    goes_on(project, agent)


# Vanished.


def test_a_working_directory_that_was_moved_away(project: Project, agent: Agent, offspring: Offspring) -> None:
    """A worktree that was made anew is another folder: what ralph has locked is no longer where people look."""
    away = project.root.with_name("away")
    project.has_tasks("one", "two")
    moves = f"mv {project.root} {away} && cp -r {away} {project.root}"
    agent.story(step(starts(offspring.sleeper("server")), ticks="first", after=[runs(moves)]))
    said(project.build(), f"{project.root}: the working directory is gone")
    assert (len(agent.calls), offspring.alive()) == (1, [])
    assert ONE_DONE in project.progress_text
    goes_on(project, agent)


def test_a_working_directory_that_was_removed(project: Project, agent: Agent) -> None:
    """What is left of the progress file is what it said before, and where."""
    project.has_tasks("x one", "two", notes="What nobody else knows.\n")
    before = project.progress.read_bytes()
    agent.story(step(after=[runs(f"rm -r {project.root}")]))
    run = project.build()
    (kept,) = project.state.glob("ralph/*-*/kept/*")
    said(run, str(kept))
    assert (len(agent.calls), kept.read_bytes()) == (1, before)


# Cut short, as when the power fails.


@pytest.mark.skipif(sys.platform != "linux", reason="macOS hides the environments of processes")
def test_the_lock_of_a_commit_is_removed_and_said(project: Project, agent: Agent, mark: str) -> None:
    """Beside the one of the index, git locks this for a moment; with it nobody can commit any more."""
    project.has_tasks("one", "two")
    everything_dies(project, agent, mark, ticks("one"), runs(": > .git/HEAD.lock"))
    assert "HEAD.lock" in goes_on(project, agent).stderr
    assert project.git("log", "-1", "--format=%s") == "the rest\n"


@pytest.mark.skipif(sys.platform != "linux", reason="macOS hides the environments of processes")
def test_a_file_that_was_saved_in_place_is_brought_back(project: Project, agent: Agent, mark: str) -> None:
    project.has_tasks("x one", "two", notes="What nobody else knows.\n")
    everything_dies(project, agent, mark, runs(": > feature_PROGRESS.md"))
    goes_on(project, agent)
    assert "What nobody else knows.\n" in project.progress_text


def everything_dies(project: Project, agent: Agent, mark: str, *acts: Act) -> None:
    agent.story(raw(init(), *acts, marks("on"), hangs()))
    project.start(*BUILD)
    eventually(lambda: agent.reached("on"))
    eventually(lambda: not killed(mark))


def killed(mark: str) -> list[int]:
    """Those who were there, killed; some may have gone by themselves."""
    kill(found := marked(mark))
    return found
