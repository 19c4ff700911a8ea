"""RALPH_ROLES under --strict: each task passes test, build and review in turn, each an iteration of its own."""

import re
from pathlib import Path

from ralph_driver import Project, leaping
from stories import Act, Agent, at_limit, runs, step, tries, writes
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
    assert "If no test makes sense, write none and signal." in test.prompt
    assert "You do one task" in build.prompt
    assert "You change nothing: ralph puts back whatever you change." in review.prompt
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
    assert '"reviw" is not a mode' in built(project, "--roles", "build,reviw", code=2).stderr
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
    assert "the request for the mode deploy is ignored" in run.stderr
    assert "Mode:" not in project.progress_text


def test_a_mode_or_role_has_an_agent_of_its_own_that_gets_nothing_of_the_others(
    project: Project, agent: Agent, tmp_path: Path
) -> None:
    """Its limit is its own, and what it lacks is a remark."""
    wants(project, ONE)
    template = project.root / ".ralph" / "PROMPT_review.md"
    template.parent.mkdir()
    settings = "RALPH_ONCE: yes\nRALPH_ONLY: none\nRALPH_MODEL: big\nRALPH_DENY: X"
    template.write_text(f"{{#\n{settings}\n#}}\n" + '<task-done session="{{ SESSION }}">{{ TASK_ID }}</task-done>')
    reviewer, validator = (Agent(tmp_path / name) for name in ("reviewer", "validator"))
    reviewer.install(tmp_path / "bin" / "codex")
    path = validator.install(tmp_path / "bin" / "third")
    agent.story(tries(MADE), at_limit(), tries(writes("one.txt", "2\n")))
    reviewer.story(tries(signals=REJECT), at_limit(text="You've hit your usage limit."), tries())
    validator.story(step())
    env = {"RALPH_AGENT_REVIEW": "codex", "RALPH_AGENT_TEST": "nobody"}
    how = ("--strict", "--roles", "build,review", "--agent-for", f"validate={path} -x", "--model", "opus")
    words = ("feature.md", "all", *how, "--max-cost", "5", "--delay", "0")
    lacks = [f"{one}: the agent codex does not support " for one in (".ralph/PROMPT_review.md:5", "--max-cost")]
    run = project.ralph("doctor", *words, env=env)
    text = " ".join(run.text.split())
    assert [text.count(one) for one in (*lacks, "the agent nobody is not on the PATH")] == [1] * 3, run.text
    assert project.ralph(*words, env=env).code == 1, "before money is spent, though no role is called test"
    assert not agent.calls
    run = project.ralph(*words, "--", "--flag", env=env | {"RALPH_AGENT_TEST": ""}, command=leaping(times=30))
    assert (run.code, marks_of(project)) == (0, ["- [x] one"]), run.text
    assert [run.text.count(one) for one in lacks] == [1] * 2, run.text
    names = ["claude", "codex", "claude", "claude", "codex", "codex", "third"]
    assert project.iterations("agent") == names
    assert all(("opus" in call.argv, "--flag" in call.argv) == (True, True) for call in agent.calls)
    assert all(("big" in call.argv, "--flag" in call.argv) == (True, False) for call in reviewer.calls)
    assert validator.calls[0].argv == ["-x"]
    wanted = project.ralph("feature.md", "review", "--dry-run", "--agent-for", f"review={path} -y").stdout
    assert wanted.startswith(f"{path} -y\n"), "the command line beats the environment"


def test_who_reviews_is_named_where_the_agent_does_not_write(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    (project.root / ".ralph.env").write_text("RALPH_AGENT_REVIEW=codex\n")
    (project.home / ".ralph.env").write_text("RALPH_AGENT_VALIDAT=codex\n")
    run = project.build("--agent-for", "reviw=codex")
    assert (run.code, agent.calls) == (2, [])
    assert ".ralph.env:1: RALPH_AGENT_REVIEW belongs on the command line" in run.stderr
    assert ".ralph.env:1: RALPH_AGENT_VALIDAT is not a setting; did you mean RALPH_AGENT_VALIDATE?" in run.stderr
    assert "--agent-for: RALPH_AGENT_REVIW is not a setting; did you mean RALPH_AGENT_REVIEW?" in run.stderr
    (project.root / ".ralph.env").unlink()
    (project.home / ".ralph.env").unlink()
    run = project.build("--agent-for", "review")
    assert (run.code, "write something" in run.stderr) == (2, True), run.text


def test_an_attempt_in_a_clone_has_the_reviewer_too(project: Project, agent: Agent, tmp_path: Path) -> None:
    wants(project, ONE)
    reviewer = Agent(tmp_path / "reviewer")
    path = reviewer.install(project.root / "third")
    agent.story(tries(MADE))
    reviewer.story(tries(said="I have looked."))
    how = ("--jobs", "2", "--roles", "build,review", "--agent-for", "review=./third", "--agent-for", "test=./third")
    built(project, *how, "--model", "opus", "--allow-dirty")
    assert marks_of(project) == ["- [x] one"]
    assert [len(one.calls) for one in (agent, reviewer)] == [1, 1]
    assert ("opus" in agent.calls[0].argv, "opus" in reviewer.calls[0].argv) == (True, False), path


def test_after_three_rejections_the_user_decides_and_what_the_user_dismissed_is_ignored(
    project: Project, agent: Agent
) -> None:
    """Only with a reason, and only if all else that the reviewer names is dismissed, too."""
    wants(project, ONE)

    def rejects(*faults: str) -> Act:
        return tries(signals=f'<task-reject session="@SESSION@" id="@TASK@">{"; ".join(faults)}</task-reject>')

    empty, long = "review:one.txt:empty-line a blank, which is read", "review:one.txt:too-long 81 columns"
    how = ("--roles", "build,review", "--max-tries", "off")
    agent.story(*[tries(MADE), rejects(empty)] * 3)
    built(project, *how, code=4)
    assert marks_of(project) == ["- [!] one"]
    assert re.search(
        r"blocked: given up after attempt 3: rejected: review:one.txt:empty-line a blank", project.progress_text
    )
    assert len(agent.calls) == 6
    for dismissed, is_done in (
        ("review:one.txt:empty-line:", False),
        ("review:one.txt:empty: the plan wants it so", False),
        ("review:one.txt:empty-line: the plan wants it so", False),
        ("review:one.txt:empty-line: the plan wants it so\n  - dismissed: review:one.txt:too-long: it is data", True),
    ):
        wants_it = f"- [ ] one: The first\n  - dismissed: {dismissed}\n  - verify: File `one.txt` exists\n"
        wants(project, wants_it)
        (project.root / "one.txt").unlink()
        agent.story(tries(MADE), rejects(empty, long))
        run = built(project, *how, "--max-iterations", "2", code=0 if is_done else 3)
        assert (marks_of(project) == ["- [x] one"]) is is_done, run.text
        assert ("dismissed" in project.progress_text) is not is_done, "it is for that commit"
    told = "one: ignored, since it was dismissed: review:one.txt:empty-line, review:one.txt:too-long"
    assert told in " ".join(run.stderr.split())
    wants(project, ONE)
    shown = project.build("--strict", "--roles", "review,build", "--dry-run").stdout
    assert "begins with its id, `review:file:rule`" in shown
