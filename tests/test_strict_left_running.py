"""What checks and git's hooks leave running under --strict: ended and said, as what the agent leaves."""

import sys

import pytest
from offspring import Offspring
from ralph_driver import Project
from stories import Agent, tries, writes
from test_strict import wants


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and uses setsid(1)")
def test_what_a_check_and_a_hook_leave_running_is_ended_and_said(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    check = project.home / "check"
    for script, name in ((check, "of-check"), (project.root / ".git" / "hooks" / "pre-commit", "of-hook")):
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\n{offspring.daemon(name)}\n{offspring.until(name)}\n")
        script.chmod(0o700)
    wants(project, f"- [ ] one: The first\n  - verify: Run `{check}` - exits with code 0\n")
    agent.story(tries(writes("one.txt", "1\n")))
    run = project.build("--strict")
    assert (run.code, offspring.alive()) == (0, []), run.text
    assert all(offspring.pid(name) for name in ("of-check", "of-hook")), "otherwise this test proves nothing"
    for what in ("the check", "the commit"):
        assert f"ralph: ended what {what} left running: " in run.stderr, run.text
