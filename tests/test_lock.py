"""One run per working tree."""

from pathlib import Path

import pytest
from ralph_driver import Project, Running, eventually
from stories import Agent, init, marks, raw, step, waits_for

BUILD = ("feature.md", "build", "--delay", "0")
LOCKED = 75


@pytest.fixture
def first(project: Project, agent: Agent) -> Running:
    """A run whose agent works until "go"."""
    project.has_tasks("one")
    agent.story(step(marks("on"), waits_for("go"), ticks="all", writes_done=True))
    running = project.start(*BUILD)
    eventually(lambda: agent.reached("on"))
    return running


def finish(first: Running, agent: Agent) -> None:
    agent.let("go")
    assert first.wait().code == 0
    assert len(agent.calls) == 1


def test_a_second_run_says_only_on_a_terminal_who_holds_the_tree(
    project: Project, agent: Agent, first: Running
) -> None:
    second = project.ralph(*BUILD)
    assert (second.code, second.text) == (LOCKED, "")
    second = project.ralph_tty(*BUILD)
    (line,) = second.stdout.splitlines()
    assert second.code == LOCKED
    assert str(first.pid) in line
    assert "feature" in line
    finish(first, agent)


def test_another_plan_in_the_same_tree_or_a_folder_of_it_waits_too_and_leaves_nothing(
    project: Project, agent: Agent, first: Running
) -> None:
    folder = project.root / "sub"
    folder.mkdir()
    for plan in (project.root / "other.md", folder / "other.md"):
        plan.write_text("# Another\n")
    before = sorted(project.root.rglob("*"))
    assert project.ralph("other.md", "build").code == LOCKED
    assert project.ralph("other.md", "build", "-C", "sub").code == LOCKED
    assert sorted(project.root.rglob("*")) == before
    finish(first, agent)


def test_a_plan_in_another_worktree_runs_at_the_same_time(project: Project, agent: Agent) -> None:
    other = project.root.parent / "other"
    project.git("worktree", "add", "-q", "-b", "other", str(other))
    agent.story(*(step(marks(name), waits_for("go"), writes_done=True) for name in ("first", "second")))
    here = project.start(*BUILD)
    eventually(lambda: agent.reached("first"))
    there = project.start(*BUILD, cwd=other)
    eventually(lambda: agent.reached("second"))
    assert here.poll() is None
    agent.let("go")
    assert (here.wait().code, there.wait().code) == (0, 0)


def test_outside_of_git_the_working_directory_is_the_tree(plain_project: Project, agent: Agent, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "feature.md").write_text("# A feature\n")
    agent.story(raw(init(), marks("on"), waits_for("go"), exit_code=1), step(writes_done=True))
    here = plain_project.start(*BUILD, "--max-iterations", "1")
    eventually(lambda: agent.reached("on"))
    assert plain_project.build().code == LOCKED
    assert plain_project.ralph(*BUILD, cwd=elsewhere).code == 0
    agent.let("go")
    here.wait()


def test_a_tree_whose_top_may_not_be_read_is_named(project: Project, agent: Agent, no_override: list[str]) -> None:
    project.root.chmod(0o311)
    run = project.ralph(*BUILD, prefix=no_override)
    project.root.chmod(0o755)
    assert (run.code, agent.calls) == (1, []), run.text
    assert run.stderr == f"ralph: {project.root}: cannot be locked: Permission denied\n"
