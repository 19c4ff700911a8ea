"""A disk that fills up: nothing is lost, nothing is left running, and with room again the same command goes on."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from offspring import Offspring
from ralph_driver import Project, Run
from stories import Agent, init, raw, result, runs, says, starts, step, ticks

FULL = ("No space left on device", "the disk is full")


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


def says_so(run: Run) -> None:
    """In one line, which is ralph's own."""
    assert run.code == 1, run.text
    assert any(words in run.stderr for words in FULL), run.text
    assert "Traceback" not in run.stderr


def goes_on(project: Project, agent: Agent, disk: Path) -> None:
    """With room again, the same command finishes the plan."""
    (disk / "filler").unlink()
    agent.story(step(ticks="all", writes_done=True))
    run = project.build()
    assert run.code == 0, run.text
    assert "- [x] one\n- [x] two\n" in project.progress_text


@pytest.mark.parametrize("what", ["the working directory", "the state folder", "both"])
def test_a_disk_that_is_full_at_the_start(project: Project, agent: Agent, disk: Path, what: str) -> None:
    on_disk(project, disk, what)
    project.has_tasks("x one", "two")
    before = project.progress.read_bytes()
    subprocess.run(fills(disk), shell=True, check=True)
    says_so(project.build())
    assert not agent.calls
    assert project.progress.read_bytes() == before
    goes_on(project, agent, disk)


@pytest.mark.parametrize("what", ["the working directory", "the state folder", "both"])
def test_a_disk_that_an_agent_fills(
    project: Project, agent: Agent, offspring: Offspring, disk: Path, what: str
) -> None:
    """Its own writes fail then, that of its last words among them."""
    on_disk(project, disk, what)
    project.has_tasks("one", "two")
    agent.story(
        raw(init(), starts(offspring.sleeper("server")), ticks("one"), runs(fills(disk)), says("x" * 10_000), result())
    )
    says_so(project.build())
    assert (len(agent.calls), offspring.alive()) == (1, [])
    assert "- [x] one\n- [ ] two\n" in project.progress_text
    assert not list(project.root.glob("*.ralph")) + list(project.root.glob(".*.ralph")), "half of an edit"
    goes_on(project, agent, disk)


@pytest.mark.parametrize("what", ["the working directory", "both"])
def test_a_disk_that_fills_while_the_agent_saves_in_place(
    project: Project, agent: Agent, disk: Path, what: str
) -> None:
    """The file is empty then, and there is no room to bring it back."""
    on_disk(project, disk, what)
    project.has_tasks("x one", "two", notes="What nobody else knows.\n")
    agent.story(raw(init(), runs(": > feature_PROGRESS.md"), runs(fills(disk)), exit_code=1))
    says_so(project.build())
    goes_on(project, agent, disk)
    assert "What nobody else knows.\n" in project.progress_text


def test_a_plan_that_is_done_when_the_disk_of_the_state_fills(project: Project, disk: Path) -> None:
    """That it cannot be written down does not undo it."""
    on_disk(project, disk, "the state folder")
    project.has_tasks("one")
    silent = project.home / "silent"
    silent.write_text(
        f"#!/bin/sh\ncat >/dev/null\n{fills(disk)}\nsed -i 's/ ] one/x] one/; s/IN_PROGRESS/RALPH_DONE/' *_PROGRESS.md"
    )
    silent.chmod(0o755)
    run = project.build("--agent", str(silent))
    assert (run.code, "Traceback" in run.stderr) == (0, False), run.text
    assert "\nRALPH_DONE\n" in project.progress_text
