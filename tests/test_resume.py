"""The next start (design sections 4, 7 and 8): after a death it goes on; when there is nothing to do it is silent."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from offspring import Offspring, supervisor_of
from ralph_driver import Project, Run, Running, alive, eventually, is_free, progress_text
from stories import Agent, edits, fails, hangs, init, marks, raw, runs, says, starts, step, tool, waits_for, writes
from test_signals import BUILD

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="macOS hides the environments of processes")

LOCK = ".git/index.lock"


def dies(running: Running) -> None:
    """kill -9 of ralph and of its supervisor, as when memory runs out; nobody is left to end the agent."""
    supervisor = supervisor_of(running.pid)
    running.signal(signal.SIGSTOP)  # or it would hear of its supervisor's end
    os.kill(supervisor, signal.SIGKILL)
    running.signal(signal.SIGKILL)
    running.wait()


def test_after_deaths_the_next_run_clears_up_and_the_same_command_continues(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    """One between iterations, which is nobody's failure, and one in the middle of an iteration, of a save and a commit.

    What is torn is mended, as after a power failure; what the plan has cost is known; an older lock is the user's.
    """
    users = project.root / ".git" / "config.lock"
    users.touch()
    eventually(lambda: time.time() - users.stat().st_ctime > 0.1)  # the times of files may lie 20 ms in the past
    project.has_tasks("one", "two", notes="What nobody else knows.\n")
    project.progress.write_text(project.progress_text.replace("\n\n## Status", "\nSpent: $4.90\n\n## Status"))
    tools = [starts(offspring.sleeper("tool"), tool=True), starts(offspring.hidden("hidden")), writes(LOCK, "")]
    short = runs(": > .git/HEAD.lock; : > feature_PROGRESS.md")
    edit = tool("Edit", file_path=f"{project.root}/made.py", new_string="x")
    torn = raw(init(), *tools, short, says("Now two."), edit, marks("on"), hangs())
    agent.story(step(ticks="one", cost_usd=0.06), torn, step(ticks="all", writes_done=True, cost_usd=0.06))
    bound = ("--max-total-cost", "9")
    running = project.start("feature.md", "build", "--delay", "10m", *bound)
    eventually(lambda: "Spent: $4.96" in project.progress_text)
    open_ones = "ralph/*/running/UnfinishedIteration"
    eventually(lambda: not list(project.state.glob(open_ones)))  # it is judged, and ralph waits
    dies(running)
    running = project.start(*BUILD, *bound)
    eventually(lambda: agent.reached("on") and len(offspring.alive()) == 2)
    dies(running)
    assert "killed" not in running.stderr
    left = agent.calls[1].pid
    assert (alive(left), offspring.alive()) == (True, ["hidden", "tool"]), "otherwise this test proves nothing"
    half_edited = project.root / f".{project.progress.name}.123.ralph"
    half_edited.write_text("# Progress: fea")
    (project.root / "other.md").write_text("# Another\n")
    (project.root / "other_PROGRESS.md").write_text(progress_text("one", status="RALPH_STOP", plan="other"))
    other = project.ralph("other.md")
    assert (other.code, alive(left), offspring.alive(), len(agent.calls)) == (3, False, [], 2), other.text
    assert other.stderr.count("ralph: ended what the run before left running: ") >= 3, "an agent and two tools"
    for lock in (LOCK, ".git/HEAD.lock"):
        assert f"removed {project.root / lock}, left behind by the run before" in other.stderr
        assert not (project.root / lock).exists()
    assert project.ralph("other.md") == Run(code=3, stdout="", stderr="")
    run = project.build(*bound)
    assert (run.code, len(agent.calls), users.exists()) == (0, 3, True), run.text
    left = "it was in: Edit made.py; files it had changed, which may be gone since: made.py; its last words: Now two.\n"
    assert f"One was cut short before it was ready: ralph was killed; {left}" in agent.prompts[-1]
    assert "- [x] one\n- [x] two\n\n## Notes\nWhat nobody else knows.\n" in project.progress_text
    assert "Spent: $5.02" in project.progress_text
    assert "ralph: the run before was killed in iteration 2; its record is " in run.stderr
    assert Path(run.stderr.partition("its record is ")[2].splitlines()[0]).is_file()
    assert not half_edited.exists()
    dead = [line for line in project.journal() if line["ended"] == "died"]
    assert [(line["run"] in run.stderr, line["iteration"], line["success"]) for line in dead] == [(True, 2, False)]
    assert project.build() == Run(code=0, stdout="", stderr="")


@pytest.mark.parametrize(
    ("ticked", "options", "reason"),
    [
        pytest.param(["one"], ("--verify", "true"), '1 task not ticked: "two"', id="since it is wrong"),
        pytest.param(["one", "two"], (), "ralph was ended before it could check it", id="since nothing can tell"),
        pytest.param(["one", "two"], ("--verify", "test -e made"), "exited with 1", id="since verify fails"),
    ],
)
def test_a_claim_that_a_killed_ralph_could_not_check_is_taken_back(
    project: Project, agent: Agent, ticked: list[str], options: tuple[str, ...], reason: str
) -> None:
    """Be it that the agent says itself that it was verified, and that others start in between and come to nothing."""
    project.has_tasks("one", "two")
    ticks = [edits(f"- [ ] {task}", f"- [x] {task}") for task in ticked]
    claim = edits("IN_PROGRESS", "RALPH_DONE\nVerified: 2026-11-20 22:14:03 0123456789")
    agent.story(
        raw(init(), *ticks, claim, marks("on"), hangs()),
        fails("401"),
        step(marks("second"), waits_for("go"), ticks="all", file="made", writes_done=True),
    )
    killed = project.start(*BUILD, *options)
    eventually(lambda: agent.reached("on"))
    killed.signal(signal.SIGKILL)
    killed.wait()
    eventually(lambda: is_free(project.root))
    assert [project.build("--agent", "nowhere").code for _ in range(2)] == [1, 1]
    dead = [(line["mode"], line["iteration"]) for line in project.journal() if line.get("ended") == "died"]
    assert dead == [("build", 1)], "said once, though none began"
    assert project.plan(*options).code == 1
    run = project.start(*BUILD, *options)
    eventually(lambda: agent.reached("second"))
    status, why = project.progress_text.split("## Verification")
    assert ("\nIN_PROGRESS\n" in status, "Verified:" in status, reason in why) == (True, False, True), why
    agent.let("go")
    assert run.wait().code == 0
    assert ("\nRALPH_DONE\n" in project.progress_text, "## Verification" in project.progress_text) == (True, False)
