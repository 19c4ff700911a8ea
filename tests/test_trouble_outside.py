"""Trouble of the network and the server, which passes, and what no waiting mends (design section 6)."""

import re

from away import Mailbox
from leaps import leaping
from ralph_driver import Project, progress_text
from stories import Agent, refused, step

OVERLOADED = refused("API Error: 529 Overloaded. This is a server-side issue.", "server_error", status=529)
BROKEN = refused("Bad gateway", "unknown", status=502)
CUT_OFF = refused("API Error: terminated", "server_error")
UNREACHABLE = refused("API Error: Unable to connect to API (ConnectionRefused)", "server_error")
NO_ANSWER = refused("Request timed out", "unknown")
AT_CAPACITY = refused("API Error: Repeated 529 Overloaded errors. The API is at capacity", "unknown")
FINISHES = step(ticks="all", writes_done=True)


def journal(project: Project, event: str, name: str) -> list[object]:
    return [line[name] for line in project.journal() if line["event"] == event]


def test_it_is_no_iteration_and_no_failure(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    mailbox = Mailbox(project)
    agent.story(OVERLOADED, BROKEN, CUT_OFF, UNREACHABLE, NO_ANSWER, AT_CAPACITY, FINISHES)
    run = project.build("1", "--max-failures", "1", "--max-stalls", "1", command=leaping())
    assert run.code == 0, run.text
    assert journal(project, "iteration", "iteration") == [1] * 7
    assert journal(project, "iteration", "counted") == [False] * 6 + [True]
    assert journal(project, "iteration", "ended") == ["trouble"] * 6 + ["ok"]
    assert journal(project, "wait", "planned_s") == [30, 60, 120, 240, 480, 900]
    said = re.findall(r"waiting until \d\d:\d\d \((\w+)\): trouble outside: ", run.stdout)
    assert said == ["30s", "1m00s", "2m00s", "4m00s", "8m00s", "15m00s"]
    assert len(re.findall(r"^#1 · 1/1 tasks", run.stdout, re.MULTILINE)) == 1
    assert mailbox.titles == ["Ralph Started", "Ralph Progress", "Ralph Complete!"], "nobody needs to know"


def test_three_hours_of_it_end_the_run_and_the_next_start_tries_again(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(*[OVERLOADED] * 17, FINISHES)
    run = project.build(command=leaping())
    assert run.code == 1, run.text
    assert journal(project, "iteration", "iteration") == [1] * 17
    assert journal(project, "iteration", "counted") == [*[False] * 16, True]
    assert "ralph: API Error: 529" in run.stderr
    assert project.progress_text == progress_text("one"), "no breaker is open"
    assert project.build().code == 0
