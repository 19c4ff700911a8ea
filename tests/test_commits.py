"""What a task's commit holds: all that the task changed, and nothing else; and what --only keeps out of commits."""

import signal
import stat

import pytest
from ralph_driver import Project, eventually, executable
from stories import Agent, commits, marks, runs, step, tries, waits_for, writes
from test_signals import hammer
from test_strict import ONE, built, files_of, listed, marks_of, subjects, wants

FOLDER = "mv tool x; mkdir tool; mv x tool/main; echo more > tool/other; rm link; mkdir link; echo > link/in"


def test_files_become_folders_and_what_was_only_staged_goes(project: Project, agent: Agent) -> None:
    """And what a hook formats is what is staged afterwards, so that the user's next commit does not undo it."""
    project.does("echo tool > tool; ln -s tool link; git add .; git commit -qm tools; echo t > tmp.md; git add tmp.md")
    shouts = 'for f in $(git diff --cached --name-only -- "*.md"); do echo HELLO > $f; git add $f; done'
    executable(project.root / ".git" / "hooks" / "pre-commit", shouts)
    wants(project, "".join(f"- [ ] {task}: Task {task}\n" for task in ("t1", "t2", "t3", "t4")))
    new = tries(writes("tool/new", "1")), tries(runs("rm tmp.md")), tries(writes("new.md", "hello\n"))
    agent.story(tries(runs(FOLDER)), *new)
    run = built(project)
    assert subjects(project) == ["t4: Did it", "t2: Did it", "t1: Did it", "tools", "plan"], run.text
    assert files_of(project, "HEAD~2") == ["link", "link/in", "tool/main", "tool/other"]
    assert files_of(project, "HEAD~1") == ["tool/new"]
    assert (project.root / "new.md").read_text() == "HELLO\n"
    assert project.git("status", "--porcelain") == "?? feature_PROGRESS.md\n"


def test_a_submodules_new_commit_is_committed_and_what_git_ignores_is_named(project: Project, agent: Agent) -> None:
    project.does(
        "git init -q ../lib; cd ../lib; echo l > l; git add l; git commit -qm l; cd -; echo '*.log' > .gitignore\n"
        "git -c protocol.file.allow=always submodule --quiet add ../lib lib; git add .; git commit -qm sub"
    )
    wants(project, "- [ ] t1: In the submodule alone\n- [ ] t2: With a log\n")
    half, ignores = writes("a.tmp", "1"), runs("echo '*.tmp' >> .gitignore; echo > b.txt")
    agent.story(tries(runs("echo x > lib/l; git -C lib commit -qam new")), tries(half, signals=""), tries(ignores))
    run = built(project)
    assert "a.tmp changed, and no commit has that: git ignores it" in run.stderr
    assert files_of(project, "HEAD~1") == ["lib"]
    assert files_of(project) == [".gitignore", "b.txt"]
    assert project.git("status", "--porcelain") == "?? feature_PROGRESS.md\n", run.text


def test_what_is_in_a_repository_that_the_agent_made_is_named_and_the_rest_is_committed(
    project: Project, agent: Agent
) -> None:
    """`git add` takes nothing from there, and says nothing."""
    project.does("mkdir scratch; echo 1 > scratch/a")
    wants(project, ONE)
    agent.story(tries(writes("one.txt", "1"), runs("git init -q scratch; echo 2 > scratch/a")))
    run = built(project)
    assert files_of(project) == ["one.txt"], run.text
    assert "scratch/a changed, and no commit has that: git ignores it" in run.text


def test_a_hook_may_add_the_progress_file_that_git_did_not_track(project: Project, agent: Agent) -> None:
    executable(project.root / ".git" / "hooks" / "pre-commit", "git add -A")
    wants(project, ONE)
    agent.story(tries(writes("one.txt", "1")))
    run = built(project)
    assert files_of(project) == ["feature_PROGRESS.md", "one.txt"], run.text


def test_a_file_is_there_for_a_check_where_the_commit_has_it(project: Project, agent: Agent) -> None:
    """What git ignores is in none, and need not be."""
    checks = ("`built.log` exists", "`one.txt` exists", "`app.py` contains `mine`", "`theirs.txt` exists")
    project.does("echo '*.log' > .gitignore; echo app > app.py; git add .; git commit -qm app")
    project.does("echo mine > app.py; echo > theirs.txt")
    for number, check in enumerate(checks):
        wants(project, f"- [ ] one: The first\n  - verify: File {check}\n")
        project.does("rm -f one.txt built.log")
        agent.story(tries(writes("one.txt", f"{number}"), writes("built.log", "1")))
        built(project, "--max-iterations", "1", code=0 if number < 2 else 3)
    assert "`theirs.txt` is so here, but in no commit, and not by this task" in listed(project)[-1]
    agent.story(tries(writes("app.py", "mine, and the agent's\n")))
    wants(project, "- [ ] one: The first\n  - verify: File `app.py` contains `mine`\n")
    built(project)


def test_the_users_commit_in_an_editor_is_waited_for_and_costs_no_attempt(project: Project, agent: Agent) -> None:
    wants(project, "- [ ] one: The first\n")
    agent.story(tries(marks("on"), waits_for("go"), writes("one.txt", "1")))
    run = project.start("feature.md", "build", "--strict")
    eventually(lambda: agent.reached("on"))
    opened, saved = (project.outputs / name for name in ("opened", "saved"))
    editor = executable(project.home / "editor", f"touch {opened}; until [ -e {saved} ]; do sleep 0.05; done")
    project.does(f"echo mine > mine.txt; git add mine.txt; GIT_EDITOR={editor} git commit -aqe -m theirs &")
    eventually(opened.exists)
    agent.let("go")
    eventually(lambda: "waiting for the git that holds" in run.stderr)
    saved.touch()
    assert run.wait().code == 0
    assert subjects(project) == ["one: Did it", "theirs", "plan"]
    assert (marks_of(project), len(agent.calls)) == (["- [x] one"], 1)


def test_a_git_that_an_impatient_user_kills_in_the_middle_of_a_commit_leaves_no_lock(
    project: Project, agent: Agent
) -> None:
    held, go = (project.outputs / name for name in ("held", "go"))
    slow = executable(project.home / "slow", f"touch {held}; until [ -e {go} ]; do sleep 0.05; done; cat")
    project.does(f"git config filter.slow.clean {slow}; echo '*.big filter=slow' > .gitattributes")
    project.does("git add .; git commit -qm rules")
    wants(project, "- [ ] one: The first\n")
    agent.story(tries(writes("one.big", "1")), tries())
    run = project.start("feature.md", "build", "--strict")
    eventually(held.exists)
    lock = project.root / ".git" / "index.lock"
    assert lock.exists()
    ended = hammer(run, signal.SIGINT)
    assert (ended.code, lock.exists()) == (-signal.SIGINT, False), ended.text
    go.touch()
    assert "index.lock" not in ended.text, "git removed it"
    built(project)
    assert files_of(project) == ["one.big"]


HIDES = "mkdir -p x/cache; echo '*' > x/cache/.gitignore; printf '.gitignore\\nbad*\\n' > .gitignore; echo > bad.py"


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "plain"])
def test_only_sees_what_new_rules_hide_and_the_permissions_of_files(
    project: Project, agent: Agent, *, strict: bool
) -> None:
    project.does("echo s > secret.txt; echo b > b.txt; git add .; git commit -qm more; chmod 600 secret.txt")
    project.does("mkdir .venv; echo '*' > .venv/.gitignore; echo > .venv/python")
    wants(project, ONE.replace("one.txt", "tests/one"))
    does = runs(f"{HIDES}; chmod 644 secret.txt; chmod 600 b.txt; echo > .venv/new; mkdir tests; echo > tests/one")
    agent.story(tries(does), tries()) if strict else agent.story(step(does, ticks="all", writes_done=True))
    run = project.build("--only", "tests/**", *(["--strict"] if strict else []))
    assert run.code == 0, run.text
    names = {path.name for path in project.root.iterdir()}
    assert names == {".git", ".venv", "feature.md", "feature_PROGRESS.md", "secret.txt", "b.txt", "tests"}, run.text
    assert len([*(project.root / ".venv").iterdir()]) == 3, "that one hid itself before"
    rights = [stat.S_IMODE((project.root / name).stat().st_mode) for name in ("secret.txt", "b.txt")]
    assert rights == [0o600, 0o644]


def test_only_leaves_nothing_else_in_commits_of_the_agents(project: Project, agent: Agent) -> None:
    """Neither what the user had staged, nor what the agent took back in the tree alone."""
    project.does("echo app > app.py; git add .; git commit -qm app; echo half > wip.txt; git add wip.txt")
    project.has_tasks("one", "two")
    sweeps = runs("mkdir tests; echo > tests/a; git add tests"), commits("honest")
    back = runs("echo > tests/b; echo evil >> app.py; git commit -qam evil; git show HEAD~1:app.py > app.py")
    agent.story(step(*sweeps, ticks="first"), step(back, ticks="all", writes_done=True))
    run = project.build("--only", "tests/**")
    assert run.code == 0, run.text
    assert subjects(project) == ["evil", "honest", "app", "plan"]
    assert (files_of(project, "HEAD~1"), files_of(project)) == (["tests/a"], ["tests/b"])
    assert project.git("status", "--porcelain").splitlines() == ["A  wip.txt", "?? feature_PROGRESS.md"]
