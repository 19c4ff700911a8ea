"""Building (design sections 4 and 5): iterations until done, or until there is a reason to stop."""

import re
import time

import pytest
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
    result,
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


def test_it_builds_until_the_agent_says_done(project: Project, agent: Agent) -> None:
    project.has_tasks("first", "second", "third")
    agent.story(step(ticks="first"), step(ticks="second"), step(ticks="third", writes_done=True))
    run = project.build()
    assert (run.code, len(agent.calls)) == (0, 3), run.text
    assert "- [ ]" not in project.progress_text
    assert "\nRALPH_DONE\n" in project.progress_text


def test_each_iteration_is_summed_up_in_one_line(project: Project, agent: Agent) -> None:
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
    assert run.code == 0, run.text
    one, two = summaries(run.text)
    assert re.fullmatch(rf"#1 · 1/3 tasks \(\+1, 1 new\) · 2 commits \+\d+ {MINUS}\d+ · \d+s · \$0\.41", one)
    assert re.fullmatch(r"#2 · 3/3 tasks \(\+2\) · \d+s · \$0\.01", two)


def test_lines_of_commits_are_counted(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "start")
    agent.story(step(writes("new.txt", "a\nb\nc\n"), runs("git rm -q feature.md"), commits("one")))
    run = project.build("1")
    assert f"1 commit +3 {MINUS}3 " in summaries(run.text)[0], run.text


def test_it_builds_without_git(plain_project: Project, agent: Agent) -> None:
    plain_project.has_tasks("one")
    agent.story(step(ticks="one", writes_done=True))
    run = plain_project.build()
    assert run.code == 0, run.text
    assert "fatal" not in run.text
    assert re.fullmatch(r"#1 · 1/1 tasks \(\+1\) · \d+s · \$0\.01", summaries(run.text)[0])


def test_a_repository_without_commits_is_one_too(plain_project: Project, agent: Agent) -> None:
    plain_project.git("init", "-q")
    plain_project.has_tasks("one")
    agent.story(step(ticks="one", file="a.txt", commits="first", writes_done=True))
    run = plain_project.build()
    assert run.code == 0, run.text
    assert "1 commit" in run.text


def test_the_last_allowed_iteration_can_be_the_one_that_is_done(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(ticks="one", writes_done=True))
    assert project.build("--max-iterations", "1").code == 0


def test_the_limit_is_named_when_it_is_reached(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(), repeat=True)
    run = project.build("--max-iterations", "2")
    assert (run.code, len(agent.calls)) == (3, 2)
    assert re.search(r"\b2\b.*iterations|iterations.*\b2\b", run.text)
    assert "RALPH" not in project.progress_text


def test_there_is_a_pause_between_iterations_and_none_at_the_end(project: Project, agent: Agent) -> None:
    agent.story(step(), repeat=True)
    begin = time.monotonic()
    project.ralph("feature.md", "build", "--delay", "60s", "--max-iterations", "1")
    assert time.monotonic() - begin < 20
    begin = time.monotonic()
    project.ralph("feature.md", "build", "--delay", "1s", "--max-iterations", "2")
    assert time.monotonic() - begin >= 1


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(fails(), id="exit 1 and an error"),
        pytest.param(fails(exit_code=0), id="an error with exit 0, called success"),
        pytest.param(step(exit_code=1), id="exit 1 after a good result"),
        pytest.param(raw(init(), says("Hm.")), id="a beginning without an end"),
        pytest.param(raw(init(), exit_code=-11), id="a crash"),
        pytest.param(raw(prints("what?\n"), exit_code=2), id="no stream at all"),
        pytest.param(raw(init(), error_result("error_max_turns", "x"), exit_code=1), id="out of turns, no progress"),
    ],
)
class TestThreeFailuresInARow:
    def test_stop_the_run_and_block_it(self, project: Project, agent: Agent, bad: Act) -> None:
        project.has_tasks("one")
        agent.story(bad, repeat=True)
        run = project.build()
        assert (run.code, len(agent.calls)) == (1, 3), run.text
        assert run.stderr.rstrip().splitlines()[-1].startswith("ralph: ")
        assert re.search(r"^RALPH_BLOCKED: ralph: 3 iterations failed in a row", project.progress_text, re.MULTILINE)
        assert "- [ ] one" in project.progress_text

    def test_do_not_count_when_something_worked_between(self, project: Project, agent: Agent, bad: Act) -> None:
        project.has_tasks("one", "two")
        agent.story(bad, bad, step(ticks="one"), bad, bad, step(ticks="two", writes_done=True))
        assert project.build().code == 0
        assert len(agent.calls) == 6


def test_the_number_of_failures_can_be_set(project: Project, agent: Agent) -> None:
    agent.story(fails("disk on fire"), repeat=True)
    run = project.build("--max-failures", "1")
    assert (run.code, len(agent.calls)) == (1, 1)
    assert "disk on fire" in run.text


def test_failures_can_be_endured_for_ever(project: Project, agent: Agent) -> None:
    agent.story(fails(), repeat=True)
    assert project.build("--max-failures", "off", "--max-iterations", "5").code == 3
    assert len(agent.calls) == 5
    assert "RALPH_BLOCKED" not in project.progress_text


class TestABreakerThatIsOpen:
    def is_open(self, project: Project, agent: Agent) -> None:
        project.has_tasks("one")
        agent.story(fails(), repeat=True)
        assert project.build().code == 1
        agent.story(step(ticks="one", writes_done=True))

    def test_keeps_cron_from_going_on(self, project: Project, agent: Agent) -> None:
        self.is_open(project, agent)
        run = project.build()
        assert (run.code, run.text, len(agent.calls)) == (4, "", 3)

    def test_is_closed_by_deleting_the_line(self, project: Project, agent: Agent) -> None:
        self.is_open(project, agent)
        kept = [line for line in project.progress_text.splitlines(True) if "RALPH_BLOCKED" not in line]
        project.progress.write_text("".join(kept).replace("## Status\n", "## Status\n\nIN_PROGRESS\n", 1))
        assert project.build().code == 0

    def test_is_closed_by_a_start_from_a_terminal(self, project: Project, agent: Agent) -> None:
        self.is_open(project, agent)
        run = project.ralph_tty("feature.md", "--delay", "0")
        assert "RALPH_BLOCKED" in run.stdout
        assert "RALPH_BLOCKED" not in project.progress_text
        assert len(agent.calls) == 4

    def test_stays_open_when_a_person_opened_it(self, project: Project, agent: Agent) -> None:
        project.has_tasks("one", status="RALPH_BLOCKED: wait for the new key")
        run = project.ralph_tty("feature.md")
        assert (run.code, agent.calls) == (4, [])
        assert "wait for the new key" in run.stdout
        assert "RALPH_BLOCKED" in project.progress_text


def test_running_out_of_turns_with_progress_made_is_no_failure(project: Project, agent: Agent) -> None:
    project.has_tasks("1", "2", "3", "4")
    out_of_turns = raw(
        init(), {"act": "ticks", "which": "first"}, error_result("error_max_turns", "Reached 2"), exit_code=1
    )
    agent.story(out_of_turns, out_of_turns, out_of_turns, step(ticks="4", writes_done=True))
    run = project.build("--max-turns", "2")
    assert (run.code, len(agent.calls)) == (0, 4), run.text
    argv = agent.calls[0].argv
    assert argv[argv.index("--max-turns") + 1] == "2"


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


def test_the_number_of_the_iteration_counts_this_start(project: Project, agent: Agent) -> None:
    agent.story(step(), repeat=True)
    assert [line[:2] for line in summaries(project.build("2").text)] == ["#1", "#2"]
    assert [line[:2] for line in summaries(project.build("1").text)] == ["#1"]


def test_a_changed_directive_is_said_and_not_obeyed(project: Project, agent: Agent) -> None:
    (project.root / "feature.md").write_text("RALPH_MAX_ITERATIONS: 2\nRALPH_MODEL: opus\n")
    change = runs("printf 'RALPH_MAX_ITERATIONS: 5\\nRALPH_MODEL: haiku\\n' > feature.md")
    agent.story(step(change), step(), step())
    run = project.build()
    assert (run.code, len(agent.calls)) == (3, 2), run.text
    assert agent.calls[1].argv[-1] == "opus"
    assert "RALPH_MAX_ITERATIONS" in run.stderr


def test_of_several_results_the_last_cost_counts(project: Project, agent: Agent) -> None:
    agent.story(raw(init(), result(cost_usd=0.02), init(), result(cost_usd=0.05)))
    assert summaries(project.build("1").text)[0].endswith("$0.05")
