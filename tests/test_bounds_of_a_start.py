"""What a start may take of iterations, time and money (design section 3), each alone and together."""

import re

import pytest
from ralph_driver import Project, leaping, paced, progress_text
from stories import Act, Agent, commits, error_result, hangs, init, marks, raw, runs, says, starts, step, ticks

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


def test_when_the_time_is_over_a_running_iteration_is_ended_and_none_begins(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    server = starts("sleep 1000", tool=True)
    works = raw(init(), ticks("one"), commits("one"), server, says("On it."), marks("later"), hangs())
    agent.story(works, step(), step(), FINISHES)
    run = project.build("--max-time", "4h", command=leaping(running_s=4 * 3600, when=agent.folder / "mark-later"))
    assert (run.code, len(agent.calls)) == (3, 1), run.text
    assert agent.was_interrupted()
    assert "max-time is 4h00m" in run.stdout
    assert re.search(r"^#1 · 1/2 tasks \(\+1\) · 1 commit .* · \$0\.02 · out of time", run.stdout, re.MULTILINE)
    assert project.progress_text == progress_text("x one", "two"), "nor is there an account where nobody asks"
    run = project.build("--duration", "1h", "--delay", "40m", command=leaping())
    assert (run.code, len(agent.calls)) == (3, 3), run.text
    assert "max-time is 1h00m" in run.stdout
    took_s = project.journal()[-1]["duration_s"]
    assert took_s == pytest.approx(3600, abs=60), "nor does ralph stay for the rest of the pause"
    assert project.build().code == 0, "the next start goes on"


def test_the_smallest_rest_is_what_an_iteration_may_cost(project: Project, agent: Agent) -> None:
    """The account of the plan is not the agent's, who deletes it; also where nobody knows what that cost."""
    text = progress_text("one")
    project.progress.write_text(text.replace("\n\n## Status", "\nSpent: $1.10\n\n## Status"))
    deletes = runs("sed -i /^Spent:/d feature_PROGRESS.md")
    agent.story(
        spends(0.3),
        spends(0.35),
        spends(0.25),
        spends(0.123456),
        spends(0.9, deletes),
        raw(init(), deletes, exit_code=-9),
        FINISHES,
    )
    limits = ("--max-iteration-cost", "0.50", "--max-cost", "$0.95", "--max-total-cost", "2")
    run = project.build(*limits)
    assert run.code == 3, run.text
    assert "max-total-cost is $2.00" in run.stdout
    assert budgets(agent) == ["0.500000", "0.500000", "0.250000"], "the iteration's, then the plan's"
    assert spent(project) == ["$2.0000"]
    again = project.build(*limits)
    assert (again.code, again.text, len(agent.calls)) == (3, "", 3), "no agent, no word"
    words = project.ralph_tty("feature.md", *limits).stdout
    assert "max-total-cost is $2.00, and the plan cost $2.00 so far; raise it to continue" in words
    project.progress.write_text(project.progress_text.replace("$2.0000", "5"))
    run = project.build("--max-cost", "1", "--max-total-cost", "9")
    assert run.code == 3, run.text
    assert "max-cost is $1.00, and this run cost $1.02" in run.stdout
    assert budgets(agent)[3:] == ["1.000000", "0.876544"], "each start has its own"
    assert spent(project) == ["$6.0235"], "the user may change it"
    project.progress.write_text(re.sub("Spent: .*\n", "", project.progress_text))
    assert project.build("--max-total-cost", "9").code == 0
    assert budgets(agent)[5:] == ["7.076500"] * 2, "what the journal knows"
    assert spent(project) == ["$1.9335"]


def test_only_a_figure_is_a_cost_and_who_used_it_up_for_nothing_has_failed(project: Project, agent: Agent) -> None:
    """Who complains after a result is ended."""
    ticking = runs("while sleep 0.1; do echo tick >&2; done")
    odd = step(cost_usd=0.5, after=[ticking]), step(cost_usd=float("nan")), step(cost_usd=-5), spends(2)
    over = error_result("error_max_budget_usd", "Reached maximum budget ($1)", cost_usd=1.02)
    project.has_tasks("one", "two")
    agent.story(*odd, *[raw(init(), *done, over, exit_code=1) for done in ([ticks("first")], [])], FINISHES)
    bounds = ("--max-iteration-cost", "1", "--max-total-cost", "9", "--max-failures", "1")
    run = project.build(*bounds, command=paced(after_result_s=0.5))
    assert (run.code, len(agent.calls)) == (1, 6), run.text
    assert project.iterations("cost_usd") == [0.02, None, None, 2, 1.02, 1.02], "0.02 it said when it was ended"
    assert project.iterations("success") == [True] * 5 + [False]
    ended, took_s = project.iterations("ended", "duration_s")[0]
    assert (ended, took_s < 30, spent(project)) == ("ok", True, ["$4.0600"])
