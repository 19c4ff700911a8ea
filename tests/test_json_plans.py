"""Runs from plans that are JSON: first use, what is added later, and a history file that is none."""

import json

from ralph_driver import Project
from stories import Agent, tries, writes

PLAN = {"requirements": [{"id": "one", "requirement": "one.txt exists", "status": "pending"}]}
MORE = {"requirements": [*PLAN["requirements"], {"id": "two", "requirement": "two.txt exists", "status": "pending"}]}


def test_what_is_added_to_the_plan_later_is_told_at_every_start(project: Project, agent: Agent) -> None:
    plan = project.root / "r.json"
    plan.write_text(json.dumps(PLAN))
    agent.story(tries(), tries(writes("one.txt", "1")))
    first = project.ralph("r.json", "build", "--strict", "--max-iterations", "1", "--delay", "0")
    assert first.code == 3, first.text
    assert "1 task" in first.stderr
    plan.write_text(json.dumps(MORE))
    second = project.ralph("r.json", "build", "--strict", "--delay", "0")
    assert second.code == 0, second.text
    assert "two" in second.stderr
    assert "two" in project.ralph_tty("r.json", "build", "--strict").stdout


def test_a_history_that_is_the_plan_is_refused(project: Project, agent: Agent) -> None:
    (project.root / "r.json").write_text(text := json.dumps(PLAN))
    agent.story()
    for file in ("r.json", "r_PROGRESS.md", "."):
        assert project.ralph("r.json", "build", "--strict", "--history", file).code == 2
    assert (project.root / "r.json").read_text() == text
