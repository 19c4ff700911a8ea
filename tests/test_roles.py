"""RALPH_ROLES under --strict: each task passes test, build and review in turn, each an iteration of its own."""

import re

from ralph_driver import Project
from stories import Agent, runs, step, tries, writes
from test_strict import KILL, ONE, OTHER, TOKEN, built, files_of, listed, marks_of, wants

ROLES = ("--roles", "test, build, review, fix")
FAULTS = " ".join(["an empty one is accepted", *(f"and one of {number}" for number in range(99)), "and a blank"])
REJECT = f'<task-reject session="@SESSION@" id="@TASK@">{FAULTS}</task-reject>'
TESTS = writes("tests/one.py", "assert True\n")
MADE = writes("one.txt", "1\n")


def test_a_task_passes_each_role_with_its_own_prompt_and_tools_and_is_committed_once(
    project: Project, agent: Agent
) -> None:
    """A red gate is followed by fix, and a rejection by whoever builds; each start goes on with the next role."""
    wants(project, ONE)
    agent.story(
        tries(TESTS, writes("app.py", "no test\n")),
        tries(TESTS),
        tries(writes("x", "1\n")),
        tries(MADE, writes("tests/one.py", "pass\n")),
        tries(writes("one.txt", "spoilt\n"), said="I may not."),
        tries(signals=REJECT),
        tries(writes("one.txt", "2\n")),
        tries(said="Add one.txt\n\nIt holds a number."),
    )
    args = (*ROLES, "--max-tries", "3", "--mcp")
    built(project, *args, "--max-iterations", "3", code=3)
    assert listed(project)[-2] == "  - role: fix"
    assert not (project.root / "app.py").exists(), "whoever writes tests writes nothing else"
    built(project, *args, "--max-iterations", "3", code=3)
    assert "  - role: build" in listed(project)
    assert (project.root / "one.txt").read_text() == "1\n", "whoever reviews changes nothing"
    assert re.search(r"failed: .* rejected: an empty one is accepted", project.progress_text)
    built(project, *args)
    tests, makes = [("test", False), ("test", True)], [("build", False), ("fix", True)]
    reviews = [("review", False), ("review", False), ("build", True), ("review", True)]
    assert project.iterations("mode", "success") == tests + makes + reviews
    test, retest, build, _, review, rereview, again, _ = agent.calls
    for own, other, why in ((retest, build, "app.py changed, which"), (rereview, again, "one.txt changed, which")):
        assert (why in own.prompt, why in other.prompt) == (True, False), "whose failure it is, and no attempt"
    gutted = "    +++ tests/one.py (now)\n    @@ -1 +1 @@\n    -assert True\n    +pass\n"
    assert [gutted in call.prompt for call in (build, review, rereview)] == [False, True, True]
    assert "You write the tests of one task" in test.prompt
    assert "Where no test makes sense, write none and signal." in test.prompt
    assert "You do one task" in build.prompt
    assert "You change nothing: whatever you change is put back." in review.prompt
    assert f"rejected: {FAULTS}\n" in again.prompt, "to its end"
    assert again.prompt.count("an empty one is accepted") == 1
    assert not TOKEN.search(str(project.journal())), "which later prompts tell of"
    assert all("--propose" in str(call.argv) for call in agent.calls), "no role's tools edit the list"
    assert "--tools=Read,Write,Edit,Glob,Grep" in test.argv
    assert not [word for word in build.argv if word.startswith("--tools")]
    assert (marks_of(project), "role:" in project.progress_text) == (["- [x] one"], False)
    said = "%s|%(trailers:key=Ralph-Task,valueonly,separator=%x2C)|%(trailers:key=Ralph-Role,valueonly,separator=%x2C)"
    assert project.git("log", "-1", f"--format={said}") == "one: Add one.txt|one|review\n"
    assert files_of(project) == ["one.txt", "tests/one.py", "x"]
    assert "review" in project.ralph("log", "feature.md").stdout


def test_roles_that_cannot_work_cost_nothing_and_without_a_review_a_task_is_done_once_its_checks_pass(
    project: Project, agent: Agent
) -> None:
    wants(project, OTHER + ONE)
    assert "none of the roles review may change files" in built(project, "--roles", "review", code=2).stderr
    assert '"reviw" is no mode' in built(project, "--roles", "build,reviw", code=2).stderr
    for asked, is_told in (ROLES, True), ((*ROLES, "--agent", "codex"), False):
        shown = built(project, *asked, "--dry-run").stdout
        assert ("You write the tests of one task" in shown, "You cannot run" in shown) == (True, is_told)
    assert "--propose" in built(project, "--roles", "review,build", "--mcp", "--dry-run").stdout
    assert not agent.calls
    agent.story(tries(TESTS), tries(MADE))
    built(project, "--roles", "test,build", "--task", "one")
    assert marks_of(project) == ["- [ ] oth", "- [x] one"]
    assert project.iterations("mode", "success") == [("test", True), ("build", True)]


def test_without_strict_they_are_modes(project: Project, agent: Agent) -> None:
    """What a role may not change is put back also where ralph dies, by a start in another mode."""
    project.has_tasks("one")
    app = writes("app.py", "no test\n")
    agent.story(step(app, runs(KILL)))
    assert project.ralph("feature.md", "review").code == -9
    assert (project.root / "app.py").exists()
    agent.story(step(), step(app, adds="Refuse an empty one"))
    assert project.build("--max-iterations", "1").code == 3
    assert not (project.root / "app.py").exists()
    run = project.ralph("feature.md", "review")
    assert run.code == 0, run.text
    assert "- [ ] Refuse an empty one" in project.progress_text
    assert not (project.root / "app.py").exists()


def test_an_agent_asks_for_a_mode_that_its_template_names(project: Project, agent: Agent) -> None:
    wants(project, ONE + OTHER)
    ask = '<mode session="@SESSION@">{}</mode>\n<task-done session="@SESSION@">@TASK@</task-done>'
    (project.root / ".ralph").mkdir()
    (project.root / ".ralph" / "PROMPT_validate.md").write_text("{#\nRALPH_ONCE: yes\nRALPH_THEN: build\n#}\nLook.\n")
    other = tries(writes("two.txt", "2\n"), signals=ask.format("deploy"))
    agent.story(tries(MADE, signals=ask.format("validate")), step(), other)
    run = built(project)
    assert project.iterations("mode", "success") == [("build", True), ("validate", True), ("build", True)]
    assert agent.prompts[1].strip() == "Look."
    assert "the wish for the mode deploy is ignored" in run.stderr
    assert "Mode:" not in project.progress_text
