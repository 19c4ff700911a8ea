"""A command in front of the agent and of what it wrote (RALPH_WRAP); and the sandbox that docs/sandbox.md shows."""

import re
import shutil
import subprocess

import pytest
from ralph_driver import CHECKOUT, Project, executable
from real_agents import Play, uses
from scripted_model import Reply, bash
from stories import Agent, runs, tries


def test_it_stands_before_the_agent_and_whatever_runs_what_it_wrote(project: Project, agent: Agent) -> None:
    """No file of the project chooses it, and a missing one is said."""
    (project.root / ".ralph.env").write_text("RALPH_WRAP=env\n")
    assert "RALPH_WRAP belongs on the command line" in project.build().stderr
    (project.root / ".ralph.env").unlink()
    run = project.build("--wrap", "nowhere -x")
    assert (run.code, "nowhere" in run.stderr, agent.calls) == (1, True, [])
    wrap = executable(project.home / "wrap", 'WRAPPED="with $1"; export WRAPPED; shift; exec "$@"')
    executable(project.root / ".git" / "hooks" / "pre-commit", "echo hook $WRAPPED >> seen.txt")
    project.has_tasks(
        "one: The first\n"
        "  - verify: Run `echo criterion $WRAPPED >> seen.txt; grep -q agent seen.txt` - exits with code 0"
    )
    agent.story(tries(runs("echo agent $WRAPPED >> seen.txt")))
    verify = ("--verify", "echo verify $WRAPPED >> seen.txt")
    run = project.build("--strict", *verify, env={"RALPH_WRAP": f"{wrap} x"})
    assert run.code == 0, run.text
    seen = (project.root / "seen.txt").read_text().splitlines()
    assert list(dict.fromkeys(seen)) == [f"{who} with x" for who in ("verify", "criterion", "agent", "hook")]


TRIES = """
cat "$HOME/.ralph.env" && echo read >> seen.txt
echo x > "$HOME/escaped"
echo x > "{outside}/escaped" && echo wrote >> seen.txt
test "$(ls /proc | grep -c '^[0-9]')" -lt 20 || echo saw >> seen.txt
sleep 1000 > /dev/null 2>&1 &
sed -i 's/IN_PROGRESS/RALPH_DONE/; s/- \\[ \\]/- [x]/' feature_PROGRESS.md
git add -A && git commit -qm one && echo committed >> seen.txt
"""


def test_in_bubblewrap_the_real_claude_works_and_reaches_the_project_and_no_more(project: Project, play: Play) -> None:
    """In the script of docs/sandbox.md, where it can be tried."""
    (script,) = re.findall(r"(?ms)^#!/bin/sh\nexec bwrap .*?(?=^```)", (CHECKOUT / "docs/sandbox.md").read_text())
    if not shutil.which("bwrap") or subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"], check=False).returncode:
        pytest.skip("no bwrap that starts")
    sandbox = executable(project.home / ".ralph" / "sandbox", script)
    (project.home / ".ralph.env").write_text("RALPH_NTFY_TOKEN=secret\n")
    project.has_tasks("one")
    play(uses(bash(TRIES.format(outside=project.outputs))), Reply(text="Done."))
    run = project.build("--wrap", str(sandbox))
    assert (run.code, (project.root / "seen.txt").read_text()) == (0, "committed\n"), run.text
    assert not list(project.outputs.glob("escaped")) + list(project.home.glob("escaped"))
    assert project.git("log", "-1", "--format=%s") == "one\n"
