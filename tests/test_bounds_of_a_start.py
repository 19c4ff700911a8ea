"""What a start may take of iterations, time and money (design section 3), each alone and together."""

import re

import pytest
from leaps import leaping
from ralph_driver import Project, progress_text
from stories import Act, Agent, commits, edits, error_result, hangs, init, marks, raw, says, starts, step, ticks

FINISHES = step(ticks="all", writes_done=True)


def spends(cost_usd: float, *acts: Act) -> Act:
    """A good iteration that changes something, for this money."""
    return step(*acts, file="work", cost_usd=cost_usd)


def budgets(agent: Agent) -> list[str | None]:
    """What each call was told that it may cost."""
    flag = "--max-budget-usd"
    return [call.argv[call.argv.index(flag) + 1] if flag in call.argv else None for call in agent.calls]


def spent(project: Project) -> list[str]:
    return re.findall(r"^Spent: (.*)$", project.progress_text, re.MULTILINE)


def journal(project: Project, event: str, name: str) -> list[object]:
    return [line[name] for line in project.journal() if line["event"] == event]


def has_spent(project: Project, usd: str, *tasks: str) -> None:
    text = progress_text(*tasks)
    project.progress.write_text(text.replace("\n\n## Status", f"\nSpent: ${usd}\n\n## Status"))


def test_no_iteration_begins_when_the_time_is_over(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(), repeat=True)
    run = project.build("--duration", "1h", "--delay", "40m", command=leaping())
    assert (run.code, len(agent.calls)) == (3, 2), run.text
    assert "max-time is 1h00m" in run.stdout
    (took_s,) = journal(project, "run", "duration_s")
    assert took_s == pytest.approx(3600, abs=60), "nor does ralph stay for the rest of the pause"


def test_a_running_iteration_is_ended_when_the_time_is_over(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    server = starts("sleep 1000", tool=True)
    agent.story(raw(init(), ticks("one"), commits("one"), server, says("On it."), marks("later"), hangs()), FINISHES)
    run = project.build("--max-time", "4h", command=leaping(running_s=4 * 3600, when=agent.folder / "mark-later"))
    assert (run.code, len(agent.calls)) == (3, 1), run.text
    assert agent.was_interrupted()
    assert "max-time is 4h00m" in run.stdout
    assert re.search(r"^#1 · 1/2 tasks \(\+1\) · 1 commit .* · \$0\.02 · out of time", run.stdout, re.MULTILINE)
    assert (project.progress_text, project.git("log", "-1", "--format=%s")) == (progress_text("x one", "two"), "one\n")
    assert project.build().code == 0, "the next start goes on"


def test_the_smallest_rest_is_what_an_iteration_may_cost(project: Project, agent: Agent) -> None:
    has_spent(project, "1.10", "one")
    agent.story(spends(0.3), spends(0.35), spends(0.25), FINISHES)
    limits = ("--max-iteration-cost", "0.50", "--max-cost", "$0.95", "--max-total-cost", "2")
    run = project.build(*limits)
    assert run.code == 3, run.text
    assert budgets(agent) == ["0.500000", "0.500000", "0.250000"], "the iteration's, then the plan's"
    assert spent(project) == ["$2.0000"]
    assert "max-total-cost is $2.00" in run.stdout

    again = project.build(*limits)
    assert (again.code, again.text, len(agent.calls)) == (3, "", 3), "no agent, no word"

    assert project.build("--max-cost", "0.75", "--max-total-cost", "9").code == 0
    assert budgets(agent)[-1] == "0.750000", "each start has its own money"
    assert spent(project) == ["$2.0100"]


def test_the_money_of_a_start_is_used_up(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(spends(0.123456), spends(0.9), FINISHES)
    run = project.build("--max-cost", "1")
    assert (run.code, budgets(agent)) == (3, ["1.000000", "0.876544"]), run.text
    assert "max-cost is $1.00, and this start cost $1.02" in run.stdout
    assert spent(project) == [], "the plan has no account where nobody asks for it"


SPENT = "Spent: $5.0000\n"


@pytest.mark.parametrize(
    ("work", "left"),
    [
        pytest.param(spends(1, edits(SPENT, "")), "$6.0000", id="deletes it"),
        pytest.param(raw(init(), edits(SPENT, ""), exit_code=-9), "$5.0000", id="of an unknown cost"),
    ],
)
def test_the_account_of_the_plan_is_not_the_agents(project: Project, agent: Agent, work: Act, left: str) -> None:
    has_spent(project, "5.0000", "one")
    agent.story(work)
    run = project.build("1", "--max-total-cost", "6")
    assert (run.code, len(agent.calls), spent(project)[0]) == (3, 1, left), run.text


def test_a_person_may_change_it(project: Project, agent: Agent) -> None:
    has_spent(project, "5.0000", "one")
    agent.story(spends(1), FINISHES)
    assert project.build("--max-total-cost", "6").code == 3
    project.progress.write_text(project.progress_text.replace("$6.0000", "2"))
    assert project.build("--max-total-cost", "6").code == 0
    assert (budgets(agent), spent(project)) == (["1.000000", "4.000000"], ["$2.0100"])


OVER_BUDGET = error_result("error_max_budget_usd", "Reached maximum budget ($1)", cost_usd=1.02)
TICKED = raw(init(), ticks("first"), OVER_BUDGET, exit_code=1)
NOTHING_DONE = raw(init(), OVER_BUDGET, exit_code=1)


def test_an_iteration_that_used_its_money_up_for_nothing_has(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    agent.story(TICKED, NOTHING_DONE, FINISHES)
    run = project.build("--max-iteration-cost", "1", "--max-cost", "9", "--max-failures", "1")
    assert (run.code, len(agent.calls)) == (1, 2), run.text
    assert journal(project, "iteration", "success") == [True, False]


def test_done_with_the_last_cent_in_the_last_iteration_is_done(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(FINISHES)
    bounds = ("--max-iteration-cost", "0.01", "--max-cost", "0.01", "--max-total-cost", "0.01")
    run = project.build("1", *bounds, "--max-time", "1h", "--max-failures", "1", "--max-stalls", "1")
    assert run.code == 0, run.text
    assert spent(project) == ["$0.0100"]
