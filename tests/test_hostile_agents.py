"""Agents that print what no agent should, or too much, take away what they were given, or stop themselves."""

import shutil
import signal
import sys
from pathlib import Path

import pytest
from ralph_driver import Project, alive, eventually
from stories import Agent, hangs, init, marks, prints, raw, runs, says, starts, step
from test_signals import BUILD

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

MUCH_MB, ENOUGH_MB = 20, 60
"""What ralph may need at most, in megabytes; it needs 30 for itself."""
OUT_ERR = "OUT=$(readlink /proc/$PPID/fd/1); ERR=$(readlink /proc/$PPID/fd/2); "
DEEDS = {
    "removes it": "rm $OUT $ERR",
    "puts a folder there": "rm $OUT $ERR; mkdir $OUT $ERR",
    "puts a pipe there": "rm $OUT; mkfifo $OUT; rm $ERR; mkfifo $ERR",
    "removes all of them": "rm -r ${OUT%/*}",
}


def test_agents_that_take_their_record_away(project: Project, agent: Agent) -> None:
    project.has_tasks("first", *DEEDS)
    takes = [step(runs(OUT_ERR + deed), starts("exec sleep 600", name), ticks="first") for name, deed in DEEDS.items()]
    agent.story(*takes, step(ticks="all", writes_done=True))
    ended = project.build()
    assert (ended.code, len(agent.calls)) == (0, len(DEEDS) + 1), ended.text
    assert [name for name in DEEDS if alive(agent.child(name))] == []
    assert [call.call for call in agent.calls if alive(call.pid)] == []


def test_ctrl_z_again_and_again_suspends_nothing(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(raw(init(), prints("A line.\n", times=20_000), says("The last line."), hangs()))
    run = project.start(*BUILD)
    eventually(lambda: "A line." in run.stdout)

    def typed() -> bool:
        run.signal(signal.SIGTSTP)
        return "The last line." in run.stdout

    eventually(typed)
    run.signal(signal.SIGINT)
    assert run.wait().code == -signal.SIGINT


def test_much_that_nobody_reads_stays_out_of_memory_and_two_ctrl_c_do_not_wait_for_what_is_left_to_read(
    project: Project, agent: Agent
) -> None:
    """Ten million lines take ralph minutes."""
    project.has_tasks("one")
    long_line = "x" * 1_000_000 + "\n"
    much = [prints("noise " * 1000 + "\n", times=MUCH_MB * 1000 // 6), prints(long_line, stderr=True, times=MUCH_MB)]
    many = prints("y\n" * 10_000, times=1000)
    agent.story(raw(init(), *much, prints(long_line, times=MUCH_MB)), raw(init(), many, marks("second"), hangs()))
    unread = 'exec "$@" &> >(while kill -0 $$; do sleep 0.1; done)'
    # With a prefix it is no fork, which would begin with all that is imported.
    run = project.start(*BUILD, prefix=("bash", "-c", unread, "bash"))
    eventually(lambda: agent.reached("second"))
    status = Path(f"/proc/{run.pid}/status").read_text().splitlines()
    (peak_mb,) = (int(line.split()[1]) // 1000 for line in status if line.startswith("VmHWM"))
    run.signal(signal.SIGINT)
    eventually(agent.was_interrupted)
    run.signal(signal.SIGINT)
    assert run.wait().code == -signal.SIGINT
    assert not alive(agent.calls[1].pid)
    shutil.rmtree(project.state)  # pytest would keep it
    assert peak_mb < ENOUGH_MB
