"""What checks and git's hooks leave running under --strict: ended and said, as what the agent leaves."""

import sys
from pathlib import Path

import pytest
from offspring import Offspring
from ralph_driver import Project
from stories import Agent, tries, writes
from test_strict import wants

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and uses setsid(1)")


def leaves(path: Path, daemon: str, born: Path) -> None:
    """Makes a script that leaves this daemon, which writes down its pid."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{daemon}\nuntil [ -e {born} ]; do sleep 0.02; done\n")
    path.chmod(0o700)


def test_what_a_check_and_a_hook_leave_running_is_ended_and_said(
    project: Project, agent: Agent, offspring: Offspring, tmp_path: Path
) -> None:
    check = project.home / "check"
    for script, name in ((check, "of-check"), (project.root / ".git" / "hooks" / "pre-commit", "of-hook")):
        leaves(script, offspring.daemon(name), tmp_path / "offspring" / name)
    wants(project, f"- [ ] one: The first\n  - verify: Run `{check}` - exits with code 0\n")
    agent.story(tries(writes("one.txt", "1\n")))
    run = project.build("--strict")
    assert (run.code, offspring.alive()) == (0, []), run.text
    assert all(offspring.pid(name) for name in ("of-check", "of-hook")), "otherwise this test proves nothing"
    for what in ("the check", "the commit"):
        assert f"ralph: ended what {what} left running: " in run.stderr, run.text
