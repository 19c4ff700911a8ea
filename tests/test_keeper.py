"""The process below which all runs that is not ralph's own: what it finds, what it says, and errors of its own."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from keepers import keeper_of
from offspring import Offspring
from ralph_driver import Project, alive, eventually, paced
from stories import Agent, marks, runs, starts, step, waits_for
from test_signals import BUILD, goes_on, notify_with, start

from ralph.process import Ended, Files, Job, Keeper, Patience, call
from ralph.verify import run_command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and uses setsid(1)")

DONE = step(ticks="all", writes_done=True)


# What it finds.


def test_hundreds_that_hide_and_ignore_sigterm_are_ended(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    born = project.outputs / "born"
    many = f"for n in $(seq 80); do (env -i setsid sh -c 'trap : TERM; echo $$ >> {born}; sleep 600' &); done"
    three = f"for m in 1 2 3; do (setsid sh -c {shlex.quote(many)} &); done"
    agent.story(step(runs(f"{three}; until [ $(wc -l < {born}) = 240 ]; do sleep 0.05; done"), ticks="all"))
    ended = project.build("1", command=paced(terminate_s=0.3), timeout_s=60)
    assert ended.code == 3, ended.text
    pids = [int(line) for line in born.read_text().split()]
    assert (len(pids), [pid for pid in pids if alive(pid)]) == (240, [])
    assert ended.stderr.count("ralph: ended what the agent left running: sh -c trap") == 240


def test_what_each_of_many_iterations_leaves_is_ended_before_the_next(
    project: Project, agent: Agent, offspring: Offspring, tmp_path: Path
) -> None:
    names = [f"daemon-{number}" for number in range(5)]
    project.has_tasks(*names)
    look = f"for file in {tmp_path}/offspring/*; do kill -0 $(cat $file) && echo $file >> alive; done; true"
    agent.story(*(step(runs(look), starts(offspring.daemon(name)), ticks="first") for name in names))
    run = project.start(*BUILD, "--max-iterations", "5")
    assert run.wait(30).code == 3
    assert (offspring.alive(), (project.root / "alive").exists()) == ([], False)


PS = "import sys; sys.platform = 'darwin'; from ralph.__main__ import main; main()"
"""Ralph as it is where nobody inherits orphans and there is no /proc: it has seen them in time, or it has not."""


@pytest.mark.usefixtures("real_starts")
def test_where_there_is_only_ps_what_was_seen_is_ended(project: Project, agent: Agent, offspring: Offspring) -> None:
    project.has_tasks("one")
    gone = f"{offspring.sleeper('orphan')} & until [ -e {agent.folder}/go ]; do sleep 0.1; done"
    agent.story(step(starts(offspring.hidden("hidden")), starts(gone), marks("on"), waits_for("go"), ticks="all"))
    run = project.start(*BUILD, "--max-iterations", "1", command=(sys.executable, "-P", "-c", PS))
    eventually(lambda: agent.reached("on") and offspring.alive() == ["hidden", "orphan"])
    keeper, looks = keeper_of(run.pid), 0
    while looks < 2:  # that of before, and one that saw them both
        eventually(lambda: children(keeper, "ps"), 15)
        eventually(lambda: not children(keeper, "ps"))
        looks += 1
    agent.let("go")
    ended = run.wait()
    assert (ended.code, offspring.alive()) == (3, []), ended.text
    assert ended.stderr.count("ended what the agent left running") >= 2


def children(pid: int, name: str) -> list[str]:
    done = subprocess.run(["ps", "--ppid", str(pid), "-o", "comm="], check=False, capture_output=True, text=True)
    return [line for line in done.stdout.split() if line == name]


# What it and others hold.


def test_neither_the_agent_nor_a_notify_script_holds_the_lock(project: Project, agent: Agent, tmp_path: Path) -> None:
    """Else a run could not begin while somebody that ralph no longer knows is alive."""
    seen = tmp_path / "seen"
    notify_with(project, tmp_path, f"readlink /proc/$$/fd/* >> {seen}")
    one_may_go_while_it_looks = "|| true"
    agent.story(step(runs(f"readlink /proc/$PPID/fd/* >> {seen} {one_may_go_while_it_looks}"), writes_done=True))
    assert project.build().code == 0
    held = seen.read_text().split()
    assert len(held) > 6, "otherwise this test proves nothing"
    assert str(project.root) not in held


# What is said of others than the agent.


@pytest.mark.parametrize("code", [0, 1])
def test_what_the_verify_command_leaves_running_is_ended_and_said(
    project: Project, agent: Agent, offspring: Offspring, tmp_path: Path, code: int
) -> None:
    project.has_tasks("one")
    agent.story(DONE)
    waits = f"until [ -e {tmp_path}/offspring/server ]; do sleep 0.02; done"
    run = project.build("1", "--verify", f"{offspring.daemon('server')}; {waits}; exit {code}")
    assert (run.code, offspring.alive()) == (3 if code else 0, []), run.text
    assert "ralph: ended what the verify command left running: " in run.stderr
    assert "left behind" not in run.stderr


# Errors.

READS = """
import os, sys
from pathlib import Path
from ralph.errors import RalphError
from ralph.process import Files, Job, Keeper, Patience, follow, signals
folder = Path(sys.argv[1])
signals.install()
keeper = Keeper("a-run", Patience(interrupt_s=0.2, terminate_s=0.2), folder / "keeper.txt")
files = Files(prompt=Path(os.devnull), output=Path("/proc/self/clear_refs"), errors=folder / "err")
job = Job(argv=["sh", "-c", f"echo $$ > {folder}/pid; exec sleep 600"], env=dict(os.environ), files=files)
try:
    follow(job, keeper, lambda *_: None, lambda *_: False)
except RalphError as error:
    print(error.message, error.exit_code)
keeper.dismiss()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may open a file that can be written and not be read")
def test_a_record_that_cannot_be_read_is_named_and_the_agent_is_ended(tmp_path: Path, mark: str) -> None:
    env = {**os.environ, "TEST_MARK": mark}
    done = call([sys.executable, "-P", "-c", READS, str(tmp_path)], timeout_s=30, env=env)
    assert done.stdout == b"/proc/self/clear_refs: cannot be read: Invalid argument 1\n", done.stderr
    pid = tmp_path / "pid"
    assert not (pid.exists() and alive(int(pid.read_text())))


def test_an_error_of_the_keepers_own_is_written_down_and_said(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    project.has_tasks("one")
    agent.story(DONE)
    run = project.build("--verify", "true", command=(sys.executable, "-P", "-c", BREAKS))
    assert run.code == 1, run.text
    assert "ralph: the keeper failed, see " in run.stderr
    (told,) = project.state.glob("ralph/*/keeper-*.txt")
    assert str(told) in run.stderr
    assert "RuntimeError: a bug" in told.read_text()
    assert offspring.alive() == []


BREAKS = """
import subprocess
class Popen(subprocess.Popen):
    def __init__(self, argv, **more):
        if argv[0] == "sh":
            raise RuntimeError("a bug")
        super().__init__(argv, **more)
subprocess.Popen = Popen
from ralph.__main__ import main
main()
"""
"""A keeper that breaks when it shall start the verify command."""

LATE = """
import threading, time
from pathlib import Path
from ralph.process import Keeper, Patience
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
Keeper("a-run", Patience(), Path("keeper.txt"))
"""


def test_there_is_no_keeper_after_the_first_thread(tmp_path: Path) -> None:
    done = call([sys.executable, "-P", "-c", LATE], timeout_s=30, cwd=str(tmp_path))
    assert (done.code, b"AssertionError" in done.stderr) == (1, True), done.stderr


def test_a_keeper_that_is_asked_to_end_stays(project: Project, agent: Agent, offspring: Offspring) -> None:
    """`systemctl stop` and `pkill ralph` send SIGTERM to all of them at once."""
    run = start(project, agent, starts(offspring.daemon("daemon")))
    offspring.pid("daemon")
    for pid in (keeper_of(run.pid), run.pid):
        os.kill(pid, signal.SIGTERM)
    ended = run.wait()
    assert (ended.code, offspring.alive()) == (-signal.SIGTERM, []), ended.text
    goes_on(project)


class OnADeadDisk:
    """What a keeper says of a program whose child not even SIGKILL ends."""

    patience = Patience()

    def start(self, job: Job) -> None:
        job.files.output.write_text("checked\n")

    def has_left(self) -> bool:
        return True

    def end(self) -> Ended:
        return Ended(code=0, left_over=("sleep 600",), survivors=("cat /mnt/dead",))


def test_what_a_check_leaves_that_cannot_be_ended_is_said_too(tmp_path: Path) -> None:
    files = Files(prompt=Path(os.devnull), output=tmp_path / "output", errors=tmp_path / "errors")
    keeper = cast("Keeper", OnADeadDisk())
    run = run_command("the check", Job(argv=["check"], env={}, files=files), keeper, None)
    assert (run.code, run.output) == (0, "checked\n")
    assert run.remarks == (
        "ended what the check left running: sleep 600",
        "the check left running what cannot be ended, end it by hand: cat /mnt/dead",
    )
