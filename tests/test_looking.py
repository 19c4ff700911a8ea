"""How it stands, at a glance, in JSON and in the exit code; what happened, and the running one from elsewhere."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ralph_driver import Project, eventually, everything_in, executable, leaping, paced, progress_text
from stories import LIMIT, Agent, at_limit, fails, marks, prints, runs, says, step, tool, tool_result, waits_for, writes

from ralph.screen.text import display_width


@pytest.fixture
def night(project: Project, agent: Agent) -> Project:
    """Planned, then a limit, a good iteration with two a failed one, and the limit of the start."""
    first = writes("a.txt", "first\n"), runs("git add a.txt && git commit -qm 'add a'")
    then = writes("a.txt", "second\n"), runs("git commit -qam 'change a'")
    good = step(*first, *then, ticks="one", cost_usd=0.41)
    agent.story(step(adds="one"), at_limit(), good, fails("The disk is on fire."))
    assert project.plan().code == 0
    assert project.build("--max-iterations", "2", command=leaping()).code == 3
    return project


def log(project: Project, *words: str) -> str:
    run = project.ralph("log", "feature", *words)
    assert (run.code, run.stderr) == (0, "")
    return run.stdout


def misses(project: Project, *rows: tuple[str, int, str]) -> None:
    """Each of these verbs fails with this code and says so."""
    for words, code, said in rows:
        run = project.ralph(*words.split())
        assert (run.code, run.stdout) == (code, ""), words
        assert said in run.stderr
        assert "Traceback" not in run.stderr


def told(project: Project) -> dict[str, Any]:
    """What `ralph status feature.md --json` says."""
    run = project.ralph("status", "feature.md", "--json")
    said: dict[str, Any] = json.loads(run.stdout)
    assert said["exit_code"] == run.code, "the JSON and the exit code"
    return said


def stands(project: Project) -> tuple[str, str, int]:
    said = told(project)
    return said["state"], said["why"], said["exit_code"]


# How it stands.


def test_a_plan_that_never_ran_says_what_to_type(project: Project) -> None:
    last = [project.ralph(verb, "feature.md").stdout.splitlines()[-1] for verb in ("status", "log")]
    assert [line.partition(", ")[2] for line in last] == ["run `ralph feature.md plan`"] * 2, last


def test_each_state_has_its_word_its_reason_and_its_exit_code_from_anywhere_and_no_start_is_turned_away_by_who_looks(
    project: Project, agent: Agent, tmp_path: Path
) -> None:
    """Cron's tick must not meet 75 because `watch ralph status` has the lock for a moment; here it has it often."""
    project.does("while [ ! -e go ]; do flock --shared . sleep 0.005; sleep 0.005; done &")
    assert stands(project) == ("new", "there is no progress file yet", 3)
    project.has_tasks("x one", status="RALPH_DONE")
    assert stands(project) == ("done", "", 0)
    (project.root / "feature.md").write_text("RALPH_VERIFY: true\n")
    assert stands(project) == ("unchecked", "the next run checks RALPH_DONE", 3)
    (project.root / "feature.md").write_text("# A feature\n")
    project.has_tasks("one", "two", status="RALPH_STOP")
    assert stands(project) == ("stopped", "RALPH_STOP is in the progress file", 3)
    project.has_tasks("one", "two")
    assert stands(project) == ("new", "", 3)
    done = step(marks("on"), waits_for("go"), ticks="all", writes_done=True)
    agent.story(step(), fails(), at_limit(), step(blocks="which database?"), done)
    project.build("--max-iterations", "1")
    assert stands(project) == ("stopped", "limit reached: max-iterations is 1", 3)
    project.build("--max-failures", "1")
    state, why, code = stands(project)
    assert (state, "iteration failed: It went" in why, code) == ("blocked", True, 4)
    project.has_tasks("one", "two")
    running = project.start("feature.md", "build")
    eventually(lambda: stands(project)[0] == "waiting")
    assert re.match(r"until \d\d:\d\d: You've hit your session limit", stands(project)[1])
    running.process.send_signal(15)
    assert running.wait().code == -15
    assert stands(project) == ("stopped", "interrupted: SIGTERM", 3)
    project.build()
    assert stands(project) == ("blocked", "which database?", 4)
    said = "to continue, answer or fix it, then delete RALPH_BLOCKED in feature_PROGRESS.md"
    assert said in project.ralph("status", "feature").stdout.splitlines()
    project.has_tasks("one")
    running = project.start("feature.md", "--verify", "until test -e go || grep IN_PROGRESS *S.md; do sleep 0.05; done")
    eventually(lambda: agent.reached("on"))
    assert told(project)["holder"]["pid"] == running.pid
    for name in ("feature.md", "feature_PROGRESS.md", "feature"):
        seen = project.ralph("status", str(project.root / name), cwd=tmp_path)
        assert seen.stdout.startswith("feature · running: build, iteration 4\n"), name
        assert f"(pid {running.pid})" in seen.stdout
    assert '<span class="running">running</span>' in project.ralph("report", "feature", "-o", "-").stdout
    text = project.progress_text
    project.progress.write_text(f"RALPH_STOP\n{text}")
    assert stands(project) == ("running", "build, iteration 4, then RALPH_STOP", 3)
    project.progress.write_text(text)
    agent.let("go")
    (project.root / "go").touch()
    run = running.wait()
    assert (run.code, "\nralph: verified in " in run.stdout) == (0, True)
    assert stands(project) == ("done", "", 0)
    assert told(project)["holder"] is None


def test_a_folder_has_a_line_for_each_plan_and_what_is_gone_or_never_was_is_missed_by_name(night: Project) -> None:
    """Who can write a journal could give git an option."""
    assert re.sub(r"\d+s", "0s", night.ralph("status", "feature.md").stdout).splitlines()[:3] == [
        "feature · stopped: limit reached: max-iterations is 2",
        "1/1 tasks · 3 iterations · $0.43 · 0s ago",
        "  [x] one",
    ]
    rows = night.ralph("status", "feature.md").stdout.partition("The last iterations:\n")[2].splitlines()
    assert [line.split()[1:3] for line in rows] == [["plan", "#1"], ["build", "#2"], ["build", "#2"], ["build", "#3"]]
    (night.root / "auth_PROGRESS.md").write_text(progress_text("x one", status="RALPH_DONE", plan="auth"))
    blocked = progress_text("one", status="RALPH_BLOCKED: why?")
    (night.root / "copy_PROGRESS.md").write_text(blocked.replace("\n\n## St", "\nMode: validate 2/3\n\n## St"))
    run = night.ralph("status")
    assert re.sub(r"\d+s ago", "0s ago", run.stdout).splitlines() == [
        "auth     done       1/1 tasks",
        "copy     blocked    why? · validate 2/3 · 0/1 tasks",
        "feature  stopped    limit reached: max-iterations is 2 · 1/1 tasks · 3 iterations · $0.43 · 0s ago",
    ]
    assert run.code == 4, "that of the one that needs most"
    facts = json.loads(night.ralph("status", "--json").stdout)
    assert [(one["mode"], one["rounds"]) for one in facts] == [("build", ""), ("validate", "2/3"), ("build", "")]
    assert night.ralph("status", "feature", env={"XDG_STATE_HOME": "/proc/nowhere"}).stderr == ""
    (night.root / "copy_PROGRESS.md").rename(night.root / "elsewhere.md")
    assert night.ralph("status", "copy", env={"RALPH_PROGRESS_FILE": "elsewhere.md"}).code == 4
    (folder,) = night.state_folders
    journal, written = folder / "journal.jsonl", (folder / "journal.jsonl").read_text()
    other = {"base": "", "head": f"--output={night.root}/made", "round": 2}
    journal.write_text("".join(json.dumps(line | other) + "\n" for line in night.journal()))
    misses(night, ("log feature 2 --diff", 1, "iteration 2: git does not show its commits"))
    assert not (night.root / "made").exists()
    assert "  build in round 2 ended: limit" in log(night)
    assert " build in round 2 #3 · " in night.ralph("report", "feature", "-o", "-").stdout
    journal.write_text(written)
    for file in (folder / "transcripts").glob("*.jsonl"):
        file.unlink()
    misses(
        night,
        ("log", 2, "name one of the plans that are here: auth, feature"),
        ("log auth last", 2, "auth: there is no such iteration"),
        ("log feature first", 2, "there is no such iteration; `ralph log feature` lists them"),
        ("log feature 3 --diff", 1, "iteration 3 committed nothing"),
        ("log feature -f", 1, "no run works on it now"),
        ("log feature 2", 1, "no transcript of iteration 2; the newest 200 MB are kept"),
        ("status nothing.md", 2, "nothing.md: there is no such plan here"),
        (f"status -C {night.home}", 2, "no progress file in"),
    )
    journal.unlink()
    journal.mkdir()
    broken = ("status", "status feature", "log feature", "report feature")
    misses(night, *((words, 1, "journal.jsonl: Is a directory") for words in broken))
    journal.rmdir()
    (night.root / "夜の計画_PROGRESS.md").write_text(progress_text("one", status="RALPH_BLOCKED: " + "終わる" * 50))
    (night.root / "e\x1b[2J_PROGRESS.md").write_bytes(b"## Tasks\n- [ ] \x1b]0;title\x07 one\n- [ ] \xff\xfe two\n")
    listed = night.ralph_tty("status").stdout
    told = [line.split()[:2] for line in listed.splitlines()]
    assert told == [["auth", "done"], ["e\ufffd[2J", "new"], ["feature", "stopped"], ["夜の計画", "blocked"]]
    assert max(map(display_width, listed.splitlines())) == 80, "on a terminal each line stays one"
    assert "\x1b" not in listed + night.ralph_tty("status", "e\x1b[2J").stdout


# What happened.


def test_a_night_is_listed_and_what_each_iteration_committed_printed_and_got_is_there_to_see(
    night: Project, agent: Agent, tmp_path: Path
) -> None:
    before = everything_in(night.root, night.home, night.state)
    listed = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DAY TIME", log(night))
    listed = re.sub(r"\b\d+s\b", "0s", re.sub(r"until \d\d:\d\d", "until TIME", listed))
    listed = listed.replace("\N{MINUS SIGN}", "-").replace("\N{EN DASH}", "-")
    assert listed.splitlines() == [
        "  DAY TIME  plan #1 · 0/1 tasks (1 new) · 0s · $0.01",
        "  DAY TIME  plan ended: finished",
        f"  DAY TIME  build #2 · 0/1 tasks · 0s · $0.00 · usage limit: {LIMIT} · not counted",
        f"  DAY TIME  build waits until TIME: {LIMIT}",
        "  DAY TIME  build #2 · 1/1 tasks (+1) · 2 commits +1 -0 · 0s · $0.41",
        "- DAY TIME  build #3 · 1/1 tasks · 0s · $0.01 · failed: The disk is on fire.",
        "  DAY TIME  build ended: limit reached: max-iterations is 2",
    ]
    assert night.ralph("log").stdout == log(night), "the only plan of a folder need not be named"
    transcript = next(line["transcript"] for line in night.journal() if line["event"] == "iteration")
    files = {Path(name).name: data.decode() for name, data in night.transcripts().items()}
    assert log(night, "1", "--raw") == files[transcript]
    assert night.ralph("log", "1", "--prompt").stdout == files[transcript.replace(".jsonl", ".prompt.md")]
    assert "The disk is on fire." in log(night, "last")
    assert log(night, "last") == log(night, "3")
    assert log(night, "--raw") == log(night, "3", "--raw"), "without a number the last one is meant"
    plan = str(night.root / "feature_PROGRESS.md")
    for said in (log(night, "2", "--diff"), night.ralph("log", plan, "2", "--diff", cwd=tmp_path).stdout):
        changes = re.findall(r"^(?:    (?=\w)|(?=[+-]\w))(.*)", said, re.MULTILINE)
        assert changes == ["add a", "+first", "change a", "-first", "+second"]
    told = log(night, "--memory")
    assert told in night.ralph("feature.md", "--dry-run").stdout
    assert everything_in(night.root, night.home, night.state) == before
    night.build("--max-iterations", "1")
    assert "recorded" not in agent.prompts[0], "the first remembers nothing"
    assert told in agent.prompts[-1]
    lines = re.sub(r"\b\d+(s|h\d\dm|m\d\ds)\b", "0s", told.replace("\N{MINUS SIGN}", "-")).splitlines()
    assert lines[3:] == [
        "- build · #2 · 1/1 tasks (+1) · 2 commits +1 -0 · 0s · $0.41",
        "  Done.",
        "- build · #3 · 1/1 tasks · 0s · $0.01 · failed · it did not succeed",
        "  The disk is on fire.",
    ]


def test_a_night_is_reported_outside_of_the_working_directory_unless_a_place_is_named(
    night: Project, tmp_path: Path
) -> None:
    (folder,) = night.state_folders
    file, shown = night.root / "my report.html", tmp_path / "shown"
    executable(tmp_path / "bin" / "xdg-open", f'printf %s "$1" > {shown}.new && mv {shown}.new {shown}')
    (night.root / "other.md").write_text("# Another\n")
    assert night.ralph("report", "other.md", "--open", "-o", file.name).code == 0
    assert eventually(lambda: shown.exists() and shown.read_text()) == str(file)
    assert file.read_text().startswith("<!doctype html>")
    assert "Nothing yet." in file.read_text()
    assert night.state_folders == [folder], "nothing is made where nothing is needed"
    before = {path.name for path in night.root.iterdir()}
    run = night.ralph("report", "feature.md")
    assert (run.code, run.stdout) == (0, f"{folder / 'report.html'}\n"), run.text
    text = (folder / "report.html").read_text()
    assert all(said in text for said in ("<small>Done.", "The disk is on fire.", "build ended: limit reached"))
    assert before == {path.name for path in night.root.iterdir()}


def test_a_running_iteration_is_followed_to_the_end_of_its_run_or_of_ralph_and_shown_again_as_it_was_seen(
    project: Project, agent: Agent
) -> None:
    project.has_tasks("x one", status="RALPH_DONE")
    assert project.build("--verify", "true").code == 0
    assert "  verify: passed\n" in log(project), "before the first iteration"
    project.has_tasks("one", "two")
    acts = (tool("Bash", command="pytest -q"), tool_result("1 passed"), prints("no event"), says("第一 task: 🚀"))
    said = says("First words."), *acts, prints("a complaint", stderr=True)
    agent.story(
        step(*said, marks("on"), waits_for("go"), says("Last words."), ticks="one"),
        step(says("The second one."), writes_done=True),
        step(ticks="all", writes_done=True),
        step(says("Words."), marks("again"), waits_for("never")),
    )
    running = project.start("feature.md", "build", "--delay", "0")
    eventually(lambda: agent.reached("on"))
    follower = project.start("log", "feature", "-f")
    eventually(lambda: "First words." in follower.stdout)
    assert "Last words." not in follower.stdout
    agent.let("go")
    run, seen = running.wait(), follower.wait()
    assert (run.code, seen.code, seen.stderr) == (0, 0, "")
    lines = [line for line in seen.stdout.splitlines() if re.search("words|second|#|ended|iteration", line)]
    assert lines[1:4] == ["build feature · iteration 1", "  First words.", "  Last words."]
    assert "  build #1 · 1/2 tasks (+1)" in lines[4]
    assert lines[-1].endswith("  build ended: done")
    assert any("  build #3 · 2/2 tasks" in line for line in lines)
    live = run.stdout.split("ralph: build feature · iteration ")[1].splitlines()[1:-1]
    shown = log(project, "1").splitlines()
    assert sorted(shown[1:-1]) == sorted(live[:-1])
    assert shown[-1].endswith(live[-1])
    assert {"  ▸ Bash pytest -q", "  a complaint"} < set(shown)
    assert "done refused: 1 task not ticked" in log(project, "2")
    project.has_tasks("three")
    running = project.start("feature.md", "build", command=paced(interrupt_s=0.1, terminate_s=0.1))
    eventually(lambda: agent.reached("again"))
    follower = project.start("log", "feature", "-f")
    eventually(lambda: "Words." in follower.stdout)
    running.process.kill()
    running.process.wait()
    seen = follower.wait()
    assert (seen.code, seen.stdout.splitlines()[-1]) == (0, "stopped: ralph was killed in iteration 4 of build")
    assert "#4 · ralph was killed · not counted" in log(project)
    assert "Words." in log(project, "last")
    assert stands(project) == ("stopped", "ralph was killed in iteration 4 of build", 3)
    project.has_tasks("x one", status="RALPH_DONE")
    assert stands(project) == ("unchecked", "the next run checks RALPH_DONE", 3), "a claim before it is not believed"
