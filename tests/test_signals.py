"""Real signals to ralph: all that its agent started ends in time, and the same command goes on."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from offspring import Offspring, supervisor_of
from ralph_driver import COMMAND, UNHURRIED, Mailbox, Project, Run, Running, alive, eventually, executable, state
from stories import Act, Agent, hangs, ignores, init, marks, raw, starts, step, waits_for, writes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="macOS has no setsid(1); there it is best effort")

BUILD = ("feature.md", "build", "--delay", "0")
DONE = step(ticks="all", writes_done=True)
IN_BACKGROUND = ("sh", "-c", "ulimit -c 0; trap '' INT QUIT; exec \"$@\"", "sh")
"""As a script's `ralph ... &`, which inherits that these are ignored; and it leaves no core file."""
LOCKED = 75


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
    agent.story(raw(init(), *acts, marks("on"), *then), DONE)
    running = project.start(*BUILD, prefix=prefix, command=command)
    eventually(lambda: agent.reached("on"))
    return running


def hammer(running: Running, which: signal.Signals) -> Run:
    """Sends the signal until the run has ended, as an impatient person does."""

    def ended() -> bool:
        running.signal(which)
        return running.poll() is not None

    eventually(ended, 30)  # a git that hangs has a minute
    return running.wait()


def goes_on(project: Project) -> None:
    """The same command, repeated while the supervisor still has the lock, finishes the plan."""
    run = eventually(lambda: None if (run := project.build()).code == LOCKED else run)
    assert run
    assert run.code == 0, run.text
    assert "\nRALPH_DONE\n" in project.progress_text


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_ralph_and_all_that_its_agent_started(
    project: Project, agent: Agent, offspring: Offspring, which: signal.Signals
) -> None:
    mailbox = Mailbox(project)
    run = start(
        project,
        agent,
        starts(offspring.sleeper("tool"), tool=True),
        starts(offspring.sleeper("server")),
        starts(offspring.hidden("hidden")),
        starts(offspring.daemon("daemon")),
        writes(".git/index.lock", ""),
        writes(".git/refs/heads/main.lock", ""),
        then=(starts("kill -STOP $PPID"), hangs()),
    )
    eventually(lambda: offspring.alive() == ["daemon", "hidden", "server", "tool"])
    eventually(lambda: state(agent.calls[0].pid) == "T")
    before = project.progress.read_bytes()
    os.kill(supervisor_of(run.pid), which)  # as `systemctl stop` and `pkill ralph` do
    run.signal(which)
    ended = run.wait()
    assert (ended.code, offspring.alive(), alive(agent.calls[0].pid)) == (-which, [], False), ended.text
    assert agent.was_interrupted(), "it was asked first, so that it reports its cost, though it had stopped itself"
    assert project.progress.read_bytes() == before
    assert "Ralph Stopped" in mailbox.titles[-1]
    assert [*(project.root / ".git").rglob("*.lock")] == []
    assert "index.lock" in ended.text
    goes_on(project)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGQUIT])
def test_a_second_signal_or_sigquit_waits_for_nobody(
    project: Project, agent: Agent, offspring: Offspring, tmp_path: Path, which: signal.Signals
) -> None:
    channel = executable(tmp_path / "notify.sh", f"exec {offspring.sleeper('channel')}")
    project.env["RALPH_CUSTOM_NOTIFY_SCRIPT"] = str(channel)
    deaf = (ignores("INT", "TERM", "HUP"), starts(offspring.stubborn("stubborn")))
    run = start(project, agent, *deaf, prefix=IN_BACKGROUND, command=UNHURRIED)
    assert agent.calls[0].ignored == []
    eventually(lambda: offspring.alive() == ["channel", "stubborn"])
    if which is signal.SIGQUIT:
        run.signal(which)
    ended = run.wait() if which is signal.SIGQUIT else hammer(run, which)
    assert (ended.code, alive(agent.calls[0].pid)) == (-which, False), ended.text
    eventually(lambda: not offspring.alive())


def test_two_signals_at_once_are_one_wish_and_the_next_ends_a_git_that_hangs(
    project: Project, offspring: Offspring, tmp_path: Path
) -> None:
    """A closing terminal hangs up twice, and systemd ends a service with SIGTERM and SIGHUP."""
    folder = project.outputs / "slow"
    hung = f"[ ! -e {folder}/clean ] || exec {offspring.sleeper('git')}"
    executable(tmp_path / "bin" / "git", f'{hung}\nPATH="${{PATH#*:}}"; exec git "$@"')
    ends = f"cd {shlex.quote(str(folder))}; trap 'sleep 0.5; touch clean; exit 1' INT; touch on"
    agent = executable(folder / "agent", f"cat >/dev/null; {ends}; while :; do sleep 0.05; done")
    run = project.start(*BUILD, "--agent", str(agent), command=UNHURRIED)
    eventually((folder / "on").exists)
    for which in (signal.SIGSTOP, signal.SIGHUP, signal.SIGTERM, signal.SIGCONT):  # so that both are there when it runs
        run.signal(which)
    eventually(lambda: offspring.alive() or run.poll())
    assert offspring.alive() == ["git"], "the agent had its time"
    ended = hammer(run, signal.SIGINT)
    assert (ended.code in (-signal.SIGHUP, -signal.SIGTERM), offspring.alive()) == (True, []), ended.text


CONTAINER = 'mkdir -p ../there; mount --bind . ../there && cd ../there && exec "$@"'


def test_under_nohup_and_beside_the_user_who_commits_a_run_continues(
    project: Project, agent: Agent, tmp_path: Path
) -> None:
    """A hang-up is ignored; a lock of git's that is the user's, or older than the iteration, is left alone.

    The user's git is in a container, where that can be had; what writes another lock is no git.
    """
    older, lock, go = project.root / ".git" / "config.lock", project.root / ".git" / "index.lock", tmp_path / "go"
    older.touch()
    project.has_tasks("one")
    agent.story(step(marks("on"), waits_for("go")), step(waits_for("end"), ticks="all", writes_done=True))
    run = project.start(*BUILD, prefix=("nohup",))
    eventually(lambda: agent.reached("on"))
    run.signal(signal.SIGHUP)
    editor = f"sh -c 'until [ -e {go} ]; do sleep 0.02; done; echo message > \"$1\"' sh"
    (project.root / "feature.md").write_text("# Another feature\n")
    container = [
        "unshare",
        "-m" if os.geteuid() == 0 else "-rm",
        "--propagation",
        "private",
        "sh",
        "-c",
        CONTAINER,
        "sh",
    ]
    if not shutil.which("unshare") or subprocess.run([*container, "true"], check=False, cwd=project.root).returncode:
        container = []
    commit = [*container, "git", "commit", "-q", "-a"]
    person = subprocess.Popen(commit, cwd=project.root, env=project.env | {"GIT_EDITOR": editor})
    eventually(lock.exists)
    agent.let("go")
    eventually(lambda: len(agent.calls) == 2)
    go.touch()
    assert person.wait(60) == 0
    works = ["sh", "-c", "while touch .git/theirs.lock; do sleep 0.1; done"]
    theirs = subprocess.Popen(works, cwd=project.root, env=project.env)
    eventually((project.root / ".git" / "theirs.lock").exists)
    agent.let("end")
    ended = run.wait()
    theirs.kill()
    theirs.wait()
    assert (ended.code, older.exists(), "removed" in ended.text) == (0, True, False)
    assert project.git("log", "-1", "--format=%s") == "message\n"
