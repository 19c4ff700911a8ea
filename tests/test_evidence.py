"""What a tick is worth: red before, green now, and still green at the end. Whole runs with a scripted agent."""

import json
import re

import pytest
from ralph_driver import Mailbox, Project, Run, paced, progress_text
from stories import Agent, runs, says, step, tries, writes

HELD = "its checks held before it was begun"


def wants(project: Project, *tasks: str) -> None:
    """Writes a progress file with these tasks, each an id and its checks."""
    rows = [task.split(" | ") for task in tasks]
    told = [f"- [ ] {name}: The {name}\n" + "".join(f"  - verify: {one}\n" for one in checks) for name, *checks in rows]
    project.progress.write_text(progress_text().replace("## Task List\n\n", "## Task List\n\n" + "".join(told)))


def built(project: Project, *args: str, code: int = 0) -> Run:
    """A run in strict mode, with its exit code."""
    run = project.build("--strict", *args)
    assert run.code == code, run.text
    return run


def exits_0(command: str) -> str:
    return f"Run `{command}` - exits with code 0"


def test_a_check_that_held_before_proves_nothing_and_takes_the_word_of_two_agents(
    project: Project, agent: Agent
) -> None:
    """The second is told what the first did; what it came to is counted apart wherever the end is told."""
    mailbox = Mailbox(project)
    wants(project, "one | File `README` exists | " + exits_0("true"), "two | File `two.txt` exists")
    project.does("echo hello > README; git add README; git commit -qm readme")
    agent.story(
        tries(writes("one.txt", "1"), said="Wrote one.txt."), tries(said="Looked."), tries(writes("two.txt", ""))
    )
    run = built(project)
    assert "one: 2 of 2 checks hold before it is begun: File `README` exists, Run `true`" in run.stdout
    first, second, third = agent.prompts
    told = "so they prove nothing: do what the task's words ask for:\n- File `README` exists\n"
    assert (told in first, "These already passed" in third) == (True, False)
    assert "nothing proves it" not in first
    assert re.search(r"nothing proves it. It did this: \S+ \S+ changed one.txt; said: Wrote one.txt.", second)
    assert (
        f"- [x] one: The one\n  - verify: File `README` exists\n  - verify: {exits_0('true')}\n"
        in project.progress_text
    )
    assert project.progress_text.count(f"- note: {HELD}") == 1
    assert project.iterations("requirement_id", "success") == [("one", False), ("one", True), ("two", True)]
    counts = "2/2 tasks, 1 of them without proof"
    status = project.ralph("status", "feature.md")
    assert all(counts in text for text in (run.stdout.splitlines()[-1], mailbox.notices[-1], status.stdout))
    assert json.loads(project.ralph("status", "feature.md", "--json").stdout)["tasks"]["unproved"] == 1
    assert "2/2 tasks, 1 of them without proof" in project.ralph("report", "feature", "-o", "-").stdout


def test_an_agent_that_only_says_that_it_is_done_gets_no_tick_that_nothing_proves(
    project: Project, agent: Agent
) -> None:
    """With a check that finds no test, one that is always green, and none at all; a change makes the last one good."""
    wants(project, "one | " + exits_0("python3 -m unittest -k nothing_such; true"), "two")
    agent.story(*[tries()] * 2, tries(), tries(), tries(runs("echo > two.txt")))
    run = built(project, "--task", "one")
    assert f"- note: {HELD}" in project.progress_text
    run = built(project)
    assert "two: it changed nothing, and nothing checks it: give it a `verify:` line; another agent looks" in run.stdout
    assert [success for _, success in project.iterations("requirement_id", "success")] == [
        False,
        True,
        False,
        False,
        True,
    ]
    assert project.git("log", "-1", "--format=%s").startswith("two: ")


@pytest.mark.parametrize("how", [("--strict",), ("--strict", "--jobs", "2")], ids=["alone", "two at a time"])
def test_what_a_later_task_breaks_is_done_again_before_all_is_done(
    project: Project, agent: Agent, how: tuple[str, ...]
) -> None:
    """A red one is run twice, since tests can be flaky; what cannot run says nothing."""
    flaky = exits_0("echo x >> ~/runs; test -e b.txt && ! [ $(wc -l < ~/runs) = 3 ]")
    wants(project, "a | File `a.txt` exists", f"b | File `b.txt` exists | {flaky}")
    project.progress.write_text(project.progress_text.replace("The b\n", "The b\n  - after: a\n"))
    agent.story(
        tries(writes("a.txt", "")), tries(runs("git rm -qf a.txt; touch b.txt")), tries(writes("a.txt", "again"))
    )
    run = project.build(*how)
    assert run.code == 0, run.text
    assert "RALPH_DONE refused: a is not done: a later change broke it" in run.stderr
    assert project.iterations("requirement_id", "success")[-1] == ("a", True)
    assert "ralph: checking 3 of 3 again: " in run.stdout
    assert project.git("show", "HEAD:a.txt", "HEAD:b.txt") == "again"
    assert "\nRALPH_DONE\nVerified: " in project.progress_text
    assert "(checks alone)\n" in project.progress_text


def test_a_finished_plan_is_checked_again_only_where_something_has_changed_since(
    project: Project, agent: Agent
) -> None:
    wants(project, "one | " + exits_0("echo x >> ~/count; test -e one.txt"))
    agent.story(tries(writes("one.txt", "")), tries(writes("one.txt", "again")))
    counted = project.home / "count"
    built(project)
    before = len(counted.read_text())
    assert built(project).text == ""
    assert len(counted.read_text()) == before
    project.does("echo > mine.txt")
    built(project)
    assert (len(counted.read_text()), len(agent.calls)) == (before + 2, 1)
    assert built(project).text == ""
    project.does("git rm -qf one.txt; git commit -qm gone")
    run = built(project)
    assert "RALPH_DONE refused: one is not done: a later change broke it (" in run.stderr
    assert " gone): Run `" in run.stderr
    assert (len(agent.calls), (project.root / "one.txt").read_text()) == (2, "again")


def test_commands_that_must_not_run_twice_are_not_and_the_end_says_so(project: Project, agent: Agent) -> None:
    (project.root / "feature.md").write_text("# A feature\n\nRALPH_EVIDENCE: off\n")
    wants(project, "one | " + exits_0("echo x >> ~/count; test -e one.txt"))
    agent.story(tries(writes("one.txt", "")))
    run = built(project)
    assert (project.home / "count").read_text() == "x\n"
    assert "not checked again" in run.stdout.splitlines()[-1]
    assert "Verified:" not in project.progress_text


def test_where_no_time_is_left_to_check_again_nothing_is_unticked(project: Project, agent: Agent) -> None:
    wants(project, "one | " + exits_0("test -e one.txt && touch ~/over && test ! -e ~/twice && touch ~/twice"))
    agent.story(tries(writes("one.txt", "")))
    run = project.build("--strict", "--max-time", "1h", command=paced(when=project.home / "over", running_s=7200))
    assert run.code == 3, run.text
    assert "max-time is 1h" in run.stdout.splitlines()[-1]
    assert ("- [x] one" in project.progress_text, "\nIN_PROGRESS\n" in project.progress_text) == (True, True)


def test_a_verify_that_is_red_before_the_first_task_is_reported_before_money_is_spent(
    project: Project, agent: Agent
) -> None:
    """Three attempts that fail by nothing else end the run; once it is green no agent hears of it any more."""
    mailbox = Mailbox(project)
    check = ("--verify", "test -e mended || { echo 'FAIL: no server'; exit 2; }")
    wants(project, "one | File `one.txt` exists", "two | File `two.txt` exists")
    project.progress.write_text(project.progress_text.replace("The two\n", "The two\n  - after: one\n"))
    agent.story(*[tries(writes("one.txt", ""))] * 3)
    run = built(project, *check, "--max-tries", "9", code=4)
    said = "verify was red before the first task (exited with 2 / FAIL: no server) and no attempt has made it green"
    assert (len(agent.calls), " exited with 2\n" in run.stderr) == (
        3,
        True,
    )
    assert "ralph: before the first task, the verify command `test -e mended" in run.stderr
    assert "FAIL: no server" in mailbox.notices[0]
    assert said in mailbox.notices[-1]
    assert f"RALPH_BLOCKED: ralph: {said}" in project.progress_text
    assert "failed before anything was built, and has not passed yet" in agent.prompts[0]
    project.progress.write_text(project.progress_text.replace("RALPH_BLOCKED", "> "))
    agent.story(tries(runs("touch mended")), tries(writes("two.txt", "")))
    built(project, *check)
    assert ["failed before anything" in prompt for prompt in agent.prompts[-2:]] == [True, False]


def test_what_a_verify_was_before_is_asked_once_for_a_plan_and_a_command(project: Project, agent: Agent) -> None:
    """In a plain loop, too, where five iterations that change nothing are not what is wrong."""
    check = ("--verify", "echo x >> ~/count; false", "--max-stalls", "2")
    project.has_tasks("one")
    agent.story(step(ticks="all", writes_done=True), *[step(writes_done=True)] * 9)
    run = project.build(*check)
    assert (run.code, (project.home / "count").read_text()) == (4, "x\n" * (1 + len(agent.calls))), run.text
    assert "verify was red before the first task (exited with 1) and no attempt" in run.stdout
    project.has_tasks("one")
    before = (project.home / "count").read_text()
    project.build(*check, "--max-iterations", "1")
    assert (project.home / "count").read_text() == before, "known, and with an open task not asked"


def test_a_plan_says_which_of_its_checks_hold_before_anything_is_built(project: Project, agent: Agent) -> None:
    """Under `all` it is planned once more with that list; what may change something is not run."""
    weak = f"- [ ] one: The first\n  - verify: {exits_0('echo x >> ~/count')}\n  - verify: POST /x returns 201\n"
    strong = weak.replace("count", "count; test -e one.txt")
    put = "sed -i '/^- .* one:/,/^$/d' feature_PROGRESS.md; sed -i '/^## Task List/r '$HOME/{} feature_PROGRESS.md"
    puts = [runs(put.format(name)) for name in ("weak", "strong")]
    (project.home / "weak").write_text(weak)
    (project.home / "strong").write_text(strong.replace("  - verify: POST /x returns 201\n", ""))
    agent.story(step(puts[0]))
    run = project.plan("--strict", "--base-url", "http://127.0.0.1:9")
    assert run.code == 0, run.text
    said = "1 of 2 checks hold before anything is built, so they prove nothing"
    assert f"ralph: {said}: Run `echo x >> ~/count`" in run.stderr
    assert f"\n> {said}:\n>\n> - Run `echo x >> ~/count`" in project.progress_text
    assert (project.home / "count").read_text() == "x\n"
    project.progress.unlink()
    agent.story(step(puts[0]), step(puts[1]), tries(writes("one.txt", "")), step(says("All is there.")))
    run = project.ralph("feature.md", "all", "--strict", "--base-url", "http://127.0.0.1:9", "--delay", "0")
    assert run.code == 0, run.text
    assert ["You plan" in prompt for prompt in agent.prompts[-4:]] == [True, True, False, False]
    assert "## Verification" not in project.progress_text
