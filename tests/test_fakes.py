"""The fakes themselves: a story is played as it is written, and a test leaves nothing behind."""

import json
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from ralph_driver import Project, alive, eventually, kill
from stories import Agent, fails, hangs, marks, prints, raw, says, starts, step, tool


def start(project: Project) -> subprocess.Popen[bytes]:
    """Starts the fake as ralph would."""
    words = [str(Path(project.env["PATH"].split(":")[0]) / "claude"), "-p", "--model", "opus"]
    quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
    env = {**project.env, "RALPH_RUN_ID": "r1"}
    return subprocess.Popen(words, cwd=project.root, env=env, stdin=quiet, stdout=pipe, start_new_session=True)


def call(project: Project) -> tuple[int, list[dict[str, object]]]:
    claude = start(project)
    out, _ = claude.communicate(timeout=60)
    return claude.returncode, [json.loads(line) for line in out.splitlines()]


def test_each_invocation_plays_the_next_step_in_its_order(project: Project, agent: Agent) -> None:
    project.has_tasks("first", "second", "third")
    agent.story(
        step(says("Hello."), tool("Bash", command="ls"), ticks="second", file="a.txt", commits="one"),
        raw(prints("{}\n", times=3), exit_code=-9),
        step(ticks="all", writes_done=True),
    )
    code, events = call(project)
    assert (code, [event["type"] for event in events]) == (0, ["system", "assistant", "assistant", "result"])
    assert "- [ ] first\n- [x] second" in project.progress_text
    assert project.git("log", "-1", "--format=%an %s", "--stat").startswith("A Tester one\n")
    assert call(project) == (-signal.SIGKILL, [{}, {}, {}])
    assert call(project)[0] == 0
    assert ("- [ ]" in project.progress_text, "\nRALPH_DONE\n" in project.progress_text) == (False, True)
    assert call(project)[0] == 97, "the story is over"
    agent.story(step(), fails(), repeat=True)
    assert [call(project)[0] for _ in range(3)] == [0, 1, 1]


@pytest.mark.parametrize(("which", "code"), [("INT", 1), ("TERM", 143), ("HUP", 129)])
def test_signals_end_it_as_they_end_the_real_one(project: Project, agent: Agent, which: str, code: int) -> None:
    agent.story(
        step(starts("exec sleep 60", "tool", tool=True), starts("exec sleep 60", "server"), marks("on"), hangs())
    )
    claude = start(project)
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
