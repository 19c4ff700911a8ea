"""The process below which all runs that is not ralph's own: what it finds and ends, also after deaths and errors."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from offspring import Offspring, supervisor_of
from ralph_driver import UNHURRIED, Mailbox, Project, alive, eventually, executable, is_free, paced, state
from stories import Agent, hangs, ignores, marks, prints, raw, runs, says, starts, step, tries, waits_for, writes
from test_signals import BUILD, DONE, LOCKED, goes_on, start
from test_strict import wants

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc, and uses setsid(1) and bash")


# What is left when the agent has gone.


def test_a_server_that_is_left_behind_is_ended_and_said(project: Project, agent: Agent, offspring: Offspring) -> None:
    project.has_tasks("one")
    forked = agent.folder / "mark-forked"  # the one that is born may be ended before it can write anything down
    born = f": > {forked}; {offspring.sleeper('born')} & exit"
    left = [
        starts("exec sleep 4242", "plain"),
        starts("exec sleep 2424", "loud", holds_stdout=True),
        starts("kill -STOP $$; exec sleep 600", "stopped"),
        starts(
            f"trap {shlex.quote(born)} TERM; touch {agent.folder}/mark-ready; while :; do sleep 0.01; done", "parent"
        ),
        starts(offspring.daemon("daemon")),
        runs(offspring.until("daemon")),
    ]
    agent.story(step(*left, waits_for("ready"), waits_for("go"), ticks="all", writes_done=True))
    run = project.start(*BUILD, command=paced(terminate_s=600))
    eventually(lambda: state(agent.child("stopped")) == "T")
    agent.let("go")
    ended = run.wait()
    assert (ended.code, forked.exists(), offspring.alive()) == (0, True, []), ended.text
    assert not [name for name in ("plain", "loud", "stopped", "parent") if alive(agent.child(name))]
    assert "ralph: ended what the agent left running: sleep 4242\n" in ended.stderr


PS = "import sys; sys.platform = 'darwin'; from ralph.__main__ import main; main()"
"""Ralph as it is where nobody inherits orphans and there is no /proc: it has seen them in time, or it has not."""


def test_where_there_is_only_ps_what_was_seen_is_ended(project: Project, agent: Agent, offspring: Offspring) -> None:
    project.has_tasks("one")
    left = f"until [ -e {agent.folder}/mark-leave ]; do sleep 0.1; done"
    gone = f"{offspring.sleeper('orphan')} & timeout 600 sh -c '{left}'"
    both = starts(offspring.hidden("hidden")), starts(gone, "parent")
    agent.story(step(*both, marks("on"), waits_for("go"), ticks="all"))
    run = project.start(*BUILD, "--max-iterations", "1", prefix=["env"], command=(sys.executable, "-P", "-c", PS))
    eventually(lambda: agent.reached("on") and offspring.alive() == ["hidden", "orphan"])
    ps = ["ps", "--ppid", str(supervisor_of(run.pid)), "-o", "comm="]

    def looks() -> bool:
        return "ps" in subprocess.run(ps, check=False, capture_output=True, text=True).stdout.split()

    for _ in range(2):  # that of before, and one that saw them both
        eventually(looks)
        eventually(lambda: not looks())
    agent.let("leave")
    eventually(lambda: not alive(agent.child("parent")))
    agent.let("go")
    ended = run.wait()
    assert (ended.code, offspring.alive()) == (3, []), ended.text
    assert ended.stderr.count("ended what the agent left running") >= 2


def test_what_a_check_a_hook_and_the_verify_command_leave_running_is_ended_and_said(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    check = project.home / "check"
    for script, name in ((check, "of-check"), (project.root / ".git" / "hooks" / "pre-commit", "of-hook")):
        executable(script, f"{offspring.daemon(name)}\n{offspring.until(name)}; test -e one.txt")
    wants(project, f"- [ ] one: The first\n  - verify: Run `{check}` - exits with code 0\n")
    agent.story(tries(writes("one.txt", "1\n")))
    run = project.build("--strict", "--verify", f"{offspring.daemon('of-verify')}; {offspring.until('of-verify')}")
    assert (run.code, offspring.alive()) == (0, []), run.text
    assert all(offspring.pid(name) for name in ("of-check", "of-hook", "of-verify")), "otherwise this proves nothing"
    for what in ("the check", "the commit", "the verify command"):
        assert f"ralph: ended what {what} left running: " in run.stderr, run.text


# What is not the agent's.


def test_what_a_shell_or_a_notify_script_started_is_not_the_agents_and_nobody_but_ralph_holds_the_lock(
    project: Project, agent: Agent, offspring: Offspring, tmp_path: Path
) -> None:
    """A server and a tee, of a shell that became ralph; a player, whose parent is gone when the first agent ends."""
    script = f'{offspring.sleeper("server")} & exec "$@" > >(exec tee {tmp_path}/log >/dev/null)'
    once = tmp_path / "once"
    player = f"[ -e {once} ] || {{ touch {once}; env -i {offspring.sleeper('player')} & }}"
    project.env["RALPH_CUSTOM_NOTIFY_SCRIPT"] = str(executable(tmp_path / "notify.sh", player))
    project.has_tasks("one", "two")
    left = starts(f"{offspring.until('player')}; exec sleep 600")
    agent.story(step(left, says("First."), ticks="first"), step(says("Second."), ticks="all", writes_done=True))
    ended = project.ralph(*BUILD, prefix=("bash", "-c", script, "bash"))
    assert (ended.code, alive(agent.child()), offspring.alive()) == (0, False, ["player", "server"]), ended.text
    log = eventually(lambda: text if "ralph: done" in (text := (tmp_path / "log").read_text()) else "")
    assert [word for word in log.split() if word in ("First.", "Second.")] == ["First.", "Second."]
    assert is_free(project.root), "neither of them has the lock"


# Deaths.


def test_when_ralph_or_its_supervisor_is_killed_the_other_ends_everything_and_holds_the_lock_until_then(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    """Killed at once: what of the agent's has no parent, no environment and no session left is known all the same."""
    tool, hidden = starts(offspring.sleeper("tool"), tool=True), starts(offspring.hidden("hidden"))
    deaf = (starts(offspring.daemon("daemon")), ignores("INT", "TERM", "HUP"))
    run = start(project, agent, tool, hidden, *deaf, command=UNHURRIED)
    eventually(lambda: offspring.alive() == ["daemon", "hidden", "tool"])
    run.signal(signal.SIGKILL)
    run.wait()
    assert project.build().code == LOCKED
    os.kill(agent.calls[0].pid, signal.SIGKILL)
    eventually(lambda: not offspring.alive())
    goes_on(project)
    assert not list(Path(project.env["TMPDIR"]).iterdir()), "its litter"
    run = start(project, agent, tool, hidden)
    eventually(lambda: offspring.alive() == ["hidden", "tool"])
    os.kill(supervisor_of(run.pid), signal.SIGKILL)
    ended = run.wait()
    assert (ended.code, offspring.alive(), alive(agent.calls[-1].pid)) == (1, [], False), ended.text
    assert "the supervisor died" in ended.stderr
    assert not [word for word in ("cannot be started", "Traceback") if word in ended.text]
    goes_on(project)


# Errors of ralph's own.


def without(module: str, name: str) -> tuple[str, ...]:
    """A ralph that has nothing there, where it calls a function."""
    breaks = f"import {module}; {module}.{name} = None; from ralph.__main__ import main; main()"
    return (sys.executable, "-P", "-c", breaks)


def test_an_error_of_ralphs_own_or_its_supervisors_leaves_nothing_running_and_is_reported(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    mailbox = Mailbox(project)
    project.has_tasks("one")
    server = (starts(offspring.sleeper("server")), runs(offspring.until("server")))
    agent.story(raw(*server, prints("Hi.\n"), hangs()), DONE)
    ended = project.build(command=without("ralph.agent.stream", "shorten"))
    assert (ended.code, offspring.alive(), alive(agent.calls[0].pid)) == (1, [], False), ended.text
    assert ended.stderr.endswith("TypeError: 'NoneType' object is not callable\n")
    assert "Ralph Blocked" in mailbox.titles[-1]
    ended = project.build(command=without("ralph.process.supervisor", "spawn"))
    assert (ended.code, "ralph: the supervisor died" in ended.stderr) == (1, True), ended.text
    goes_on(project)
