"""What people see of --strict before and after a run: doctor, status, log, the last notice."""

import json

from away import Mailbox
from ralph_driver import Project
from stories import Agent, tries, writes

HEAD = "# Progress: feature\n\nPlan: feature.md\n\n## Status\n\nIN_PROGRESS\n\n## Task List\n\n"
CYCLE = "- [ ] a: A\n  - after: b\n- [ ] b: B\n  - after: a\n"
BLOCKED = "- [!] a: A\n  - blocked: no key\n- [ ] b: B\n  - after: a\n"


def test_the_doctor_finds_a_list_that_cannot_work(project: Project) -> None:
    project.progress.write_text(HEAD + CYCLE)
    run = project.ralph("doctor", "feature.md", "--strict")
    assert run.code == 1, run.text
    assert "feature_PROGRESS.md: lines 11, 13: a, b wait for each other" in run.stdout
    project.progress.write_text(HEAD + BLOCKED)
    run = project.ralph("doctor", "feature.md", "--strict")
    assert "feature is stuck: a is blocked: no key; b waits for a: a start ends at once" in run.stdout
    assert "change [!] to [ ] in feature_PROGRESS.md" in run.stdout


def test_a_plan_that_is_stuck_is_blocked_to_status_and_told_to_who_is_away(project: Project, agent: Agent) -> None:
    mailbox = Mailbox(project)
    project.progress.write_text(HEAD + "- [ ] a: A\n  - verify: File `a` exists\n- [ ] b: B\n  - after: a\n")
    agent.story(tries(writes("x", "1")))
    run = project.build("--strict", "--max-tries", "1")
    assert run.code == 4, run.text
    last = mailbox.notices[-1]
    assert "Ralph Blocked" in last
    assert "b waits for a" in last
    assert "change [!] to [ ] in feature_PROGRESS.md" in last
    assert "a is blocked: given up after try 1: File `a` does not exist" in last
    status = project.ralph("status", "--json")
    assert status.code == 4
    assert json.loads(status.stdout)[0]["state"] == "blocked"
    assert "a, try 1: " in project.ralph("log", "feature.md").stdout
