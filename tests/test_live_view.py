"""A run as it is seen row by row, keys, a closed window, what may reach the screen; and that nobody has to look."""

import contextlib
import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ralph_driver import COMMAND, Project, alive, eventually, leaping, paced, progress_text
from stories import (
    Agent,
    at_limit,
    hangs,
    ignores,
    init,
    marks,
    prints,
    raw,
    refused,
    says,
    starts,
    step,
    tool,
    tool_result,
    waits_for,
    weighs,
)
from tmux import Tmux, lines_only

from ralph.plan.progress import parse
from ralph.run.context import CurrentIteration
from ralph.run.judge import BaseController
from ralph.run.notices import status_lines
from ralph.run.stop_rules import Tally
from ralph.screen.text import display_width
from ralph.screen.view import AgentView
from ralph.settings.table import Settings

BUILD = ("feature.md", "build", "--delay", "0")
FIRST_ROW = re.compile(r"(\$ )?ralph: build|#1 ·")


def build(tmux: Tmux, *args: str, after: str = "", command: tuple[str, ...] = COMMAND) -> None:
    tmux.enter(f"{shlex.join([*command, *BUILD, *args])} {after}")


def ralph_in(project: Project) -> int:
    """The ralph that is at work there."""
    return int(json.loads(project.ralph("status", "feature", "--json").stdout)["holder"]["pid"])


def seen(tmux: Tmux) -> str:
    """The screen from ralph's first line on, with times masked, without the seconds of silence.

    How much of a command is left in the status line depends on the digits of the times beside it.
    """
    rows = tmux.rows
    first = next((at for at, row in enumerate(rows) if FIRST_ROW.match(row)), len(rows))
    text = re.sub(r" · idle \S+|(?<=thinking) · [\dhms]+$", "", "\n".join(rows[first:]))
    text = re.sub(r"(· verifying: until \[ -e).*…", r"\1…", text)
    return re.sub(r"\b(\d+h\d\dm|\d+m\d\ds|\d+s|\d\d:\d\d)\b", "_", text)


def shows(tmux: Tmux, written: str) -> None:
    """Waits until the screen is as written."""
    with contextlib.suppress(AssertionError):
        eventually(lambda: seen(tmux) == written.strip("\n"))
    assert seen(tmux) == written.strip("\n"), tmux.screen


WORDS = (
    "I look around first: the tests, 次に日本語のテキスト、幅の広い文字も、 and then the function, "
    "e\u0301tude by e\u0301tude 🎉🎉."
)
STORY = (
    says(f"{WORDS}\n\n\t1{'長' * 40}"),
    tool("Bash", command="pytest -q tests/test_greeting.py --maxfail=3 --durations=10 --no-header -p no:randomly"),
    tool_result("test_a.py ....\n" * 41 + "===== 12 passed in 0.31 =====\n"),
    tool("Edit", tool_id="t2", file_path="greeting.py", old_string="a", new_string="b"),
    tool_result("The file greeting.py has been updated.", tool_id="t2"),
    tool("Task", tool_id="t3", description="look for callers", prompt="Who calls it?"),
    tool("Grep", tool_id="t4", parent="t3", pattern="def greet"),
    tool("Bash", tool_id="t5", command="make lint"),
    tool_result("Exit code 2\nlint: greeting.py\nmake: *** [lint] Error 1", tool_id="t5", is_error=True),
    waits_for("more"),
    tool_result("Found 2 files\na.py\nb.py", tool_id="t4", parent="t3"),
    says("Two callers, both of them inside of the package, and none outside of it.", parent="t3"),
    tool_result("Two callers.", tool_id="t3"),
    weighs(74_000, says("Done with that.")),
)
SEARCHING = """
ralph: build feature · iteration 1 · 1/3 tasks
  claude-sonnet-5 · your login pays
  I look around first: the tests, 次に日本語のテキスト、幅の広い文字も、 and
  then the function, e\u0301tude by e\u0301tude 🎉🎉.

      1長長長長長長長長長長長長長長長長長長長長長長長長長長長長長長長長長長長長
  長長長長
  ▸ Bash pytest -q tests/test_greeting.py --maxfail=3 --durations=10 --no-heade…
  ⎿ 12 passed in 0.31 … +41 lines
  ▸ Edit greeting.py
  ▸ Task look for callers
      ▸ Grep def greet
  ▸ Bash make lint
  ✗ Exit code 2: make: *** [lint] Error 1
task 2 of 3 · iteration 1 · _ · Grep def greet
"""
WORKED = (
    SEARCHING.rpartition("task 2")[0]
    + """\
      ⎿ Found 2 files … +2 lines
      Two callers, both of them inside of the package, and none outside of it.
  ⎿ Two callers.
  Done with that.
  context 37%
#1 · 3/3 tasks (+2) · _ · $0.41
ralph: verifying: until [ -e go ] || grep IN_P *S.md; do sleep 0.01; done
task 3 of 3 · iteration 1 · _ · $0.41 · verifying: until [ -e… · _
"""
)


def test_a_run_is_seen_as_it_happens_and_continues_behind_ctrl_s_where_nothing_that_is_typed_is_lost(
    tmux: Tmux, project: Project, agent: Agent
) -> None:
    project.has_tasks("x one", "two", "three")
    agent.story(step(*STORY, ticks="all", writes_done=True, cost_usd=0.41))
    tmux.open()
    build(tmux, "--verify", "until [ -e go ] || grep IN_P *S.md; do sleep 0.01; done")
    shows(tmux, SEARCHING)
    ralph = ralph_in(project)
    tmux.press("C-s")
    agent.let("more")
    eventually(lambda: "\nRALPH_DONE\n" in project.progress_text)
    tmux.press("C-q")
    shows(tmux, WORKED)
    tmux.enter("echo its code=$?=")  # after words that may be cut off
    tmux.press("C-s")
    (project.root / "go").touch()
    eventually(lambda: not alive(ralph))
    tmux.press("C-q")
    eventually(lambda: "code=0=" in tmux.screen)


NARROW = """
ralph: build feature · itera
tion 1 · 0/1 tasks
  claude-sonnet-5 · your log
in pays
  Before.
task 1 of 1 · iteration 1 ·…
"""


def test_a_terminal_that_changes_its_width_has_one_status_line_and_none_after_ctrl_c(
    tmux: Tmux, project: Project, agent: Agent
) -> None:
    """tmux wraps what stands there anew, so that the row at the bottom becomes two; a wait has its own."""
    project.has_tasks("one")
    talks = ignores("INT"), says("Before."), waits_for("go"), says("After."), hangs()
    agent.story(at_limit(resets_in_s=3600), step(*talks))
    tmux.open()
    build(tmux)
    eventually(lambda: re.search(r"until \d\d:\d\d: usage limit · \d+s$", tmux.rows[-1]))
    tmux.press("C-c")
    assert tmux.exit_code() == 130
    assert "usage limit · " not in seen(tmux)
    tmux.enter("clear")
    eventually(lambda: tmux.rows == ["$"])
    build(tmux, command=paced(interrupt_s=600))
    eventually(lambda: "  Before.\ntask 1 of 1 · iteration 1 · _ · thinking" in seen(tmux))
    assert "--include-partial-messages" not in agent.calls[-1].argv
    tmux.resize(28)
    shows(tmux, NARROW)
    agent.let("go")
    shows(tmux, NARROW.replace("  Before.\n", "  Before.\n  After.\n"))
    tmux.press("C-c")
    eventually(lambda: "ralph: stopping the agent" in seen(tmux))
    tmux.resize(80)
    tmux.press("C-\\")
    assert tmux.exit_code() == 130
    ended = " ".join(seen(tmux).partition("  After.")[2].split())
    assert ended.startswith(
        "ralph: stopping the agent and what it started; ask again to kill it immediately "
        "#1 · 0/1 tasks · _ · interrupted: Ctrl+C ralph: interrupted: Ctrl+C"
    )
    assert ended.replace(" ", "").endswith("talk$echocode=$?=code=130=$"), "no status line is left"


def test_after_kill_9_the_terminal_works_a_background_job_shows_only_lines_and_a_closed_window_leaves_nothing_running(
    tmux: Tmux, project: Project, agent: Agent
) -> None:
    """What stands of the status line is overwritten: the cursor rests at its beginning, and is seen."""
    project.has_tasks("one", "two")
    works = step(says("I begin"), waits_for("go"), ticks="first")
    agent.story(step(marks("on"), hangs()), works, step(starts("sleep 1000"), marks("again"), hangs()))
    tmux.open()
    build(tmux)
    eventually(lambda: agent.reached("on"))
    eventually(lambda: tmux.rows[-1].startswith("task 1 of 2 · "))
    text = project.progress_text
    project.progress.write_text(f"RALPH_STOP\n{text}")
    eventually(lambda: tmux.rows[-1].endswith(" · then RALPH_STOP"))
    project.progress.write_text(text)
    os.kill(ralph_in(project), signal.SIGKILL)
    eventually(lambda: tmux.rows[-1] == "$")
    tmux.enter("clear; stty -a | grep -o ' echo '; echo " + "long " * 30)
    wrapped = [" echo", ("long " * 16).rstrip()]
    eventually(lambda: tmux.rows[-4:-2] == wrapped)
    eventually(lambda: not alive(agent.calls[0].pid))
    tmux.enter("clear")
    build(tmux, "1", after="&")
    eventually(lambda: "  I begin\n" in tmux.screen)
    assert "task 1 of 2" not in tmux.screen
    agent.let("go")
    eventually(lambda: "ralph: limit reached" in tmux.screen)
    lines = seen(tmux).partition("build feature · iteration ")[2].splitlines()
    assert lines[1:4] == ["  claude-sonnet-5 · your login pays", "  I begin", "#1 · 1/2 tasks (+1) · _ · $0.01"]
    build(tmux)
    eventually(lambda: agent.reached("again"))
    pids = ralph_in(project), agent.calls[-1].pid, agent.child()
    tmux.end()
    eventually(lambda: not any(map(alive, pids)))


def test_a_pipe_gets_plain_lines_quiet_is_a_line_per_iteration_and_verbose_is_everything(
    project: Project, agent: Agent
) -> None:
    project.has_tasks("x one", "two", "three", "four")
    acts = [act for act in STORY if act.get("act") is None]
    call = tool("Edit", file_path="a.py", old_string="one\ntwo", replace_all=True)
    agent.story(
        step(*acts, prints("b" * 9_000 + "\n"), ticks="first"),
        step(says("Hello."), ticks="first"),
        step(says("a" * 10_000), call, ticks="all", writes_done=True),
    )
    piped = project.build("1").stdout
    assert f"\n  {'b' * 9_000}\n" in piped
    assert ("\x1b" in piped, "\r" in piped, "task 2 of 4" in piped, "thinking" in piped) == (False,) * 4
    assert [line for line in piped.splitlines() if "look around" in line] == [f"  {WORDS}"]
    shown = lines_only(project.ralph_tty(*BUILD, "1", "-q", "--verify", "true").stdout).splitlines()
    whole = " ".join(" ".join(shown).split())
    assert (shown[0].split(" · ")[0], " ralph: limit reached: max-iterations is 1 · " in whole) == ("#2", True), shown
    assert max(map(len, shown)) <= 80, "cut at a blank, not in mid-word"
    first, _, rest = project.build("--verbose").stdout.partition("  claude-sonnet-5 · your login pays\n")
    assert [line[4:] for line in first.splitlines()[2:]] == agent.prompts[2].rstrip("\n").split("\n")
    arguments = '{"file_path": "a.py", "old_string": "one\\ntwo", "replace_all": true}'
    assert rest.startswith(f"  {'a' * 10_000}\n  ▸ Edit {arguments}\n")


HOSTILE = (
    "\x1b]0;stolen title\x07\x1b[2J\x1b[35;43m\x9b32m\x1bP+q\x1b\\\x08\x7f\rover\x00written \x1b]52;c;cHduZWQ=\x07"
)
NAMED = shlex.join(["bash", "-c", 'exec -a "$0" sleep 60', HOSTILE.replace("\x00", "")])
ESCAPES = ("\x1b]", "\x1b[2J", "\x1b[35;43m", "\x9b", "\x1bP", "\x08", "\x07", "\x00", "\rover")


def test_escape_sequences_do_not_reach_the_terminal(project: Project, agent: Agent) -> None:
    """Neither in what the agent says, nor in what ralph repeats of it."""
    hostile = HOSTILE.replace("\r", "").replace("\x00", "")
    acts = (
        says(HOSTILE),
        says(HOSTILE, parent="t0"),
        tool("Bash", command=HOSTILE),
        tool(HOSTILE, command="ls"),
        prints(f"{HOSTILE}\n"),
        init(key_source=HOSTILE, model=HOSTILE),
        starts(NAMED),
    )
    agent.story(
        step(adds=hostile),
        step(*acts, prints(f"{HOSTILE}\n", stderr=True)),
        raw(init(), prints(f"{hostile}\n", stderr=True), exit_code=1),
        refused(hostile, "invalid_request", status=400),
        refused(hostile, "server_error", status=500),
        step(blocks=hostile),
    )
    run = project.start_tty(*BUILD, command=leaping()).wait()
    assert (run.code, len(agent.calls)) == (4, 6), run.stdout
    assert [escape for escape in ESCAPES if escape in run.stdout] == []
    harmless = "stolen title"
    assert run.stdout.count(harmless) >= len(acts) + 4, "also in the failures, the wait and the end"


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "&>/dev/full", "&> >(:)"])
def test_closed_descriptors_a_full_device_and_who_stops_reading(project: Project, agent: Agent, closed: str) -> None:
    """And no other file takes the number of a closed descriptor."""
    project.has_tasks("one", "two")
    much = says("A word of some length. " * 1000)
    first = step(much, marks("on"), waits_for("go"), ticks="first")
    agent.story(first, step(much, ticks="all", writes_done=True))
    run = project.start(*BUILD, prefix=("bash", "-c", f'exec "$@" {closed}', "bash"))
    eventually(lambda: agent.reached("on"))
    if closed.startswith("<") and sys.platform == "linux":
        assert {str(Path(f"/proc/{run.pid}/fd/{number}").readlink()) for number in range(3)} == {os.devnull}
    agent.let("go")
    assert (run.wait().code, len(agent.calls), "\nRALPH_DONE\n" in project.progress_text) == (0, 2, True)
    texts = [text for name, text in project.transcripts().items() if name.endswith(".jsonl")]
    kinds = [json.loads(line)["type"] for text in texts for line in text.splitlines()]
    assert kinds.count("result") == 2, "transcripts are whole and hold nothing of ralph's own"


FITS = {
    100: "task 4 of 15 · iteration 7 · 1h02m · $3.41 · Bash pytest -q tests/test_greeting.py · idle 12s",
    80: "task 4 of 15 · iteration 7 · 1h02m · $3.41 · Bash pytest -q tests/te… · idle 12s",
    40: "task 4 of 15 · iteration 7 ·… · idle 12s",
}
"""What the agent does gives way first, then cost, time, the iteration and the task."""


def test_of_the_figures_in_the_status_line_as_many_are_shown_as_fit() -> None:
    view = AgentView(lambda _line: None)
    reader = view.new_reader()
    view.heard_at -= 60
    reader.read_output(json.dumps(tool("Bash", command="pytest -q tests/test_greeting.py")).encode() + b"\n")
    view.heard_at -= 12
    tally = Tally(iterations=6, cost_usd=3.41)
    file = SimpleNamespace(path=Path("none"), last=parse(progress_text(*["x done"] * 3, *["open"] * 12).encode()))
    now: Any = SimpleNamespace(view=view, tally=tally, file=file, elapsed_s=lambda: 3720)
    now.iteration, now.settings, now.controller = CurrentIteration(number=7), Settings(), BaseController()
    now.console = SimpleNamespace(activity=None)
    for width, line in FITS.items():
        assert status_lines(now, width) == line


def test_a_text_takes_as_many_columns_as_a_terminal_gives_it() -> None:
    for text in ("plain", "日本a", "\uff37\uff29a", "e\u0301tude", "a\u200bbcd\u200de", "…·▸⎿✗"):
        assert display_width(text) == 5, text
