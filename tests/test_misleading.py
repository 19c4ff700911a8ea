"""What misled an earlier ralph, as a review has shown: each once, with real processes."""

import signal

from ralph_driver import Project, eventually, marked, paced, progress_text
from stories import Agent, fails, init, prints, raw, result, sleeps, step, writes
from test_signals import start


def test_a_done_forged_before_a_death_is_checked_whatever_starts_in_between(
    project: Project, agent: Agent, mark: str
) -> None:
    project.has_tasks("one")
    forged = progress_text("one", status="RALPH_DONE\nVerified: yesterday")
    running = start(project, agent, writes("feature_PROGRESS.md", forged))
    running.signal(signal.SIGKILL)
    running.wait()
    eventually(lambda: not marked(mark))
    for _ in range(2):
        nothing = project.build("--agent", "nowhere")
        assert (nothing.code, "not on the PATH" in nothing.stderr) == (1, True), nothing.text
    dead = [line for line in project.journal() if line["ended"] == "died"]
    assert [(line["mode"], line["iteration"]) for line in dead] == [("build", 1)], "said once, though none began"
    agent.story(fails("401"), step(ok=True))
    assert project.plan().code == 1
    run = project.build("1", "--verify", "false")
    assert (run.code, len(agent.calls)) == (3, 3), run.text
    assert "RALPH_DONE" not in [line.strip() for line in project.progress_text.splitlines()]


def test_who_complains_after_a_result_is_ended_only_a_figure_is_a_cost_and_a_plan_whose_money_is_used_up_says_so(
    project: Project, agent: Agent
) -> None:
    ticking = [act for _ in range(400) for act in (sleeps(0.1), prints("tick\n", stderr=True))]
    costs = {0.5: ticking, float("nan"): [], -5: [], 2: []}
    agent.story(*(raw(init(), {**result(), "total_cost_usd": cost}, *after) for cost, after in costs.items()))
    assert project.build("4", "--max-total-cost", "9", command=paced(after_result_s=0.5)).code == 3
    lines = [line for line in project.journal() if line["event"] == "iteration"]
    assert [line["cost_usd"] for line in lines] == [0.02, None, None, 2], "0.02 it said when it was ended"
    assert (lines[0]["ended"], lines[0]["duration_s"] < 30) == ("ok", True)
    run = project.ralph_tty("feature.md", "build", "--max-total-cost", "2")
    assert (run.code, "RALPH_STOP" in run.stdout) == (3, False)
    assert "max-total-cost is $2.00, and the plan cost $2.02 so far; allow it more to go on" in run.stdout


def test_a_state_folder_inside_the_tree_is_no_progress(project: Project, agent: Agent) -> None:
    agent.story(step(), repeat=True)
    run = project.build("--max-stalls", "2", env={"XDG_STATE_HOME": str(project.root / ".local" / "state")})
    assert (run.code, len(agent.calls)) == (4, 2)
    assert "changed nothing" in project.progress_text
