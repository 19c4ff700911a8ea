"""Usage limits and trouble outside (design section 6): they are waited for, and what is none."""

import re
import shutil
import time
from pathlib import Path

import pytest
from ralph_driver import Mailbox, Project, eventually, leaping, paced, progress_text
from stories import Agent, api_error, at_limit, init, rate_limit, raw, refused, runs, step

HOUR_S = 3600.0
SLACK_S = 90.0
"""A reset in words names a minute, and a story is written a moment before it is played."""
DONE = step(ticks="all", file="made.txt", writes_done=True)
STRICT = ("1", "--max-failures", "1", "--max-stalls", "1")
"""Limits that forgive nothing: what counts as an iteration, a failure or a stall ends the run."""


def waits(project: Project) -> list[float]:
    return [line["planned_s"] for line in project.journal() if line["event"] == "wait"]


def test_a_limit_is_neither_an_iteration_nor_a_failure_and_is_asked_about_less_and_less_unless_there_is_no_time_for_it(
    project: Project, agent: Agent
) -> None:
    """Who does not want to wait is told when to come back."""
    project.has_tasks("one")
    agent.story(at_limit(resets_in_s=5 * HOUR_S), at_limit())
    run = project.build("--max-time", "4h", command=leaping())
    assert (run.code, waits(project), "max-time is 4h00m" in run.stdout) == (3, [], True), run.text
    run = project.build("--no-wait")
    assert (run.code, len(agent.calls)) == (3, 2), run.text
    (until,) = re.findall(r"until (\d{4}-\d\d-\d\d \d\d:\d\d)", run.stdout)
    assert time.mktime(time.strptime(until, "%Y-%m-%d %H:%M")) == pytest.approx(time.time() + HOUR_S, abs=SLACK_S)
    assert project.progress_text == progress_text("one")
    mailbox = Mailbox(project)
    endless = at_limit(resets_in_s=None, text="You've hit your Opus limit")
    agent.story(endless, endless, endless, at_limit(resets_in_s=5 * HOUR_S), DONE)
    run = project.build(*STRICT, command=leaping(times=30))
    assert run.code == 0, run.text
    assert project.iterations("ended", "counted")[2:] == [*[("limit", False)] * 4, ("ok", True)]
    assert [re.findall(r"Iteration: (\d+)", prompt) for prompt in agent.prompts[2:]] == [["2"]] * 5
    assert waits(project) == [300, 600, 1200, pytest.approx(5 * HOUR_S - 2100, abs=SLACK_S)]
    assert re.search(r"1 iteration · .*(5h00m|5h01m|4h59m) of it waiting", run.stdout)
    (notice,) = [notice for notice in mailbox.notices if notice.startswith("Ralph Waiting\n")]
    assert re.fullmatch(r"Waiting until \d\d:\d\d \(5m00s\)", notice.split("\n")[3])


CLOCKS = {"the machine slept": (6, 6, 6), "the clock was set forward": (6, 0, 5), "the clock was set back": (-6, 0, 5)}
"""How many hours the clock on the wall and the one that nobody sets jump, and how long a wait of five hours takes."""


@pytest.mark.parametrize(("wall", "running", "waited"), CLOCKS.values(), ids=CLOCKS)
def test_a_wait_is_never_longer_than_announced(
    project: Project, agent: Agent, wall: int, running: int, waited: int
) -> None:
    agent.story(at_limit(resets_in_s=5 * HOUR_S), DONE)
    run = project.build(command=leaping(times=30, wall_s=wall * HOUR_S, running_s=running * HOUR_S))
    assert (run.code, len(agent.calls), len(waits(project))) == (0, 2, 1), run.text
    (whole,) = [line["waited_s"] for line in project.journal() if line.get("waited_s")]
    assert whole == pytest.approx(waited * HOUR_S, abs=SLACK_S)


def test_an_agent_that_is_replaced_is_waited_for_and_a_word_in_the_file_ends_a_wait(
    project: Project, agent: Agent
) -> None:
    project.has_tasks("one", "two")
    claude = shutil.which("claude", path=project.env["PATH"])
    limits = [at_limit(resets_in_s=24 * HOUR_S)] * 2
    agent.story(step(runs(f"mv {claude} {claude}.new"), ticks="first"), *limits)
    running = project.start("feature.md", "--delay", "0", command=paced(speed=20))
    eventually(lambda: "cannot be started" in running.stdout)
    Path(f"{claude}.new").rename(f"{claude}")
    eventually(lambda: "): usage limit: " in running.stdout)
    text = progress_text("one", status="RALPH_STOP")
    project.progress.write_text(text)
    run, again = running.wait(), project.build()
    assert (run.code, len(agent.calls), project.progress_text) == (3, 2, text), run.text
    assert project.iterations("ended", "counted") == [("ok", True), ("trouble", False), ("limit", False)]
    assert (again.code, again.text) == (3, ""), "which the next start finds, and says nothing"
    project.has_tasks("one")
    running = project.start("feature.md", "--verify", "true", command=paced(speed=20))
    eventually(lambda: "): usage limit: " in running.stdout)
    project.has_tasks("x one", status="RALPH_DONE")
    assert (running.wait().code, "\nVerified: " in project.progress_text) == (0, True)


def test_while_one_is_at_its_limit_another_works_and_only_when_all_are_nobody_does(
    project: Project, agent: Agent, tmp_path: Path
) -> None:
    mailbox, other = Mailbox(project), Agent(tmp_path / "other")
    other.install(tmp_path / "bin" / "codex")
    refused = project.build("--agent", "claude,codex", "--max-cost", "5")
    why = "the agent codex does not support RALPH_MAX_COST"
    assert (refused.code, refused.stderr) == (2, f"ralph: --max-cost: {why}; leave it out\n")
    project.has_tasks("one")
    agent.story(at_limit(resets_in_s=3 * HOUR_S), DONE)
    limits = (at_limit(resets_in_s=hours * HOUR_S, text="You\u2019ve hit your usage limit.") for hours in (2, 4))
    other.story(step(ticks="first"), next(limits), step(), next(limits))
    run = project.build("--agent", "claude,codex", "--model", "opus", command=leaping(times=30))
    assert run.code == 0, run.text
    assert project.iterations("iteration") == [1, 1, 2, 2, 3, 3]
    assert project.iterations("ended") == ["limit", "ok"] * 3
    assert project.iterations("agent") == ["claude", *["codex"] * 4, "claude"], "which works again when it may"
    assert waits(project) == [pytest.approx(seconds, abs=SLACK_S) for seconds in (2 * HOUR_S, HOUR_S)]
    assert "opus" in agent.calls[0].argv
    assert "opus" not in str(other.calls[0].argv), "it is the first one's model"
    assert re.search(r"ralph: codex works while claude is at its limit, until \d\d:\d\d", run.stdout)
    assert any("Codex works while claude is at its limit" in notice for notice in mailbox.notices)
    project.has_tasks("two")
    agent.story(at_limit())
    other.story(DONE)
    run = project.build("--agent", "claude,codex", "--no-wait")
    assert (run.code, project.iterations("agent")[6:]) == (0, ["claude", "codex"]), "also where nobody waits"


# Trouble of the network and the server, which passes.

OVERLOADED = refused("API Error: 529 Overloaded. This is a server-side issue.", "server_error", status=529)
TROUBLES = (
    refused("Bad gateway", "unknown", status=502),
    refused("API Error: Unable to connect to API (ConnectionRefused)", "server_error"),
    refused("API Error: terminated", "server_error"),
    refused("Request timed out", "unknown"),
    refused("API Error: Repeated 529 Overloaded errors. The API is at capacity", "unknown"),
)


def test_trouble_is_neither_an_iteration_nor_a_failure_and_after_three_hours_of_it_the_next_run_tries_again(
    project: Project, agent: Agent
) -> None:
    """Nor does it last until the end of a limit that is reached."""
    mailbox = Mailbox(project)
    project.has_tasks("one")
    rejected = rate_limit(resets_at=time.time() + HOUR_S)
    broken = api_error("API Error: 500 Internal server error", "server_error", status=500)
    agent.story(*[OVERLOADED] * 17, raw(init(), rejected, *broken, exit_code=1), *TROUBLES, DONE)
    run = project.build(*STRICT, command=leaping())
    assert (run.code, "ralph: API Error: 529" in run.stderr) == (1, True), run.text
    assert project.iterations("ended", "counted") == [*[("trouble", False)] * 16, ("trouble", True)]
    assert waits(project) == [30, 60, 120, 240, 480, *[900] * 11]
    assert project.progress_text == progress_text("one"), "no breaker is open"
    told = len(mailbox.titles)
    run = project.build(*STRICT, command=leaping())
    assert run.code == 0, run.text
    assert project.iterations("ended", "counted")[17:] == [*[("trouble", False)] * 6, ("ok", True)]
    said = re.findall(r"waiting until \d\d:\d\d \((\w+)\): trouble outside: ", run.stdout)
    assert said == ["30s", "1m00s", "2m00s", "4m00s", "8m00s", "15m00s"]
    assert mailbox.titles[told:] == ["Ralph Started", "Ralph Progress", "Ralph Complete!"], "nobody needs to know"
