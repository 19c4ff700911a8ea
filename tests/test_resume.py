"""The next start (design sections 4, 7 and 8): after a death it goes on; when there is nothing to do it is silent."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from offspring import Offspring, keeper_of
from ralph_driver import Project, Run, Running, alive, eventually, is_free, kill
from stories import Agent, edits, hangs, init, marks, raw, starts, step, waits_for, writes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="macOS hides the environments of processes")

BUILD = ("feature.md", "build", "--delay", "0")
DONE = step(ticks="all", writes_done=True)
LOCK = ".git/index.lock"


def dies(running: Running) -> None:
    """kill -9 of ralph and of its keeper, as when memory runs out; nobody is left to end the agent."""
    keeper = keeper_of(running.pid)
    running.signal(signal.SIGSTOP)  # or it would hear of its keeper's end
    os.kill(keeper, signal.SIGKILL)
    running.signal(signal.SIGKILL)
    running.wait()


@pytest.fixture
def orphaned(project: Project, agent: Agent, offspring: Offspring) -> Iterator[Project]:
    """A run that has died in its second iteration and has left an agent, its tool and git's lock."""
    project.has_tasks("one", "two")
    tools = [starts(offspring.sleeper("tool"), tool=True), starts(offspring.hidden("hidden")), writes(LOCK, "")]
    agent.story(step(ticks="one"), raw(init(), *tools, marks("on"), hangs()), DONE)
    running = project.start(*BUILD)
    eventually(lambda: agent.reached("on") and len(offspring.alive()) == 2)
    dies(running)
    yield project
    kill(call.pid for call in agent.calls)


def test_after_a_death_the_same_command_clears_up_and_goes_on(
    orphaned: Project, agent: Agent, offspring: Offspring
) -> None:
    left = agent.calls[1].pid
    assert (alive(left), offspring.alive()) == (True, ["hidden", "tool"]), "otherwise this test proves nothing"
    died = orphaned.journal()[-1]["run"]
    half_edited = orphaned.root / f".{orphaned.progress.name}.123.ralph"
    half_edited.write_text("# Progress: fea")
    run = orphaned.build()
    assert (run.code, alive(left), offspring.alive(), len(agent.calls)) == (0, False, [], 3), run.text
    assert run.stderr.count("ralph: ended what the run before left running: ") >= 3, "an agent and two tools"
    assert "ralph: the run before was killed in iteration 2; its record is " in run.stderr
    assert Path(run.stderr.partition("its record is ")[2].splitlines()[0]).is_file()
    assert f"removed {orphaned.root / LOCK}, left behind by the run before" in run.stderr
    assert not (orphaned.root / LOCK).exists()
    assert not half_edited.exists()
    dead = [line for line in orphaned.journal() if line["ended"] == "died"]
    assert [(line["run"], line["iteration"], line["success"]) for line in dead] == [(died, 2, False)]
    assert orphaned.build() == Run(code=0, stdout="", stderr="")


@pytest.mark.parametrize("plan", ["feature", "other"])
def test_what_was_left_running_ends_also_when_there_is_nothing_to_do_or_another_plan(
    orphaned: Project, agent: Agent, offspring: Offspring, plan: str
) -> None:
    (orphaned.root / f"{plan}.md").write_text("# A feature\n")
    stopped = orphaned.progress_text.replace("IN_PROGRESS", "RALPH_STOP")
    (orphaned.root / f"{plan}_PROGRESS.md").write_text(stopped.replace("Plan: feature", f"Plan: {plan}"))
    run = orphaned.ralph(f"{plan}.md")
    assert (run.code, offspring.alive(), len(agent.calls)) == (3, [], 2), run.text
    assert "ended what the run before left running" in run.stderr
    assert orphaned.ralph(f"{plan}.md") == Run(code=3, stdout="", stderr="")


def test_after_a_death_what_the_file_said_and_the_plan_has_cost_is_known(project: Project, agent: Agent) -> None:
    """It died before its agent had changed anything; a lock of git's was older, so a person's."""
    project.has_tasks("one", "two", "three")
    project.progress.write_text(project.progress_text.replace("\n\n## Status", "\nSpent: $4.90\n\n## Status"))
    (project.root / LOCK).touch()
    agent.story(raw(init(), marks("on"), waits_for("end")))
    running = project.start(*BUILD)
    eventually(lambda: agent.reached("on"))
    dies(running)
    agent.let("end")
    gone = [edits(f"- [ ] {task}\n", "") for task in ("two", "three")]
    agent.story(step(ticks="one", cost_usd=0.06), step(*gone, writes_done=True, cost_usd=0.06))
    run = project.build("--max-total-cost", "5")
    assert "#1 · 1/3 tasks (+1) ·" in run.stdout
    assert "RALPH_DONE refused" in run.stderr
    assert (run.code, (project.root / LOCK).exists()) == (3, True), run.text
    assert [line in project.progress_text for line in ("- [ ] two", "Spent: $5.02")] == [True, True]
    assert "2 iterations" in project.journal()[-1]["so_far"]


def test_a_death_between_iterations_is_nobodys_failure(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    agent.story(step(ticks="one"), DONE)
    running = project.start("feature.md", "--delay", "10m")
    eventually(lambda: "#1 ·" in running.stdout)
    dies(running)
    run = project.build()
    assert (run.code, len(agent.calls)) == (0, 2), run.text
    assert "killed" not in run.text


@pytest.mark.parametrize(
    ("ticked", "options", "reason"),
    [
        pytest.param(["one"], (), '1 task is not ticked: "two"', id="since it is wrong"),
        pytest.param(["one", "two"], (), "ralph was ended before it could check it", id="since nothing can tell"),
        pytest.param(["one", "two"], ("--verify", "test -e made"), "exited with 1", id="since verify fails"),
    ],
)
def test_a_claim_that_a_killed_ralph_could_not_check_is_taken_back(
    project: Project, agent: Agent, ticked: list[str], options: tuple[str, ...], reason: str
) -> None:
    """Be it that the agent says itself that it was verified."""
    project.has_tasks("one", "two")
    ticks = [edits(f"- [ ] {task}", f"- [x] {task}") for task in ticked]
    claim = edits("IN_PROGRESS", "RALPH_DONE\nVerified: 2026-11-20 22:14:03 0123456789")
    agent.story(
        raw(init(), *ticks, claim, marks("on"), hangs()),
        step(marks("second"), waits_for("go"), ticks="all", file="made", writes_done=True),
    )
    killed = project.start(*BUILD, *options)
    eventually(lambda: agent.reached("on"))
    killed.signal(signal.SIGKILL)
    killed.wait()
    eventually(lambda: is_free(project.root))
    run = project.start(*BUILD, *options)
    eventually(lambda: agent.reached("second"))
    status, why = project.progress_text.split("## Verification")
    assert ("\nIN_PROGRESS\n" in status, "Verified:" in status) == (True, False)
    assert reason in why
    agent.let("go")
    assert run.wait().code == 0
    assert "\nRALPH_DONE\n" in project.progress_text
    assert "## Verification" not in project.progress_text


# Starts of cron that find nothing to do.
