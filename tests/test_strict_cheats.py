"""Cheats that go beyond the agent's own turn: by its checks, by hooks, by ralph's death, by files that govern ralph."""

import shutil

import pytest
from ralph_driver import CHECKOUT, Project, executable
from stories import Agent, runs, step, tries, writes
from test_strict import KILL, LIES, ONE, OTHER, built, files_of, listed, marks_of, subjects, wants

TICK_ALL = "sed -i 's/- \\[[ ~]\\]/- [x]/; s/IN_PROGRESS/RALPH_DONE/' feature_PROGRESS.md\n"


def test_its_checks_tick_nothing_move_no_head_and_change_nothing_outside_of_only_or_that_governs_ralph(
    project: Project, agent: Agent
) -> None:
    check = "  - verify: Run `sh tests/check.sh` - exits with code 0\n"
    wants(project, "- [ ] one: The first\n" + check + OTHER + check + "- [ ] more: More\n")
    forges = "git checkout -qb elsewhere; echo x > new.py; echo cheat > feature.md; git add -A; git commit -qm forged\n"
    governs = "echo RALPH_VERIFY=true > .ralph.env\n"
    agent.story(tries(writes("tests/check.sh", TICK_ALL + forges)), tries(writes("tests/check.sh", governs)))
    run = built(project, "--only", "tests/**", "--max-iterations", "1", code=3)
    assert marks_of(project) == ["- [x] one", "- [ ] oth", "- [ ] mor"]
    assert "RALPH_DONE" not in project.progress_text
    assert "undone, since the tasks are ralph's while an iteration runs" in run.text
    assert project.git("symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert (subjects(project), files_of(project)) == (["one: Did it", "plan"], ["tests/check.sh"])
    assert "Make it so" in (project.root / "feature.md").read_text()
    assert not (project.root / "new.py").exists()
    run = built(project, "--max-iterations", "1", code=3)
    assert not (project.root / ".ralph.env").exists()
    assert ".ralph.env was changed" in run.stderr
    assert files_of(project) == ["tests/check.sh"]


def test_a_tick_of_the_agents_own_is_undone_though_the_file_is_as_long_as_before(
    project: Project, agent: Agent
) -> None:
    wants(project, ONE + OTHER)
    agent.story(tries(writes("one.txt", "1"), runs("sed -i 's/- \\[ \\]/- [x]/' feature_PROGRESS.md")))
    run = built(project, "--max-iterations", "1", code=3)
    assert marks_of(project) == ["- [x] one", "- [ ] oth"], run.text
    assert "undone, since the tasks are ralph's while an iteration runs" in run.text


def test_a_list_is_not_undone_where_no_copy_of_it_can_be_kept(project: Project, agent: Agent) -> None:
    wants(project, ONE)
    fills = 'cd "$XDG_STATE_HOME"/ralph/feature-*/; rm -rf kept; touch kept'
    agent.story(tries(runs("sed -i 's/The first/Mine, which is nowhere else/' feature_PROGRESS.md"), runs(fills)))
    run = project.build("--strict")
    assert (run.code, "/kept: cannot be made" in run.text) == (1, True), run.text
    assert "Mine, which is nowhere else" in project.progress_text


def test_a_hook_that_says_no_or_that_it_wrote_ticks_and_commits_nothing(project: Project, agent: Agent) -> None:
    """Also where git's own folder for them leads into the project."""
    executable(project.root / "hooks" / "pre-commit", "echo THE HOOK SAYS NO >&2; exit 1")
    project.commits("hooks")
    project.does("ln -s ../hooks .git/hooks; echo mine > mine.txt")
    wants(project, ONE + OTHER)
    cheat = writes("hooks/pre-commit", f"#!/bin/sh\n{TICK_ALL}git add mine.txt\n")
    merges = "git add mine.txt; git update-ref HEAD $(git commit-tree -p HEAD~ -p HEAD -m Both $(git write-tree))"
    after = runs(
        f"echo > hooks/pre-commit; printf '#!/bin/sh\\n%s\\n' '{merges}' > hooks/post-commit; chmod +x hooks/*"
    )
    agent.story(tries(writes("one.txt", "1")), tries(writes("one.txt", "1"), cheat), tries(after))
    for said, core_hooks_path in (
        ("THE HOOK SAYS NO", "hooks"),
        ("mine.txt", ".git/hooks"),
        ("a hook moved HEAD", ".git/hooks"),
    ):
        project.git("config", "core.hooksPath", core_hooks_path)
        built(project, "--max-iterations", "1", "--max-tries", "off", "--task", "one", code=3)
        assert marks_of(project) == ["- [ ] one", "- [ ] oth"]
        assert subjects(project) == ["hooks", "plan"]
        assert said in [line for line in listed(project) if "failed:" in line][-1]


def test_what_it_did_is_put_back_after_a_death_and_settings_that_it_wrote_count_for_nothing(
    project: Project, agent: Agent
) -> None:
    """Of ralph, of the supervisor alone, and of ralph once it had emptied ralph's notes."""
    env, app = project.root / ".ralph.env", project.root / "app.py"
    project.does("echo '# mine' > .ralph.env; echo committed > app.py; git add -A; git commit -qm app")
    project.does("echo 'mine, not committed' > app.py; echo staged > staged.txt; git add staged.txt")
    wants(project, "- [ ] one: The first\n  - verify: File `tests/one.txt` exists\n" + OTHER)
    cheat = "echo cheat > app.py; echo evil > evil.py; mkdir tests; echo > tests/half; git add -A; git commit -qm x"
    begun = "git rev-parse HEAD > .git/CHERRY_PICK_HEAD"
    settings = writes(".ralph.env", "RALPH_VERIFY=true\n")
    notes = "for note in $XDG_STATE_HOME/ralph/*/running/Uncommitted*; do : > $note; done"
    agent.story(
        tries(*LIES, settings, runs(f"{cheat}; {begun}; {KILL}")),
        tries(writes("tests/one.txt", "1")),
        tries(*LIES, settings, runs("kill -9 $(ps -o ppid= -p $PPID); sleep 60")),
        tries(*LIES, runs(f"{notes}; {KILL.replace('9', 'QUIT')}")),
        tries(),
    )
    words = ("--only", "tests/**", "--max-iterations", "1")
    for death in (-9, 1):
        built(project, *words, code=death)
        half_edited = project.root / f".{project.progress.name}.abc_12xy.ralph"
        half_edited.write_text("# Progress: fea")
        said = built(project, *words, code=1).stderr
        assert "start it again" in said
        assert ("was killed in" in said, "(the supervisor died" in said) == (death == -9, death == 1)
        assert env.read_text() == "# mine\n"
        assert (CHECKOUT / "prompts" / "PROMPT_build.md").is_file(), "ralph's own templates are nobody's to move"
        built(project, *words, code=3 if death == -9 else -3)
        assert not half_edited.exists()
        assert "may be from an earlier attempt, which changed tests/half: build on" in agent.prompts[1]
        assert app.read_text() == "mine, not committed\n"
        left = project.git("status", "--porcelain").splitlines()
        assert left == [" M app.py", "A  staged.txt", "?? feature_PROGRESS.md"]
        assert subjects(project) == ["one: Did it", "app", "plan"]
        assert files_of(project) == ["tests/half", "tests/one.txt"]
    built(project, *words, code=3)
    assert marks_of(project) == ["- [x] one", "- [ ] oth"]


def test_the_plans_settings_stay_and_what_the_user_writes_there_does_too(project: Project, agent: Agent) -> None:
    """Also where git ignores its folder. What lies outside of the project is nobody's to put back."""
    project.does("echo private/ > .gitignore; mkdir private; mv feature.md private")
    plan = project.root / "private" / "feature.md"
    text = plan.read_text() + "RALPH_STRICT: true\nRALPH_VERIFY: test -e one.txt\n"
    plan.write_text(text)
    template = project.home / "prompts" / "PROMPT_task.md"
    template.parent.mkdir()
    template.write_text((CHECKOUT / "prompts" / template.name).read_text())
    wants(project, ONE + OTHER)
    cheats = writes("private/feature.md", "RALPH_VERIFY: true\n"), writes(".ralph/PROMPT_task.md", "cheat")
    more = writes("private/feature.md", text + "\nAnd it shall be blue.\n")
    agent.story(tries(*cheats), tries(more, writes("one.txt", "1")), tries(writes(str(template), "other")))
    plan_file = ("private/feature.md", "build", "1", "--prompts", str(template.parent), "--task", "one")
    run = project.ralph(*plan_file)
    assert run.code == 3, run.text
    assert plan.read_text() == text
    assert not (project.root / ".ralph" / "PROMPT_task.md").exists()
    assert ".ralph/PROMPT_task.md, private/feature.md was changed, which decides how ralph works: put back" in run.text
    project.ralph(*plan_file)
    assert marks_of(project) == ["- [x] one", "- [ ] oth"]
    assert plan.read_text() == text + "\nAnd it shall be blue.\n"
    assert project.ralph(*plan_file[:-2]).code == 4
    assert f"RALPH_BLOCKED: ralph: {template} was changed" in project.progress_text
    assert template.read_text() == "other"


COMMITTED = '[ "$1" = committed ]'
WITHIN = {
    "before git has made the commit": ("pre-commit", "true", "one: done before ralph was killed"),
    "the branch has moved and the index has not": ("reference-transaction", COMMITTED, "one: Did it"),
    "when the commit is made and ralph does not know": ("post-commit", "true", "one: Did it"),
}


@pytest.mark.parametrize(("hook", "condition", "subject"), WITHIN.values(), ids=WITHIN)
def test_a_death_within_the_commit_leaves_one_commit_of_the_task(
    project: Project, agent: Agent, hook: str, condition: str, subject: str
) -> None:
    project.does("echo staged > staged.txt; git add staged.txt; echo mine > mine.txt")
    wants(project, ONE)
    killed = project.outputs / "killed"
    kills = f"[ ! -e {killed} ] && {condition} || exit 0\ntouch {killed}\n{KILL} $PPID"
    executable(project.root / ".git" / "hooks" / hook, kills)
    agent.story(tries(writes("one.txt", "1\n"), writes("more/one.txt", "1\n")))
    built(project, code=-9)
    if hook == "pre-commit":  # as docs/strict.md allows
        shutil.rmtree(project.state_folders[0].parent / "shadow")
    built(project)
    assert len(agent.calls) == 1, "it was ticked, and no agent is paid again"
    assert subjects(project) == [subject, "plan"]
    assert project.git("log", "--format=%(trailers:key=Ralph-Task,valueonly)").split() == ["one"]
    assert sorted(files_of(project)) == ["more/one.txt", "one.txt"]
    status = project.git("status", "--porcelain").splitlines()
    assert status == ["A  staged.txt", "?? feature_PROGRESS.md", "?? mine.txt"]
    assert list((project.root / ".git").glob("*.lock")) == []


def test_what_an_attempt_left_that_was_cut_short_is_committed_though_a_later_one_was_restored(
    project: Project, agent: Agent
) -> None:
    """And what the user sets between that death and the next keeps no start from working."""
    wants(project, "- [ ] one: The first\n  - verify: File `two.txt` exists\n")
    made, dies = writes("one.txt", "1\n"), runs(KILL)
    agent.story(tries(made, dies), step(dies), tries(made), tries(made, writes("two.txt", "2\n")))
    built(project, "--on-failure", "restore", code=-9)
    assert project.build().code == -9
    project.git("config", "core.editor", "vi")
    built(project, "--on-failure", "restore")
    assert sorted(files_of(project)) == ["one.txt", "two.txt"]
