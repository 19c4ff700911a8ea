"""Cheats that go beyond the agent's own turn: by its checks, by hooks, by ralph's death, by files that govern ralph."""

import signal

import pytest
from ralph_driver import CHECKOUT, Project, eventually
from stories import Agent, commits, edits, init, marks, raw, result, runs, ticks, tries, waits_for, writes
from test_strict import ONE, TWO, listed, tried, wants

TICK_ALL = "sed -i 's/- \\[[ ~]\\]/- [x]/; s/IN_PROGRESS/RALPH_DONE/' feature_PROGRESS.md\n"
CHECKED = "- [ ] one: The first\n  - verify: Run `sh tests/check.sh` - exits with code 0\n"
OTHER = "- [ ] two: The second\n"


def marks_of(project: Project) -> list[str]:
    return [line[:9] for line in listed(project) if line.startswith("- ")]


def files_of(project: Project, commit: str = "HEAD") -> list[str]:
    return project.git("show", "--format=", "--name-only", commit).split()


class TestByItsChecks:
    def test_they_tick_nothing(self, project: Project, agent: Agent) -> None:
        wants(project, CHECKED + OTHER)
        agent.story(tries(writes("tests/check.sh", TICK_ALL)))
        run = project.build("--strict", "--verify", "sh tests/check.sh", "--max-iterations", "1")
        assert run.code == 3, run.text
        assert marks_of(project) == ["- [x] one", "- [ ] two"]
        assert "RALPH_DONE" not in project.progress_text
        assert "undone, since the tasks are ralph's while a task is checked" in run.text

    def test_they_move_no_head_and_commit_nothing(self, project: Project, agent: Agent) -> None:
        (project.root / "mine.txt").write_text("mine")
        wants(project, CHECKED)
        deed = "git checkout -qb elsewhere; git add -A; git commit -qm forged\n"
        agent.story(tries(writes("tests/check.sh", deed)))
        assert project.build("--strict").code == 0
        assert project.git("symbolic-ref", "HEAD") == "refs/heads/main\n"
        assert project.git("log", "--format=%s").splitlines() == ["one: Did it", "plan"]
        assert files_of(project) == ["tests/check.sh"]

    def test_they_change_nothing_outside_of_only(self, project: Project, agent: Agent) -> None:
        wants(project, CHECKED)
        agent.story(tries(writes("tests/check.sh", "echo cheat > feature.md; mkdir -p src; echo evil > src/evil.py\n")))
        assert project.build("--strict", "--only", "tests/**").code == 0
        assert "Make it so" in (project.root / "feature.md").read_text()
        assert not (project.root / "src" / "evil.py").exists()

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
    def test_one_that_it_wrote_ticks_and_commits_nothing(self, project: Project, agent: Agent) -> None:
        (project.root / "hooks").mkdir()
        hook = project.root / "hooks" / "pre-commit"
        hook.write_text("#!/bin/sh\nexit 0\n")
        hook.chmod(0o755)
        project.git("config", "core.hooksPath", "hooks")
        project.git("add", "-A")
        project.git("commit", "-qm", "hooks")
        (project.root / "mine.txt").write_text("mine")
        wants(project, ONE + OTHER)
        cheat = f"#!/bin/sh\n{TICK_ALL}git add mine.txt\n"
        agent.story(tries(writes("one.txt", "1"), writes("hooks/pre-commit", cheat)))
        run = project.build("--strict", "--max-iterations", "1")
        assert run.code == 3, run.text
        assert marks_of(project) == ["- [ ] one", "- [ ] two"]
        assert project.git("log", "--format=%s").splitlines() == ["hooks", "plan"]
        assert "mine.txt" in next(line for line in listed(project) if "failed:" in line)

    def test_what_one_leaves_running_ticks_nothing_later(self, project: Project, agent: Agent) -> None:
        self.with_hook(project)
        wants(project, ONE + OTHER)
        cheat = f"#!/bin/sh\n(sleep 1; {TICK_ALL.strip()}) &\n"
        agent.story(tries(writes("one.txt", "1"), writes("hooks/pre-commit", cheat)))
        run = project.build("--strict", "--max-iterations", "1", "--delay", "3s")
        assert run.code == 3, run.text
        assert marks_of(project) == ["- [x] one", "- [ ] two"]

    def test_what_one_changes_outside_of_only_is_put_back(self, project: Project, agent: Agent) -> None:
        self.with_hook(project)
        wants(project, ONE)
        cheat = "#!/bin/sh\necho cheat > feature.md; echo evil > evil.py\n"
        agent.story(tries(writes("one.txt", "1"), writes("hooks/pre-commit", cheat)))
        run = project.build("--strict", "--only", "one.txt", "--only", "hooks")
        assert run.code == 0, run.text
        assert "Make it so" in (project.root / "feature.md").read_text()
        assert not (project.root / "evil.py").exists()

    def test_a_persons_save_during_one_is_kept(self, project: Project, agent: Agent) -> None:
        self.with_hook(project, f"touch {project.home}/there; while ! test -e {project.home}/go; do sleep 0.05; done")
        wants(project, ONE + OTHER)
        agent.story(tries(writes("one.txt", "1")))
        run = project.start("feature.md", "build", "--strict", "--max-iterations", "1")
        eventually((project.home / "there").exists)
        project.progress.write_text(project.progress_text.replace("The second", "The very second"))
        (project.home / "go").touch()
        assert run.wait().code == 3
        kept = (project.state_folders[0] / "kept").iterdir()
        assert any("The very second" in path.read_text() for path in kept)

    def with_hook(self, project: Project, what: str = "exit 0") -> None:
        (project.root / "hooks").mkdir()
        hook = project.root / "hooks" / "pre-commit"
        hook.write_text(f"#!/bin/sh\n{what}\n")
        hook.chmod(0o755)
        project.git("add", "-A")
        project.git("commit", "-qm", "hooks")
        project.git("config", "core.hooksPath", "hooks")

    def test_a_new_one_in_gits_folder_is_said_and_a_changed_one_is_a_matter_for_a_person(
        self, project: Project, agent: Agent
    ) -> None:
        hook = project.root / ".git" / "hooks" / "pre-commit"
        wants(project, ONE + OTHER)
        plant = "mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"
        cheat = runs("echo 'git add -A' >> .git/hooks/pre-commit")
        agent.story(tries(writes("one.txt", "1"), runs(plant)), tries(writes("two.txt", "2"), cheat))
        run = project.build("--strict")
        assert run.code == 4, run.text
        assert ".git/hooks/pre-commit is new, and git runs it at each commit; it stays" in run.text
        assert "RALPH_BLOCKED: ralph: .git/hooks/pre-commit was changed" in project.progress_text
        assert marks_of(project) == ["- [x] one", "- [ ] two"]
        kept = {path.read_text() for path in (project.state_folders[0] / "kept").iterdir() if path.is_file()}
        assert {"#!/bin/sh\n", hook.read_text()} <= kept

    @pytest.mark.parametrize(
        ("setting", "blocks"),
        [
            ("core.fsmonitor evil", True),
            ("filter.evil.clean evil", True),
            ("include.path /evil", True),
            ("branch.main.remote origin", False),
            ("user.name Somebody", False),
            ("core.hooksPath .husky", False),
        ],
    )
    @pytest.mark.parametrize("options", [("--strict",), ("--only", "one.txt")])
    def test_settings_that_run_programs_or_move_the_tree_are_a_matter_for_a_person(
        self, project: Project, agent: Agent, setting: str, blocks: bool, options: tuple[str, ...]
    ) -> None:
        wants(project, ONE)
        made, cheat = writes("one.txt", "1"), runs(f"git config {setting}; echo x > app.py")
        done = edits("IN_PROGRESS", "RALPH_DONE")
        agent.story(
            tries(made, cheat) if "--strict" in options else raw(init(), made, ticks("all"), cheat, done, result()),
            tries(made),
        )
        run = project.build(*options, "--only", "one.txt")
        assert run.code == (4 if blocks else 0), run.text
        name = setting.split(maxsplit=1)[0].lower()
        assert f".git/config was changed: {name}" in run.text
        assert ("RALPH_BLOCKED: ralph: " in project.progress_text) == blocks
        assert not (project.root / "app.py").exists(), "files are put back all the same"


class TestByRalphsDeath:
    KILL = "kill -9 $(ps -o ppid= -p $(ps -o ppid= -p $PPID))"

    def test_with_ralphs_notes_emptied(self, project: Project, agent: Agent) -> None:
        wants(project, ONE + TWO)
        notes = "for note in $XDG_STATE_HOME/ralph/*/running/[stu]*; do : > $note; done"
        agent.story(tries(ticks("all"), edits("IN_PROGRESS", "RALPH_DONE"), runs(f"{notes}; {self.KILL}")), tries())
        assert project.build("--strict").code == -9
        run = project.build("--strict", "--max-iterations", "1")
        assert run.code == 3, run.text
        assert marks_of(project) == ["- [ ] one", "- [ ] two"]

    def test_settings_that_it_wrote_first_count_for_nothing(self, project: Project, agent: Agent) -> None:
        wants(project, "- [ ] one: The first\n")
        env = project.root / ".ralph.env"
        env.write_text("RALPH_STRICT=true\nRALPH_VERIFY=test -e one.txt\n")
        deeds = [writes(".ralph.env", "RALPH_VERIFY=true\n"), ticks("all"), edits("IN_PROGRESS", "RALPH_DONE")]
        agent.story(tries(*deeds, runs(self.KILL)), tries(writes("one.txt", "1")))
        assert project.build().code == -9
        again = project.build()
        assert again.code == 1, again.text
        assert "start it again" in again.stderr
        assert env.read_text() == "RALPH_STRICT=true\nRALPH_VERIFY=test -e one.txt\n"
        assert (CHECKOUT / "prompts" / "PROMPT_build.md").is_file(), "ralph's own templates are nobody's to move"
        third = project.build()
        assert third.code == 0, third.text
        assert tried(project)[-1] == ("one", True)

    def test_what_it_had_changed_is_in_the_commit_of_its_task(self, project: Project, agent: Agent) -> None:
        (project.root / "mine.txt").write_text("mine")
        wants(project, ONE)
        agent.story(tries(writes("half.txt", "1"), runs(self.KILL)), tries(writes("one.txt", "1")))
        assert project.build("--strict").code == -9
        assert project.build("--strict").code == 0
        assert files_of(project) == ["half.txt", "one.txt"]

    def test_what_only_forbids_is_put_back_all_the_same(self, project: Project, agent: Agent) -> None:
        (project.root / "app.py").write_text("committed\n")
        project.git("add", "-A")
        project.git("commit", "-qm", "app")
        (project.root / "app.py").write_text("mine, not committed\n")
        wants(project, "- [ ] one: The first\n  - verify: File `tests/one.txt` exists\n")
        cheat = "echo cheat > app.py; echo evil > evil.py; git add -A; git commit -qm forged"
        agent.story(tries(runs(f"{cheat}; {self.KILL}")), tries(writes("tests/one.txt", "1")))
        assert project.build("--strict", "--only", "tests/**").code == -9
        run = project.build("--strict", "--only", "tests/**")
        assert run.code == 0, run.text
        assert (project.root / "app.py").read_text() == "mine, not committed\n"
        assert not (project.root / "evil.py").exists()
        assert project.git("log", "--format=%s").splitlines() == ["one: Did it", "app", "plan"]

    def test_between_the_tick_and_the_commit_nothing_is_lost(self, project: Project, agent: Agent) -> None:
        hook = project.root / ".git" / "hooks" / "pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text('#!/bin/sh\ntest -e "$HOME/go" || { touch "$HOME/there"; sleep 60; }\n')
        hook.chmod(0o755)
        wants(project, ONE)
        agent.story(tries(writes("one.txt", "1")))
        run = project.start("feature.md", "build", "--strict")
        eventually((project.home / "there").exists)
        run.signal(signal.SIGKILL)
        run.wait()
        (project.home / "go").touch()
        eventually(lambda: project.ralph("status", "--json").stdout.count('"running"') == 0)
        again = project.build("--strict")
        assert again.code == 0, again.text
        assert files_of(project) == ["one.txt"]
        assert project.git("log", "-1", "--format=%(trailers:key=Ralph-Task,valueonly)").strip() == "one"
        assert len(agent.calls) == 1


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
        assert "feature.md was changed: put back" in run.text

    def test_what_a_person_adds_to_the_plan_meanwhile_stays(self, project: Project, agent: Agent) -> None:
        plan = project.root / "feature.md"
        plan.write_text(plan.read_text() + "RALPH_STRICT: true\n")
        wants(project, ONE)
        more = plan.read_text() + "\nAnd it shall be blue.\n"
        agent.story(tries(writes("feature.md", more), writes("one.txt", "1")))
        assert project.build().code == 0
        assert plan.read_text() == more

    def test_what_lies_outside_of_the_project_is_nobodys_to_put_back(self, project: Project, agent: Agent) -> None:
        prompts = project.home / "prompts"
        prompts.mkdir()
        (prompts / "PROMPT_task.md").write_text((CHECKOUT / "prompts" / "PROMPT_task.md").read_text())
        wants(project, ONE)
        agent.story(tries(writes("one.txt", "1"), writes(str(prompts / "PROMPT_task.md"), "other")))
        run = project.build("--strict", "--prompts", str(prompts))
        assert run.code == 4, run.text
        assert f"RALPH_BLOCKED: ralph: {prompts}/PROMPT_task.md was changed" in project.progress_text
        assert (prompts / "PROMPT_task.md").read_text() == "other"

    @pytest.mark.parametrize("how", ["rm feature.md; mkdir feature.md", "ln -sf one.txt feature.md", "rm feature.md"])
    def test_the_plan_comes_back_whatever_became_of_it(self, project: Project, agent: Agent, how: str) -> None:
        plan = (project.root / "feature.md").read_text()
        wants(project, ONE)
        agent.story(tries(writes("one.txt", "1"), runs(how)))
        run = project.build("--strict")
        assert run.code == 0, run.text
        assert (project.root / "feature.md").read_text() == plan
        assert not (project.root / "feature.md").is_symlink()
        assert project.git("status", "--porcelain").split() == ["??", "feature_PROGRESS.md"]

    def test_a_progress_file_that_becomes_a_link_is_put_back(self, project: Project, agent: Agent) -> None:
        (project.root / "app.py").write_text("mine, not committed\n")
        wants(project, ONE)
        agent.story(tries(runs("ln -sf app.py feature_PROGRESS.md"), writes("one.txt", "1")))
        run = project.build("--strict")
        assert run.code == 0, run.text
        assert (project.root / "app.py").read_text() == "mine, not committed\n"
        assert not project.progress.is_symlink()
        assert marks_of(project) == ["- [x] one"]

    def test_a_repository_that_is_gone_is_no_tick(self, project: Project, agent: Agent) -> None:
        wants(project, ONE)
        agent.story(tries(ticks("all"), edits("IN_PROGRESS", "RALPH_DONE"), runs("rm -rf .git")))
        run = project.build("--strict")
        assert run.code == 4, run.text
        assert "RALPH_BLOCKED: ralph: .git is gone" in project.progress_text
        assert "RALPH_DONE" not in project.progress_text
        assert marks_of(project) != ["- [x] one"]


class TestOneCommitATask:
    def test_what_a_failed_try_of_another_left_is_not_in_it(self, project: Project, agent: Agent) -> None:
        wants(project, ONE + OTHER)
        agent.story(
            tries(writes("half.txt", "1")),
            tries(writes("two.txt", "2"), said="Two."),
            tries(writes("one.txt", "1"), said="One."),
        )
        assert project.build("--strict").code == 0
        assert files_of(project) == ["half.txt", "one.txt"]
        assert files_of(project, "HEAD~1") == ["two.txt"]

    def test_another_plans_progress_file_is_not_in_it(self, project: Project, agent: Agent) -> None:
        other = project.root / "other_PROGRESS.md"
        other.write_text("## Task List\n\n- [ ] a\n")
        wants(project, ONE)
        agent.story(tries(writes("one.txt", "1"), edits("[ ]", "[x]", file=str(other))))
        assert project.build("--strict").code == 0
        assert files_of(project) == ["one.txt"]


def test_what_is_put_back_in_a_folder_is_kept_too(project: Project, agent: Agent) -> None:
    (project.root / "src").mkdir()
    (project.root / "src" / "app.py").write_text("app\n")
    project.git("add", "-A")
    project.git("commit", "-qm", "app")
    wants(project, ONE)
    agent.story(tries(writes("src/app.py", "cheat\n"), writes("src/new/more.py", "more\n"), commits("all of it")))
    run = project.build("--strict", "--only", "tests/**", "--max-iterations", "1")
    assert run.code == 3, run.text
    kept = {path.name.split("-", 3)[-1]: path.read_text() for path in (project.state_folders[0] / "kept").iterdir()}
    assert kept["src_app.py"] == "cheat\n"
    assert kept["src_new_more.py"] == "more\n"


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
    kept = [path for path in (project.state_folders[0] / "kept").iterdir() if "The very first" in path.read_text()]
    assert kept
