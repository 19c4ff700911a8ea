"""--jobs: independent tasks at the same time, each in a clone, merged one by one. Whole runs in a real repository."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from forks import PYTHON
from ralph_driver import COMMAND, LONG, Project, Running, alive, eventually, executable, kill, leaping, marked, paced
from stories import Agent, at_limit, hangs, init, marks, raw, runs, says, tries, waits_for

from ralph.parallel.task_attempt import merge_lines

DATA = Path(__file__).parents[1] / "prompts"
AGENT = """\
prompt=$(cat)
signal=$(printf '%s' "$prompt" | grep -o '<task-done session="ralph-[^<>]*>[^<>]*</task-done>' | tail -1)
progress=$(printf '%s' "$prompt" | sed -n 's/^Progress file: //p')
task=${signal%<*}; task=${task##*>}
meets() { touch ~/$task; until [ -e ~/$1 ]; do sleep 0.02; done; }
case $task in
CASES
*) echo "$task" > $task.txt ;;
esac
printf 'Do %s\\n\\n%s\\n' "$task" "$signal"
"""
"""Does for each task what a shell says of it, by default writes a file; `meets b` waits for the agent of b.

Agents leave word for each other and for the test in the home.
"""


class ParallelProject:
    """A project whose agent does for each task what a shell command says."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.claude = project.home / "claude"

    def has(self, *tasks: str, notes: str = "", **does: str) -> None:
        """Writes the progress file with these tasks, and the agent."""
        self.project.has_tasks(*tasks, notes=notes)
        self.does(**does)

    def does(self, **does: str) -> None:
        """Writes the agent."""
        cases = "\n".join(f"{task}) {command} ;;" for task, command in does.items())
        executable(self.claude, AGENT.replace("CASES", cases))

    def words(self, *args: str, mode: str = "build", jobs: int = 2) -> list[str]:
        return ["feature.md", mode, "--strict", "--jobs", str(jobs), "--agent", str(self.claude), *args]

    def works(self, *args: str, code: int = 0, jobs: int = 2) -> str:
        """What it says."""
        run = self.project.ralph(*self.words(*args, jobs=jobs))
        assert run.code == code, run.text
        return run.text

    def subjects(self, branch: str = "HEAD") -> list[str]:
        """What the commits say after the first, the oldest first."""
        return self.project.git("log", "--reverse", "--format=%s", branch).splitlines()[1:]

    def attempts(self) -> list[tuple[str, bool]]:
        """Each with whether it was merged, in the order in which that was known."""
        rows = self.project.iterations("requirement_id", "success", "merge")
        return [(task, passed) for task, passed, merge in rows if merge != "queued"]

    @property
    def clones(self) -> list[Path]:
        return list(self.project.state.glob("ralph/clones/feature-*/*"))


@pytest.fixture
def parallel(project: Project) -> ParallelProject:
    return ParallelProject(project)


CLAIMS = """\
touch ~/killed; echo > red.txt; git add red.txt; git commit -qm mine; sed -i 's/- .*a:/- [x] a:/' "$progress"
kill -9 $(ps -o ppid= -p $PPID)"""
"""A commit and a tick of the agent's own, and then its ralph is no more."""
PLANTS = """\
touch ~/planted; git config remote.x.url 'ext::sh -c touch% '$HOME/escaped; git config remote.x.promisor true
git config protocol.ext.allow always; echo x > x; git add x; git commit -qm x
git config core.repositoryFormatVersion 1; git config extensions.partialClone x
rm -f .git/objects/$(git rev-parse HEAD:x | sed 's,^..,&/,')"""
"""Whatever git needs the file runs a program."""
A, B = "a: The first", "b: The second"
B_AFTER_A = f"{B}\n  - after: a"


ROTATES = "tr a-z n-za-m"
GOVERNS = f"""\
git config filter.rot.clean '{ROTATES}'; git config filter.rot.smudge '{ROTATES}'; echo required >> .git/config
git config user.signingKey 'a "quoted" \\\\ key'; git config clone.defaultRemoteName elsewhere
mkdir -p .git/info; echo 'secret filter=rot' > .git/info/attributes; printf '*.log\\n.ralph\\n' > .git/info/exclude
mkdir .ralph; sed '/^#}}$/a MY OWN TASK' {DATA}/PROMPT_task.md > .ralph/PROMPT_task.md
echo password > secret; git add .; git commit -qm secret; chmod +x feature.md
"""
"""What governs work here and is in no commit: filters, attributes, rules for ignoring, templates."""
TELLS = """\
git config --local --list > ~/config; cat secret > ~/read; git check-ignore -v a.log > ~/ignored; echo "$*" > ~/argv
echo "$prompt" > ~/prompt; ls -l feature.md | cut -c1-10 > ~/mode; echo more >> secret; touch a.log"""
PLACE = ("remote.", "branch.", "clone.", "core.")


def is_told_as_here(parallel: ParallelProject, project: Project, *args: str) -> None:
    """The clone of an attempt has git's settings, what it ignores, hooks, template and words that there are here."""
    executable(project.root / ".git" / "hooks" / "pre-commit", "echo ran >> ~/hooks")
    parallel.has("g: What governs", g=TELLS)
    parallel.works(*args, "--setup-copy", "feature.md", "--", "--append-system-prompt", "careful")
    told = {path.name: path.read_text() for path in project.home.iterdir() if path.is_file()}
    here, there = project.git("config", "--local", "--list").splitlines(), told["config"].splitlines()
    lacking = {one.removesuffix("=true") for one in here} - {one.removesuffix("=true") for one in there}
    assert [one for one in lacking if not one.startswith(PLACE)] == []
    assert "core.hookspath=.git/hooks" in there
    assert (told["read"], told["ignored"]) == ("password\n", ".git/info/exclude:1:*.log\ta.log\n")
    assert told["argv"].endswith("--append-system-prompt careful\n")
    assert "MY OWN TASK" in told["prompt"]
    assert (told["mode"], told["hooks"]) == ("-rwxr-xr-x\n", "ran\n")
    assert project.git("show", "HEAD:secret") == "cnffjbeq\nzber\n"
    assert (project.root / "secret").read_text() == "password\nmore\n"


class TestIndependentTasks:
    @pytest.mark.parametrize("way", ["here", "a runner"])
    def test_have_clones_that_are_like_the_original(
        self, parallel: ParallelProject, project: Project, way: str
    ) -> None:
        project.does(GOVERNS)
        runner = executable(project.home / "bin" / "runner", f'echo Welcome\nshift\nexec {shlex.join(COMMAND)} "$@"')
        is_told_as_here(parallel, project, *(("--runner", str(runner)) if way == "a runner" else ()))

    def test_are_tried_at_the_same_time_each_in_a_clone_of_its_own_and_land_one_by_one(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        project.does("printf '.env\\nready\\n' > .gitignore; git add .; git commit -qm Ignore")
        project.does("echo SECRET=1 > .env; echo mine > draft.txt")
        tells = 'cat ready > ~/ready-$task; echo $RALPH_PORT > ~/port-$task; grep -c quick "$progress" > ~/said-$task'
        pushes = "git push -q origin HEAD:refs/heads/other"
        learns = 'sed -i "s/^## Notes$/&\\n- seen by $task/; /be quick/d" "$progress"; echo $task > $task.txt'
        does = {one: f"{tells}; {pushes}; meets {other}; {learns}" for one, other in ("ab", "ba")}
        messages = "\n## Messages\n\nbe quick\n"
        parallel.has(A, B, "c: The third\n  - after: a, b", notes=messages, **does, c="cat a.txt b.txt > c.txt")
        ready = ("--setup", "cp .env ready", "--setup-copy", ".env", "--keep-clones")
        said = parallel.works("--verify", "! test -e red.txt", "--model", "sonnet", *ready)
        assert parallel.attempts()[2:] == [("c", True)]
        assert sorted(parallel.subjects()) == ["Ignore", "a: Do a", "b: Do b", "c: Do c"]
        assert "Ralph-Role" not in project.git("log", "--format=%B"), "nor of those checked on top of others"
        assert "3 commits" in said
        assert project.git("status", "--porcelain", "--untracked-files=no") == "", "the files came along"
        text = project.progress_text
        assert "\nRALPH_DONE\nVerified: " in text
        for task in "ab":
            assert f"- seen by {task}\n" in text
            assert (project.home / f"ready-{task}").read_text() == "SECRET=1\n"
        ports = {int((project.home / f"port-{task}").read_text()) for task in "ab"}
        assert len(ports) == 2, "of its own"
        assert min(ports) >= 1024
        assert "other" not in project.git("branch"), "a clone cannot push"
        assert "the clones lack what you have not committed: draft.txt" in said
        said_to = {(project.home / f"said-{task}").read_text() for task in "ab"}
        assert said_to == {"0\n", "1\n"}, "to one of them"
        assert "be quick" not in text
        assert {path.name.partition("-")[0] for path in parallel.clones} >= {"a", "b", "c"}, "they stay for looking"

    def test_of_one_parent_pass_their_roles_where_a_runner_takes_them_and_end_with_what_it_asks_for(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        runner = executable(project.home / "runner", f'echo "$@" >> ~/ran\nshift\nexec {shlex.join(COMMAND)} "$@"')
        executable(project.root / ".git" / "hooks" / "pre-commit", "echo ran >> ~/hooks")
        asks = "p: The whole\n  - verify: Run `test -e a.txt -a -e b.txt` - exits with code 0"
        file = 'case $prompt in *"You write the tests"*) mkdir -p tests; f=tests/$task.py;; *) f=$task.txt;; esac'
        does = {one: f"{file}; meets {other}; echo 1 > $f" for one, other in ("ab", "ba")}
        parallel.has(f"{asks}\n  - [ ] a: One part\n  - [ ] b: The other", **does, p="true")
        once = "case $PWD in *landing*) [ -e ~/once ] || { touch ~/once; exit 1; } ;; esac"
        parallel.works("--roles", "test,build", "--setup", once, "--runner", str(runner))
        assert sorted(parallel.subjects()) == ["a: Do a", "b: Do b"]
        assert project.git("ls-files").split() == ["a.txt", "b.txt", "feature.md", "tests/a.py", "tests/b.py"]
        assert (project.home / "once").exists(), "a setup may fail once where only the landing needs it"
        assert sorted(passed for _, passed in parallel.attempts()) == [False, True, True, True]
        assert (project.home / "ran").read_text() == "ralph attempt\n" * 5, "checks and their setup, too"
        assert (project.home / "hooks").read_text() == "ran\n" * 3, "the project's hooks run in each clone"

    @pytest.mark.parametrize("step", ["bundle unbundle", "cat-file commit"])
    def test_keep_what_the_user_commits_while_they_are_about_to_be_merged(
        self, parallel: ParallelProject, project: Project, step: str
    ) -> None:
        """Right after ralph's git has done that step; the commit it merges next is on top of an older one."""
        git, steps = shutil.which("git", path=project.env["PATH"]), project.home / "steps"
        own = f"cd {project.root}; echo > own$n.txt; {git} add own$n.txt; {git} commit -qm own own$n.txt"
        commits = f"echo >> {steps}; n=$(wc -l < {steps}); [ $n -gt 3 ] || ({own}) >&2"
        shim = f'case "$*" in *"-C {project.root} "*"{step}"*) {commits} ;; esac'
        executable(project.root.parent / "bin" / "git", f'{git} "$@"; code=$?\n{shim}\nexit $code')
        parallel.has(A, B, a="echo > a.txt", b="echo > b.txt")
        parallel.works()
        names = project.git("ls-tree", "--name-only", "HEAD").split()
        assert {"own1.txt", "own2.txt", "own3.txt", "a.txt", "b.txt"} <= {*names}, names

    def test_keep_what_the_user_commits_where_a_signal_comes_before_they_are_checked_on_top_of_that(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        git = shutil.which("git", path=project.env["PATH"])
        own = f"cd {project.root}; echo > own.txt; {git} add own.txt; {git} commit -qm own own.txt"
        steps = {"bundle unbundle": f"[ -e {project.root}/own.txt ] || ({own}) >&2", "merge-tree": "kill -TERM $PPID"}
        shim = "\n".join(f'*"-C {project.root} "*"{step}"*) {does} ;;' for step, does in steps.items())
        fake = executable(project.root.parent / "bin" / "git", f'case "$*" in {shim} esac\nexec {git} "$@"')
        parallel.has(A, a="echo > a.txt; echo >> ~/asked")
        parallel.works(code=-signal.SIGTERM)
        assert project.git("ls-tree", "--name-only", "HEAD").split() == ["feature.md", "own.txt"]
        fake.unlink()
        parallel.works()
        assert project.git("ls-tree", "--name-only", "HEAD").split() == ["a.txt", "feature.md", "own.txt"]
        assert (project.home / "asked").read_text() == "\n", "no agent is asked again"

    def test_are_reviewed_once_each_and_not_again_where_they_are_checked_on_top_of_others(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        """By the roles that the plan names: an agent that is asked again costs again."""
        signal = "grep -o '<task-done session=.*</task-done>'"
        signal = f'prompt=$(cat); echo >> ~/reviews; printf %s "$prompt" | {signal}'
        reviewer = executable(project.home / "reviewer", signal)
        (project.root / "feature.md").write_text("# F\n\nRALPH_ROLES: build,review\n")
        project.git("commit", "-qam", "roles")
        parallel.has(A, B, a="meets b; echo > a.txt", b="meets a; echo > b.txt")
        parallel.works("--agent-for", f"review={reviewer}")
        assert sorted(parallel.subjects()[1:]) == ["a: The first", "b: The second"]
        assert (project.home / "reviews").read_text() == "\n" * 2

    def test_count_as_their_own_ralph_has_judged_them_and_else_no_git_looks_at_them(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        does = {
            "a": f'case $prompt in *"You review"*) [ -e ~/killed ] || {{ {CLAIMS}; }} ;; *) echo > a.txt ;; esac',
            "b": f"[ -e ~/planted ] || {{ {PLANTS}; }}; echo > b.txt",
        }
        parallel.has(A, B, **does)
        said = parallel.works("--roles", "build,review", "--verify", "! test -e red.txt")
        assert sorted(parallel.attempts()) == [("a", False), ("a", True), ("b", False), ("b", True)]
        assert sorted(parallel.subjects()) == ["a: Do a", "b: Do b"]
        assert not (project.home / "escaped").exists()
        assert ("its ralph was killed by signal 9" in said, "was changed: core.repositoryformat" in said) == (
            True,
            True,
        )
        parallel.has("c: The third", "d: The fourth", c=f"cd {project.root}; {PLANTS}")
        said = parallel.works(jobs=2, code=4)
        assert "was changed: " in said, said  # whichever of them is seen first
        assert not (project.home / "escaped").exists(), "nor where the work should land"
        assert "c: Do c" not in parallel.subjects()

    def test_say_which_runner_cannot_be_started(self, parallel: ParallelProject, project: Project) -> None:
        runner = executable(project.home / "runner", "exit 1")
        runner.write_text("#!/nowhere/sh\n")
        parallel.has(A)
        said = parallel.works("--runner", str(runner), "--max-tries", "1", code=1)
        assert f"{runner} cannot be started: " in said

    def test_that_conflict_are_tried_again_on_top_and_those_that_break_each_other_never_land_both(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        both = "echo $task >> README.md"
        does = {
            "a": f"meets b; {both}",
            "b": f"meets a; {both}",
            "c": "meets d; echo > c.txt",
            "d": "meets c; echo > d.txt",
        }
        parallel.has(A, B, "c: The third\n  - after: a, b", "d: The fourth\n  - after: a, b", **does)
        said = parallel.works("--verify", "! test -e c.txt || ! test -e d.txt", "--max-tries", "2", code=4)
        tries = parallel.attempts()
        assert [passed for _, passed in tries] == [True, False, True, True, False, False]
        assert tries[1][0] == tries[2][0] != tries[0][0]
        assert tries[3][0] != tries[4][0] == tries[5][0]
        assert "on top of what was merged meanwhile: conflicts in README.md; the work is in refs/" in said
        assert "on top of what was merged meanwhile: the verify command" in said
        assert (len(parallel.subjects()), parallel.clones) == (3, [])
        assert {"a", "b"} <= set((project.root / "README.md").read_text().split())
        assert project.progress_text.count("- [!]") == 1

    def test_finish_where_one_meets_a_usage_limit_and_the_next_run_waits_for_its_end_and_shares_what_it_may_cost(
        self, project: Project, agent: Agent
    ) -> None:
        project.has_tasks(A, B, "c: The third")
        is_known = f"until grep -qs '\"limit\"' {project.state}/ralph/feature-*/journal.jsonl; do sleep 0.02; done"
        works = tries(runs(is_known), runs("touch $(mktemp -u made-XXXXXX)"), cost_usd=1)
        limit = at_limit(says("I read it all."), resets_in_s=None)
        agent.story(limit, works, limit, limit, works, works)
        run = project.build("--strict", "--jobs", "2", "--no-wait")
        assert run.code == 3, run.text
        assert project.iterations("ended") == ["limit", "ok"]
        run = project.build("--strict", "--jobs", "3", "--max-cost", "9", command=leaping())
        assert run.code == 0, run.text
        assert run.text.count("waiting until") == 1, "both met the same limit"
        assert sorted(project.iterations("ended", "counted")[2:]) == [
            ("limit", False),
            ("limit", False),
            ("ok", False),
            ("ok", True),
            ("ok", True),
        ], "and one was checked on top of the other"
        assert "failed:" not in project.progress_text
        assert "(checks alone)" in project.progress_text, "nothing else was there that checks"
        told = sorted("; its last words: I read it all.\n" in prompt for prompt in agent.prompts[2:])
        assert told == [False, True, True, True], "also each that tries what another clone was cut short at"
        bounds = [call.argv[call.argv.index("--max-budget-usd") + 1] for call in agent.calls[2:4]]
        assert bounds == ["4.500000"] * 2, "divided by what can be begun, of three that may"

    def test_begin_as_far_as_the_start_may_go_and_say_why_they_cannot(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        parallel.has(A, B)
        said = parallel.works("--max-iterations", "1", code=3)
        assert ("ralph: a begins" in said, "ralph: b begins" in said) == (True, False), said
        parallel.works("--setup", "echo no disk; false", code=1)
        assert "the setup command exited with 1; it has 30m00s: no disk" in project.progress_text


class TestTheUsersOwnWork:
    def test_in_the_way_is_left_alone_and_finished_tasks_wait_for_it_without_an_agent(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        parallel.has(A, B, a="echo > .gitignore; echo a > README.md", b="meets c; echo b > b.txt")
        project.does(
            "echo README.md > .gitignore; git add .; git commit -qm Ignore; echo 'mine, and not in git' > README.md"
        )
        running = project.start(*parallel.words())
        eventually(
            lambda: "a is finished and waits to be merged: your changes to README.md are in the way" in running.stderr
        )
        (project.home / "c").touch()
        run = running.wait()
        said = "ralph: waits for you: your changes to README.md are in the way of 2 finished tasks · 0/2 tasks"
        assert (run.code, said in run.text) == (4, True), run.text
        assert (project.root / "README.md").read_text() == "mine, and not in git\n"
        assert parallel.subjects() == ["Ignore"]
        project.does("git branch -m trunk; echo mine > README.md; git add -f README.md; git commit -qm 'My own'")
        parallel.does(a="echo asked > ~/asked")
        assert "conflicts in README.md" in parallel.works("--max-tries", "1", code=4)
        (kept,) = project.git("for-each-ref", "--format=%(refname)", "refs/ralph").split()
        assert (kept in project.progress_text, project.git("show", f"{kept}:README.md")) == (True, "a\n")
        assert not (project.home / "asked").exists()

    def test_that_is_committed_is_built_upon_and_a_branch_that_is_not_checked_out_moves_alone(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        project.does("git config merge.autoStash true; git config merge.verifySignatures true")
        waits = "touch ~/begun-$task; meets {}; echo $task > $task.txt"
        parallel.has(A, B_AFTER_A, a=waits.format("committed"), b=waits.format("switched"))
        commits = "echo > more.txt; git add more.txt; git commit -qm More"
        more = f"touch ~/more; cd {project.root}; {commits}; touch .git/index.lock"
        running = project.start(
            *parallel.words("--verify", f"case $PWD in *landing*) [ -e ~/more ] || {{ {more}; }} ;; esac")
        )
        eventually((project.home / "begun-a").exists)
        project.does("echo mine > README.md; git add README.md; git commit -qm 'My own'; touch ~/committed")
        eventually(lambda: "waiting for the git that holds" in running.stderr)
        (project.root / ".git" / "index.lock").unlink()
        eventually((project.home / "begun-b").exists)
        project.does("git switch -qc other; echo more > README.md; touch ~/switched")
        assert running.wait().code == 0
        assert parallel.subjects() == ["My own", "More", "a: Do a"]
        assert parallel.subjects("main") == ["My own", "More", "a: Do a", "b: Do b"]
        assert (project.root / "README.md").read_text() == "more\n"
        parallel.has("c: The third")
        assert "your changes to README.md may be in the way of finished tasks" in parallel.works(code=2)
        parallel.works("--allow-dirty")
        assert parallel.subjects() == ["My own", "More", "a: Do a", "c: Do c"]
        assert "more.txt" in project.git("ls-tree", "--name-only", "HEAD")
        parallel.has("d: The fourth", d="echo d > README.md")
        assert "your changes to README.md are in the way of 1 finished task" in parallel.works("--allow-dirty", code=4)
        assert (project.root / "README.md").read_text() == "more\n", "what is not committed is not stashed"

    @pytest.mark.parametrize("words", ["The first", "Something else"])
    def test_on_a_branch_that_goes_finished_tasks_wait_and_land_where_the_next_run_begins(
        self, parallel: ParallelProject, project: Project, words: str
    ) -> None:
        parallel.has(A, a=f"git -C {project.root} branch -m trunk; echo $task > a.txt")
        assert "the branch main is gone, which is in the way of 1 finished task" in parallel.works(code=4)
        project.progress.write_text(project.progress_text.replace("The first", words))
        parallel.does(a="echo asked > ~/asked; echo again > a.txt")
        parallel.works()
        assert parallel.subjects("trunk") == ["a: Do a"]
        assert (project.home / "asked").exists() == (words != "The first"), "work for other words is not this task's"

    def test_that_an_agent_blocked_are_tried_again_once_another_was_merged(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        blocks = "signal=$(echo $signal | sed s/task-done/task-blocked/g)"
        b = f"until grep -q 'blocked: by the agent: a' {project.progress}; do sleep 0.02; done; echo b > b.txt"
        parallel.has(A, B, a=f"if [ -e b.txt ]; then echo a > a.txt; else {blocks}; fi", b=b)
        parallel.works()
        assert sorted(parallel.subjects()) == ["a: Do a", "b: Do b"]

    def test_at_a_task_ends_who_tries_it_and_what_lands_and_nobody_else(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        takes_back = "s/~\\(. [abc]:\\)/!\\1/; s/^.*d:/- [ ] e: E\\n  - after: zz\\n&/"
        edits = f"[ -e ~/edited ] || sed -i '{takes_back}' {project.progress}; touch ~/edited"
        does = {"a": "meets b; echo a > a.txt", "b": "meets a; echo b > b.txt", "d": "meets edited; echo d > d.txt"}
        parallel.has(A, B, "c: The third", "d: The fourth", c="sleep 20; touch ~/went-on", **does)
        said = parallel.works("--setup", f"case $PWD in *landing*) {edits} ;; esac", jobs=4, code=2)
        assert said.count("was taken back while it was tried") == 2, said
        assert "e comes after zz, which is not a task" in said, "it ends with what the user broke"
        marks = {task: mark for mark, task in re.findall(r"- \[(.)\] (.):", project.progress_text)}
        assert {marks["a"], marks["b"]} == {"!", "x"}, "the second was about to land"
        assert (marks["c"], (project.home / "went-on").exists()) == ("!", False), "it was ended"
        assert marks["d"] == "x", "it could finish"
        assert len(parallel.subjects()) == 2


def test_the_end_of_the_coordinator_is_the_end_of_all_and_the_next_run_begins_again(
    parallel: ParallelProject, project: Project
) -> None:
    sleeps = "touch ~/$task; setsid sleep 3600"
    parallel.has(A, B, a=sleeps, b=sleeps)

    def begins() -> Running:
        running = project.start(*parallel.words(), command=paced(interrupt_s=0.5, terminate_s=0.5))
        for name in "ab":
            eventually((project.home / name).exists)
            (project.home / name).unlink()
        return running

    running = begins()
    for which in (signal.SIGINT, signal.SIGKILL):
        running.signal(which)
        assert running.wait().code == -which
        eventually(lambda: not marked(project.env["TEST_MARK"]))
        assert ("[~]" in project.progress_text) == (which == signal.SIGKILL)
        running = begins()

    running.signal(signal.SIGSTOP)  # and now the supervisors, too, as when memory runs out
    supervisors = subprocess.run(["ps", "--ppid", str(running.pid), "-o", "pid="], capture_output=True, check=True)
    kill([*map(int, supervisors.stdout.split()), running.pid])
    running.wait()
    parallel.does()
    parallel.works()
    assert not marked(project.env["TEST_MARK"]), "they end with who started them, or the next run ends them"
    assert sorted(parallel.subjects()) == ["a: Do a", "b: Do b"]


def test_what_ctrl_c_cuts_short_in_a_clone_is_handed_over_and_its_cost_counts(project: Project, agent: Agent) -> None:
    project.has_tasks(A, B)
    half = [raw(init(), says("Half."), runs("echo > half.txt"), marks(name), hangs()) for name in ("one", "other")]
    agent.story(*half, tries(runs("echo > whole.txt")), tries(runs("echo > more.txt")))
    running = project.start("feature.md", "build", "--strict", "--jobs", "2")
    eventually(lambda: agent.reached("one") and agent.reached("other"))
    running.signal(signal.SIGINT)
    run = running.wait()
    assert (run.code, "$0.04" in run.text) == (-signal.SIGINT, True), run.text
    assert project.iterations("cost_usd") == [0.02, 0.02]
    assert project.build("--strict", "--jobs", "2").code == 0
    left = "Ctrl+C; files it had changed, which may be gone since: half.txt; its last words: Half."
    assert f"One was cut short before it was ready: {left}\n" in agent.prompts[2]


class TestTheMergeQueue:
    def test_checks_at_the_same_time_and_again_what_was_checked_on_top_of_one_that_fails(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        first = f"until git -C {project.root} log | grep -q 'z: Do z'; do sleep 0.02; done"
        waits = "until [ -e ~/c-on-b ]; do sleep 0.02; done"
        fails = f"touch ~/b-begun; [ -e ~/failed ] || {{ {waits}; touch ~/failed; exit 1; }}"
        on_b = "if [ -e b.txt ]; then touch ~/c-on-b; else touch ~/c-alone; fi"
        parallel.has(
            "z: The first to be merged",
            B,
            "c: The third",
            b=f"{first}; echo b > b.txt",
            c="until [ -e ~/b-begun ]; do sleep 0.02; done; echo c > c.txt",
        )
        verify = f"case $PWD in *b+before-*) {fails} ;; *c+before-*) {on_b} ;; esac"
        parallel.works("--verify", verify, "--landing-window", "2", jobs=3)
        assert parallel.subjects() == ["z: Do z", "c: Do c", "b: Do b"]
        assert (project.home / "c-alone").exists()
        figures = "erge queue: 3 checked again on top of others, 2 merged, 1 failed there"
        assert figures in project.ralph("status", "feature.md").stdout
        report = Path(project.ralph("report", "feature.md").stdout.split("  (")[0].strip())
        assert figures in report.read_text()
        assert project.git("ls-tree", "--name-only", "HEAD^").split() == ["c.txt", "feature.md", "z.txt"]

    def test_survives_a_signal_and_asks_no_agent_again_where_the_task_reads_as_it_did(
        self, parallel: ParallelProject, project: Project
    ) -> None:
        parallel.has(A, B, "c: The third", a="meets b; echo a > a.txt", b="meets a; echo b > b.txt", c="sleep 3600")
        hangs = "case $PWD in *before-*) touch ~/checks; sleep 3600 ;; esac"
        for ended in (signal.SIGINT, signal.SIGKILL):
            words = parallel.words("--verify", hangs, jobs=3)
            running = project.start(*words, command=paced(interrupt_s=0.5, terminate_s=0.5))
            eventually((project.home / "checks").exists)
            (project.home / "checks").unlink()
            running.signal(ended)
            assert running.wait().code == -ended
            eventually(lambda: not marked(project.env["TEST_MARK"]))
        assert len(parallel.subjects()) == 1
        parallel.does(a="echo asked > ~/asked", b="echo asked > ~/asked")
        assert "passed in an earlier run and waits to be merged" in parallel.works("--verify", "true")
        assert sorted(parallel.subjects()) == ["a: Do a", "b: Do b", "c: Do c"]
        assert (project.home / "asked").exists() is False
        assert not project.git("for-each-ref", "refs/ralph/queue")

    def test_keeps_for_the_next_run_what_cannot_be_checked(self, parallel: ParallelProject, project: Project) -> None:
        parallel.has(A, B, a="meets b; echo a > a.txt", b="meets a; echo b > b.txt")
        fails = "case $PWD in *before-*) echo no disk; exit 1 ;; esac"
        said = parallel.works("--setup", fails, "--max-failures", "off", code=4)
        assert "it has 30m00s: no disk, which is in the way of 1 finished task" in said
        assert sorted(passed for _, passed in parallel.attempts()) == [False, False, False, True]
        parallel.does(a="echo asked > ~/asked", b="echo asked > ~/asked")
        parallel.works()
        assert sorted(parallel.subjects()) == ["a: Do a", "b: Do b"]
        assert not (project.home / "asked").exists()

    def test_continues_while_a_usage_limit_lasts_and_a_stop_is_heard_at_once(
        self, project: Project, agent: Agent
    ) -> None:
        project.has_tasks(A, B)
        agent.story(at_limit(), tries(waits_for("go"), runs("touch made"), cost_usd=2))
        running = project.start("feature.md", "build", "--strict", "--jobs", "2")
        eventually(lambda: "waiting until" in running.stdout)
        agent.let("go")
        eventually(lambda: "1/2 tasks" in running.stdout)
        assert running.process.poll() is None, "it waits for the end of the limit"
        project.progress.write_text(project.progress_text.replace("IN_PROGRESS", "IN_PROGRESS\nRALPH_STOP"))
        run = running.wait(10)
        assert (run.code, "$2.0" in run.text) == (3, True), run.text

    def test_ends_where_what_attempts_run_below_was_killed(self, parallel: ParallelProject, project: Project) -> None:
        sleeps = "touch ~/$task; sleep 3600"
        parallel.has(A, B, a=sleeps, b=sleeps)
        running = project.start(*parallel.words("--max-failures", "off"))
        for name in "ab":
            eventually((project.home / name).exists)
        supervisors = subprocess.run(["ps", "--ppid", str(running.pid), "-o", "pid="], capture_output=True, check=True)
        kill([*map(int, supervisors.stdout.split())])
        run = running.wait()
        assert (run.code, "the processes below which attempts run were killed" in run.text) == (1, True), run.text
        assert not marked(project.env["TEST_MARK"])


def test_what_was_merged_when_ralph_was_killed_is_ticked_and_not_done_again(
    parallel: ParallelProject, project: Project
) -> None:
    """git itself kills ralph, by a filter of the repository's own, in the middle of landing."""
    (project.root / ".gitattributes").write_text("a.txt filter=kills\n")
    project.commits("Filter")
    project.git("config", "filter.kills.smudge", "sh -c 'kill -9 $(cat ~/pid); cat'")
    parallel.has(A, a="meets pid; touch a.txt")
    running = project.start(*parallel.words())
    (project.home / "pid").write_text(str(running.pid))
    assert running.wait().code == -signal.SIGKILL
    eventually(lambda: parallel.subjects() == ["Filter", "a: Do a"])
    assert "- [x] a:" not in project.progress_text
    project.git("config", "--unset", "filter.kills.smudge")
    eventually(lambda: not marked(project.env["TEST_MARK"]))
    parallel.works()
    assert parallel.subjects() == ["Filter", "a: Do a"]
    assert "- [x] a:" in project.progress_text


@pytest.mark.parametrize(
    ("ready", "args", "ends"),
    [
        ("rm -rf .git", "", (2, "--jobs needs a git repository")),
        ("rm -rf .git; git init -q", "", (2, "--jobs needs a branch that has a commit")),
        ("true", "--no-auto-commit", (2, "brings work together by commits, and --no-auto-commit forbids them")),
        ("echo > feature.txt; git add .", "", (2, "your changes to feature.txt may be in the way of finished tasks")),
        ("touch .gitmodules", "", (2, "clones, which lack the submodules")),
        ("true", "--jobs 21", (2, "at most 20 on one machine")),
        ("true", "--setup-copy gone", (1, "/gone: cannot be brought to a clone: No such file or directory")),
        ("true", "--executor dask://127.0.0.1:9", (1, "no cluster answers at dask://127.0.0.1:9")),
    ],
)
def test_what_clones_cannot_do_is_reported_before_money_is_spent(
    parallel: ParallelProject, project: Project, ready: str, args: str, ends: tuple[int, str]
) -> None:
    parallel.has(A, B)
    project.does(ready)
    soon = "from ralph.parallel import executors; executors._CONNECT_S = 1; from ralph.cli import main; main()"
    run = project.ralph(*parallel.words(*args.split()), command=(*PYTHON, "-c", soon))
    assert (run.code, len(run.stderr.splitlines())) == (ends[0], 1), run.text
    assert ends[1] in run.stderr
    assert (parallel.attempts(), "[~]" in project.progress_text) == ([], False)


def test_a_cluster_works_on_the_tasks_and_one_whose_worker_dies_is_tried_by_another(
    parallel: ParallelProject, project: Project
) -> None:
    programs = []

    def dask(*words: str, **env: str) -> None:
        here = ("--host", "127.0.0.1", "--no-dashboard")
        programs.append(project.start(*words, *here, command=(sys.executable, "-m", "dask"), env=env))

    def said_by(task: str) -> int:
        said = project.home / task
        return int(eventually(lambda: said.exists() and said.read_text()))

    try:
        dask("scheduler", "--port", "0")
        (address,) = eventually(lambda: re.findall(r"Scheduler at: +tcp:(\S+)", programs[0].stderr))
        for number in "12":
            home = f"{project.home}/state{number}"
            dask("worker", f"tcp:{address}", "--no-nanny", "--nthreads", "1", XDG_STATE_HOME=home, WORKER=number)
        words = parallel.words("--executor", f"dask:{address}")
        goes_on = "while sleep 0.1; do echo first >> a.txt; done"
        first = f"[ -e ~/again ] || {{ echo $$ > ~/first; echo $WORKER > ~/a; {goes_on}; }}"
        parallel.has(A, B, a=f'{first}; echo "$task" >> a.txt')
        running = project.start(*words)
        worker = programs[said_by("a")]
        (project.home / "again").touch()
        worker.signal(signal.SIGKILL)
        run = running.wait(120)
        assert run.code == 0, run.text
        assert project.git("show", "HEAD:a.txt") == "a\n", "nothing of the first, for whom nobody waited"
        eventually(lambda: not alive(said_by("first")))
        assert sorted(parallel.subjects()) == ["a: Do a", "b: Do b"]

        sleeps = "echo $$ > ~/$task; sleep 3600"
        parallel.has("c: The third", "d: The fourth", c=sleeps, d=sleeps)
        running = project.start(*words)
        third = said_by("c")
        project.progress.write_text(project.progress_text.replace("- [~] c", "- [!] c"))
        eventually(lambda: not alive(third))
        fourth = said_by("d")
        running.signal(signal.SIGKILL)
        eventually(lambda: not alive(fourth))

        project.does(GOVERNS)
        is_told_as_here(parallel, project, "--executor", f"dask:{address}")
        parallel.has("e: The fifth")
        only_here = executable(project.home / "here" / "only-here", "true")
        env = {"PATH": f"{only_here.parent}:{project.env['PATH']}"}
        run = project.ralph(*words, "--agent", "only-here", "--max-failures", "1", env=env)
        assert (run.code, parallel.subjects()[4:]) == (1, []), run.text
        assert re.search(r"^ralph: the worker tcp://\S+ has no only-here on its PATH$", run.stderr, re.MULTILINE)
    finally:
        kill(marked(project.env["TEST_MARK"]))
        for program in programs:
            program.wait()


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("seed", range(40 if LONG else 1))
def test_any_graph_of_tasks_is_merged_each_once_in_a_legal_order_with_every_commit_green(
    parallel: ParallelProject, project: Project, seed: int, window: int
) -> None:
    random = Random(seed)
    names = [f"t{number}" for number in range(7 if LONG else 5)]
    after, listed, does = {}, [], {}
    for place, name in enumerate(names):
        after[name] = random.sample(names[:place], random.randint(0, min(2, place)))
    for name, others in after.items():
        listed.append(f"{name}: Task" + f"\n  - after: {', '.join(others)}" * bool(others))
        first = random.choice(["true", "exit 1", "kill -9 $PPID", "touch red.txt", "echo $task > shared.txt"])
        once = f"[ -e ~/$task ] || {{ touch ~/$task; {first}; }}"
        does[name] = f"{once}; sleep 0.{random.randint(0, 4)}; echo $task > {random.choice(names)}.txt; touch $task.own"
    parallel.has(*listed, **does)
    unlimited = [word for name in ("tries", "failures", "stalls") for word in (f"--max-{name}", "off")]
    parallel.works("--verify", "! test -e red.txt", "--landing-window", str(window), *unlimited, jobs=3)
    landed = [subject.partition(":")[0] for subject in parallel.subjects()]
    assert sorted(landed) == sorted(names), "each once"
    assert all(landed.index(one) < landed.index(name) for name, others in after.items() for one in others)
    for commit in project.git("rev-list", "HEAD").split():
        assert "red.txt" not in project.git("ls-tree", "--name-only", commit).split(), "green at each commit"


FENCED = ["## Notes", "", "One:", "", "```", "an example", "```", ""]
MERGED = [
    (
        "both add a block with a fence",
        FENCED,
        [*FENCED, "A:", "", "```", "a", "```"],
        [*FENCED, "B:", "", "```", "  b", "```"],
    ),
    ("one removes what the other leaves", FENCED, [*FENCED[:2], *FENCED[3:]], FENCED),
    ("one adds above, one below", FENCED, [*FENCED[:2], "Above", *FENCED[2:]], [*FENCED, "Below"]),
]
"""What both have done to a text: what was, what is, and what an agent made of it in its clone."""


@pytest.mark.parametrize(("base", "ours", "theirs"), [row[1:] for row in MERGED], ids=[row[0] for row in MERGED])
def test_what_two_wrote_into_the_notes_is_merged_and_blocks_stay_whole(
    base: list[str], ours: list[str], theirs: list[str]
) -> None:
    merged = merge_lines(*("".join(f"{line}\n" for line in text).encode() for text in (base, ours, theirs))).decode()
    for text in (ours, theirs):
        added = "\n".join(line for line in text[len(base) :])
        assert added in merged
    assert ("Above" in merged, "One:" in merged) == ("Above" in ours, "One:" in ours)
    assert merged.count("```") % 2 == 0
