"""--strict: the agent proposes, ralph disposes. Whole runs with a scripted agent in a real repository."""

import json
import re
import shutil
from pathlib import Path

import pytest
from away import Mailbox
from ralph_driver import Project, Run, eventually, progress_text
from stories import Agent, edits, error_result, fails, hangs, init, marks, raw, runs, signal, step, ticks, tries, writes

TOKEN = re.compile(r"ralph-\d{8}-\d{6}-[0-9a-f]{12}")


def wants(project: Project, text: str) -> None:
    """Writes a progress file with this task list."""
    heading = "## Task List\n\n"
    project.progress.write_text(progress_text().replace(heading, heading + text))


def built(project: Project, *args: str, code: int = 0) -> Run:
    """A run in strict mode, with its exit code."""
    run = project.build("--strict", *args)
    assert run.code == code, run.text
    return run


def listed(project: Project) -> list[str]:
    """The lines of the task list."""
    section = project.progress_text.split("## Task List\n\n")[1].split("\n## ")[0]
    return section.rstrip("\n").split("\n")


def marks_of(project: Project) -> list[str]:
    """Of each task of the top level its mark, and its id if that has three letters."""
    return [line[:9] for line in listed(project) if line.startswith("- ")]


def tried(project: Project) -> list[tuple[str | None, bool]]:
    """Of each try in the journal the task, and whether it passed."""
    lines = [line for line in project.journal() if line["event"] == "iteration"]
    return [(line.get("requirement_id"), line["success"]) for line in lines]


ONE = "- [ ] one: The first\n  - verify: File `one.txt` exists\n"
CIRCLE = "- [ ] a: A\n  - after: b\n- [ ] b: B\n  - after: a\n"
TWO = "- [ ] two: The second\n  - after: one\n  - verify: Run `grep -q two two.txt` - exits with code 0\n"


class TestAnHonestAgent:
    def test_gets_its_tasks_ticked_and_committed_one_by_one(self, project: Project, agent: Agent) -> None:
        wants(project, TWO + ONE)
        agent.story(
            tries(writes("one.txt", "1\n"), said="Add one.txt\n\nIt holds a number."),
            tries(writes("two.txt", "two\n"), said="Added two.txt."),
        )
        built(project, "--verify", "echo well; test -e one.txt")
        assert tried(project) == [("one", True), ("two", True)]
        assert marks_of(project) == ["- [x] two", "- [x] one"]
        first = agent.prompts[0]
        assert "one: The first" in first
        assert "File `one.txt` exists" in first
        assert "The second" not in first, "it is given one task"
        assert re.search(r"\nRALPH_DONE\nVerified: \S+ \S+ [0-9a-f]{10}\n", project.progress_text)
        log = project.git("log", "--reverse", "--format=%s|%(trailers:key=Ralph-Task,valueonly,separator=%x2C)")
        assert log.splitlines()[1:] == ["one: Add one.txt|one", "two: Added two.txt|two"]
        assert project.git("show", "--format=", "--name-only", "HEAD").split() == ["two.txt"]
        assert project.git("status", "--porcelain") == "?? feature_PROGRESS.md\n"

    def test_may_write_notes_and_propose_tasks(self, project: Project, agent: Agent) -> None:
        wants(project, ONE)
        proposal = "## Notes\nUse tabs.\n\n## Proposed\n\n- [ ] a third thing\n"
        project.git("add", "-A")
        project.git("commit", "-qm", "the list")
        agent.story(tries(writes("one.txt", "1"), edits("## Notes\n", proposal)))
        run = built(project)
        assert proposal in project.progress_text
        assert "- [x] one: The first" in project.git("show", "HEAD:feature_PROGRESS.md"), "since git tracks it"
        assert "undone" not in run.text

    def test_that_changes_no_file_is_believed_only_where_something_checks_it(
        self, project: Project, agent: Agent
    ) -> None:
        wants(project, "- [ ] one: The first\n")
        agent.story(tries(), tries())
        built(project, "--max-iterations", "1", code=3)
        assert "it changed nothing, and nothing checks it" in project.progress_text
        run = built(project, "--verify", "true")
        assert "one changed no file, and no criterion of its own says that it is done" in run.text

    def test_works_without_a_repository_and_on_tasks_without_ids(self, plain_project: Project, agent: Agent) -> None:
        wants(plain_project, "- [ ] Add the login\n- [ ] Add a login\n")
        agent.story(tries(writes("a", "1")), tries(writes("b", "1")))
        assert plain_project.build("--strict").code == 0
        assert listed(plain_project) == ["- [x] add_login: Add the login", "- [x] add_login_2: Add a login"]

    def test_does_not_commit_what_a_person_left_uncommitted(self, project: Project, agent: Agent) -> None:
        """Nor what its checks leave behind."""
        (project.root / "mine.txt").write_text("mine")
        (project.root / "staged.txt").write_text("staged")
        project.git("add", "staged.txt")
        wants(project, "- [ ] one: The first\n  - verify: Run `touch of_check` - exits with code 0\n")
        agent.story(tries(writes("one.txt", "1")))
        built(project, "--verify", "touch of_verify")
        assert project.git("show", "--format=", "--name-only", "HEAD").split() == ["one.txt"]
        untracked = [f"?? {name}" for name in (project.progress.name, "mine.txt", "of_check", "of_verify")]
        assert project.git("status", "--porcelain").splitlines() == ["A  staged.txt", *untracked]


class TestAFailedTry:
    def test_leaves_its_reason_in_the_file_and_the_next_prompt(self, project: Project, agent: Agent) -> None:
        wants(project, ONE)
        agent.story(tries(writes("half.txt", "1")), tries(writes("one.txt", "1")))
        built(project, "--max-iterations", "1", code=3)
        failed = listed(project)[2]
        assert re.fullmatch(r"  - failed: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d try 1: .*one\.txt.*", failed), failed
        assert listed(project)[0] == "- [ ] one: The first"
        built(project)
        first, second = agent.prompts
        assert failed.split("try 1: ")[1] in second
        assert TOKEN.findall(first)
        assert set(TOKEN.findall(first)).isdisjoint(TOKEN.findall(second)), "each run has a token of its own"
        assert listed(project) == ["- [x] one: The first", "  - verify: File `one.txt` exists"]
        assert project.git("show", "--format=", "--name-only", "HEAD").split() == ["half.txt", "one.txt"]

    @pytest.mark.parametrize("commits", ["--auto-commit", "--no-auto-commit"])
    def test_is_undone_where_that_is_asked_for(self, project: Project, agent: Agent, commits: str) -> None:
        (project.root / "mine.txt").write_text("mine")
        wants(project, ONE)
        agent.story(tries(writes("half.txt", "1"), writes("mine.txt", "spoilt"), writes("feature.md", "gone")))
        built(project, "--on-failure", "restore", "--max-iterations", "1", commits, code=3)
        assert not (project.root / "half.txt").exists()
        assert (project.root / "mine.txt").read_text() == "mine"
        assert project.git("status", "--porcelain").splitlines() == ["?? feature_PROGRESS.md", "?? mine.txt"]
        ref = project.git("for-each-ref", "--format=%(refname)", "refs/ralph").split()[0]
        assert project.git("show", f"{ref}:half.txt") == "1"
        assert project.git("show", f"{ref}:mine.txt") == "spoilt"

    def test_is_followed_by_a_mark_when_there_were_three(self, project: Project, agent: Agent) -> None:
        wants(project, ONE + "- [ ] other: Another\n")
        agent.story(tries(), tries(writes("other", "1")), tries(), tries())
        run = built(project, code=4)
        assert tried(project) == [("one", False), ("other", True), ("one", False), ("one", False)]
        assert "- [!] one: The first" in listed(project)
        assert sum("- failed:" in line for line in listed(project)) == 3
        assert any(line.startswith("  - blocked: ") for line in listed(project))
        assert "- [x] other: Another" in listed(project)
        assert "one" in run.stdout.splitlines()[-1]
        again = project.build("--strict")
        assert (again.code, again.text) == (4, ""), "the next cron tick says nothing and starts no agent"
        assert len(agent.calls) == 4

    def test_is_one_whose_files_git_does_not_take(self, project: Project, agent: Agent, tmp_path: Path) -> None:
        """A person's git holds the lock of the index for a moment."""
        git, once = shutil.which("git", path=project.env["PATH"]), tmp_path / "once"
        locked = f'*" --intent-to-add "*) [ -e {once} ] || {{ touch {once}; echo "fatal: locked" >&2; exit 128; }} ;;'
        shim = tmp_path / "bin" / "git"
        shim.write_text(f'#!/bin/sh\ncase " $* " in {locked} esac\nexec {git} "$@"\n')
        shim.chmod(0o755)
        wants(project, "- [ ] one: The first\n")
        agent.story(tries(writes("one.txt", "1")), tries(writes("two.txt", "2")))
        assert "one, try 1: git add fails: locked" in built(project).text
        assert project.git("show", "--format=", "--name-only", "HEAD").split() == ["one.txt", "two.txt"]

    def test_that_verify_finds_leaves_nothing_ticked(self, project: Project, agent: Agent) -> None:
        wants(project, "- [ ] one: The first\n")
        agent.story(tries(ticks("all"), writes("one.txt", "1"), edits("IN_PROGRESS", "RALPH_DONE")))
        built(project, "--verify", "echo RED; false", "--max-iterations", "1", code=3)
        assert listed(project)[0] == "- [ ] one: The first"
        assert "RED" in listed(project)[1]
        assert "RALPH_DONE" not in project.progress_text
        assert project.git("log", "--format=%s").split() == ["plan"]

    def test_that_the_agent_calls_blocked_marks_the_task(self, project: Project, agent: Agent) -> None:
        wants(project, ONE + "- [ ] three: A third\n")
        blocked = '<task-blocked session="@SESSION@" id="@TASK@">which number?</task-blocked>'
        agent.story(tries(signals=blocked), tries(writes("three.txt", "3")))
        run = built(project, "--no-auto-commit", code=4)
        assert project.git("log", "--format=%s").split() == ["plan"]
        assert listed(project)[:3:2] == ["- [!] one: The first", "  - blocked: which number?"]
        assert "which number?" in run.text
        assert tried(project) == [("one", False), ("three", True)]


class TestATryThatWasCutShort:
    def test_by_its_turns_has_failed_and_leaves_nothing_where_a_failure_is_restored(
        self, project: Project, agent: Agent
    ) -> None:
        wants(project, ONE)
        cut = raw(init(), writes("half.txt", "1"), error_result("error_max_turns", "Reached maximum number of turns"))
        agent.story(cut, fails(), cut)
        built(project, "--on-failure", "restore", "--max-tries", "2", code=4)
        assert [success for _, success in tried(project)] == [False] * 3
        assert "- [!] one: The first" in listed(project)
        assert project.git("status", "--porcelain") == "?? feature_PROGRESS.md\n"


class TestTheSignal:
    def test_does_not_count_when_it_is_missing_old_or_of_another_task(self, project: Project, agent: Agent) -> None:
        wants(project, ONE + TWO)
        old, other = signal(session="ralph-20260101-010101-0123456789ab"), signal(task="two")
        agent.story(*(tries(writes("one.txt", "1"), signals=said) for said in ("", old, other)))
        built(project, "--max-tries", "off", "--max-iterations", "3", code=3)
        assert tried(project) == [("one", False)] * 3
        assert listed(project)[0] == "- [ ] one: The first"
        why = [re.sub(".* try [0-9]: ", "", line) for line in listed(project) if "failed:" in line]
        for reason, words in zip(
            why, ("it ended without", "bears the session of another", "the signal is for two"), strict=True
        ):
            assert words in reason
        assert not TOKEN.search(project.progress_text)

    def test_of_a_plain_program_counts_too(self, project: Project, tmp_path: Path) -> None:
        wants(project, ONE)
        script = tmp_path / "plain"
        script.write_text('#!/bin/sh\ntouch one.txt\nsed -n "s/^\\(<task-done .*\\)/\\1/p"\n')
        script.chmod(0o755)
        built(project, "--agent", str(script))


class TestBeforeMoneyIsSpent:
    def test_a_dry_run_shows_the_prompt_of_the_first_task(self, project: Project) -> None:
        built(project, "--dry-run", code=4)
        wants(project, TWO + ONE)
        run = built(project, "--dry-run")
        assert "Your task, one: The first" in run.stdout
        assert TOKEN.search(run.stdout)

    def test_a_list_that_cannot_work_ends_it_with_all_that_is_wrong(self, project: Project, agent: Agent) -> None:
        """A circle, a request to nowhere and a criterion for no machine."""
        criteria = ("GET /x returns 200", "it is clean")
        wants(project, CIRCLE + "".join(f"  - verify: {criterion}\n" for criterion in criteria))
        agent.story()
        run = built(project, "--criteria", "strict", code=2)
        told = re.findall(r"feature_PROGRESS.md: line 1\d.*", run.stderr)
        assert len(told) == 3, run.stderr
        for said, line in zip(("wait for each other", "--base-url", "it is clean"), told, strict=True):
            assert said in line
        assert not agent.calls

    def test_no_task_at_all_and_what_waits_for_what_need_a_person(self, project: Project, agent: Agent) -> None:
        wants(project, "")
        agent.story()
        run = project.ralph_tty("feature.md", "build", "--strict")
        assert run.code == 4, run.text
        assert "feature is stuck: there is no task in the list; write some" in run.stdout
        assert built(project, code=4).text == ""
        wants(project, "- [!] a: A\n  - blocked: no key\n- [ ] b: B\n  - after: a\n")
        run = project.ralph_tty("feature.md", "build", "--strict")
        assert run.code == 4, run.text
        assert "a is blocked: no key; b waits for a" in run.text


class TestACheat:
    def test_that_ticks_everything_and_says_done_gets_one_task_at_most(self, project: Project, agent: Agent) -> None:
        wants(project, ONE + TWO)
        agent.story(tries(ticks("all"), edits("IN_PROGRESS", "RALPH_DONE"), writes("one.txt", "1")))
        built(project, "--max-iterations", "1", code=3)
        assert marks_of(project) == ["- [x] one", "- [ ] two"]
        assert "RALPH_DONE" not in project.progress_text
        tampering = [line for line in project.journal() if line["event"] == "tamper"]
        assert "two" in tampering[0]["message"]
        assert '"- [x] two: The second" added' in tampering[0]["message"]
        kept = project.state_folders[0] / "kept" / tampering[0]["kept"]
        assert "RALPH_DONE" in kept.read_text()

    def test_ends_the_run_where_that_is_asked_for(self, project: Project, agent: Agent) -> None:
        wants(project, ONE + TWO)
        agent.story(tries(ticks("all"), writes("one.txt", "1")))
        built(project, "--on-tamper", "abort", code=4)
        assert "RALPH_BLOCKED: ralph: " in project.progress_text
        assert marks_of(project) == ["- [ ] one", "- [ ] two"]
        assert project.build("--strict").text == ""

    def test_that_kills_ralph_after_ticking_everything_gains_nothing(self, project: Project, agent: Agent) -> None:
        wants(project, ONE + TWO)
        agent.story(
            tries(
                ticks("all"),
                edits("IN_PROGRESS", "RALPH_DONE"),
                runs("kill -9 $(ps -o ppid= -p $(ps -o ppid= -p $PPID))"),
            ),
            tries(writes("one.txt", "1")),
            tries(writes("two.txt", "two")),
        )
        built(project, code=-9)
        run = built(project, "--max-iterations", "1", code=3)
        assert tried(project)[-1] == ("one", True)
        assert "- [ ] two: The second" in listed(project)
        assert "as it was left" in run.text

    def test_that_commits_gets_its_commits_undone_and_its_work_judged(self, project: Project, agent: Agent) -> None:
        wants(project, ONE)
        agent.story(tries(writes("one.txt", "1"), runs("git add one.txt; git commit -qm mine")))
        built(project)
        assert project.git("log", "--format=%s").splitlines() == ["one: Did it", "plan"]
        assert project.git("for-each-ref", "--format=%(contents:subject)", "refs/ralph").split() == ["mine"]


class TestOnly:
    def test_what_it_does_not_allow_is_put_back_and_what_it_allows_passes(self, project: Project, agent: Agent) -> None:
        (project.root / "app.py").write_text("app\n")
        project.git("add", "-A")
        project.git("commit", "-qm", "app")
        wants(project, "- [ ] one: Test it\n")
        agent.story(
            tries(writes("app.py", "cheat\n"), writes("tests/a.py", "test\n"), writes("new.py", "n\n")),
            tries(writes("src/a.spec.ts", "test\n")),
        )
        run = built(project, "--only", "tests/**", "--only", "**/*.spec.*")
        assert (project.root / "app.py").read_text() == "app\n"
        assert (project.root / "tests" / "a.py").exists()
        assert not (project.root / "new.py").exists()
        kept = {path.read_text() for path in (project.state_folders[0] / "kept").iterdir()}
        assert {"cheat\n", "n\n"} <= kept
        assert tried(project) == [("one", False), ("one", True)]
        assert "app.py" in run.text

    def test_holds_without_strict_and_in_commits_too(self, project: Project, agent: Agent) -> None:
        (project.root / "app.py").write_text("app\n")
        project.git("add", "-A")
        project.git("commit", "-qm", "app")
        (project.root / "app.py").write_text("app, and what a person is writing\n")
        project.has_tasks("one")
        acts = writes("app.py", "cheat\n"), writes("tests/a.py", "test\n")
        agent.story(step(*acts, ticks="all", commits="tests and more", writes_done=True))
        run = project.build("--only", "tests/**")
        assert run.code == 0, run.text
        assert (project.root / "app.py").read_text() == "app, and what a person is writing\n"
        assert project.git("show", "HEAD:app.py") == "app\n"
        assert project.git("log", "-1", "--format=%s", "--name-only") == "tests and more\n\ntests/a.py\n"

    def test_holds_in_a_folder_without_git_too(self, plain_project: Project, agent: Agent) -> None:
        root = plain_project.root
        (root / "app.py").write_text("mine\n")
        wants(plain_project, ONE)
        agent.story(tries(writes("app.py", "cheat"), writes("x/new.py", "n")))
        run = plain_project.build("--strict", "--only", "one.txt", "--max-iterations", "1")
        assert run.code == 3, run.text
        assert (root / "app.py").read_text() == "mine\n"
        assert not (root / "x").exists()
        assert not (root / ".git").exists()


class TestHistory:
    def test_gets_a_line_for_each_try_and_the_agent_is_told_of_it(self, project: Project, agent: Agent) -> None:
        wants(project, ONE)
        agent.story(tries(), tries(writes("one.txt", "1"), said="Made one.txt."))
        (project.root / "history.jsonl").write_text('{"requirement_id": "old"}\n')
        built(project, "--history", "history.jsonl")
        old, failed, passed = map(json.loads, (project.root / "history.jsonl").read_text().splitlines())
        assert old == {"requirement_id": "old"}
        assert list(failed) == ["timestamp", "requirement_id", "success", "message"]
        assert (failed["requirement_id"], failed["success"]) == ("one", False)
        assert "one.txt" in failed["message"]
        assert (passed["success"], passed["message"]) == (True, "Made one.txt.")
        assert str(project.root / "history.jsonl") in agent.prompts[0]
        assert "history.jsonl" not in project.git("show", "--format=", "--name-only", "HEAD")

    def test_is_a_matter_for_a_person_where_its_lines_are_gone(self, project: Project, agent: Agent) -> None:
        wants(project, ONE)
        (project.root / "h.jsonl").write_text('{"requirement_id": "old"}\n')
        agent.story(tries(runs("echo all went well > h.jsonl"), writes("one.txt", "1")))
        built(project, "--history", "h.jsonl", code=4)
        assert "RALPH_BLOCKED: ralph: h.jsonl was changed; before and after are " in project.progress_text
        kept = [path.read_text() for path in (project.state_folders[0] / "kept").iterdir()]
        assert '{"requirement_id": "old"}\n' in kept


class TestPlanning:
    def test_ticks_nothing(self, project: Project, agent: Agent) -> None:
        wants(project, "- [x] old: Done before\n" + ONE)
        agent.story(step(ticks="all", adds="[x] no, a new one"))
        run = project.plan("--strict")
        assert run.code == 0, run.text
        assert marks_of(project)[-2:] == ["- [x] old", "- [ ] one"]
        assert "a plan iteration ticks nothing" in run.text

    def test_that_makes_a_circle_has_failed(self, project: Project, agent: Agent) -> None:
        agent.story(step(adds=CIRCLE.removeprefix("- [ ] ").rstrip("\n")))
        run = project.plan("--strict")
        assert run.code == 1, run.text
        assert "wait for each other: a, b" in run.text


class TestSubtasks:
    TEXT = "- [ ] all: The whole\n  - verify: File `whole` exists\n  - [ ] a: A part\n  - [ ] b: Another part\n"

    def test_are_done_one_by_one_and_the_last_one_ticks_what_they_are_of(self, project: Project, agent: Agent) -> None:
        wants(project, self.TEXT)
        agent.story(tries(writes("a", "1")), tries(writes("b", "1")), tries(writes("whole", "1")))
        built(project)
        assert tried(project) == [("a", True), ("b", False), ("b", True)]
        assert [line.strip()[:5] for line in listed(project)] == ["- [x]", "- ver", "- [x]", "- [x]"]
        assert "a part of all: The whole" in agent.prompts[0]


class TestInterruptions:
    def test_a_signal_puts_the_task_down(self, project: Project, agent: Agent) -> None:
        wants(project, ONE)
        agent.story(tries(marks("there"), hangs()))
        run = project.start("feature.md", "build", "--strict")
        eventually(lambda: agent.reached("there"))
        assert "- [~] one: The first" in listed(project)
        run.process.terminate()
        assert run.wait().code == -15
        assert listed(project) == ONE.rstrip("\n").split("\n")


def test_a_done_that_a_program_writes_each_time_is_bounded(project: Project, agent: Agent, tmp_path: Path) -> None:
    """It is taken back each time, since a task is open; that counts as a refusal, or nothing would end it."""
    wants(project, ONE)
    script = tmp_path / "declares"
    script.write_text("#!/bin/sh\nsed -i 's/^IN_PROGRESS/RALPH_DONE/' feature_PROGRESS.md\n")
    script.chmod(0o700)
    agent.story(tries(writes("more.txt", "1"), signals=""), repeat=True)
    words = ("--strict", "--max-tries", "off", "--notify-frequency", "1", "--max-iterations", "9", "--delay", "1")
    run = project.ralph("feature.md", "build", *words, env={"RALPH_CUSTOM_NOTIFY_SCRIPT": str(script)})
    assert run.code == 4, run.text
    blocked = "RALPH_BLOCKED: ralph: done was claimed 3 times in a row and does not hold: 1 task is not"
    assert blocked in project.progress_text


def test_a_list_that_is_all_ticked_and_does_not_verify_is_not_verified_all_night(project: Project) -> None:
    """No agent could do anything about it, so another look would see the same."""
    project.has_tasks("x one: The first")
    run = built(project, "--verify", "echo looked >> looks; false", "--max-failures", "off", code=4)
    assert "every task is ticked, and yet done does not hold" in run.text
    assert (project.root / "looks").read_text() == "looked\n"


# What people see of it before and after a run.


def test_the_doctor_finds_a_list_that_cannot_work(project: Project) -> None:
    wants(project, CIRCLE)
    run = project.ralph("doctor", "feature.md", "--strict")
    assert run.code == 1, run.text
    assert "feature_PROGRESS.md: line 12: these tasks wait for each other: a, b" in run.stdout
    wants(project, "- [!] a: A\n  - blocked: no key\n- [ ] b: B\n  - after: a\n")
    run = project.ralph("doctor", "feature.md", "--strict")
    assert "feature is stuck: a is blocked: no key; b waits for a: a start ends at once" in run.stdout
    assert "change [!] to [ ] in feature_PROGRESS.md" in run.stdout


def test_a_plan_that_is_stuck_is_blocked_to_status_and_told_to_who_is_away(project: Project, agent: Agent) -> None:
    mailbox = Mailbox(project)
    wants(project, "- [ ] a: A\n  - verify: File `a` exists\n- [ ] b: B\n  - after: a\n")
    agent.story(tries(writes("x", "1")))
    run = project.build("--strict", "--max-tries", "1")
    assert run.code == 4, run.text
    last = mailbox.notices[-1]
    assert "Ralph Blocked" in last
    assert "b waits for a" in last
    assert "change [!] to [ ] in feature_PROGRESS.md" in last
    assert "a is blocked: given up after try 1: File `a` does not exist" in last
    status = project.ralph("status", "--json")
    assert status.code == 4
    assert json.loads(status.stdout)[0]["state"] == "blocked"
    assert "a, try 1: " in project.ralph("log", "feature.md").stdout
