"""Cheats that go beyond the agent's own turn: by its checks, by hooks, by ralph's death, by files that govern ralph."""

import pytest
from ralph_driver import CHECKOUT, Project
from stories import Agent, edits, init, raw, result, runs, step, ticks, tries, writes
from test_strict import KILL, LIES, ONE, OTHER, TWO, built, files_of, kept, listed, marks_of, subjects, tried, wants

TICK_ALL = "sed -i 's/- \\[[ ~]\\]/- [x]/; s/IN_PROGRESS/RALPH_DONE/' feature_PROGRESS.md\n"


def has_hook(project: Project, script: str, name: str = "pre-commit", folder: str = ".git/hooks") -> None:
    """A program that git runs at a commit; where the folder is the project's, it is committed."""
    hook = project.root / folder / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{script}\n")
    hook.chmod(0o755)
    if folder != ".git/hooks":
        project.git("add", "-A")
        project.git("commit", "-qm", "hooks")
        project.git("config", "core.hooksPath", folder)


def test_its_checks_tick_nothing_move_no_head_and_change_nothing_outside_of_only(
    project: Project, agent: Agent
) -> None:
    wants(project, "- [ ] one: The first\n  - verify: Run `sh tests/check.sh` - exits with code 0\n" + OTHER)
    forges = "git checkout -qb elsewhere; echo x > new.py; echo cheat > feature.md; git add -A; git commit -qm forged\n"
    agent.story(tries(writes("tests/check.sh", TICK_ALL + forges)))
    run = built(project, "--only", "tests/**", "--max-iterations", "1", code=3)
    assert marks_of(project) == ["- [x] one", "- [ ] oth"]
    assert "RALPH_DONE" not in project.progress_text
    assert "undone, since the tasks are ralph's while a task is checked" in run.text
    assert project.git("symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert (subjects(project), files_of(project)) == (["one: Did it", "plan"], ["tests/check.sh"])
    assert "Make it so" in (project.root / "feature.md").read_text()
    assert not (project.root / "new.py").exists()


def test_a_hook_that_says_no_or_that_it_wrote_ticks_and_commits_nothing(project: Project, agent: Agent) -> None:
    has_hook(project, "echo THE HOOK SAYS NO >&2; exit 1", folder="hooks")
    (project.root / "mine.txt").write_text("mine")
    wants(project, ONE + OTHER)
    cheat = writes("hooks/pre-commit", f"#!/bin/sh\n{TICK_ALL}git add mine.txt\n")
    agent.story(tries(writes("one.txt", "1")), tries(writes("one.txt", "1"), cheat))
    for said in ("THE HOOK SAYS NO", "mine.txt"):
        built(project, "--max-iterations", "1", "--task", "one", code=3)
        assert marks_of(project) == ["- [ ] one", "- [ ] oth"]
        assert subjects(project) == ["hooks", "plan"]
        assert said in [line for line in listed(project) if "failed:" in line][-1]


SETS = "git config branch.main.remote x; git config core.hooksPath"
RUNS = "git config core.fsmonitor evil; git config include.path"
ONLY_SAID = {
    f"{SETS} .husky": ".git/config was changed: branch.main.remote, core.hookspath; it stays",
    "echo > .git/hooks/commit-msg": ".git/hooks/commit-msg is new, and git runs it at each commit; it stays",
}
FOR_A_PERSON = {
    f"{RUNS} /evil": ".git/config was changed: core.fsmonitor, include.path; ",
    "echo 'git add -A' >> .git/hooks/pre-commit": ".git/hooks/pre-commit was changed; before and after are ",
    "echo other > $HOME/prompts/PROMPT_task.md": "/PROMPT_task.md was changed; before and after are ",
    "echo all went well > h.jsonl": "h.jsonl was changed; before and after are ",
    "rm -rf .git": ".git is gone",
}


@pytest.mark.parametrize(("deed", "said"), [*ONLY_SAID.items(), *FOR_A_PERSON.items()])
def test_what_is_only_compared_and_runs_programs_or_governs_ralph_is_a_matter_for_a_person(
    project: Project, agent: Agent, deed: str, said: str
) -> None:
    template = project.home / "prompts" / "PROMPT_task.md"
    template.parent.mkdir()
    before = ("#!/bin/sh\nexit 0\n", '{"requirement_id": "old"}\n', (CHECKOUT / "prompts" / template.name).read_text())
    template.write_text(before[2])
    (project.root / "h.jsonl").write_text(before[1])
    has_hook(project, "exit 0")
    wants(project, ONE)
    agent.story(tries(*LIES, writes("one.txt", "1"), runs(f"{deed}; echo x > app.py")))
    where = ("--prompts", str(template.parent), "--history", "h.jsonl")
    blocks = deed in FOR_A_PERSON
    run = built(project, *where, "--only", "one.txt", "--max-tries", "1", code=4)
    assert said in run.text
    assert (said in project.progress_text.partition("RALPH_BLOCKED: ralph: ")[2]) == blocks
    assert "RALPH_DONE" not in project.progress_text
    assert (marks_of(project) == ["- [!] one"]) != blocks, "else it was judged"
    assert not (project.root / "app.py").exists(), "files are put back all the same"
    assert ("before and after" in said) <= (not {*before}.isdisjoint(kept(project)))


def test_settings_of_git_are_compared_without_strict_too(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    cheat = runs("git config filter.evil.clean evil; echo x > app.py")
    agent.story(raw(init(), writes("one.txt", "1"), ticks("all"), cheat, edits("IN_PROGRESS", "RALPH_DONE"), result()))
    run = project.build("--only", "one.txt")
    assert run.code == 4, run.text
    assert "RALPH_BLOCKED: ralph: .git/config was changed: filter.evil.clean" in project.progress_text
    assert not (project.root / "app.py").exists()


class TestByRalphsDeath:
    def test_what_it_ticked_first_is_undone_also_where_it_emptied_ralphs_notes(
        self, project: Project, agent: Agent
    ) -> None:
        wants(project, ONE + TWO)
        notes = "for note in $XDG_STATE_HOME/ralph/*/running/[stu]*; do : > $note; done"
        dies = tries(*LIES, runs(KILL)), tries(*LIES, runs(f"{notes}; {KILL}"))
        agent.story(dies[0], tries(writes("one.txt", "1")), dies[1], tries())
        built(project, code=-9)
        run = built(project, "--max-iterations", "1", code=3)
        assert "as it was left" in run.text
        built(project, code=-9)
        built(project, "--max-iterations", "1", code=3)
        assert tried(project)[-2:] == [(None, False), ("two", False)]
        assert marks_of(project) == ["- [x] one", "- [ ] two"]

    def test_settings_that_it_wrote_first_count_for_nothing(self, project: Project, agent: Agent) -> None:
        wants(project, "- [ ] one: The first\n")
        env, text = project.root / ".ralph.env", "RALPH_STRICT=true\nRALPH_VERIFY=test -e one.txt\n"
        env.write_text(text)
        agent.story(
            tries(writes(".ralph.env", "RALPH_VERIFY=true\n"), *LIES, runs(KILL)), tries(writes("one.txt", "1"))
        )
        assert project.build().code == -9
        again = project.build()
        assert again.code == 1, again.text
        assert "start it again" in again.stderr
        assert env.read_text() == text
        assert (CHECKOUT / "prompts" / "PROMPT_build.md").is_file(), "ralph's own templates are nobody's to move"
        assert project.build().code == 0
        assert tried(project)[-1] == ("one", True)

    def test_what_only_forbids_without_strict_is_put_back_by_a_start_in_another_mode(
        self, project: Project, agent: Agent
    ) -> None:
        (project.root / ".ralph").mkdir()
        (project.root / ".ralph" / "PROMPT_review.md").write_text("{# RALPH_ONLY: none #}\nLook at {{ PLAN_FILE }}.\n")
        (project.root / "app.py").write_text("mine\n")
        project.has_tasks("one")
        dies = raw(init(), writes("evil.py", "evil"), writes("app.py", "cheat\n"), runs(KILL))
        agent.story(dies, step(ticks="all", writes_done=True))
        assert project.ralph("feature.md", "review").code == -9
        run = project.build()
        assert run.code == 0, run.text
        assert not (project.root / "evil.py").exists()
        assert (project.root / "app.py").read_text() == "mine\n"

    def test_what_only_forbids_is_put_back_all_the_same(self, project: Project, agent: Agent) -> None:
        (project.root / "app.py").write_text("committed\n")
        project.git("add", "-A")
        project.git("commit", "-qm", "app")
        (project.root / "app.py").write_text("mine, not committed\n")
        wants(project, "- [ ] one: The first\n  - verify: File `tests/one.txt` exists\n")
        (project.root / "staged.txt").write_text("staged\n")
        project.git("add", "staged.txt")
        cheat = "echo cheat > app.py; echo evil > evil.py; mkdir tests; echo > tests/half; git add -A; git commit -qm x"
        begun = "git rev-parse HEAD > .git/CHERRY_PICK_HEAD"
        agent.story(tries(runs(f"{cheat}; {begun}; {KILL}")), tries(writes("tests/one.txt", "1")))
        built(project, "--only", "tests/**", code=-9)
        half_edited = project.root / f".{project.progress.name}.abc_12xy.ralph"
        half_edited.write_text("# Progress: fea")
        built(project, "--only", "tests/**")
        assert not half_edited.exists()
        assert (project.root / "app.py").read_text() == "mine, not committed\n"
        left = project.git("status", "--porcelain").splitlines()
        assert left == [" M app.py", "A  staged.txt", "?? feature_PROGRESS.md"]
        assert subjects(project) == ["one: Did it", "app", "plan"]
        assert files_of(project) == ["tests/half", "tests/one.txt"]


class TestByFilesThatGovernRalph:
    def test_the_plans_settings_stay_and_what_a_person_writes_there_does_too(
        self, project: Project, agent: Agent
    ) -> None:
        """Also where git ignores its folder."""
        (project.root / ".gitignore").write_text("private/\n")
        (project.root / "private").mkdir()
        plan = (project.root / "feature.md").rename(project.root / "private" / "feature.md")
        text = plan.read_text() + "RALPH_STRICT: true\nRALPH_VERIFY: test -e one.txt\n"
        plan.write_text(text)
        wants(project, ONE)
        cheats = writes("private/feature.md", "RALPH_VERIFY: true\n"), writes(".ralph/PROMPT_task.md", "cheat")
        more = writes("private/feature.md", text + "\nAnd it shall be blue.\n")
        agent.story(tries(*cheats), tries(more, writes("one.txt", "1")))
        first = project.ralph("private/feature.md", "build", "1")
        assert first.code == 3, first.text
        assert plan.read_text() == text
        assert not (project.root / ".ralph" / "PROMPT_task.md").exists()
        said = ".ralph/PROMPT_task.md, private/feature.md was changed, which decides how ralph works: put back"
        assert said in first.text
        assert project.ralph("private/feature.md", "build").code == 0
        assert plan.read_text() == text + "\nAnd it shall be blue.\n"


def test_what_a_failed_try_of_another_task_left_is_not_in_a_commit(project: Project, agent: Agent) -> None:
    other = project.root / "other_PROGRESS.md"
    other.write_text("## Task List\n\n- [ ] a\n")
    wants(project, ONE + OTHER)
    agent.story(
        tries(writes("half.txt", "1"), edits("[ ]", "[x]", file=str(other))),
        tries(writes("two.txt", "2"), said="Two."),
        tries(writes("one.txt", "1"), said="One."),
    )
    built(project)
    assert files_of(project) == ["half.txt", "one.txt"]
    assert files_of(project, "HEAD~1") == ["two.txt"]
