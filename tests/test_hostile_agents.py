"""Agents that print what no agent should, or too much of it, take away what they were given, or stop themselves."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ralph_driver import Project, Running, alive, eventually
from stories import Act, Agent, hangs, init, marks, prints, raw, result, runs, says, starts, step, waits_for
from test_hostile_surroundings import AT_ONCE_S
from test_signals import BUILD

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

ENOUGH_MB = 120
"""What ralph may need at most; about 40 of them are Python's."""
LEFT = starts("exec sleep 600")
LONG_LINE = "x" * 1_000_000 + "\n"


# What it does to the record of what it says.

SLOW_START = """
import os, subprocess, sys, time
from pathlib import Path
class Popen(subprocess.Popen):
    def __init__(self, argv, **more):
        super().__init__(argv, **more)
        while "claude" in str(argv[0]) and not Path(os.environ["UNTIL"]).exists():
            time.sleep(0.01)
subprocess.Popen = Popen
from ralph.__main__ import main
main()
"""
"""A ralph that the machine stops right after it has started an agent, until that agent is so far."""


@pytest.mark.parametrize(
    "deed",
    [
        pytest.param("rm $OUT $ERR", id="removes it"),
        pytest.param("echo other > $OUT.new; mv $OUT.new $OUT", id="replaces it"),
        pytest.param("rm $OUT $ERR; mkdir $OUT $ERR", id="puts a folder there"),
        pytest.param("rm $OUT; mkfifo $OUT; rm $ERR; mkfifo $ERR", id="puts a pipe there"),
        pytest.param("rm -r ${OUT%/*}", id="removes all of them"),
    ],
)
def test_an_agent_that_takes_its_record_away_at_once(project: Project, agent: Agent, deed: str) -> None:
    project.has_tasks("one", "two")
    names = "OUT=$(readlink /proc/$PPID/fd/1); ERR=$(readlink /proc/$PPID/fd/2); "
    agent.story(
        raw(runs(names + deed), marks("on"), *step(LEFT, ticks="first")["acts"]),
        step(ticks="all", writes_done=True),
    )
    argv = [sys.executable, "-P", "-c", SLOW_START, *BUILD]
    env = project.env | {"UNTIL": str(agent.folder / "mark-on")}
    ended = Running(argv, env, project.root, project.outputs / "slow.x").wait(AT_ONCE_S)
    assert (ended.code, len(agent.calls), alive(agent.child())) == (0, 2, False), ended.text
    assert not alive(agent.calls[0].pid)


# Events of another kind than the real one's.

MANY = "1" + "0" * 400
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "line",
    [
        pytest.param('{"type": "text", "part": {"type": "text", "text": "hello"}}', id="of another agent"),
        pytest.param('{"type": "result", "errors": 5}', id="errors that are a number"),
        pytest.param('{"type": "result", "is_error": true, "errors": true}', id="errors that are true"),
        pytest.param('{"type": "system", "subtype": "api_retry", "retry_delay_ms": "soon"}', id="a retry soon"),
        pytest.param('{"type": "system", "subtype": "api_retry", "retry_delay_ms": 1e999}', id="a retry never"),
        pytest.param(f'{{"type": "result", "total_cost_usd": {MANY}}}', id="a cost of 400 digits"),
        pytest.param('{"type": "result", "total_cost_usd": [1]}', id="a cost that is a list"),
        pytest.param('{"type": "assistant", "message": ["hello"]}', id="a message that is a list"),
        pytest.param('{"type": "assistant", "message": {"content": "hello"}}', id="content that is a string"),
        pytest.param('{"type": "user", "message": {"content": [["hello"]]}}', id="a block that is a list"),
        pytest.param('{"type": "rate_limit_event", "rate_limit_info": 5}', id="limits that are a number"),
        pytest.param(f'{{"type": "assistant", "message": {DEEP}}}', id="deeply nested"),
    ],
)
def test_an_odd_event_is_shown_or_ignored(project: Project, agent: Agent, line: str) -> None:
    project.has_tasks("one")
    agent.story(raw(init(), LEFT, prints(line + "\n")), step(ticks="all", writes_done=True))
    ended = project.build()
    assert (ended.code, len(agent.calls), alive(agent.child())) == (0, 2, False), ended.text
    assert "Traceback" not in ended.text


@pytest.mark.parametrize(
    "until",
    [
        pytest.param("1e999", id="for ever"),
        pytest.param('"soon"', id="soon"),
        pytest.param(MANY, id="of 400 digits"),
    ],
)
def test_an_odd_usage_limit_is_still_one(project: Project, agent: Agent, until: str) -> None:
    info = f'{{"status": "rejected", "resetsAt": {until}}}'
    event = f'{{"type": "rate_limit_event", "rate_limit_info": {info}}}\n'
    agent.story(raw(init(), LEFT, prints(event), result("Limit.", ok=False, api_error_status=429), exit_code=1))
    ended = project.build()
    assert (ended.code, len(agent.calls), alive(agent.child())) == (3, 1, False), ended.text
    assert "Limit." in ended.text


def test_an_event_that_cannot_be_shown_is_shown_as_text(project: Project, agent: Agent) -> None:
    line = '{"type": "system", "subtype": "api_retry", "retry_delay_ms": "soon"}'
    agent.story(raw(prints(line + "\n")))
    assert line in project.build("1").text


# More than anybody can read.


def test_ctrl_z_again_and_again_while_the_agent_is_noisy(project: Project, agent: Agent) -> None:
    """A note that is printed while a line is being printed must not wait for itself."""
    project.has_tasks("one")
    agent.story(raw(init(), prints("A line.\n", times=100_000), says("The last line."), hangs()))
    run = project.start(*BUILD)
    eventually(lambda: "A line." in run.stdout)

    def typed() -> bool:
        run.signal(signal.SIGTSTP)
        return "The last line." in run.stdout

    eventually(typed)
    assert "not suspended" in run.stdout
    run.signal(signal.SIGINT)
    assert run.wait(AT_ONCE_S).code == -signal.SIGINT


def test_two_ctrl_c_end_the_reading_of_what_is_left(project: Project, agent: Agent) -> None:
    """Twenty million lines take ralph minutes."""
    project.has_tasks("one")
    agent.story(raw(init(), prints("y\n" * 10_000, times=2000), marks("on"), hangs()))
    run = project.start(*BUILD)
    eventually(lambda: agent.reached("on"))
    assert ended_by_two(run.process) == -signal.SIGINT
    assert not alive(agent.calls[0].pid)


def test_two_ctrl_c_do_not_wait_for_a_slow_reader(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(raw(init(), prints("A line.\n" * 1000, times=100), marks("on"), hangs()))
    with read_slowly(project) as run:
        eventually(lambda: agent.reached("on"))
        assert ended_by_two(run) == -signal.SIGINT
    assert not alive(agent.calls[0].pid)


def ended_by_two(run: "subprocess.Popen[bytes]") -> int:
    """The exit code of a run that a person asks twice to end, and then waits for some seconds at most."""
    run.send_signal(signal.SIGINT)
    first = time.monotonic()
    eventually(lambda: time.monotonic() > first + 0.2)
    run.send_signal(signal.SIGINT)
    return run.wait(6)


@contextmanager
def read_slowly(project: Project, *, chunk: int = 512) -> Iterator["subprocess.Popen[bytes]"]:
    """A build whose output goes to somebody who takes a little of it at times; with chunk=0 nothing at all."""
    ours, theirs = os.pipe()
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.1) and os.read(ours, chunk):
            pass

    run = project.start_into(theirs, *BUILD)
    os.close(theirs)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield run
    finally:
        run.kill()
        run.wait()
        over.set()
        reader.join()
        os.close(ours)


# More than anybody can keep.


@pytest.fixture
def passing_state(project: Project) -> Iterator[None]:
    """pytest keeps what tests write; these write too much for that."""
    yield
    shutil.rmtree(project.state)


def much(agent: Agent, act: Act) -> None:
    """An agent that prints it, and one that waits then."""
    agent.story(raw(init(), act), step(marks("second"), waits_for("go"), ticks="all", writes_done=True))


def peak_mb(pid: int) -> int:
    """The most memory that it ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1000 for line in lines if line.startswith("VmHWM"))


@pytest.mark.usefixtures("passing_state")
def test_200_mb_of_complaints_stay_out_of_memory(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    much(agent, prints(LONG_LINE, stderr=True, times=200))
    run = project.start(*BUILD)
    eventually(lambda: agent.reached("second"))
    assert peak_mb(run.pid) < ENOUGH_MB
    agent.let("go")
    assert run.wait().code == 0


@pytest.mark.usefixtures("passing_state")
def test_150_mb_that_nobody_reads_stay_out_of_memory(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    much(agent, prints(LONG_LINE, times=150))
    with read_slowly(project, chunk=0) as run:
        eventually(lambda: agent.reached("second"))
        assert peak_mb(run.pid) < ENOUGH_MB
        agent.let("go")
        assert run.wait(20) == 0


# Nothing more, since it is stopped.


def test_what_has_stopped_itself_is_ended_without_waiting(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    stopped = starts("kill -STOP $$; exec sleep 600")
    agent.story(step(stopped, waits_for("go"), ticks="all", writes_done=True))
    run = project.start(*BUILD)
    eventually(lambda: (pid := agent.child()) and state(pid) == "T")
    agent.let("go")
    assert (run.wait(AT_ONCE_S).code, alive(agent.child())) == (0, False)


def test_an_agent_that_has_stopped_itself_is_asked_to_end(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(raw(init(), starts("kill -STOP $PPID"), hangs()))
    run = project.start(*BUILD)
    eventually(lambda: agent.calls and state(agent.calls[0].pid) == "T")
    run.signal(signal.SIGINT)
    assert run.wait(AT_ONCE_S).code == -signal.SIGINT
    assert agent.was_interrupted()


def state(pid: int) -> str:
    """What proc(5) calls its state: "T" for stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
