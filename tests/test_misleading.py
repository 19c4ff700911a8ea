"""What misled an earlier ralph, as a review has shown: each once, with real processes."""

import json
import signal

import pytest
from ralph_driver import Project, eventually, marked, paced, progress_text
from stories import Act, Agent, fails, init, prints, raw, result, sleeps, step, writes
from test_signals import start


def killed(project: Project, agent: Agent, mark: str, *acts: Act) -> None:
    """A run that died when its agent had done this, and all that it had started is gone."""
    running = start(project, agent, *acts)
    running.signal(signal.SIGKILL)
    running.wait()
    eventually(lambda: not marked(mark))


def test_a_done_forged_before_a_death_does_not_pass_through_plan_mode(
    project: Project, agent: Agent, mark: str
) -> None:
    project.has_tasks("one")
    forged = progress_text("one", status="RALPH_DONE\nVerified: yesterday")
    killed(project, agent, mark, writes("feature_PROGRESS.md", forged))
    agent.story(fails("401"), step(ok=True))
    assert project.plan().code == 1
    run = project.build("1", "--verify", "false")
    assert (run.code, len(agent.calls)) == (3, 3), run.text
    assert "RALPH_DONE" not in [line.strip() for line in project.progress_text.splitlines()]


def test_an_agent_that_complains_after_its_result_is_ended_all_the_same(project: Project, agent: Agent) -> None:
    ticking = [act for _ in range(400) for act in (sleeps(0.1), prints("tick\n", stderr=True))]
    agent.story(raw(init(), result(), *ticking))
    run = project.build("1", command=paced(after_result_s=0.5))
    assert run.code == 3
    [iteration] = [line for line in project.journal() if line["event"] == "iteration"]
    assert (iteration["ended"], iteration["duration_s"] < 30) == ("ok", True)


@pytest.mark.parametrize(
    ("cost", "known"),
    [
        pytest.param(float("nan"), None, id="not a number"),
        pytest.param(-5, None, id="negative"),
        pytest.param(2, 2.0, id="a whole number"),
    ],
)
def test_only_a_figure_is_a_cost(project: Project, agent: Agent, cost: object, known: float | None) -> None:
    agent.story(raw(init(), {**result(), "total_cost_usd": cost}))
    assert project.build("1", "--max-total-cost", "9").code == 3
    assert [line["cost_usd"] for line in project.journal() if line["event"] == "iteration"] == [known]
    assert ("Spent:" in project.progress_text) == (known is not None)


def test_a_plan_whose_money_is_used_up_says_so_to_a_person(project: Project) -> None:
    project.progress.write_text(progress_text("one").replace("\n\n## Status", "\nSpent: $5.20\n\n## Status"))
    run = project.ralph_tty("feature.md", "build", "--max-total-cost", "5")
    assert run.code == 3
    assert "max-total-cost is $5.00, and the plan cost $5.20 so far; allow it more to go on" in run.stdout
    assert "RALPH_STOP" not in run.stdout


def test_a_state_folder_inside_the_tree_is_no_progress(project: Project, agent: Agent) -> None:
    agent.story(step(), repeat=True)
    inside = {"XDG_STATE_HOME": str(project.root / ".local" / "state")}
    run = project.build("--max-stalls", "2", env=inside)
    assert (run.code, len(agent.calls)) == (4, 2)
    assert "changed nothing" in project.progress_text


def test_what_a_dead_run_left_is_said_even_if_nothing_can_begin(project: Project, agent: Agent, mark: str) -> None:
    project.has_tasks("one")
    killed(project, agent, mark)
    for _ in range(2):
        assert project.build("--agent", "nowhere").code == 1
    first = project.build("--agent", "nowhere")
    assert "not on the PATH" in first.stderr
    dead = [line for line in project.journal() if line["ended"] == "died"]
    assert [(line["mode"], line["iteration"]) for line in dead] == [("build", 1)], json.dumps(dead)
