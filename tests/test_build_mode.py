"""Building (design sections 4 and 5): iterations until done, or until there is a reason to stop."""

import re

from leaps import leaping
from ralph_driver import Project, eventually
from stories import (
    Act,
    Agent,
    commits,
    error_result,
    fails,
    init,
    marks,
    prints,
    raw,
    runs,
    says,
    step,
    waits_for,
    writes,
)

MINUS = "\N{MINUS SIGN}"
SUMMARY = re.compile(r"^#(\d+) · .*$", re.MULTILINE)


def summaries(text: str) -> list[str]:
    return [match[0] for match in SUMMARY.finditer(text)]


def test_it_builds_until_the_agent_says_done_and_sums_up_each_iteration(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    (project.root / "old.txt").write_text("1\n2\n3\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "start")
    first = step(
        writes("new.txt", "a\nb\nc\n"),
        commits("one"),
        runs("rm old.txt"),
        commits("two"),
        ticks="one",
        adds="three",
        cost_usd=0.41,
    )
    agent.story(first, step(ticks="all", writes_done=True))
    run = project.build()
    assert (run.code, len(agent.calls)) == (0, 2), run.text
    assert "- [ ]" not in project.progress_text
    assert "\nRALPH_DONE\n" in project.progress_text
    one, two = summaries(run.text)
    assert re.fullmatch(rf"#1 · 1/3 tasks \(\+1, 1 new\) · 2 commits \+\d+ {MINUS}\d+ · \d+s · \$0\.41", one)
    assert re.fullmatch(r"#2 · 3/3 tasks \(\+2\) · \d+s · \$0\.01", two)


def test_it_builds_where_nothing_is_committed_yet(plain_project: Project, agent: Agent) -> None:
    plain_project.git("init", "-q")
    plain_project.has_tasks("one")
    agent.story(step(ticks="one", file="a.txt", commits="first", writes_done=True))
    run = plain_project.build()
    assert (run.code, "fatal" in run.text) == (0, False), run.text
    assert re.fullmatch(r"#1 · 1/1 tasks \(\+1\) · 1 commit \+\d+ .0 · \d+s · \$0\.01", summaries(run.text)[0])


def test_a_limit_is_named_and_there_is_a_pause_between_iterations_and_none_at_the_end(
    project: Project, agent: Agent
) -> None:
    project.has_tasks("one")
    agent.story(step(), repeat=True)
    run = project.build("--max-iterations", "2", "--delay", "10m", command=leaping())
    assert (run.code, len(agent.calls)) == (3, 2)
    assert "max-iterations is 2" in run.text
    assert "RALPH" not in project.progress_text
    assert 600 <= project.journal()[-1]["duration_s"] < 1200


FAILURES = {
    "exit 1 and an error": fails(),
    "an error with exit 0, called success": fails(exit_code=0),
    "exit 1 after a good result": step(exit_code=1),
    "a beginning without an end": raw(init(), says("Hm.")),
    "a crash": raw(init(), exit_code=-11),
    "no stream at all": raw(prints("what?\n"), exit_code=2),
    "out of turns, no progress": raw(init(), error_result("error_max_turns", "x"), exit_code=1),
}


def test_each_of_these_is_a_failed_iteration_and_does_not_count_when_something_worked_since(
    project: Project, agent: Agent
) -> None:
    """Of the failures two in a row stand between good iterations, and three would be too many."""
    project.has_tasks("1", "2", "3", "4")
    story = list[tuple[str, Act]]()
    for place, failure in enumerate(FAILURES.items()):
        story.append(failure)
        if place % 2:
            story.append(("good", step(ticks="first")))
    agent.story(*(act for _, act in story), step(ticks="first", writes_done=True))
    run = project.build()
    assert run.code == 0, run.text
    failed = [line["counted"] and not line["success"] for line in project.journal() if line["event"] == "iteration"]
    assert [name for (name, _), bad in zip(story, failed[:-1], strict=True) if bad] == list(FAILURES)


def test_three_failures_in_a_row_stop_the_run_and_block_it(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    first, second, third, *_ = FAILURES.values()
    agent.story(first, second, third)
    run = project.build()
    assert (run.code, len(agent.calls)) == (1, 3), run.text
    assert run.stderr.rstrip().splitlines()[-1].startswith("ralph: ")
    assert re.search(r"^RALPH_BLOCKED: ralph: 3 iterations failed in a row", project.progress_text, re.MULTILINE)
    assert "- [ ] one" in project.progress_text


def test_an_agent_that_needs_a_person_stops_the_run_with_its_why(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(blocks="which database?"))
    run = project.build()
    assert run.code == 4
    assert "which database?" in run.text


def test_a_person_can_stop_it_from_the_file(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    agent.story(step(marks("on"), waits_for("go"), ticks="one"), step())
    running = project.start("feature.md", "build", "--delay", "0")
    eventually(lambda: agent.reached("on"))
    project.progress.write_text(project.progress_text.replace("IN_PROGRESS", "RALPH_STOP"))
    agent.let("go")
    run = running.wait()
    assert (run.code, len(agent.calls)) == (3, 1), run.text
    assert "RALPH_STOP" in run.text
    assert "RALPH_STOP" in project.progress_text


def test_the_number_of_the_iteration_counts_all_starts_and_the_limit_this_one(project: Project, agent: Agent) -> None:
    agent.story(step(), repeat=True)
    first = project.build("2")
    assert [line[:2] for line in summaries(first.text)] == ["#1", "#2"]
    assert "ralph: build feature · iteration 2 of at most 2 · no tasks" in first.text
    (folder,) = project.state_folders
    (folder / "journal.jsonl").unlink()
    second = project.build("2", "--max-stalls", "off")
    assert [line[:2] for line in summaries(second.text)] == ["#3", "#4"], "also without the journal"
    assert "ralph: build feature · iteration 4 · 2 of at most 2 in this start · no tasks" in second.text
    assert "#4 ·" in project.ralph("log").stdout.splitlines()[-2]
