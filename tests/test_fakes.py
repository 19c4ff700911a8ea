"""The fakes themselves: a story is played as it is written, and a test leaves nothing behind."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import pytest_sessionfinish
from ralph_driver import Project, TtyRunning, alive, eventually, marked
from stories import Agent, fails, hangs, marks, prints, raw, says, starts, step, tool


def start(project: Project, prompt: bytes = b"Do it.") -> subprocess.Popen[bytes]:
    """Starts the fake as ralph would."""
    claude = subprocess.Popen(
        ["claude", "-p", "--model", "opus"],
        executable=Path(project.env["PATH"].split(":")[0]) / "claude",
        cwd=project.root,
        env={**project.env, "RALPH_RUN_ID": "r1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert claude.stdin
    claude.stdin.write(prompt)
    claude.stdin.close()
    claude.stdin = None
    return claude


def call(project: Project, prompt: bytes = b"Do it.") -> tuple[int, list[dict[str, object]]]:
    claude = start(project, prompt)
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


def test_the_log_tells_what_each_invocation_saw(project: Project, agent: Agent) -> None:
    agent.story(step())
    call(project, "Grüße &\n".encode())
    (seen,) = agent.calls
    assert (seen.argv, seen.prompt, seen.cwd) == (["-p", "--model", "opus"], "Grüße &\n", str(project.root))
    assert seen.env == {"GIT_CONFIG_NOSYSTEM": "1", "RALPH_RUN_ID": "r1"}
    assert (seen.stdout, seen.ignored) == ("pipe", [])


@pytest.mark.parametrize(("which", "code"), [("INT", 1), ("TERM", 143), ("HUP", 129)])
def test_signals_end_it_as_they_end_the_real_one(project: Project, agent: Agent, which: str, code: int) -> None:
    agent.story(step(starts("sleep 60", "tool", tool=True), starts("sleep 60", "server"), marks("on"), hangs()))
    claude = start(project)
    eventually(lambda: agent.reached("on"))
    claude.send_signal(signal.Signals[f"SIG{which}"])
    claude.communicate(timeout=60)
    assert (claude.returncode, agent.was_interrupted()) == (code, which == "INT")
    assert eventually(lambda: alive(agent.child("tool")) == (which != "INT"))
    assert alive(agent.child("server"))
    for name in ("tool", "server"):
        if alive(pid := agent.child(name) or 0):
            os.killpg(pid, signal.SIGKILL)


def test_marked_processes_are_found(project: Project, mark: str) -> None:
    sleeper = subprocess.Popen(["sleep", "60"], env=project.env)
    eventually(lambda: marked(mark) == [sleeper.pid])
    sleeper.kill()
    sleeper.wait()
    assert (marked(mark), alive(sleeper.pid)) == ([], False)


def test_nothing_but_loopback_can_be_reached(project: Project) -> None:
    with pytest.raises(AssertionError, match="looks up"):
        socket.create_connection(("example.invalid", 80), timeout=1)
    with socket.socket() as direct, pytest.raises(AssertionError, match="connects to"):
        direct.connect(("192.0.2.1", 80))
    assert not [name for name in project.env if name.startswith(("RALPH", "TMUX", "CLAUDE", "ANTHROPIC"))]


def test_a_terminal_is_a_terminal_and_hangs_up_when_it_is_closed(project: Project) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && read word && echo got $word && sleep 60"
    terminal = TtyRunning(["sh", "-c", script], project.env, project.root)
    terminal.type("hello\n")
    eventually(lambda: "got hello" in terminal.screen)
    terminal.hang_up()
    assert terminal.wait().code == -signal.SIGHUP


@pytest.mark.parametrize(("skipped", "code"), [(1, 1), (0, 0)])
def test_a_skip_fails_the_run_where_nothing_may_be_skipped(
    monkeypatch: pytest.MonkeyPatch, skipped: int, code: int
) -> None:
    monkeypatch.setenv("RALPH_TESTS_NO_SKIP", "1")
    reporter = SimpleNamespace(stats={"skipped": [None] * skipped}, write_line=lambda *_, **__: None)
    plugins = SimpleNamespace(get_plugin=lambda _name: reporter)
    session: Any = SimpleNamespace(config=SimpleNamespace(pluginmanager=plugins), exitstatus=0)
    pytest_sessionfinish(session)
    assert session.exitstatus == code
