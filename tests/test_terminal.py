"""A person at a terminal: keys typed in tmux, a window closed, and what may be seen on the screen."""

import shlex
import subprocess

from leaps import leaping
from offspring import Offspring
from ralph_driver import COMMAND, Project, alive, eventually
from stories import Act, Agent, init, marks, prints, raw, refused, result, says, starts, step, tool, waits_for
from tmux import Tmux

BUILD = ("feature.md", "build", "--delay", "0")
RALPH = shlex.join([*COMMAND, *BUILD])
HOSTILE = (
    "\x1b]0;stolen title\x07\x1b[2J\x1b[35;43m\x9b32m\x1bP+q\x1b\\\x08\x7f\rover\x00written \x1b]52;c;cHduZWQ=\x07"
)
NAMED = shlex.join(["bash", "-c", 'exec -a "$0" sleep 60', HOSTILE.replace("\0", "")])
ESCAPES = ("\x1b]", "\x1b[2J", "\x1b[35;43m", "\x9b", "\x1bP", "\x08", "\x07", "\x00", "\rover")


def parent_of(pid: int) -> int:
    return int(subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], check=True, capture_output=True).stdout)


def ralph_of(agent: int) -> int:
    """The ralph of this agent, whose own parent is the keeper."""
    return parent_of(parent_of(agent))


def start(tmux: Tmux, project: Project, agent: Agent, *acts: Act, command: str = RALPH) -> int:
    """Types the command of a run whose agent does `acts`, waits for "go" and finishes the plan; ralph's pid."""
    project.has_tasks("one")
    agent.story(step(*acts, marks("on"), waits_for("go"), ticks="all", writes_done=True))
    tmux.enter(command)
    eventually(lambda: agent.reached("on"))
    return ralph_of(agent.calls[0].pid)


# Keys.


def test_ctrl_c_ends_everything_and_the_shell_sees_130(
    tmux: Tmux, project: Project, agent: Agent, offspring: Offspring
) -> None:
    start(
        tmux,
        project,
        agent,
        starts(offspring.sleeper("tool"), tool=True),
        starts(offspring.sleeper("server")),
        starts(offspring.daemon("daemon")),
    )
    eventually(lambda: offspring.alive() == ["daemon", "server", "tool"])
    tmux.press("C-c")
    assert tmux.exit_code() == 130, tmux.screen
    assert (offspring.alive(), alive(agent.calls[0].pid)) == ([], False)


def test_a_closed_terminal_leaves_nothing_running(
    tmux: Tmux, project: Project, agent: Agent, offspring: Offspring
) -> None:
    ralph = start(tmux, project, agent, starts(offspring.sleeper("server")), starts(offspring.daemon("daemon")))
    eventually(lambda: offspring.alive() == ["daemon", "server"])
    tmux.close_the_window()
    eventually(lambda: not alive(ralph))
    assert (offspring.alive(), alive(agent.calls[0].pid)) == ([], False)


def test_a_run_finishes_behind_ctrl_s(tmux: Tmux, project: Project, agent: Agent) -> None:
    ralph = start(tmux, project, agent)
    tmux.press("C-s")
    agent.let("go")
    eventually(lambda: not alive(ralph))
    assert "\nRALPH_DONE\n" in project.progress_text
    tmux.press("C-q")
    tmux.enter("")  # the last of ralph's words may be cut off within an escape sequence
    tmux.enter("echo code=$?=")
    eventually(lambda: "\ncode=0=\n" in tmux.screen)


# The screen.


REACHED = "stolen title"
"""The harmless part of HOSTILE."""


def test_escape_sequences_of_the_agent_do_not_reach_the_terminal(project: Project, agent: Agent) -> None:
    acts = {
        "in its words": says(HOSTILE),
        "in a sub-agent's words": says(HOSTILE, parent="t0"),
        "in a tool's argument": tool("Bash", command=HOSTILE),
        "in a tool's name": tool(HOSTILE, command="ls"),
        "in a line that is no JSON": prints(f"{HOSTILE}\n"),
        "in the name of the model": init(key_source=HOSTILE, model=HOSTILE),
        "in the name of a process that is left": starts(NAMED),
        "in a result": result(HOSTILE),
    }
    project.has_tasks("one")
    agent.story(step(*acts.values(), prints(f"{HOSTILE}\n", stderr=True), ticks="all", writes_done=True))
    run = project.ralph_tty(*BUILD)
    assert run.code == 0, run.stdout
    assert [escape for escape in ESCAPES if escape in run.stdout] == []
    assert run.stdout.count(REACHED) >= len(acts)


def test_escape_sequences_in_what_ralph_repeats(project: Project, agent: Agent) -> None:
    hostile = HOSTILE.replace("\r", "").replace("\x00", "")
    agent.story(
        step(adds=hostile),
        raw(init(), prints(f"{hostile}\n", stderr=True), exit_code=1),
        refused(hostile, "invalid_request", status=400),
        refused(hostile, "server_error", status=500),
        step(blocks=hostile),
    )
    run = project.start_tty(*BUILD, command=leaping()).wait()
    assert (run.code, len(agent.calls)) == (4, 5), run.stdout
    assert [escape for escape in ESCAPES if escape in run.stdout] == []
    repeated = [line for line in run.stdout.splitlines() if REACHED in line and line.startswith(("\x1b", "ralph:"))]
    assert len(repeated) >= 4, "the failures, the wait and the end"
