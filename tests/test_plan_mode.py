"""Planning (design section 5): one completed turn, IN_PROGRESS at its end, and no code."""

import time

import pytest
from ralph_driver import Project, progress_text
from stories import (
    Agent,
    commits,
    edits,
    error_result,
    fails,
    init,
    raw,
    result,
    runs,
    says,
    step,
    usage_limit,
    writes,
)

PLANNED = step(says("I looked around."), adds="one")


def status(project: Project) -> str:
    """What stands under Status, without blanks."""
    return project.progress_text.split("## Status")[1].split("##")[0].strip()


def test_planning_is_one_turn_that_ends_in_progress(project: Project, agent: Agent) -> None:
    agent.story(PLANNED)
    run = project.plan()
    assert run.code == 0, run.text
    assert len(agent.calls) == 1
    assert status(project) == "IN_PROGRESS"
    assert "- [ ] one" in project.progress_text


def test_the_agent_is_told_which_files(project: Project, agent: Agent) -> None:
    agent.story(PLANNED)
    project.plan()
    assert str(project.root / "feature.md") in agent.prompts[0]
    assert "feature_PROGRESS.md" in agent.prompts[0]


def test_there_is_no_pause_after_it(project: Project, agent: Agent) -> None:
    agent.story(PLANNED)
    begin = time.monotonic()
    assert project.ralph("feature.md", "plan", "--delay", "60s").code == 0
    assert time.monotonic() - begin < 20


def test_it_runs_once_however_many_iterations_are_allowed(project: Project, agent: Agent) -> None:
    agent.story(PLANNED, PLANNED)
    assert project.plan("--max-iterations", "5").code == 0
    assert len(agent.calls) == 1


def test_a_done_that_the_planner_writes_is_put_back_and_said(project: Project, agent: Agent) -> None:
    agent.story(step(adds="one", writes_done=True))
    run = project.plan()
    assert (run.code, status(project)) == (0, "IN_PROGRESS")
    assert "RALPH_DONE" in run.text


def test_a_done_from_before_does_not_keep_it_from_planning(project: Project, agent: Agent) -> None:
    project.has_tasks("x old", status="RALPH_DONE")
    agent.story(PLANNED)
    run = project.plan()
    assert (run.code, len(agent.calls), status(project)) == (0, 1, "IN_PROGRESS"), run.text
    assert "- [ ] one\n- [x] old\n" in project.progress_text


@pytest.mark.parametrize(
    ("deed", "named"),
    [
        pytest.param(writes("new.py", "code"), "new.py", id="a new file"),
        pytest.param(writes("deep/er/new.py", "code"), "new.py", id="a new file in a new folder"),
        pytest.param(edits("Make", "Fake", file="feature.md"), "feature.md", id="a changed file"),
        pytest.param(runs("rm feature.md"), "feature.md", id="a deleted file"),
        pytest.param(runs("echo x > a.py && git add a.py"), "a.py", id="a staged file"),
        pytest.param(writes("dirty.txt", "other"), "dirty.txt", id="a file that was changed before, changed again"),
        pytest.param(writes("strange\tnäme.py", "code"), "strange", id="a file with a strange name"),
    ],
)
def test_code_written_while_planning_is_named_and_a_failure(
    project: Project, agent: Agent, deed: dict[str, object], named: str
) -> None:
    (project.root / "dirty.txt").write_text("mine")
    agent.story(step(deed, adds="one"))
    run = project.plan()
    assert run.code == 1, run.text
    assert named in run.stderr
    assert len(agent.calls) == 1


def test_committed_code_is_code_too(project: Project, agent: Agent) -> None:
    agent.story(step(writes("new.py", "code"), commits("too eager"), adds="one"))
    run = project.plan()
    assert run.code == 1, run.text
    assert "new.py" in run.stderr


def test_what_was_changed_before_is_not_laid_to_the_planner(project: Project, agent: Agent) -> None:
    (project.root / "mine.txt").write_text("mine")
    (project.root / "feature.md").write_text("# A better feature\n")
    agent.story(PLANNED)
    run = project.plan()
    assert run.code == 0, run.text
    assert "mine.txt" not in run.text


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(fails(), id="exit 1 and an error"),
        pytest.param(fails(exit_code=0), id="an error with exit 0"),
        pytest.param(step(adds="one", exit_code=1), id="exit 1 after a good result"),
        pytest.param(raw(init(), says("Hm."), exit_code=0), id="no result at all"),
        pytest.param(raw(init(), error_result("error_during_execution", "boom")), id="an error without words"),
        pytest.param(raw(init(), exit_code=-9), id="killed"),
    ],
)
def test_a_planner_that_fails_fails_the_run_at_once(project: Project, agent: Agent, story: dict[str, object]) -> None:
    agent.story(story)
    run = project.plan()
    assert run.code == 1, run.text
    assert run.stderr.startswith("ralph: ")
    assert len(agent.calls) == 1


def test_a_plan_without_a_task_is_worth_a_warning(project: Project, agent: Agent) -> None:
    agent.story(step())
    run = project.plan()
    assert run.code == 0
    assert "task" in run.stderr.lower()


def test_a_reached_limit_is_no_plan(project: Project, agent: Agent) -> None:
    project.progress.write_text(progress_text("kept"))
    agent.story(raw(init(), *usage_limit(), exit_code=1))
    run = project.plan()
    assert (run.code, len(agent.calls)) == (3, 1), run.text
    assert project.progress_text == progress_text("kept")


def test_planning_needs_no_git(plain_project: Project, agent: Agent) -> None:
    agent.story(PLANNED)
    run = plain_project.plan()
    assert run.code == 0, run.text
    assert "fatal" not in run.text


def test_planning_twice_keeps_what_is_there(project: Project, agent: Agent) -> None:
    project.has_tasks("x one", "two", notes="\nThe port is 8080.\n")
    agent.story(step(result()))
    before = project.progress_text
    assert project.plan().code == 0
    assert project.progress_text == before
