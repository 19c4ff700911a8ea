"""A disk that fills up, folders that turn read-only or vanish.

It is said in one line, nothing is lost or left running, and once it is mended the same command goes on.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from offspring import Offspring
from ralph_driver import Project, Run
from stories import Agent, edits, init, raw, result, runs, says, starts, step, ticks

FULL = "No space left on device"
ONE_DONE = "- [x] one\n- [ ] two\n"
KNOWN = "What nobody else knows.\n"


def said(run: Run, words: str) -> None:
    """In ralph's own words, these among them."""
    assert (run.code, "Traceback" in run.stderr, words in run.stderr) == (1, False, True), run.text


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


def has_its_state_on(project: Project, disk: Path) -> None:
    project.state = disk / "state"
    project.env["XDG_STATE_HOME"] = str(project.state)


def test_a_disk_that_is_full_again_and_again(project: Project, agent: Agent, offspring: Offspring, disk: Path) -> None:
    """At the start, by what an agent writes, and while one saves in place: then there is no room to bring it back."""
    project.root = Path(shutil.copytree(project.root, disk / "repo"))
    project.has_tasks("one", "two", notes=KNOWN)
    subprocess.run(fills(disk), shell=True, check=True)
    said(project.build(), FULL)
    assert agent.calls == []
    has_its_state_on(project, disk)
    (disk / "filler").unlink()
    server = starts(offspring.sleeper("server"))
    agent.story(raw(init(), server, ticks("one"), runs(fills(disk)), says("x" * 10_000), result()))
    said(project.build(), FULL)
    assert (len(agent.calls), offspring.alive(), ONE_DONE in project.progress_text) == (1, [], True)
    assert not list(project.root.glob("*.ralph")) + list(project.root.glob(".*.ralph")), "half of an edit"
    (disk / "filler").unlink()
    agent.story(raw(init(), runs(": > feature_PROGRESS.md"), runs(fills(disk)), exit_code=1))
    said(project.build(), FULL)
    (disk / "filler").unlink()
    agent.story(step(ticks="all", writes_done=True, commits="the rest"))
    assert project.build().code == 0
    assert f"- [x] one\n- [x] two\n\n## Notes\n{KNOWN}" in project.progress_text


def test_a_plan_that_is_done_when_the_disk_of_the_state_fills(project: Project, agent: Agent, disk: Path) -> None:
    """That it cannot be written down does not undo it, nor does a start that could not tell what it finds out."""
    has_its_state_on(project, disk)
    project.has_tasks("one")
    agent.story(raw(runs(fills(disk)), ticks("one"), edits("IN_PROGRESS", "RALPH_DONE")))
    run = project.build("--agent", str(agent.install(project.home / "silent")))
    assert (run.code, "Traceback" in run.stderr, "\nRALPH_DONE\n" in project.progress_text) == (0, False, True), (
        run.text
    )
    before = project.progress_text
    said(project.build("--verify", "false"), FULL)
    assert (project.progress_text, len(agent.calls)) == (before, 1)


# Read-only, and vanished.


def test_a_working_directory_that_turns_read_only_is_moved_away_and_is_removed(
    project: Project, agent: Agent, offspring: Offspring, no_override: list[str]
) -> None:
    """What is left of the progress file is what it said before, and where.

    A folder that is moved away takes its plan along.
    """
    away = project.root.with_name("away")
    project.has_tasks("one", "two", notes=KNOWN)
    server = starts(offspring.sleeper("server"))
    agent.story(step(server, ticks="first", after=[runs("chmod 500 .")]))
    said(project.build(prefix=no_override), "Permission denied")
    assert (len(agent.calls), offspring.alive(), ONE_DONE in project.progress_text) == (1, [], True)
    project.root.chmod(0o700)
    agent.story(step(server, after=[runs(f"mv {project.root} {away}")]))
    said(project.build(), f"{project.root / 'feature.md'}: the plan is gone")
    away.rename(project.root)
    assert (len(agent.calls), offspring.alive(), ONE_DONE in project.progress_text) == (2, [], True)
    before = project.progress.read_bytes()
    agent.story(step(after=[runs(f"rm -r {project.root}")]))
    run = project.build()
    kept = max(project.state.glob("ralph/*-*/kept/*"))
    said(run, str(kept))
    assert kept.read_bytes() == before
