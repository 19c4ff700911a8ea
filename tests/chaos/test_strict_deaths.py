"""--strict killed at a moment that matters: within its own commit, or after what an agent must not do."""

import shutil

import pytest
from ralph_driver import Project
from stories import Agent, runs, step, tries, writes
from test_strict import KILL, ONE, built, files_of, subjects, wants
from test_strict_cheats import has_hook

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
    (project.root / "staged.txt").write_text("staged\n")
    project.git("add", "staged.txt")
    (project.root / "mine.txt").write_text("mine\n")
    wants(project, ONE)
    killed = project.outputs / "killed"
    has_hook(project, f"[ ! -e {killed} ] && {condition} || exit 0\ntouch {killed}\n{KILL} $PPID", hook)
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


def test_what_a_try_left_that_was_cut_short_is_committed_though_a_later_one_was_restored(
    project: Project, agent: Agent
) -> None:
    """And what a person sets between that death and the next keeps no start from working."""
    wants(project, "- [ ] one: The first\n  - verify: File `two.txt` exists\n")
    made, dies = writes("one.txt", "1\n"), runs(KILL)
    agent.story(tries(made, dies), step(dies), tries(made), tries(made, writes("two.txt", "2\n")))
    built(project, "--on-failure", "restore", code=-9)
    assert project.build().code == -9
    project.git("config", "core.editor", "vi")
    built(project, "--on-failure", "restore")
    assert sorted(files_of(project)) == ["one.txt", "two.txt"]
