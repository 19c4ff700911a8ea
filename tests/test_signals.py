"""Real signals to real processes: however a run ends, what its agent started ends, and the next run goes on."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from keepers import keeper_of
from offspring import Offspring
from ralph_driver import COMMAND, UNHURRIED, Project, Run, Running, alive, eventually, paced
from stories import Act, Agent, hangs, ignores, init, marks, raw, says, sleeps, starts, step, waits_for, writes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="macOS has no setsid(1); there it is best effort")

BUILD = ("feature.md", "build", "--delay", "0")
NO_CORE_FILES = ("sh", "-c", 'ulimit -c 0; exec "$@"', "sh")
LOCKED = 75


@pytest.fixture
def notices(project: Project, tmp_path: Path) -> Path:
    """What the custom notify script was told so far."""
    told = tmp_path / "notices"
    notify_with(project, tmp_path, f"printf '%s\\n' \"$1\" >> '{told}'")
    told.touch()
    return told


def notify_with(project: Project, folder: Path, body: str) -> None:
    script = folder / "notify.sh"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o700)
    project.env["RALPH_CUSTOM_NOTIFY_SCRIPT"] = str(script)


def start(
    project: Project,
    agent: Agent,
    *acts: Act,
    then: tuple[Act, ...] = (hangs(),),
    prefix: tuple[str, ...] = (),
    command: Sequence[str] = COMMAND,
) -> Running:
    """A run whose agent has done `acts` and now does `then`; its second invocation finishes the plan."""
    project.has_tasks("one")
    agent.story(raw(init(), *acts, marks("on"), *then), step(ticks="all", writes_done=True))
    running = project.start(*BUILD, prefix=prefix, command=command)
    eventually(lambda: agent.reached("on"))
    return running


def hammer(running: Running, which: signal.Signals) -> None:
    """Sends the signal until the run has ended, as an impatient person does."""

    def ended() -> bool:
        running.signal(which)
        return running.poll() is not None

    eventually(ended)


def text_of(running: Running) -> str:
    return running.stdout + running.stderr


def goes_on(project: Project) -> None:
    """The same command, repeated while the keeper still has the lock, finishes the plan."""

    def once_more() -> Run | None:
        run = project.build()
        return None if run.code == LOCKED else run

    run = eventually(once_more)
    assert run
    assert run.code == 0, run.text
    assert "\nRALPH_DONE\n" in project.progress_text


# A signal to ralph.


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_ralph_and_all_that_its_agent_started(
    project: Project, agent: Agent, offspring: Offspring, notices: Path, which: signal.Signals
) -> None:
    run = start(
        project,
        agent,
        starts(offspring.sleeper("tool"), tool=True),
        starts(offspring.sleeper("server")),
        starts(offspring.hidden("hidden")),
        starts(offspring.daemon("daemon")),
        writes(".git/index.lock", ""),
    )
    eventually(lambda: offspring.alive() == ["daemon", "hidden", "server", "tool"])
    before = project.progress.read_bytes()
    run.signal(which)
    ended = run.wait()
    assert (ended.code, offspring.alive(), alive(agent.calls[0].pid)) == (-which, [], False), ended.text
    assert agent.was_interrupted(), "it was asked first, so that it reports its cost"
    assert project.progress.read_bytes() == before
    assert "Ralph Stopped" in notices.read_text()
    assert not (project.root / ".git" / "index.lock").exists()
    assert "index.lock" in ended.text
    goes_on(project)


def test_what_ignores_every_signal_but_one_gets_that_one(project: Project, agent: Agent, offspring: Offspring) -> None:
    run = start(project, agent, starts(offspring.stubborn("stubborn")), command=paced(terminate_s=0.3))
    offspring.pid("stubborn")
    run.signal(signal.SIGINT)
    ended = run.wait()
    assert (ended.code, offspring.alive()) == (-signal.SIGINT, []), ended.text


def test_an_agent_that_ignores_signals_is_ended_all_the_same(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    deaf = (starts(offspring.sleeper("server")), ignores("INT", "TERM", "HUP"))
    run = start(project, agent, *deaf, command=paced(interrupt_s=0.3, terminate_s=0.3))
    offspring.pid("server")
    run.signal(signal.SIGINT)
    ended = run.wait()
    assert (ended.code, offspring.alive(), alive(agent.calls[0].pid)) == (-signal.SIGINT, [], False), ended.text


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_does_not_wait_for_an_agent_that_ignores_it(
    project: Project, agent: Agent, offspring: Offspring, which: signal.Signals
) -> None:
    deaf = (ignores("INT", "TERM", "HUP"), starts(offspring.stubborn("stubborn")))
    run = start(project, agent, *deaf, command=UNHURRIED)
    offspring.pid("stubborn")
    hammer(run, which)
    ended = run.wait()
    assert (ended.code, offspring.alive(), alive(agent.calls[0].pid)) == (-which, [], False), ended.text


def test_sigquit_does_not_wait(project: Project, agent: Agent, offspring: Offspring) -> None:
    deaf = (ignores("INT", "TERM"), starts(offspring.stubborn("stubborn")))
    run = start(project, agent, *deaf, prefix=NO_CORE_FILES, command=UNHURRIED)
    offspring.pid("stubborn")
    run.signal(signal.SIGQUIT)
    ended = run.wait()
    assert (ended.code, offspring.alive(), alive(agent.calls[0].pid)) == (-signal.SIGQUIT, [], False), ended.text


def test_a_second_signal_does_not_wait_for_a_channel_that_hangs(
    project: Project, agent: Agent, offspring: Offspring, tmp_path: Path
) -> None:
    notify_with(project, tmp_path, f"exec {offspring.sleeper('channel')}")
    run = start(project, agent, command=UNHURRIED)
    offspring.pid("channel")
    hammer(run, signal.SIGINT)
    assert (run.wait().code, alive(agent.calls[0].pid)) == (-signal.SIGINT, False)


def test_ctrl_c_ends_the_pause_between_iterations(project: Project, agent: Agent, notices: Path) -> None:
    project.has_tasks("one", "two")
    agent.story(step(ticks="first"))
    run = project.start("feature.md", "build", "--delay", "10m")
    eventually(lambda: "#1 ·" in text_of(run))
    run.signal(signal.SIGINT)
    assert run.wait().code == -signal.SIGINT
    assert "Ralph Stopped" in notices.read_text()


def test_a_background_job_of_a_script_can_be_interrupted(project: Project, agent: Agent, offspring: Offspring) -> None:
    """A shell starts `ralph ... &` with SIGINT and SIGQUIT ignored, and that is inherited."""
    run = start(
        project,
        agent,
        starts(offspring.sleeper("server")),
        prefix=("sh", "-c", "trap '' INT QUIT; exec \"$@\"", "sh"),
    )
    offspring.pid("server")
    assert agent.calls[0].ignored == []
    run.signal(signal.SIGINT)
    ended = run.wait()
    assert (ended.code, offspring.alive()) == (-signal.SIGINT, []), ended.text


def test_under_nohup_a_hang_up_is_ignored(project: Project, agent: Agent) -> None:
    run = start(project, agent, prefix=("nohup",), then=(waits_for("go"),))
    run.signal(signal.SIGHUP)
    agent.let("go")
    assert run.wait().code == 0
    assert len(agent.calls) == 2


def test_suspending_is_refused_with_a_line(project: Project, agent: Agent) -> None:
    run = start(project, agent, says("Here I am."), then=(waits_for("go"),))
    eventually(lambda: "Here I am." in text_of(run))
    said = text_of(run)
    run.signal(signal.SIGTSTP)
    line = eventually(lambda: text_of(run).replace(said, "").strip())
    assert len(line.splitlines()) == 1
    agent.let("go")
    assert run.wait().code == 0


# The death of ralph, of the agent, of the keeper.


def test_the_keeper_ends_everything_when_ralph_is_killed(project: Project, agent: Agent, offspring: Offspring) -> None:
    run = start(
        project,
        agent,
        starts(offspring.sleeper("tool"), tool=True),
        starts(offspring.sleeper("server")),
        starts(offspring.hidden("hidden")),
    )
    eventually(lambda: offspring.alive() == ["hidden", "server", "tool"])
    run.signal(signal.SIGKILL)
    assert run.wait().code == -signal.SIGKILL
    eventually(lambda: not offspring.alive())
    eventually(lambda: not alive(agent.calls[0].pid))
    goes_on(project)


def test_the_keeper_holds_the_lock_until_the_agent_is_gone(project: Project, agent: Agent) -> None:
    run = start(project, agent, ignores("INT", "TERM", "HUP"), command=paced(interrupt_s=0.5, terminate_s=3))
    run.signal(signal.SIGKILL)
    run.wait()
    assert project.build().code == LOCKED
    assert alive(agent.calls[0].pid), "otherwise this test proves nothing"
    eventually(lambda: not alive(agent.calls[0].pid), 15)
    goes_on(project)


@pytest.mark.parametrize("when", ["while an agent works", "while ralph pauses"])
def test_without_its_keeper_a_run_ends_and_says_so(
    project: Project, agent: Agent, offspring: Offspring, when: str
) -> None:
    if when == "while an agent works":
        run = start(project, agent, starts(offspring.sleeper("tool"), tool=True), starts(offspring.hidden("hidden")))
        eventually(lambda: offspring.alive() == ["hidden", "tool"])
        os.kill(keeper_of(run.pid), signal.SIGKILL)
    else:
        project.has_tasks("one", "two")
        agent.story(step(ticks="first"), step(ticks="all", writes_done=True))
        run = project.start("feature.md", "--delay", "5s")
        eventually(lambda: "#1 ·" in run.stdout)
        os.kill(keeper_of(run.pid), signal.SIGKILL)
    ended = run.wait()
    assert (ended.code, offspring.alive(), alive(agent.calls[0].pid)) == (1, [], False), ended.text
    assert "the keeper was killed" in ended.stderr
    assert "cannot be started" not in ended.text
    assert "Traceback" not in ended.text
    goes_on(project)


def test_a_killed_agent_is_a_failed_iteration_and_the_run_goes_on(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    project.has_tasks("one")
    agent.story(
        raw(init(), starts(offspring.sleeper("server")), waits_for("go"), exit_code=-9),
        step(ticks="all", writes_done=True),
    )
    run = project.start(*BUILD)
    offspring.pid("server")
    agent.let("go")
    ended = run.wait()
    assert (ended.code, len(agent.calls), offspring.alive()) == (0, 2, []), ended.text


# What an agent leaves behind when it ends well.


def test_a_server_that_is_left_behind_is_ended_and_said(project: Project, agent: Agent, offspring: Offspring) -> None:
    project.has_tasks("one")
    agent.story(
        step(
            starts("exec sleep 4242", "plain"),
            starts("exec sleep 2424", "loud", holds_stdout=True),
            starts(offspring.daemon("daemon")),
            ticks="all",
            writes_done=True,
        )
    )
    ended = project.build()
    left = [offspring.alive(), alive(agent.child("plain")), alive(agent.child("loud"))]
    assert (ended.code, left) == (0, [[], False, False]), ended.text
    assert "sleep 4242" in ended.text


@pytest.mark.parametrize("how", ["exec", "env -i PATH=/usr/bin:/bin"])
def test_a_notify_script_is_never_taken_for_the_agents(
    project: Project, agent: Agent, tmp_path: Path, how: str
) -> None:
    """It runs all through the sweep after the first iteration, and may clean its environment."""
    told, second = tmp_path / "told", agent.folder / "mark-second"
    waits = f"until [ -e '{second}' ]; do sleep 0.02; done; echo \"$1\" >> '{told}'"
    notify_with(project, tmp_path, f'{how} sh -c {shlex.quote(waits)} sh "$1"')
    project.has_tasks("one")
    agent.story(step(starts("exec sleep 4242")), step(marks("second"), ticks="all", writes_done=True))
    ended = project.build()
    assert ended.code == 0, ended.text
    assert not alive(agent.child())
    assert "Ralph Started" in told.read_text()


def test_what_a_notify_script_leaves_running_is_a_persons(
    project: Project, agent: Agent, tmp_path: Path, offspring: Offspring
) -> None:
    """A player or a browser: its parent is gone, so it is ralph's child when the first agent's are swept."""
    notify_with(
        project, tmp_path, f"[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; {offspring.sleeper('player')} & }}"
    )
    project.has_tasks("one")
    waits = f"until [ -e '{tmp_path}/offspring/player' ]; do sleep 0.02; done; exec sleep 4242"
    agent.story(step(starts(waits)), step(ticks="all", writes_done=True))
    assert project.build().code == 0
    assert offspring.alive() == ["player"]


def test_a_notify_script_that_never_ends_ends_with_ralph(
    project: Project, agent: Agent, tmp_path: Path, offspring: Offspring
) -> None:
    notify_with(project, tmp_path, f"exec {offspring.sleeper('script')}")
    run = start(project, agent)
    offspring.pid("script")
    run.signal(signal.SIGINT)
    eventually(lambda: "interrupted" in text_of(run))
    run.signal(signal.SIGQUIT)
    assert run.wait().code == -signal.SIGINT
    eventually(lambda: not offspring.alive())


def test_an_agent_that_hangs_after_its_result_is_ended_and_has_succeeded(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    project.has_tasks("one")
    agent.story(step(starts(offspring.sleeper("server")), ticks="all", writes_done=True, after=[hangs()]))
    ended = project.build(command=paced(after_result_s=0.3))
    assert (ended.code, len(agent.calls), offspring.alive()) == (0, 1, []), ended.text
    assert not alive(agent.calls[0].pid)


def test_an_agent_that_is_woken_after_its_result_may_finish(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    woken = [sleeps(0.1), says("The job in the background is done."), sleeps(1.3), writes("late.txt", "late")]
    agent.story(raw(*step()["acts"], *woken, *step(ticks="all", writes_done=True)["acts"]))
    ended = project.build(command=paced(after_result_s=1))
    assert (ended.code, (project.root / "late.txt").exists()) == (0, True), ended.text


# .git/index.lock


def test_the_index_lock_of_an_agent_that_died_does_not_stop_the_next(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(
        raw(init(), writes(".git/index.lock", ""), exit_code=-9),
        step(ticks="all", writes_done=True, commits="second try"),
    )
    ended = project.build()
    assert (ended.code, project.git("log", "-1", "--format=%s")) == (0, "second try\n"), ended.text


def test_the_index_lock_of_another_worktree_is_its_own(project: Project, agent: Agent) -> None:
    other = worktree(project)
    git_folder = project.root / ".git" / "worktrees" / other.name
    agent.story(
        raw(init(), writes(str(git_folder / "index.lock"), ""), exit_code=-9),
        step(file="a.txt", commits="second try", writes_done=True),
    )
    ended = project.ralph(*BUILD, cwd=other)
    assert not (git_folder / "index.lock").exists(), ended.text
    assert project.git("log", "-1", "--format=%s", other.name) == "second try\n"


def test_an_older_index_lock_is_left_alone(project: Project, agent: Agent) -> None:
    lock = project.root / ".git" / "index.lock"
    lock.touch()
    run = start(project, agent)
    run.signal(signal.SIGINT)
    run.wait()
    assert lock.exists()


def test_the_index_lock_of_a_person_who_commits_is_left_alone(project: Project, agent: Agent, tmp_path: Path) -> None:
    lock, go = project.root / ".git" / "index.lock", tmp_path / "go"
    run = start(project, agent)
    editor = f"sh -c 'until [ -e {go} ]; do sleep 0.02; done; echo message > \"$1\"' sh"
    (project.root / "feature.md").write_text("# Another feature\n")
    person = subprocess.Popen(["git", "commit", "-q", "-a"], cwd=project.root, env=project.env | {"GIT_EDITOR": editor})
    eventually(lock.exists)
    run.signal(signal.SIGINT)
    run.wait()
    go.touch()
    assert person.wait(60) == 0
    assert project.git("log", "-1", "--format=%s") == "message\n"


def worktree(project: Project) -> Path:
    """A second working tree of the same repository, on a branch of its name."""
    other = project.root.parent / "other"
    project.git("worktree", "add", "-q", "-b", other.name, str(other))
    return other
