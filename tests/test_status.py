"""How it stands, at a glance: each state in a line, in JSON and in the exit code. And it only looks."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from ralph_driver import Project, eventually, paced, progress_text
from stories import Agent, at_limit, fails, marks, step, waits_for

from ralph.screen.text import columns


def told(project: Project, *words: str) -> dict[str, Any]:
    """What `ralph status feature.md --json` says."""
    run = project.ralph("status", "feature.md", "--json", *words)
    said: dict[str, Any] = json.loads(run.stdout)
    assert said["exit_code"] == run.code, "the JSON and the exit code"
    return said


def stands(project: Project) -> tuple[str, str]:
    said = told(project)
    return said["state"], said["why"]


def test_each_state_has_its_word_its_reason_and_its_exit_code(project: Project, agent: Agent) -> None:
    assert stands(project) == ("new", "there is no progress file yet")
    project.has_tasks("x one", status="RALPH_DONE")
    assert (stands(project), told(project)["exit_code"]) == (("done", ""), 0)
    (project.root / "feature.md").write_text("RALPH_VERIFY: true\n")
    assert stands(project) == ("unchecked", "the next start checks RALPH_DONE")
    (project.root / "feature.md").write_text("# A feature\n")
    project.has_tasks("one", "two", status="RALPH_STOP")
    assert stands(project) == ("stopped", "RALPH_STOP stands in the progress file")
    project.has_tasks("one", "two")
    assert (stands(project), told(project)["exit_code"]) == (("new", ""), 3)
    agent.story(step(), fails(), step(blocks="which database?"))
    project.build("--max-iterations", "1")
    assert stands(project) == ("stopped", "limit reached: max-iterations is 1")
    project.build("--max-failures", "1")
    state, why = stands(project)
    assert (state, "iteration failed: It went" in why) == ("blocked", True)
    project.has_tasks("one", "two")
    project.build()
    assert (stands(project), told(project)["exit_code"]) == (("blocked", "which database?"), 4)


def test_a_death_is_seen_and_a_claim_before_it_is_not_believed(project: Project, agent: Agent) -> None:
    project.has_tasks("x one")
    agent.story(step(marks("on"), waits_for("never")))
    running = project.start("feature.md", "build", command=paced(interrupt_s=0.1, terminate_s=0.1))
    eventually(lambda: agent.reached("on"))
    running.process.kill()
    running.process.wait()
    eventually(lambda: told(project)["holder"] is None)
    assert stands(project) == ("stopped", "ralph was killed in iteration 1 of build")
    project.has_tasks("x one", status="RALPH_DONE")
    assert stands(project) == ("unchecked", "the next start checks RALPH_DONE")


def test_a_run_is_seen_at_work_from_anywhere(project: Project, agent: Agent, tmp_path: Path) -> None:
    project.has_tasks("one")
    agent.story(step(marks("on"), waits_for("go"), ticks="all", writes_done=True))
    running = project.start("feature.md", "--verify", "until test -e go; do sleep 0.05; done")
    eventually(lambda: agent.reached("on"))
    said = told(project)
    assert (said["state"], said["why"], said["exit_code"]) == ("running", "build, iteration 1", 3)
    assert said["holder"]["pid"] == running.pid
    assert f"(pid {running.pid})" in project.ralph("status", "feature").stdout
    for name in ("feature.md", "feature_PROGRESS.md", "feature"):
        seen = project.ralph("status", str(project.root / name), cwd=tmp_path)
        assert seen.stdout.startswith("feature · running: build, iteration 1\n"), name
    agent.let("go")
    eventually(lambda: told(project)["why"] == "build, iteration 1, verifying")
    (project.root / "go").touch()
    assert running.wait().code == 0
    assert told(project)["holder"] is None


def test_a_wait_says_until_when(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(at_limit(), step(ticks="all", writes_done=True))
    running = project.start("feature.md", "build")
    said = eventually(lambda: (now := told(project))["state"] == "waiting" and now)
    assert re.match(r"until \d\d:\d\d: You've hit your session limit", said["why"])
    running.process.terminate()
    assert running.wait().code == -15
    assert told(project)["why"] == "interrupted: SIGTERM"


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
    (project.root / "copy_PROGRESS.md").write_text(progress_text("x one", status="RALPH_BLOCKED: why?"))
    run = project.ralph("status")
    assert re.sub(r"\d+s ago", "0s ago", run.stdout).splitlines() == [
        "auth     done     1/1 tasks",
        "copy     blocked  why? · 1/1 tasks",
        "feature  stopped  limit reached: max-iterations is 2 · 1/2 tasks · 2 iterations · $1.61 · 0s ago",
    ]
    assert run.code == 4, "that of the one that needs most"
    for name, code in (("copy", 3), ("feature", 0)):
        (project.root / f"{name}_PROGRESS.md").unlink()
        assert project.ralph("status").code == code


def test_a_plan_is_shown_with_its_tasks_its_last_iterations_and_the_next_move(project: Project, agent: Agent) -> None:
    project.progress.write_text(
        progress_text("x one", "two").replace("- [ ] two", "- [ ] two\n- [~] three\n- [!] four")
    )
    agent.story(*[step(cost_usd=0.1)] * 7)
    assert project.build("--max-iterations", "7", "--max-stalls", "off").code == 3
    out = project.ralph("status", "feature.md").stdout.splitlines()
    assert out[0] == "feature · stopped: limit reached: max-iterations is 7"
    assert re.fullmatch(r"1/4 tasks · 7 iterations · \$0.70 · \d+s ago", out[1])
    assert out[2:6] == ["  [x] one", "  [ ] two", "  [~] three", "  [!] four"]
    assert [line.split()[1:3] for line in out[-5:]] == [["build", f"#{number}"] for number in range(3, 8)]
    project.has_tasks("one", status="RALPH_BLOCKED: which database?")
    said = "to go on, mend it, then take RALPH_BLOCKED out of feature_PROGRESS.md"
    assert said in project.ralph("status", "feature").stdout.splitlines()


def test_the_mode_in_which_a_plan_stands_is_shown_with_its_round(project: Project, agent: Agent) -> None:
    project.progress.write_text(progress_text("x one").replace("\n\n## Status", "\nMode: validate 2/3\n\n## Status"))
    agent.story(step(adds="two"), step())
    assert project.ralph("feature.md", "all", "--max-iterations", "2").code == 3
    run = project.ralph("status", "feature")
    assert run.stdout.splitlines()[1].startswith("2/3 · 1/2 tasks · 2 iterations"), "in build"
    said = told(project)
    assert (said["mode"], said["rounds"]) == ("build", "2/3")
    listed = [re.sub(".*:[0-9]+  ", "", one) for one in project.ralph("log", "feature").stdout.splitlines()]
    assert [one.partition(" · ")[0] for one in listed] == [
        "validate in round 2 #1",
        "validate -> build",
        "build in round 2 #2",
        "build in round 2 ended: limit reached: max-iterations is 2",
    ]
    assert "<td>validate in round 2 #1 · " in project.ralph("report", "feature", "-o", "-").stdout
    assert "validate -> build" in agent.prompts[1]


def test_one_that_cannot_be_read_does_not_hide_the_others(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step())
    project.build("1")
    (project.root / "other_PROGRESS.md").write_text(progress_text("x one", status="RALPH_DONE", plan="other"))
    (folder,) = project.state_folders
    (folder / "journal.jsonl").unlink()
    (folder / "journal.jsonl").mkdir()
    run = project.ralph("status")
    assert [line.split()[:2] for line in run.stdout.splitlines()] == [["feature", "unreadable"], ["other", "done"]]
    for words in (["status", "feature"], ["log", "feature"], ["report", "feature"]):
        run = project.ralph(*words)
        assert (run.code, "Traceback" in run.stderr) == (1, False), run.stderr
        assert "journal.jsonl: cannot be read: Is a directory" in run.stderr


def test_what_is_not_there_is_said_with_the_next_move(project: Project) -> None:
    for words, said in (
        ("status", "no progress file in"),
        ("status nothing.md", "nothing.md: there is no such plan here"),
        ("status .", ".: there is no such plan here"),
        ("status -C /nowhere", "Directory '/nowhere' does not exist"),
    ):
        run = project.ralph(*words.split())
        assert (run.code, run.stdout, said in run.stderr) == (2, "", True), run.text


JOURNALS = (
    b"",
    b"\xff\xfe\n{\n[]\nnull\n{}\n",
    b'{"event": "iteration", "done": "x", "commits": [], "timestamp": 5}\n',
    b'{"event": "wait", "timestamp": "2999-13-45T99:99:99Z"}\n',
    b'{"event": "iteration", "cost_usd": 1e999, "counted": true}\n',
    b'{"event": "run", "ended": "nonsense", "message": "\x1b[2J"}\n',
)


def everything(*folders: Path) -> dict[str, tuple[float, bytes]]:
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


def test_it_changes_nothing_and_shows_the_progress_file_whatever_the_journal_says(
    project: Project, agent: Agent
) -> None:
    project.has_tasks("one", "two")
    agent.story(step(ticks="one"))
    assert project.build("--max-iterations", "1").code == 3
    before = everything(project.root, project.home, project.state)
    for words in (["status"], ["status", "feature"], ["status", "--json"], ["log", "feature"], ["log", "feature", "1"]):
        assert project.ralph(*words).stdout
    assert everything(project.root, project.home, project.state) == before
    run = project.ralph("status", env={"XDG_STATE_HOME": "/proc/nowhere"})
    assert (run.code, run.stderr) == (3, "")
    (folder,) = project.state_folders
    for journal in JOURNALS:
        (folder / "journal.jsonl").write_bytes(journal)
        run = project.ralph("status", "feature")
        assert (run.code, run.stderr) == (3, ""), journal
        assert "1/2 tasks" in run.stdout
        assert "\x1b" not in run.stdout


def test_on_a_terminal_each_line_stays_one_and_cannot_drive_it(project: Project) -> None:
    project.has_tasks("one", status="RALPH_BLOCKED: " + "why " * 50)
    (project.root / "夜の計画_PROGRESS.md").write_text(progress_text("終わる" * 30, plan="夜の計画"))
    evil = project.root / "evil\x1b[2J_PROGRESS.md"
    evil.write_bytes(b"## Tasks\n- [ ] \x1b]0;title\x07 one\n- [ ] \xff\xfe two\n")
    listed = project.ralph_tty("status").stdout
    assert [columns(line) for line in listed.splitlines() if columns(line) > 80] == []
    assert "夜の計画" in listed
    assert "…" in listed
    assert "\x1b" not in listed + project.ralph_tty("status", "evil\x1b[2J").stdout
