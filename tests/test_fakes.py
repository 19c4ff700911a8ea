"""The fakes themselves: a signal ends the one of claude as it ends the real one, and a test reaches nobody."""

import signal
import socket
import subprocess
from pathlib import Path

import pytest
from ralph_driver import Project, alive, eventually, kill
from stories import Agent, hangs, marks, starts, step


@pytest.mark.parametrize(("which", "code"), [("INT", 1), ("TERM", 143), ("HUP", 129)])
def test_signals_end_it_as_they_end_the_real_one(project: Project, agent: Agent, which: str, code: int) -> None:
    agent.story(
        step(starts("exec sleep 60", "tool", tool=True), starts("exec sleep 60", "server"), marks("on"), hangs())
    )
    program = Path(project.env["PATH"].split(":")[0]) / "claude"
    quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
    claude = subprocess.Popen([program], env=project.env, stdin=quiet, stdout=pipe, start_new_session=True)
    eventually(lambda: agent.reached("on"))
    claude.send_signal(signal.Signals[f"SIG{which}"])
    claude.communicate(timeout=60)
    assert (claude.returncode, agent.was_interrupted()) == (code, which == "INT")
    assert eventually(lambda: alive(agent.child("tool")) == (which != "INT"))
    assert alive(agent.child("server"))
    kill(pid for name in ("tool", "server") if (pid := agent.child(name)))


def test_nothing_but_loopback_can_be_reached(project: Project) -> None:
    with pytest.raises(AssertionError, match="looks up"):
        socket.create_connection(("example.invalid", 80), timeout=1)
    with socket.socket() as direct, pytest.raises(AssertionError, match="connects to"):
        direct.connect(("192.0.2.1", 80))
    assert not [name for name in project.env if name.startswith(("RALPH", "TMUX", "CLAUDE", "ANTHROPIC"))]
