"""Planning (design section 5): one completed turn, IN_PROGRESS at its end, and no code."""

from leaps import leaping
from ralph_driver import Project
from stories import Agent, at_limit, edits, fails, init, raw, runs, says, step, writes

PLANNED = step(says("I looked around."), adds="one")


def status(project: Project) -> str:
    """What stands under Status, without blanks."""
    return project.progress_text.split("## Status")[1].split("##")[0].strip()


def test_planning_is_one_turn_that_ends_in_progress(project: Project, agent: Agent) -> None:
    """However many iterations are allowed, and without a pause after it."""
    agent.story(PLANNED, PLANNED)
    run = project.ralph("feature.md", "plan", "--max-iterations", "5", "--delay", "1h", command=leaping())
    assert run.code == 0, run.text
    assert project.journal()[-1]["duration_s"] < 3600
    (prompt,) = agent.prompts
    assert str(project.root / "feature.md") in prompt
    assert "feature_PROGRESS.md" in prompt
    assert status(project) == "IN_PROGRESS"
    assert "- [ ] one" in project.progress_text


def test_a_done_that_the_planner_writes_is_put_back_and_said(project: Project, agent: Agent) -> None:
    """As is one from before, which keeps nobody from planning."""
    agent.story(step(adds="one", writes_done=True), PLANNED)
    run = project.plan()
    assert (run.code, status(project)) == (0, "IN_PROGRESS")
    assert "RALPH_DONE" in run.text
    project.has_tasks("x old", status="RALPH_DONE")
    run = project.plan()
    assert (run.code, len(agent.calls), status(project)) == (0, 2, "IN_PROGRESS"), run.text
    assert "- [ ] one\n- [x] old\n" in project.progress_text


def test_code_written_while_planning_is_named_and_a_failure(project: Project, agent: Agent) -> None:
    for name in ("edited.py", "gone.py"):
        (project.root / name).write_text("old")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "code")
    (project.root / "dirty.txt").write_text("mine")
    (project.root / "mine.txt").write_text("mine")
    deeds = {
        "deep/er/new.py": writes("deep/er/new.py", "code"),
        "edited.py": edits("old", "new", file="edited.py"),
        "gone.py": runs("rm gone.py"),
        "staged.py": runs("echo x > staged.py && git add staged.py"),
        "dirty.txt": writes("dirty.txt", "changed before, and changed again"),
        "strange": writes("strange\tnäme.py", "code"),
        "committed.py": runs("echo x > committed.py && git add committed.py && git commit -qm eager committed.py"),
    }
    agent.story(step(*deeds.values(), adds="one"))
    run = project.plan()
    assert (run.code, len(agent.calls)) == (1, 1), run.text
    assert [name for name in deeds if f" {name}" not in run.stderr] == [], run.stderr
    assert "mine.txt" not in run.text


def test_a_planner_that_fails_fails_the_run_at_once(project: Project, agent: Agent) -> None:
    agent.story(fails(exit_code=0), raw(init(), exit_code=-9))
    for calls in (1, 2):
        run = project.plan()
        assert (run.code, len(agent.calls)) == (1, calls), run.text
        assert run.stderr.startswith("ralph: ")


def test_a_plan_without_a_task_is_worth_a_warning(plain_project: Project, agent: Agent) -> None:
    """Nor does planning need git."""
    agent.story(step())
    run = plain_project.plan()
    assert run.code == 0
    assert "there is no task in feature_PROGRESS.md" in run.stderr
    assert "fatal" not in run.text


def test_a_reached_limit_is_no_plan(project: Project, agent: Agent) -> None:
    agent.story(at_limit())
    run = project.plan("--no-wait")
    assert (run.code, len(agent.calls)) == (3, 1), run.text
