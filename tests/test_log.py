"""What happened: the iterations in a line each, one of them as it was seen, and the running one from elsewhere."""

import json
import re
import shlex
from pathlib import Path

import pytest
from leaps import leaping
from ralph_driver import Project, eventually, paced
from stories import (
    Act,
    Agent,
    at_limit,
    fails,
    init,
    marks,
    prints,
    raw,
    result,
    runs,
    says,
    step,
    tool,
    tool_result,
    waits_for,
    writes,
)

HOURS = leaping()
TOLD = [
    init(),
    says("I'll take the login form next."),
    tool("Bash", command="pytest -q"),
    tool_result("1 passed"),
    says("Looking closer.", parent="t1"),
    tool("Read", parent="t1", file_path="app/login.py"),
    tool_result("No such file", is_error=True, parent="t1"),
    prints("a line that is no event"),
    prints("a complaint", stderr=True),
    says("第一 task: naïve 🚀 done."),
    result("Done.", cost_usd=0.41),
]


def adds(message: str) -> Act:
    return runs(f"git add a.txt && git commit -qm {shlex.quote(message)}")


@pytest.fixture
def night(project: Project, agent: Agent) -> Project:
    """Planned, then a limit, a good iteration with two a failed one, and the limit of the start."""
    (project.root / "feature_PROGRESS.md").unlink(missing_ok=True)
    two = [writes("a.txt", "first\n"), adds("add a"), writes("a.txt", "second\n"), adds("change a")]
    agent.story(step(adds="one"), at_limit(), step(*two, ticks="one", cost_usd=0.41), fails("The disk is on fire."))
    assert project.plan().code == 0
    assert project.build("--max-iterations", "2", command=HOURS).code == 3
    return project


def log(project: Project, *words: str) -> str:
    run = project.ralph("log", "feature", *words)
    assert (run.code, run.stderr) == (0, "")
    return run.stdout


def test_the_iterations_are_listed_with_a_number_to_ask_for_and_what_is_not_there_is_said(night: Project) -> None:
    listed = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DAY TIME", log(night))
    listed = re.sub(r"\b\d+s\b", "0s", re.sub(r"until \d\d:\d\d", "until TIME", listed))
    listed = listed.replace("\N{MINUS SIGN}", "-").replace("\N{EN DASH}", "-")
    limit = "You've hit your session limit · resets 10:24am (UTC)"
    assert listed.splitlines() == [
        "  DAY TIME  plan #1 · 0/1 tasks (1 new) · 0s · $0.01",
        "  DAY TIME  plan ended: finished",
        f"  DAY TIME  build #2 · 0/1 tasks · 0s · $0.00 · usage limit: {limit} · not counted",
        f"  DAY TIME  build waits until TIME: {limit}",
        "  DAY TIME  build #2 · 1/1 tasks (+1) · 2 commits +1 -0 · 0s · $0.41",
        "- DAY TIME  build #3 · 1/1 tasks · 0s · $0.01 · failed: The disk is on fire.",
        "  DAY TIME  build ended: limit reached: max-iterations is 2",
    ]
    assert night.ralph("log").stdout == log(night), "the only plan of a folder need not be named"
    (night.root / "other_PROGRESS.md").write_text("# Progress: other\n")
    run = night.ralph("log")
    assert (run.code, "name one of the plans that are here: feature, other" in run.stderr) == (2, True)
    for words, code, said in (
        ("first", 2, "there is no such iteration; `ralph log feature` lists them"),
        ("3 --diff", 1, "iteration 3 committed nothing"),
        ("-f", 1, "no run works on it now"),
    ):
        run = night.ralph("log", "feature", *words.split())
        assert (run.code, run.stdout) == (code, ""), words
        assert said in run.stderr


def test_before_the_first_iteration_there_is_none_to_show(project: Project) -> None:
    project.has_tasks("one")
    for words in ("--prompt", "last"):
        run = project.ralph("log", "feature.md", words)
        assert (run.code, "feature: there is no such iteration" in run.stderr) == (2, True)


def test_an_iteration_is_shown_as_it_was_seen(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(raw(*TOLD))
    live = project.build("--max-iterations", "1").stdout.splitlines()
    begin, end = [number for number, line in enumerate(live) if line.startswith("ralph: ")]
    shown = log(project, "1").splitlines()
    assert sorted(shown[1:]) == sorted(live[begin + 1 : end])
    assert "▸ Bash pytest -q" in "\n".join(shown)


def test_the_record_the_prompt_and_the_commits_are_there_to_see(night: Project, tmp_path: Path) -> None:
    transcript = next(line["transcript"] for line in night.journal() if line["event"] == "iteration")
    files = {Path(name).name: data.decode() for name, data in night.transcripts().items()}
    assert log(night, "1", "--raw") == files[transcript]
    assert log(night, "1", "--prompt") == files[transcript.replace(".jsonl", ".prompt.md")]
    assert "The disk is on fire." in log(night, "last")
    assert log(night, "last") == log(night, "3")
    assert log(night, "--raw") == log(night, "3", "--raw"), "without a number the last one is meant"
    plan = str(night.root / "feature_PROGRESS.md")
    for said in (log(night, "2", "--diff"), night.ralph("log", plan, "2", "--diff", cwd=tmp_path).stdout):
        changes = re.findall(r"^(?:    (?=\w)|(?=[+-]\w))(.*)", said, re.MULTILINE)
        assert changes == ["add a", "+first", "change a", "-first", "+second"]


def test_what_is_gone_is_missed_by_name(night: Project) -> None:
    """And a journal cannot make git write: whoever can write there could give git an option for a commit."""
    (folder,) = night.state_folders
    written = (folder / "journal.jsonl").read_text()
    lines = [json.loads(line) for line in written.splitlines()]
    for line in lines:
        if line["event"] == "iteration":
            line |= {"commits": 1, "base": "", "head": f"--output={night.root}/made"}
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert night.ralph("log", "feature", "2", "--diff").code == 1
    assert not (night.root / "made").exists()
    (folder / "journal.jsonl").write_text(written)
    night.git("update-ref", "-d", "HEAD")
    night.git("reflog", "expire", "--expire=now", "--all")
    night.git("gc", "-q", "--prune=now")
    run = night.ralph("log", "feature", "2", "--diff")
    assert (run.code, "iteration 2: git does not show its commits" in run.stderr) == (1, True), run.text
    for file in (folder / "transcripts").glob("*.jsonl"):
        file.unlink()
    run = night.ralph("log", "feature", "2")
    said = "no transcript of iteration 2; the newest 200 MB are kept"
    assert (run.code, said in run.stderr) == (1, True), run.text


def test_what_the_next_iteration_is_told_of_the_last_ones(night: Project, agent: Agent) -> None:
    """Of three, by ralph and not by the agent; and what was decided before the mode was another."""
    assert "recorded" not in agent.prompts[0], "the first has nothing to remember"
    told = log(night, "--memory")
    assert told in night.ralph("feature.md", "--dry-run").stdout
    night.build("--max-iterations", "1")
    assert told in agent.prompts[-1]
    lines = re.sub(r"\b\d+(s|h\d\dm|m\d\ds)\b", "0s", told.replace("\N{MINUS SIGN}", "-")).splitlines()
    limit = "You've hit your session limit · resets 10:24am (UTC)"
    assert lines == [
        "The last iterations, the newest last:",
        f"- build · #2 · 0/1 tasks · 0s · $0.00 · usage limit: {limit} · it did not succeed",
        f"  {limit}",
        "- build · #2 · 1/1 tasks (+1) · 2 commits +1 -0 · 0s · $0.41",
        "  Done.",
        "- build · #3 · 1/1 tasks · 0s · $0.01 · failed: The disk is on fire. · it did not succeed",
        "  The disk is on fire.",
        "This run so far: 1/1 tasks · 2 iterations · 2 commits · 0s · 0s of it waiting · $0.42",
    ]


def test_what_was_verified_is_told_and_why_a_claim_was_refused(project: Project, agent: Agent) -> None:
    project.has_tasks("x one", status="RALPH_DONE")
    assert project.build("--verify", "true").code == 0
    assert "  verify: passed\n" in log(project), "before the first iteration"
    project.has_tasks("one")
    agent.story(step(writes_done=True))
    project.build("--max-iterations", "1")
    assert "RALPH_DONE refused: 1 task is not ticked" in log(project, "1")


def test_a_running_iteration_is_followed_to_the_end_of_its_run(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    agent.story(
        step(says("First words."), marks("on"), waits_for("go"), says("Last words."), ticks="one", cost_usd=0.41),
        step(says("The second one."), ticks="all", writes_done=True),
    )
    running = project.start("feature.md", "build", "--delay", "0")
    eventually(lambda: agent.reached("on"))
    follower = project.start("log", "feature", "-f")
    eventually(lambda: "First words." in follower.stdout)
    assert "Last words." not in follower.stdout
    agent.let("go")
    assert running.wait().code == 0
    seen = follower.wait()
    assert (seen.code, seen.stderr) == (0, "")
    lines = [line for line in seen.stdout.splitlines() if re.search("words|second|#|ended|iteration", line)]
    assert lines[:3] == ["build feature · iteration 1", "  First words.", "  Last words."]
    assert "  build #1 · 1/2 tasks (+1)" in lines[3]
    assert lines[-1].endswith("  build ended: done")
    assert any("  build #2 · 2/2 tasks" in line for line in lines)


def test_following_ends_when_ralph_is_killed(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(says("Words."), marks("on"), waits_for("never")))
    running = project.start("feature.md", "build", command=paced(interrupt_s=0.1, terminate_s=0.1))
    eventually(lambda: agent.reached("on"))
    follower = project.start("log", "feature", "-f")
    eventually(lambda: "Words." in follower.stdout)
    running.process.kill()
    running.process.wait()
    seen = follower.wait()
    assert (seen.code, seen.stdout.splitlines()[-1]) == (0, "ended: ralph was killed in iteration 1")
    listed = log(project)
    assert "#1 · ralph was killed · not counted" in listed
    assert "Words." in log(project, "last")
