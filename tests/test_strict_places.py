"""--strict where a project is not simply a repository with commits, and where a try leaves what is hard to put back."""

import stat
from dataclasses import replace

import pytest
from ralph_driver import Project
from stories import Agent, runs, tries, writes
from test_strict import ONE, built, wants


def test_in_a_linked_worktree(project: Project, agent: Agent) -> None:
    project.git("worktree", "add", "-q", "../linked", "-b", "linked")
    there = replace(project, root=project.root.parent / "linked")
    wants(there, ONE)
    agent.story(tries(writes("one.txt", "1"), runs("git checkout -q --detach; git commit -q --allow-empty -m x")))
    built(there)
    assert there.git("symbolic-ref", "HEAD") == "refs/heads/linked\n"
    assert there.git("log", "--format=%s").splitlines() == ["one: Did it", "plan"]
    assert project.git("log", "--format=%s").split() == ["plan"]


def test_in_a_folder_of_a_repository(project: Project, agent: Agent) -> None:
    there = replace(project, root=project.root / "package")
    there.root.mkdir()
    (there.root / "feature.md").write_text("# x\n\ny\n")
    (project.root / "top.py").write_text("t\n")
    project.git("add", "-A")
    project.git("commit", "-qm", "package")
    wants(there, ONE)
    agent.story(tries(writes("one.txt", "1"), writes("../top.py", "cheat\n")), tries(writes("one.txt", "1")))
    built(there, "--only", "one.txt")
    assert (project.root / "top.py").read_text() == "t\n"
    assert project.git("show", "--format=", "--name-only").split() == ["package/one.txt"]


def test_where_git_refuses_to_work_nothing_is_begun(project: Project, agent: Agent) -> None:
    wants(project, ONE)
    run = project.build("--strict", env={"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"})
    assert run.code == 2, run.text
    assert "detected dubious ownership" in run.text
    assert agent.calls == []


def test_before_the_first_commit(plain_project: Project, agent: Agent) -> None:
    plain_project.git("init", "-q")
    (plain_project.root / "staged.txt").write_text("s")
    plain_project.git("add", "staged.txt")
    wants(plain_project, ONE)
    agent.story(tries(writes("one.txt", "1"), runs("git add -A; git commit -qm theirs")))
    built(plain_project)
    assert plain_project.git("log", "--format=%s").splitlines() == ["one: Did it"]
    assert plain_project.git("status", "--porcelain").splitlines()[0] == "A  staged.txt"


@pytest.mark.parametrize("options", [("--on-failure", "restore"), ()])
def test_what_is_ignored_is_nobodys_business_whatever_becomes_of_the_rules(
    project: Project, agent: Agent, options: tuple[str, ...]
) -> None:
    (project.root / ".gitignore").write_text(".env\nnode_modules/\n.ralph.env\n")
    project.git("add", ".gitignore")
    project.git("commit", "-qm", "rules")
    for name in (".env", "node_modules/x.js", ".ralph.env"):
        (project.root / name).parent.mkdir(exist_ok=True)
        (project.root / name).write_text("# a secret\n")
    wants(project, ONE)
    agent.story(tries(runs("rm .gitignore"), writes("half.txt", "1")), tries(writes("one.txt", "1")))
    built(project, *options)
    assert all((project.root / name).read_text() == "# a secret\n" for name in (".env", "node_modules/x.js"))
    assert (project.root / "half.txt").exists() == (not options)
    every = project.git("log", "--all", "--format=", "--name-only").split()
    assert {".env", "node_modules/x.js", ".ralph.env"}.isdisjoint(every)
    kept = project.git("for-each-ref", "--format=%(refname)", "refs/ralph").split()
    if options:
        shown = project.git("show", "--format=", "--name-status", kept[0])
        assert shown.split() == ["D", ".gitignore", "A", "half.txt"]


def test_more_new_files_than_a_try_makes_are_not_moved_away_without_a_person(project: Project, agent: Agent) -> None:
    wants(project, ONE)
    agent.story(tries(runs("mkdir many; cd many; seq 1001 | xargs touch")))
    built(project, "--on-failure", "restore", code=4)
    assert "RALPH_BLOCKED: ralph: 1001 new files, such as many/1, " in project.progress_text
    assert len([*(project.root / "many").iterdir()]) == 1001
    built(project, code=4)


def test_a_plan_in_a_folder_that_git_ignores_is_put_back_too(project: Project, agent: Agent) -> None:
    (project.root / ".gitignore").write_text("private/\n")
    (project.root / "private").mkdir()
    plan = (project.root / "feature.md").rename(project.root / "private" / "feature.md")
    plan.write_text("RALPH_VERIFY: test -e ok\n\n# x\n")
    wants(project, ONE)
    agent.story(tries(writes("one.txt", "1"), writes("private/feature.md", "# weaker\n")))
    run = project.ralph("private/feature.md", "build", "--strict", "--max-iterations", "1")
    assert (run.code, "private/feature.md was changed, which decides" in run.text) == (3, True), run.text
    assert plan.read_text() == "RALPH_VERIFY: test -e ok\n\n# x\n"


def test_a_private_folder_stays_private(project: Project, agent: Agent) -> None:
    (project.root / "secrets").mkdir(mode=0o700)
    (project.root / "secrets" / "key").write_text("k")
    wants(project, ONE)
    agent.story(tries(writes("secrets/key", "x"), writes("one.txt", "1")), tries(writes("one.txt", "2")))
    built(project, "--only", "one.txt")
    assert (project.root / "secrets" / "key").read_text() == "k"
    assert stat.S_IMODE((project.root / "secrets").stat().st_mode) == 0o700
