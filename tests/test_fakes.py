"""The fakes themselves: a story is played as it is written, and a test leaves nothing behind."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ralph_driver import Project, TtyRunning, alive, eventually, marked
from stories import (
    Agent,
    commits,
    fails,
    hangs,
    ignores,
    marks,
    prints,
    raw,
    says,
    sleeps,
    starts,
    step,
    tool,
    usage_limit,
    waits_for,
    writes,
)


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


def test_a_step_is_played_in_its_order(project: Project, agent: Agent) -> None:
    agent.story(step(says("Hello."), tool("Bash", command="ls"), ticks="first", file="a.txt", commits="one"))
    project.has_tasks("first", "second")
    code, events = call(project)
    assert (code, [event["type"] for event in events]) == (0, ["system", "assistant", "assistant", "result"])
    assert "- [x] first\n- [ ] second" in project.progress_text
    assert project.git("log", "-1", "--format=%s", "--stat").startswith("one\n")
    assert not project.git("status", "--porcelain")


def test_each_invocation_plays_the_next_step(project: Project, agent: Agent) -> None:
    project.has_tasks("first", "second", "third")
    agent.story(step(ticks="second"), step(ticks="all", writes_done=True))
    assert call(project)[0] == 0
    assert "- [ ] first\n- [x] second" in project.progress_text
    assert call(project)[0] == 0
    assert "- [ ]" not in project.progress_text
    assert "\nRALPH_DONE\n" in project.progress_text
    assert call(project)[0] == 97, "the story is over"


def test_the_last_step_can_be_repeated(project: Project, agent: Agent) -> None:
    agent.story(step(), fails(), repeat=True)
    assert [call(project)[0] for _ in range(4)] == [0, 1, 1, 1]


def test_the_log_tells_what_each_invocation_saw(project: Project, agent: Agent) -> None:
    agent.story(step())
    call(project, "Grüße &\n".encode())
    (seen,) = agent.calls
    assert (seen.argv, seen.prompt, seen.cwd) == (["-p", "--model", "opus"], "Grüße &\n", str(project.root))
    assert seen.env == {"GIT_CONFIG_NOSYSTEM": "1", "RALPH_RUN_ID": "r1"}
    assert (seen.stdout, seen.ignored) == ("pipe", [])


def test_a_usage_limit_looks_like_the_real_one(project: Project, agent: Agent) -> None:
    agent.story(raw(*usage_limit(), exit_code=1))
    code, (limit, words, end) = call(project)
    assert (code, limit["type"], words["error"]) == (1, "rate_limit_event", "rate_limit")
    assert (end["subtype"], end["is_error"], end["api_error_status"]) == ("success", True, 429)


def test_text_that_is_no_json_and_deaths_by_a_signal(project: Project, agent: Agent) -> None:
    agent.story(raw(prints("{}\n", times=3), exit_code=-9))
    assert call(project) == (-signal.SIGKILL, [{}, {}, {}])


def test_it_waits_for_the_test_and_tells_it_where_it_is(project: Project, agent: Agent) -> None:
    agent.story(step(marks("here"), waits_for("go"), writes("a.txt", "x")))
    claude = start(project)
    eventually(lambda: agent.reached("here"))
    assert not (project.root / "a.txt").exists()
    agent.let("go")
    claude.communicate(timeout=60)
    assert (project.root / "a.txt").read_text() == "x"


@pytest.mark.parametrize(("which", "code"), [("INT", 1), ("TERM", 143), ("HUP", 129)])
def test_signals_end_it_as_they_end_the_real_one(project: Project, agent: Agent, which: str, code: int) -> None:
    agent.story(step(starts("sleep 60", "tool", tool=True), starts("sleep 60", "server"), marks("on"), hangs()))
    claude = start(project)
    eventually(lambda: agent.reached("on"))
    claude.send_signal(signal.Signals[f"SIG{which}"])
    claude.communicate(timeout=60)
    assert claude.returncode == code
    assert eventually(lambda: alive(agent.child("tool")) == (which != "INT"))
    assert alive(agent.child("server"))
    assert agent.was_interrupted() == (which == "INT")
    for name in ("tool", "server"):
        pid = agent.child(name)
        assert pid
        if alive(pid):
            os.killpg(pid, signal.SIGKILL)


def test_it_can_ignore_signals(project: Project, agent: Agent) -> None:
    agent.story(step(ignores("INT", "TERM"), marks("deaf"), sleeps(0.2)))
    claude = start(project)
    eventually(lambda: agent.reached("deaf"))
    claude.send_signal(signal.SIGTERM)
    claude.communicate(timeout=60)
    assert claude.returncode == 0


def test_commits_need_no_identity_of_the_machine(project: Project, agent: Agent) -> None:
    agent.story(step(writes("b.txt", "b"), commits("two words"), commits=None))
    assert call(project)[0] == 0
    assert project.git("log", "-1", "--format=%an %s") == "A Tester two words\n"


def test_marked_processes_are_found(project: Project, mark: str) -> None:
    sleeper = subprocess.Popen(["sleep", "60"], env=project.env)
    eventually(lambda: marked(mark) == [sleeper.pid])
    sleeper.kill()
    sleeper.wait()
    assert not marked(mark)
    assert not alive(sleeper.pid)


def test_nothing_but_loopback_can_be_reached() -> None:
    with pytest.raises(AssertionError, match="looks up"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    with socket.socket() as direct, pytest.raises(AssertionError, match="connects to"):
        direct.connect(("192.0.2.1", 80))
    with pytest.raises(AssertionError, match="looks up"):
        socket.create_connection(("example.invalid", 80), timeout=1)


def test_the_environment_is_clean(project: Project) -> None:
    assert not [name for name in project.env if name.startswith(("RALPH", "TMUX", "CLAUDE", "ANTHROPIC"))]


def test_a_terminal_is_a_terminal(project: Project) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && read word && echo got $word && exit 3"
    terminal = TtyRunning(["sh", "-c", script], project.env, project.root)
    terminal.type("hello\n")
    run = terminal.wait()
    assert (run.code, "got hello" in run.stdout) == (3, True)
    terminal.hang_up()


def test_a_closed_terminal_hangs_up(project: Project) -> None:
    terminal = TtyRunning(["sh", "-c", "echo up; sleep 60"], project.env, project.root)
    eventually(lambda: "up" in terminal.screen)
    terminal.hang_up()
    assert terminal.wait().code == -signal.SIGHUP


def test_a_skip_fails_the_run_where_nothing_may_be_skipped(tmp_path: Path) -> None:
    own = "conftest forks offspring ralph_driver real_claude scripted_model stories tmux zygote"
    for name in own.split():
        shutil.copy(Path(__file__).with_name(f"{name}.py"), tmp_path)
    (tmp_path / "test_it.py").write_text("import pytest\ndef test_it():\n    pytest.skip('no claude')\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    codes = [
        subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "RALPH_TESTS_NO_SKIP": no_skip},
            check=False,
            capture_output=True,
        ).returncode
        for no_skip in ("0", "1")
    ]
    assert codes == [0, 1]
