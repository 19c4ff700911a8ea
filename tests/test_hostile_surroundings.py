"""What shells, containers, kernels and people do to a run: nothing of it is lost, left behind or ended by mistake."""

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from offspring import Offspring
from ralph_driver import UNHURRIED, Project, Run, Running, alive, eventually, is_free, marked
from stories import Agent, edits, hangs, init, marks, raw, says, starts, step, waits_for
from test_signals import BUILD, goes_on, hammer, notify_with, start

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc and uses bash, unshare and nsenter"),
    pytest.mark.usefixtures("real_starts"),
]

"""Less than any of the five seconds that ralph waits for something to end by itself."""

CONTAINER = ("unshare", "-pf", "--mount-proc", "--kill-child")
"""Runs a command as PID 1 of a process namespace of its own."""


def launched(project: Project, *lines: str, env: dict[str, str] | None = None) -> Running:
    """A build by a ralph to which `lines` of Python happened first."""
    source = "\n".join(("import sys, os, signal, subprocess", *lines, "from ralph.__main__ import main", "main()"))
    argv = [*project.prefix, sys.executable, "-P", "-c", source, *BUILD]
    return Running(argv, project.env | (env or {}), project.root, project.outputs / "launched.x")


# Processes that are not the agent's.


@pytest.fixture
def under_bash(project: Project, offspring: Offspring, tmp_path: Path) -> tuple[str, ...]:
    """A bash that starts a server, and a tee for ralph's output, and then becomes ralph."""
    project.env["LOG"] = str(tmp_path / "log")
    script = f'{offspring.sleeper("server")} & exec "$@" > >(exec tee "$LOG" >/dev/null)'
    return ("bash", "-c", script, "bash")


def test_what_a_shell_started_before_it_became_ralph_is_not_the_agents(
    project: Project, agent: Agent, offspring: Offspring, under_bash: tuple[str, ...], tmp_path: Path
) -> None:
    project.has_tasks("one", "two")
    left = starts("exec sleep 600")
    agent.story(step(left, says("First."), ticks="first"), step(says("Second."), ticks="all", writes_done=True))
    ended = project.ralph(*BUILD, prefix=under_bash)
    assert (ended.code, alive(agent.child()), offspring.alive()) == (0, False, ["server"]), ended.text
    log = eventually(lambda: text if "ralph: done" in (text := (tmp_path / "log").read_text()) else "")
    assert [word for word in log.split() if word in ("First.", "Second.")] == ["First.", "Second."]


def test_nor_does_the_keeper_take_it_for_the_agents(
    project: Project, agent: Agent, offspring: Offspring, under_bash: tuple[str, ...]
) -> None:
    """Killed at once: what of the agent's has no parent, no environment and no session left is known all the same."""
    run = start(project, agent, starts(offspring.daemon("daemon")), prefix=under_bash)
    offspring.pid("daemon")
    run.signal(signal.SIGKILL)
    run.wait()
    eventually(lambda: "daemon" not in offspring.alive())
    goes_on(project)
    assert offspring.alive() == ["server"]
    assert not list(Path(project.env["TMPDIR"]).iterdir()), "its litter"


def test_as_pid_1_of_a_container(project: Project, agent: Agent, mark: str) -> None:
    """Everything there without a parent becomes ralph's child: what `docker exec` leaves running, too."""
    if subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("may not make a process namespace (not root, or a container without that right)")
    project.has_tasks("one", "two")
    agent.story(
        step(starts("exec sleep 4242"), marks("on"), waits_for("go"), ticks="first"),
        step(marks("second"), waits_for("end"), ticks="all", writes_done=True),
    )
    run = project.start(*BUILD, prefix=CONTAINER)
    eventually(lambda: agent.reached("on"))
    (first,) = [pid for pid in commands(mark, sys.executable, "-m ralph") if parent(pid) == run.pid]
    enter = ["nsenter", "-t", str(first), "-p", "-m", "sh", "-c", "sleep 5353 >/dev/null 2>&1 &"]
    subprocess.run(enter, env=project.env, check=True)
    eventually(lambda: [parent(pid) for pid in commands(mark, "sleep 5353")] == [first])
    agent.let("go")
    eventually(lambda: agent.reached("second"))
    left = [len(commands(mark, *words)) for words in (("sleep 4242",), ("sleep 5353",), (sys.executable, "-m ralph"))]
    assert left == [0, 1, 2], "the agent's, somebody's, ralph and its keeper"
    agent.let("end")
    assert run.wait().code == 0


def commands(mark: str, begin: str, word: str = "") -> list[int]:
    """This test's processes whose command line begins so and has that word."""
    lines = {pid: command_line(pid) for pid in marked(mark)}
    return [pid for pid, line in lines.items() if line.startswith(begin) and word in line]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


# The death of ralph, and errors of its own.


def test_an_error_of_ralphs_own_leaves_nothing_running_and_is_told(
    project: Project, agent: Agent, offspring: Offspring, tmp_path: Path
) -> None:
    is_alive = f"kill -0 $(cat {tmp_path}/offspring/server) && echo 'still alive'"
    notify_with(project, tmp_path, f"(printf '%s\\n' \"$1\"; {is_alive}) >> {tmp_path}/notices")
    project.has_tasks("one")
    agent.story(
        raw(init(), starts(offspring.sleeper("server")), waits_for("go"), says("Hello."), hangs()),
        step(ticks="all", writes_done=True),
    )
    run = launched(
        project,
        "import ralph.screen.view",
        "def breaks(self, event):",
        "    if event['type'] == 'assistant': raise RuntimeError('a bug')",
        "ralph.screen.view.View.show = breaks",
    )
    offspring.pid("server")
    agent.let("go")
    ended = run.wait()
    assert (ended.code, offspring.alive(), alive(agent.calls[0].pid)) == (1, [], False), ended.text
    assert ended.stderr.endswith("RuntimeError: a bug\n")
    assert "Traceback" in ended.stderr
    _, stopped, after = (tmp_path / "notices").read_text().partition("Ralph Stopped")
    assert stopped
    assert "still alive" not in after
    goes_on(project)


@pytest.mark.parametrize(
    ("ticked", "reason"),
    [
        pytest.param(["one"], '1 task is not ticked: "two"', id="since it is wrong"),
        pytest.param(["one", "two"], "ralph was ended before it could check it", id="since nothing can tell"),
    ],
)
def test_a_claim_that_a_killed_ralph_could_not_check_is_taken_back(
    project: Project, agent: Agent, ticked: list[str], reason: str
) -> None:
    project.has_tasks("one", "two")
    claim = [*(edits(f"- [ ] {task}", f"- [x] {task}") for task in ticked), edits("IN_PROGRESS", "RALPH_DONE")]
    agent.story(
        raw(init(), *claim, marks("on"), hangs()),
        step(marks("second"), waits_for("go"), ticks="all", writes_done=True),
    )
    killed = project.start(*BUILD)
    eventually(lambda: agent.reached("on"))
    killed.signal(signal.SIGKILL)
    killed.wait()
    eventually(lambda: is_free(project.root))
    run = project.start(*BUILD)
    eventually(lambda: agent.reached("second"))
    status, why = project.progress_text.split("## Verification")
    assert "\nIN_PROGRESS\n" in status
    assert reason in why
    agent.let("go")
    assert run.wait().code == 0
    assert "\nRALPH_DONE\n" in project.progress_text
    assert "## Verification" not in project.progress_text


def test_a_persons_done_after_a_run_is_believed_in_silence(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    agent.story(step(ticks="first"))
    assert project.build("1").code == 3
    project.has_tasks("x one", "two", status="RALPH_DONE")
    assert project.build() == Run(code=0, stdout="", stderr="")
    assert len(agent.calls) == 1


# Signals, as they come.


def slow_to_end(project: Project, *, takes_s: float) -> Path:
    """An agent that takes so long for its clean end; the folder where it leaves "asked", and "clean" at last."""
    folder = project.outputs / "slow"
    folder.mkdir()
    script = folder / "agent"
    script.write_text(
        f"#!/bin/sh\ncat >/dev/null\ncd {shlex.quote(str(folder))}\n"
        f"trap 'touch asked; sleep {takes_s}; touch clean; exit 1' INT\ntouch on\nwhile :; do sleep 0.05; done\n"
    )
    script.chmod(0o700)
    project.env["RALPH_AGENT"] = str(script)
    return folder


def test_two_signals_at_once_are_one_wish(project: Project) -> None:
    """A closing terminal hangs up twice, and systemd ends a service with SIGTERM and SIGHUP."""
    folder = slow_to_end(project, takes_s=0.5)
    run = project.start(*BUILD)
    eventually((folder / "on").exists)
    for which in (signal.SIGSTOP, signal.SIGHUP, signal.SIGTERM, signal.SIGCONT):  # so that both are there when it runs
        run.signal(which)
    assert run.wait().code in (-signal.SIGHUP, -signal.SIGTERM)
    assert (folder / "clean").exists()


def test_two_signals_that_a_person_sends_are_two(project: Project) -> None:
    folder = slow_to_end(project, takes_s=600)
    run = project.start(*BUILD)
    eventually((folder / "on").exists)
    run.signal(signal.SIGINT)
    eventually((folder / "asked").exists)
    asked = time.monotonic()
    eventually(lambda: time.monotonic() > asked + 0.2)
    run.signal(signal.SIGINT)
    assert run.wait().code == -signal.SIGINT
    assert not (folder / "clean").exists()


def test_a_git_that_hangs_is_left_behind_by_a_second_signal(
    project: Project, agent: Agent, offspring: Offspring, tmp_path: Path
) -> None:
    git = tmp_path / "bin" / "git"
    hung = f"exec {offspring.sleeper('git')}"
    git.write_text(f'#!/bin/sh\n[ -e {agent.folder}/mark-on ] && {hung}\nPATH="${{PATH#*:}}"; exec git "$@"\n')
    git.chmod(0o700)
    run = start(project, agent)
    run.signal(signal.SIGINT)
    offspring.pid("git")
    hammer(run, signal.SIGINT)
    assert (run.wait().code, offspring.alive()) == (-signal.SIGINT, [])


def test_what_is_born_while_the_left_over_are_ended_is_asked_too(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    project.has_tasks("one")
    forked = agent.folder / "mark-forked"  # the one that is born may be ended before it can write anything down
    forks = f"trap {shlex.quote(f'touch {forked}; ' + offspring.sleeper('born') + ' & exit')} TERM"
    parent = f"{forks}; touch {agent.folder}/mark-ready; while :; do sleep 0.01; done"
    agent.story(step(starts(parent), waits_for("ready"), ticks="all", writes_done=True))
    ended = project.ralph(*BUILD, command=UNHURRIED)
    assert (ended.code, forked.exists(), offspring.alive()) == (0, True, [])
