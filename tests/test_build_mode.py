"""Building (design sections 4 and 5): iterations until done, which is checked, or until there is another reason."""

import re

from ralph_driver import Project, eventually, leaping
from stories import (
    LIMIT,
    Act,
    Agent,
    edits,
    error_result,
    init,
    marks,
    prints,
    raw,
    result,
    runs,
    says,
    step,
    tool_result,
    waits_for,
    writes,
)

CLAIM = step(writes_done=True)


def test_it_builds_from_the_first_commit_on_and_sums_up_each_iteration_and_what_is_done_is_only_reported(
    plain_project: Project, agent: Agent
) -> None:
    project = plain_project
    project.git("init", "-q")
    project.has_tasks("one", "two")
    adds = [writes("a.txt", "1\n2\n3\n"), runs("git add a.txt && git commit -qm first")]
    changes = [writes("a.txt", "4\n"), runs("git commit -qam second"), runs("git commit -q --allow-empty -m third")]
    first = step(*adds, ticks="one", adds="three", cost_usd=0.41)
    agent.story(first, step(*changes, ticks="all", writes_done=True))
    run = project.build()
    assert (run.code, len(agent.calls), "fatal" in run.text) == (0, 2, False), run.text
    assert "- [ ]" not in project.progress_text
    assert "\nRALPH_DONE\n" in project.progress_text
    one, two = re.findall(r"^#\d+ · .*$", run.text, re.MULTILINE)
    minus = "\N{MINUS SIGN}"
    assert re.fullmatch(rf"#1 · 1/3 tasks \(\+1, 1 new\) · 1 commit \+3 {minus}0 · \d+s · \$0\.41", one)
    assert re.fullmatch(rf"#2 · 3/3 tasks \(\+2\) · 2 commits \+1 {minus}3 · \d+s · \$0\.01", two)
    again, seen = project.build(), project.ralph_tty("feature.md")
    assert (again.code, again.text, seen.code, seen.stdout.count("\n"), len(agent.calls)) == (0, "", 0, 1, 2), seen.text


def test_a_limit_is_of_this_run_the_number_of_all_and_there_is_a_pause_between_two_iterations(
    project: Project, agent: Agent
) -> None:
    agent.story(step(), repeat=True)
    run = project.build("--max-iterations", "2", "--delay", "10m", command=leaping())
    assert (run.code, len(agent.calls), "max-iterations is 2" in run.text) == (3, 2, True), run.text
    assert "RALPH" not in project.progress_text
    assert 600 <= project.journal()[-1]["duration_s"] < 1200, "none at the end"
    assert "ralph: build feature · iteration 2 of 2 · no tasks" in run.text
    ascii_only = ("env", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0", "LC_ALL=C")
    run = project.build("2", "--max-stalls", "off", prefix=ascii_only)
    assert project.iterations("iteration") == [1, 2, 3, 4]
    assert "ralph: build feature - iteration 4 (2 of 2 in this run) - no tasks" in run.text


FAILURES = {
    "an error with exit 0, called success": raw(init(), tool_result(LIMIT), result("It went wrong.", ok=False)),
    "exit 1 after a good result": step(exit_code=1),
    "a beginning without an end": raw(init(), tool_result("Hm.")),
    "a crash": raw(init(), exit_code=-11),
    "no stream at all": raw(prints("what?\n"), exit_code=2),
    "out of turns, no progress": raw(init(), error_result("error_max_turns", "x"), exit_code=1),
}


def test_each_of_these_is_a_failed_iteration_that_may_claim_nothing_and_does_not_count_when_something_worked_since(
    project: Project, agent: Agent
) -> None:
    """Of the failures two in a row stand between good iterations, and three would be too many."""
    project.has_tasks("1", "2", "3", "4")
    story = list[tuple[str, Act]]()
    for place, (name, failure) in enumerate(FAILURES.items()):
        story.append((name, raw(edits("IN_PROGRESS", "RALPH_DONE"), *failure["acts"], exit_code=failure["exit_code"])))
        if place % 2:
            story.append(("good", step(ticks="first")))
    agent.story(*(act for _, act in story), step(ticks="first", writes_done=True))
    run = project.build()
    assert run.code == 0, run.text
    good = project.iterations("success")
    assert [name for (name, _), fine in zip(story, good[:-1], strict=True) if not fine] == list(FAILURES)
    assert all(project.iterations("counted"))
    assert run.stderr.count("RALPH_DONE refused: the iteration that claimed it did not end well: ") == len(FAILURES)
    assert ("exited with 1 after its result\n" in run.stderr, "by signal 11 without a result\n" in run.stderr) == (
        True,
        True,
    )


def test_a_claim_with_open_tasks_is_refused_the_next_iteration_can_fix_it_and_the_third_in_a_row_needs_the_user(
    project: Project, agent: Agent
) -> None:
    """Refusals do not add up over honest iterations; a word in a fence is no claim."""
    project.has_tasks("one", "two", "three")
    agent.story(CLAIM, step(ticks="one", writes_done=True))
    run = project.build("2")
    assert (run.code, "RALPH_DONE refused: 2 tasks not ticked" in run.stderr) == (3, True), run.text
    before, section = project.progress_text.split("## Verification")
    assert ("RALPH_DONE" in before, "\nIN_PROGRESS\n" in before) == (False, True)
    assert ['"two"' in section, '"one"' in section] == [True, False]
    agent.story(CLAIM, CLAIM, step(ticks="two"), CLAIM, CLAIM, step(ticks="three", writes_done=True))
    run = project.build()
    assert (run.code, len(agent.calls)) == (0, 8), run.text
    assert "## Verification" not in project.progress_text
    assert "\nRALPH_DONE\n" in project.progress_text
    project.has_tasks("one", "two")
    fenced = runs("printf '\\n```\\nRALPH_DONE\\n```\\n' >> feature_PROGRESS.md")
    agent.story(step(fenced, ticks="one"), CLAIM, repeat=True)
    run = project.build()
    assert (run.code, project.iterations("refused")[8:]) == (4, [False, True, True, True]), run.text
    assert "\nRALPH_BLOCKED: ralph: done was claimed 3 times in a row and does not hold: " in project.progress_text


def test_a_message_that_the_agents_older_copy_writes_over_comes_back(project: Project, agent: Agent) -> None:
    """Not one that was there before, which agents take away once they have followed it, nor what the user rewords."""
    project.has_tasks("one", notes="\n## Messages\n\nUse tabs.\n")
    writes_over = runs("cp feature_PROGRESS.md.mine feature_PROGRESS.md")
    takes = runs("sed -i '/^Use tabs/d' feature_PROGRESS.md; cp feature_PROGRESS.md feature_PROGRESS.md.mine")
    waits = [waits_for("go"), says("Still here."), waits_for("on with it"), says("And here."), waits_for("more")]
    agent.story(step(takes, marks("on"), *waits, writes_over))
    running = project.start("feature.md", "build", "--max-iterations", "1")
    eventually(lambda: agent.reached("on"))
    with project.progress.open("a") as file:
        file.write("Call it blue.\n- and\n")
    agent.let("go")
    eventually(lambda: "Still here." in running.stdout)
    project.does("sed -i 's/blue/red/' feature_PROGRESS.md")
    agent.let("on with it")
    eventually(lambda: "And here." in running.stdout)
    agent.let("more")
    run = running.wait()
    assert "put back under ## Messages what the agent's copy wrote over: Call it red., - and\n" in run.stderr
    assert project.progress_text.endswith("## Messages\n\nCall it red.\n- and\n\n")
