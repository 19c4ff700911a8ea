"""How it stands, at a glance: each state in a line, in JSON and in the exit code. And it only looks."""

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ralph_driver import COMMAND, Project, eventually, paced, progress_text
from stories import Act, Agent, at_limit, fails, marks, step, waits_for

from ralph.screen.text import columns


def told(project: Project, *words: str) -> dict[str, Any]:
    """What `ralph status feature.md --json` says."""
    run = project.ralph("status", "feature.md", "--json", *words)
    said: dict[str, Any] = json.loads(run.stdout)
    assert said["exit_code"] == run.code, "the JSON and the exit code"
    return said


def state(project: Project) -> tuple[str, str, int]:
    said = told(project)
    return said["state"], said["why"], said["exit_code"]


def everything(*folders: Path) -> dict[str, tuple[float, bytes]]:
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


def stopped(*options: str, story: Act) -> Callable[[Project, Agent], None]:
    def run(project: Project, agent: Agent) -> None:
        project.has_tasks("one", "two")
        agent.story(story)
        project.build(*options)

    return run


def planned(project: Project, agent: Agent) -> None:
    agent.story(step(adds="one"))
    assert project.plan().code == 0


def killed_while(project: Project, agent: Agent) -> None:
    """ralph is killed once the story got to "on", and its keeper has ended."""
    running = project.start("feature.md", "build", command=paced(interrupt_s=0.1, terminate_s=0.1))
    eventually(lambda: agent.reached("on"))
    running.process.kill()
    running.process.wait()
    eventually(lambda: told(project)["holder"] is None)


def killed(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(marks("on"), waits_for("never")))
    killed_while(project, agent)


def killed_in_a(event: str, *options: str, story: Act) -> Callable[[Project, Agent], None]:
    """ralph is killed at rest, after an older run that ended in another way."""

    def happens(project: Project, agent: Agent) -> None:
        project.has_tasks("one", "two")
        agent.story(step(), story)
        assert project.build("--max-iterations", "1").code == 3
        running = project.start("feature.md", "build", *options)
        eventually(lambda: project.journal()[-1]["event"] == event and state(project)[1] != "build, iteration 1")
        running.process.kill()
        running.process.wait()
        eventually(lambda: told(project)["holder"] is None)

    return happens


def verified_once(project: Project, agent: Agent) -> None:
    """A verify command that is asked no more."""
    project.has_tasks("one")
    agent.story(step(ticks="all", writes_done=True), step(writes_done=True))
    assert project.build("--verify", "false", "--max-iterations", "1").code == 3
    assert project.build().code == 0


def verified_by_the_template(project: Project, _agent: Agent) -> None:
    (project.root / ".ralph").mkdir()
    (project.root / ".ralph" / "PROMPT_build.md").write_text("{# RALPH_VERIFY: false #}\nBuild it.\n")
    project.has_tasks("x one", status="RALPH_DONE")


def killed_after_the_claim(project: Project, agent: Agent) -> None:
    project.has_tasks("x one")
    agent.story(step(writes_done=True, after=[marks("on"), waits_for("never")]))
    killed_while(project, agent)


def words(*tasks: str, status: str) -> Callable[[Project, Agent], None]:
    return lambda project, _agent: project.has_tasks(*tasks, status=status)


def verified_by_the_plan(project: Project, _agent: Agent) -> None:
    (project.root / "feature.md").write_text("RALPH_VERIFY: true\n")
    project.has_tasks("x one", status="RALPH_DONE")


STATES = {
    "nothing has begun": (lambda *_: None, "new", "no progress file yet", 3),
    "a file, and no run": (words("one", status="IN_PROGRESS"), "new", "", 3),
    "planned": (planned, "planned", "", 3),
    "a limit": (stopped("--max-iterations", "1", story=step()), "stopped", "limit reached: max-iterations is 1", 3),
    "done": (stopped(story=step(ticks="all", writes_done=True)), "done", "", 0),
    "a person is asked": (stopped(story=step(blocks="which database?")), "blocked", "which database?", 4),
    "ralph gave up": (stopped("--max-failures", "1", story=fails()), "blocked", "an iteration failed: It went", 4),
    "no iteration": (stopped("--agent", "/no/claude", story=step()), "stopped", "the agent /no/claude is not there", 3),
    "from afar": (words("x one", "two", status="IN_PROGRESS"), "stopped", "no run is on record", 3),
    "killed in a wait": (killed_in_a("wait", story=at_limit()), "stopped", "killed while it waited", 3),
    "killed in a pause": (
        killed_in_a("iteration", "--delay", "10m", story=step()), "stopped", "killed between two iterations", 3,
    ),
    "verified no more": (verified_once, "done", "", 0),
    "by its template": (verified_by_the_template, "unchecked", "once the verify command", 3),
    "by its plan": (verified_by_the_plan, "unchecked", "once the verify command", 3),
    "a person said stop": (words("one", status="RALPH_STOP"), "stopped", "RALPH_STOP stands in", 3),
    "a person said done": (words("x one", status="RALPH_DONE"), "done", "", 0),
    "killed": (killed, "stopped", "killed in iteration 1 of build", 3),
    "killed after a claim": (killed_after_the_claim, "unchecked", "killed before it could look", 3),
}  # fmt: skip


@pytest.mark.parametrize(("happens", "word", "why", "code"), STATES.values(), ids=STATES)
def test_each_state_has_its_word_its_reason_and_its_exit_code(  # noqa: PLR0917 - a row
    project: Project, agent: Agent, happens: Callable[[Project, Agent], None], word: str, why: str, code: int
) -> None:
    happens(project, agent)
    was, reason, exit_code = state(project)
    assert (was, exit_code) == (word, code), reason
    assert why in reason
    assert bool(reason) == bool(why), reason


def test_what_it_says_is_what_the_next_start_does(project: Project, agent: Agent) -> None:
    """A claim that a verify command on the command line once checked must be checked again, and is."""
    project.has_tasks("one")
    agent.story(step(ticks="all", writes_done=True), step())
    assert project.build("--verify", "test -e ok || touch ok", "--max-iterations", "1").code == 0
    project.progress.write_text(re.sub(r"Verified:.*\n", "", project.progress_text))
    assert state(project)[0] == "unchecked"


def test_a_run_is_seen_at_work_from_anywhere(project: Project, agent: Agent, tmp_path: Path) -> None:
    project.has_tasks("one")
    (project.root / "other_PROGRESS.md").write_text(progress_text("one", plan="other"))
    agent.story(step(marks("on"), waits_for("go"), ticks="all", writes_done=True))
    running = project.start("feature.md", "build")
    eventually(lambda: agent.reached("on"))
    said = told(project)
    assert (said["state"], said["why"], said["exit_code"]) == ("running", "build, iteration 1", 3)
    assert said["holder"]["pid"] == running.pid
    assert f"(pid {running.pid})" in project.ralph("status", "feature").stdout
    for name in ("feature.md", "feature_PROGRESS.md", "feature"):
        seen = project.ralph("status", str(project.root / name), cwd=tmp_path)
        assert seen.stdout.startswith("feature · running: build, iteration 1\n"), name
    states = {said["plan"]: said["state"] for said in json.loads(project.ralph("status", "--json").stdout)}
    assert states == {"feature": "running", "other": "new"}
    other = project.ralph("status", "other").stdout
    assert re.search(rf"another run works in this tree: feature.md since .* \(pid {running.pid}\)", other)
    text = project.progress.read_text()
    project.progress.unlink()
    line = project.ralph("status").stdout.splitlines()[-1]
    assert line.startswith("feature  running  build, iteration 1 · no progress file"), "and while its file is gone"
    project.progress.write_text(text)
    agent.let("go")
    assert running.wait().code == 0
    assert told(project)["holder"] is None


def test_what_is_done_is_seen_to_be_verified(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(ticks="all", writes_done=True))
    running = project.start("feature.md", "--verify", "until test -e go; do sleep 0.05; done")
    eventually(lambda: told(project)["why"] == "build, iteration 1, verifying")
    (project.root / "go").touch()
    assert running.wait().code == 0


def test_a_wait_says_until_when(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(at_limit(), step(ticks="all", writes_done=True))
    running = project.start("feature.md", "build")
    said = eventually(lambda: (now := told(project))["state"] == "waiting" and now)
    assert 3000 < said["until"] - time.time() < 3700
    assert "hit your session limit" in said["why"]
    assert re.search(r"waiting until \d\d:\d\d", project.ralph("status").stdout)
    running.process.terminate()
    assert running.wait().code == -15
    assert state(project)[:2] == ("stopped", "interrupted: SIGTERM")


def test_no_start_is_turned_away_because_somebody_looks(project: Project, agent: Agent) -> None:
    """Cron's tick must not meet 75 because `watch ralph status` holds the lock for a moment; this one lingers."""
    lock = "fcntl.flock(fd, fcntl.LOCK_SH); time.sleep(0.003); fcntl.flock(fd, fcntl.LOCK_UN); time.sleep(0.005)"
    looking = f"import fcntl, os, time\nfd = os.open('.', os.O_RDONLY)\nwhile True: {lock}"
    looker = subprocess.Popen([sys.executable, "-c", looking], cwd=project.root, env=project.env)
    try:
        project.has_tasks(*map(str, range(7)))
        agent.story(*[step(ticks="first")] * 6)
        codes = [project.build("--max-iterations", "1").code for _ in range(6)]
    finally:
        looker.kill()
        looker.wait()
    assert codes == [3] * 6


def test_the_folder_has_a_line_for_each_plan(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    agent.story(step(ticks="one", cost_usd=0.41), step(cost_usd=1.2))
    assert project.build("--max-iterations", "2").code == 3
    (project.root / "auth_PROGRESS.md").write_text(progress_text("x one", status="RALPH_DONE", plan="auth"))
    run = project.ralph("status")
    figures = [re.sub(r"\d+s ago", "0s ago", line) for line in run.stdout.splitlines()]
    assert figures == [
        "auth     done     1/1 tasks · 0s ago",
        "feature  stopped  limit reached: max-iterations is 2 · 1/2 tasks · 2 iterations · $1.61 · 0s ago",
    ]
    assert run.code == 3


def test_the_exit_code_of_several_is_that_of_the_one_that_needs_most(project: Project) -> None:
    for number, (status, code) in enumerate([("RALPH_DONE", 0), ("IN_PROGRESS", 3), ("RALPH_BLOCKED: why?", 4)]):
        text = progress_text("x one", status=status, plan=f"p{number}")
        (project.root / f"p{number}_PROGRESS.md").write_text(text)
        assert project.ralph("status").code == code


def test_a_plan_is_shown_with_its_tasks_and_its_last_iterations(project: Project, agent: Agent) -> None:
    project.progress.write_text(
        progress_text("x one", "two").replace("- [ ] two", "- [ ] two\n- [~] three\n- [!] four")
    )
    agent.story(*[step(cost_usd=0.1)] * 7)
    assert project.build("--max-iterations", "7", "--max-stalls", "off").code == 3
    out = project.ralph("status", "feature.md").stdout.splitlines()
    assert out[0] == "feature · stopped: limit reached: max-iterations is 7"
    assert re.fullmatch(r"1/4 tasks · 7 iterations · \$0.70 · \d+s ago", out[1])
    assert out[2:6] == ["  [x] one", "  [ ] two", "  [~] three", "  [!] four"]
    last = [line.split(maxsplit=1)[1] for line in out[-5:]]
    assert [line.split(" ")[0] for line in last] == ["#3", "#4", "#5", "#6", "#7"]


def test_what_a_person_can_do_is_said(project: Project) -> None:
    project.has_tasks("one", status="RALPH_BLOCKED: which database?")
    said = "to go on, mend it, then take RALPH_BLOCKED out of feature_PROGRESS.md"
    assert said in project.ralph("status", "feature").stdout


def test_a_copy_is_told_from_its_original(project: Project) -> None:
    project.has_tasks("one")
    (project.root / "old_PROGRESS.md").write_text(project.progress_text)
    names = [line.split()[0] for line in project.ralph("status").stdout.splitlines()]
    assert names == ["feature", "old_PROGRESS.md"]


def test_one_that_cannot_be_read_does_not_hide_the_others(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step())
    project.build("--max-iterations", "1")
    (project.root / "other_PROGRESS.md").write_text(progress_text("x one", status="RALPH_DONE", plan="other"))
    (folder,) = project.state_folders
    (folder / "journal.jsonl").unlink()
    (folder / "journal.jsonl").mkdir()
    run = project.ralph("status")
    assert [line.split()[:2] for line in run.stdout.splitlines()] == [["feature", "unreadable"], ["other", "done"]]
    assert "no progress file" not in run.stdout
    for words in (["status", "feature"], ["log", "feature"], ["report", "feature"]):
        run = project.ralph(*words)
        assert (run.code, "Traceback" in run.stderr) == (1, False), run.stderr
        assert "journal.jsonl: cannot be read: Is a directory" in run.stderr


def test_a_plan_is_found_by_each_of_its_names_and_in_another_folder(project: Project, tmp_path: Path) -> None:
    project.has_tasks("one")
    for word in ("feature.md", "feature", "feature_PROGRESS.md", "feature_PROGRESS", "./feature.md"):
        assert project.ralph("status", word).stdout.startswith("feature · new"), word
    assert project.ralph("status", "-C", str(project.root), cwd=tmp_path).stdout.startswith("feature")


def test_a_progress_file_of_another_name_is_found_as_a_run_finds_it(project: Project, agent: Agent) -> None:
    (project.root / "state.md").write_text(progress_text("one"))
    agent.story(step())
    option, variable = ("--progress-file", "state.md"), {"RALPH_PROGRESS_FILE": "state.md"}
    assert project.build("--max-iterations", "1", *option).code == 3
    by_option = project.ralph("status", "feature.md", "--json", *option).stdout
    said = json.loads(by_option)
    assert (said["state"], said["progress_file"], said["iterations"]) == ("stopped", "state.md", 1)
    assert project.ralph("status", "feature.md", "--json", env=variable).stdout == by_option


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["status"], "no progress file in", id="an empty folder"),
        pytest.param(["status", "--json"], "no progress file in", id="an empty folder, for a program"),
        pytest.param(["status", "nothing.md"], "nothing.md: there is no such plan here", id="no such plan"),
        pytest.param(["status", "."], ".: there is no such plan here", id="a folder"),
        pytest.param(["status", "-C", "/nowhere"], "-C /nowhere: No such file or directory", id="no such folder"),
    ],
)
def test_what_is_not_there_is_said_with_the_next_move(project: Project, words: list[str], said: str) -> None:
    run = project.ralph(*words)
    assert run.code == 2
    assert said in run.stderr
    assert run.stdout == ""


def test_it_changes_nothing_and_needs_nothing_that_it_could_change(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(ticks="all"))
    assert project.build("--max-iterations", "1").code == 3
    before = everything(project.root, project.home, project.state)
    for words in (["status"], ["status", "feature"], ["status", "--json"], ["log", "feature"], ["log", "feature", "1"]):
        assert project.ralph(*words).stdout
    assert everything(project.root, project.home, project.state) == before
    run = project.ralph("status", env={"XDG_STATE_HOME": "/proc/nowhere"})
    assert (run.code, run.stderr) == (3, "")


JOURNALS = (
    b"",
    b"\xff\xfe\n{\n[]\nnull\n{}\n",
    b'{"event": "iteration", "done": "x", "commits": [], "timestamp": 5}\n',
    b'{"event": "wait", "timestamp": "2999-13-45T99:99:99Z"}\n',
    b'{"event": "iteration", "cost_usd": 1e999, "counted": true}\n',
    b'{"event": "run", "ended": "nonsense", "message": "\x1b[2J"}\n',
)


def test_whatever_stands_in_the_journal_the_progress_file_is_shown(project: Project, agent: Agent) -> None:
    project.has_tasks("x one", "two")
    agent.story(step())
    project.build("--max-iterations", "1")
    (folder,) = project.state_folders
    for journal in JOURNALS:
        (folder / "journal.jsonl").write_bytes(journal)
        for words in (["status"], ["status", "feature"]):
            run = project.ralph(*words)
            assert (run.code, run.stderr) == (3, ""), journal
            assert "1/2 tasks" in run.stdout
            assert "\x1b" not in run.stdout


def test_names_and_tasks_cannot_drive_the_terminal(project: Project) -> None:
    (project.root / "evil\x1b[2J_PROGRESS.md").write_bytes(
        b"## Tasks\n- [ ] \x1b]0;title\x07 one\n- [ ] \xff\xfe two\n"
    )
    for words in (["status"], ["status", "evil\x1b[2J"]):
        run = project.ralph_tty(*words)
        assert run.code == 3
        assert "\x1b" not in run.stdout


def test_on_a_terminal_each_line_stays_one(project: Project) -> None:
    project.has_tasks("one", status="RALPH_BLOCKED: " + "why " * 50)
    (project.root / "夜の計画_PROGRESS.md").write_text(progress_text("終わる" * 30, plan="夜の計画"))
    for line in project.ralph_tty("status").stdout.splitlines():
        assert columns(line) <= 80
        assert "…" in line or "夜" in line
    assert "夜の計画  new" in project.ralph("status").stdout


def test_where_the_answer_scrolls_away_it_is_said_again(project: Project) -> None:
    project.has_tasks(*map(str, range(100)))
    lines = project.ralph_tty("status", "feature").stdout.splitlines()
    assert lines[0] == lines[-1] == "feature · new"


LIGHT = """
import sys
sys.argv[1:] = {words!r}
from ralph.cli import run
try:
    run(sys.argv[1:])
finally:
    print("heavy:", *sorted(name for name in ("jinja2", "requests", "dotenv", "subprocess") if name in sys.modules))
"""


def test_a_look_loads_neither_templates_nor_http(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step())
    project.build("--max-iterations", "1")
    for words in (["--help"], ["status", "feature"], ["log", "feature", "1"]):
        command = [sys.executable, "-c", LIGHT.format(words=words)]
        said = subprocess.check_output(command, cwd=project.root, env=project.env, text=True)
        heavy = set(said.splitlines()[-1].split()[1:])
        assert heavy <= {"subprocess"}, "a transcript is read by what reads the agent, which can start one"


def test_a_reader_that_leaves_ends_it_in_silence(project: Project) -> None:
    project.has_tasks(*map(str, range(50_000)))  # more than a pipe takes
    command = ["bash", "-c", f"{shlex.join([*COMMAND, 'status', 'feature'])} | head -1; exit ${{PIPESTATUS[0]}}"]
    done = subprocess.run(command, cwd=project.root, env=project.env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("feature · new\n", "", 1)
