"""Cheats that go beyond the agent's own turn: by its checks, by hooks, by ralph's death, by files that govern ralph."""

import signal

import pytest
from ralph_driver import CHECKOUT, Project, eventually
from stories import Agent, edits, init, marks, raw, result, runs, step, ticks, tries, waits_for, writes
from test_strict import ONE, TWO, built, listed, marks_of, tried, wants

TICK_ALL = "sed -i 's/- \\[[ ~]\\]/- [x]/; s/IN_PROGRESS/RALPH_DONE/' feature_PROGRESS.md\n"
CHECKED = "- [ ] one: The first\n  - verify: Run `sh tests/check.sh` - exits with code 0\n"
OTHER = "- [ ] two: The second\n"


def files_of(project: Project, commit: str = "HEAD") -> list[str]:
    return project.git("show", "--format=", "--name-only", commit).split()


def subjects(project: Project) -> list[str]:
    return project.git("log", "--format=%s").splitlines()


def kept(project: Project) -> list[str]:
    return [path.read_text() for path in (project.state_folders[0] / "kept").iterdir() if path.is_file()]


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


class TestByItsChecks:
    def test_they_tick_nothing(self, project: Project, agent: Agent) -> None:
        wants(project, CHECKED + OTHER)
        agent.story(tries(writes("tests/check.sh", TICK_ALL)))
        run = built(project, "--verify", "sh tests/check.sh", "--max-iterations", "1", code=3)
        assert marks_of(project) == ["- [x] one", "- [ ] two"]
        assert "RALPH_DONE" not in project.progress_text
        assert "undone, since the tasks are ralph's while a task is checked" in run.text

    def test_they_move_no_head_and_change_nothing_outside_of_only(self, project: Project, agent: Agent) -> None:
        (project.root / "mine.txt").write_text("mine")
        wants(project, CHECKED)
        deed = (
            "git checkout -qb elsewhere; echo x > new.py; echo cheat > feature.md; git add -A; git commit -qm forged\n"
        )
        agent.story(tries(writes("tests/check.sh", deed)))
        built(project, "--only", "tests/**")
        assert project.git("symbolic-ref", "HEAD") == "refs/heads/main\n"
        assert subjects(project) == ["one: Did it", "plan"]
        assert files_of(project) == ["tests/check.sh"]
        assert "Make it so" in (project.root / "feature.md").read_text()
        assert not (project.root / "new.py").exists()

    def test_a_signal_in_the_middle_of_them_leaves_the_task_undone(self, project: Project, agent: Agent) -> None:
        wants(project, CHECKED)
        agent.story(tries(writes("tests/check.sh", "touch there; sleep 60\n")))
        run = project.start("feature.md", "build", "--strict", "--history", "h.jsonl")
        eventually((project.root / "there").exists)
        run.signal(signal.SIGINT)
        assert run.wait().code == -signal.SIGINT
        assert tried(project) == [("one", False)]
        assert '"success": false' in (project.root / "h.jsonl").read_text()
        assert listed(project) == CHECKED.rstrip("\n").split("\n")


class TestByHooks:
    def test_what_one_finds_leaves_nothing_ticked(self, project: Project, agent: Agent) -> None:
        has_hook(project, "echo THE HOOK SAYS NO >&2; exit 1")
        wants(project, ONE)
        agent.story(tries(writes("one.txt", "1")))
        built(project, "--max-iterations", "1", code=3)
        assert listed(project)[0] == "- [ ] one: The first"
        assert "THE HOOK SAYS NO" in listed(project)[2]

    def test_one_that_it_wrote_ticks_and_commits_nothing(self, project: Project, agent: Agent) -> None:
        has_hook(project, "exit 0", folder="hooks")
        (project.root / "mine.txt").write_text("mine")
        wants(project, ONE + OTHER)
        agent.story(
            tries(writes("one.txt", "1"), writes("hooks/pre-commit", f"#!/bin/sh\n{TICK_ALL}git add mine.txt\n"))
        )
        built(project, "--max-iterations", "1", code=3)
        assert marks_of(project) == ["- [ ] one", "- [ ] two"]
        assert subjects(project) == ["hooks", "plan"]
        assert "mine.txt" in next(line for line in listed(project) if "failed:" in line)

    def test_a_new_one_in_gits_folder_is_said_and_a_changed_one_is_a_matter_for_a_person(
        self, project: Project, agent: Agent
    ) -> None:
        wants(project, ONE + OTHER)
        plant = "mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"
        cheat = runs("echo 'git add -A' >> .git/hooks/pre-commit")
        agent.story(tries(writes("one.txt", "1"), runs(plant)), tries(writes("two.txt", "2"), cheat))
        run = built(project, code=4)
        assert ".git/hooks/pre-commit is new, and git runs it at each commit; it stays" in run.text
        assert "RALPH_BLOCKED: ralph: .git/hooks/pre-commit was changed" in project.progress_text
        assert marks_of(project) == ["- [x] one", "- [ ] two"]
        assert {"#!/bin/sh\n", "#!/bin/sh\ngit add -A\n"} <= {*kept(project)}

    @pytest.mark.parametrize(
        ("setting", "blocks", "options"),
        [
            ("core.fsmonitor evil", True, ["--strict"]),
            ("filter.evil.clean evil", True, []),
            ("include.path /evil", True, ["--strict"]),
            ("branch.main.remote origin", False, ["--strict"]),
            ("core.hooksPath .husky", False, []),
        ],
    )
    def test_settings_that_run_programs_or_move_the_tree_are_a_matter_for_a_person(
        self, project: Project, agent: Agent, setting: str, blocks: bool, options: list[str]
    ) -> None:
        wants(project, ONE)
        made, cheat = writes("one.txt", "1"), runs(f"git config {setting}; echo x > app.py")
        done = edits("IN_PROGRESS", "RALPH_DONE")
        first = tries(made, cheat) if options else raw(init(), made, ticks("all"), cheat, done, result())
        agent.story(first, tries(made))
        run = project.build(*options, "--only", "one.txt")
        assert run.code == (4 if blocks else 0), run.text
        assert f".git/config was changed: {setting.split(maxsplit=1)[0].lower()}" in run.text
        assert ("RALPH_BLOCKED: ralph: " in project.progress_text) == blocks
        assert not (project.root / "app.py").exists(), "files are put back all the same"


class TestByRalphsDeath:
    KILL = "kill -9 $(ps -o ppid= -p $(ps -o ppid= -p $PPID))"

    def test_with_ralphs_notes_emptied(self, project: Project, agent: Agent) -> None:
        wants(project, ONE + TWO)
        notes = "for note in $XDG_STATE_HOME/ralph/*/running/[stu]*; do : > $note; done"
        agent.story(tries(ticks("all"), edits("IN_PROGRESS", "RALPH_DONE"), runs(f"{notes}; {self.KILL}")), tries())
        built(project, code=-9)
        built(project, "--max-iterations", "1", code=3)
        assert marks_of(project) == ["- [ ] one", "- [ ] two"]

    def test_settings_that_it_wrote_first_count_for_nothing(self, project: Project, agent: Agent) -> None:
        wants(project, "- [ ] one: The first\n")
        env, text = project.root / ".ralph.env", "RALPH_STRICT=true\nRALPH_VERIFY=test -e one.txt\n"
        env.write_text(text)
        deeds = [writes(".ralph.env", "RALPH_VERIFY=true\n"), ticks("all"), edits("IN_PROGRESS", "RALPH_DONE")]
        agent.story(tries(*deeds, runs(self.KILL)), tries(writes("one.txt", "1")))
        assert project.build().code == -9
        again = project.build()
        assert again.code == 1, again.text
        assert "start it again" in again.stderr
        assert env.read_text() == text
        assert (CHECKOUT / "prompts" / "PROMPT_build.md").is_file(), "ralph's own templates are nobody's to move"
        assert project.build().code == 0
        assert tried(project)[-1] == ("one", True)

    def test_what_its_mode_may_not_change_is_put_back_by_a_start_in_another_mode(
        self, project: Project, agent: Agent
    ) -> None:
        (project.root / ".ralph").mkdir()
        (project.root / ".ralph" / "PROMPT_review.md").write_text("{# RALPH_ONLY: none #}\nLook at {{ PLAN_FILE }}.\n")
        project.has_tasks("one")
        agent.story(raw(init(), writes("evil.py", "evil"), runs(self.KILL)), step(ticks="all", writes_done=True))
        assert project.ralph("feature.md", "review").code == -9
        run = project.build()
        assert run.code == 0, run.text
        assert not (project.root / "evil.py").exists()

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
        agent.story(tries(runs(f"{cheat}; {begun}; {self.KILL}")), tries(writes("tests/one.txt", "1")))
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
    def test_the_plans_settings_stay(self, project: Project, agent: Agent) -> None:
        plan = (project.root / "feature.md").read_text() + "RALPH_STRICT: true\nRALPH_VERIFY: test -e one.txt\n"
        (project.root / "feature.md").write_text(plan)
        wants(project, ONE)
        agent.story(tries(writes("feature.md", "RALPH_VERIFY: true\n"), writes(".ralph/PROMPT_task.md", "cheat")))
        run = project.build("--max-iterations", "1")
        assert run.code == 3, run.text
        assert (project.root / "feature.md").read_text() == plan
        assert not (project.root / ".ralph" / "PROMPT_task.md").exists()
        assert ".ralph/PROMPT_task.md, feature.md was changed, which decides how ralph works: put back" in run.text

    def test_what_a_person_adds_to_the_plan_meanwhile_stays(self, project: Project, agent: Agent) -> None:
        plan = project.root / "feature.md"
        wants(project, ONE)
        more = plan.read_text() + "\nAnd it shall be blue.\n"
        agent.story(tries(writes("feature.md", more), writes("one.txt", "1")))
        built(project)
        assert plan.read_text() == more

    def test_what_lies_outside_of_the_project_is_nobodys_to_put_back(self, project: Project, agent: Agent) -> None:
        template = project.home / "prompts" / "PROMPT_task.md"
        template.parent.mkdir()
        template.write_text((CHECKOUT / "prompts" / "PROMPT_task.md").read_text())
        wants(project, ONE)
        agent.story(tries(writes("one.txt", "1"), writes(str(template), "other")))
        built(project, "--prompts", str(template.parent), code=4)
        assert f"RALPH_BLOCKED: ralph: {template} was changed" in project.progress_text
        assert template.read_text() == "other"

    def test_a_repository_that_is_gone_is_no_tick(self, project: Project, agent: Agent) -> None:
        wants(project, ONE)
        agent.story(tries(ticks("all"), edits("IN_PROGRESS", "RALPH_DONE"), runs("rm -rf .git")))
        built(project, code=4)
        assert "RALPH_BLOCKED: ralph: .git is gone" in project.progress_text
        assert "RALPH_DONE" not in project.progress_text
        assert marks_of(project) != ["- [x] one"]


class TestOneCommitATask:
    def test_what_a_failed_try_of_another_left_is_not_in_it(self, project: Project, agent: Agent) -> None:
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


def test_a_person_can_save_while_the_agent_thinks(project: Project, agent: Agent) -> None:
    wants(project, ONE)
    agent.story(tries(marks("there"), waits_for("go"), writes("one.txt", "1")))
    run = project.start("feature.md", "build", "--strict")
    eventually(lambda: agent.reached("there"))
    text = project.progress_text
    project.progress.write_text(text.replace("## Notes\n", "## Notes\nMine.\n").replace("The first", "The very first"))
    agent.let("go")
    done = run.wait()
    assert done.code == 0, done.text
    assert "\nMine.\n" in project.progress_text
    assert "The first" in project.progress_text
    assert any("The very first" in text for text in kept(project))
