"""A RALPH_DONE that appears during an iteration is a claim (design section 5): the refusals."""

import re

from ralph_driver import Project, eventually
from stories import Agent, edits, marks, runs, step, waits_for

CLAIM = step(writes_done=True)


def sections(project: Project) -> int:
    return project.progress_text.count("## Verification")


def verification(project: Project) -> str:
    return project.progress_text.split("## Verification")[1].split("\n## ")[0]


def test_a_claim_with_open_tasks_is_refused_and_the_next_iteration_can_mend_it(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    agent.story(CLAIM, step(ticks="one", writes_done=True), step(ticks="two", writes_done=True))
    run = project.build("2")
    assert run.code == 3, run.text
    assert "RALPH_DONE refused: 1 task is not ticked" in run.stderr
    assert "RALPH_DONE" not in project.progress_text.split("## Verification")[0]
    assert "\nIN_PROGRESS\n" in project.progress_text
    assert sections(project) == 1, "replaced, not repeated"
    assert '"two"' in verification(project)
    assert '"one"' not in verification(project)
    run = project.build()
    assert (run.code, len(agent.calls)) == (0, 3), run.text
    assert sections(project) == 0, "removed on success"
    assert "\nRALPH_DONE\n" in project.progress_text


def test_tasks_that_vanished_are_put_back(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two", "three")
    agent.story(step(edits("- [ ] two\n", ""), edits("- [ ] three\n", ""), ticks="one", writes_done=True))
    run = project.build("1")
    assert run.code == 3, run.text
    assert "- [ ] two\n" in project.progress_text
    assert "- [ ] three\n" in project.progress_text
    assert "- [x] one\n" in project.progress_text
    assert "\nIN_PROGRESS\n" in project.progress_text
    assert "two" in verification(project)


BAD_ENDS = {
    "exit 1": step(ticks="all", writes_done=True, exit_code=1),
    "an error with exit 0": step(writes_done=True, ok=False, exit_code=0),
    "killed": step(writes_done=True, exit_code=-9),
}


def test_a_claim_of_an_iteration_that_ended_badly_is_refused_and_that_is_said(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(*BAD_ENDS.values(), step(writes_done=True))
    run = project.build("--max-failures", "off", "--max-stalls", "off")
    assert (run.code, len(agent.calls)) == (0, len(BAD_ENDS) + 1), run.text
    reasons = re.findall(r"^ralph: RALPH_DONE refused: the iteration .* did not end well", run.stderr, re.MULTILINE)
    assert len(reasons) == len(BAD_ENDS), run.stderr


def test_refused_again_and_again_it_needs_a_person(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(CLAIM, repeat=True)
    run = project.build()
    assert (run.code, len(agent.calls)) == (4, 3), run.text
    assert "\nRALPH_BLOCKED: ralph: " in project.progress_text


def test_refusals_do_not_add_up_over_honest_iterations(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two", "three")
    agent.story(CLAIM, CLAIM, step(ticks="one"), CLAIM, CLAIM, step(ticks="all", writes_done=True))
    run = project.build()
    assert (run.code, len(agent.calls)) == (0, 6), run.text


def test_a_task_that_a_person_adds_during_the_claim_is_not_lost(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(marks("on"), waits_for("go"), ticks="one", writes_done=True), step())
    running = project.start("feature.md", "build", "1", "--delay", "0")
    eventually(lambda: agent.reached("on"))
    project.progress.write_text(project.progress_text.replace("- [ ] one\n", "- [ ] one\n- [ ] mine\n"))
    agent.let("go")
    assert running.wait().code == 3
    assert "- [ ] mine\n" in project.progress_text


def test_a_word_in_a_fence_is_no_claim(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(runs("printf '\\n```\\nRALPH_DONE\\n```\\n' >> feature_PROGRESS.md"), ticks="one"))
    run = project.build("1")
    assert run.code == 3, run.text
    assert sections(project) == 0
