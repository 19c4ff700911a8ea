"""--strict killed at a moment that matters: within its own commit, or after what an agent must not do."""

import shutil
import signal

import pytest
from ralph_driver import Project
from stories import Agent, init, raw, result, runs, step, tries, writes
from test_strict import ONE, built, wants
from test_strict_cheats import files_of, has_hook

RALPH = "$(ps -o ppid= -p $(ps -o ppid= -p $PPID))"
"""The parent of the keeper, which is the parent of whoever is the parent."""


def has_work(project: Project) -> None:
    """A person's uncommitted work: staged, and not even that."""
    (project.root / "staged.txt").write_text("staged\n")
    project.git("add", "staged.txt")
    (project.root / "mine.txt").write_text("mine\n")


WITHIN = [
    pytest.param("pre-commit", "true", "one: done before ralph was killed", id="before git has made the commit"),
    pytest.param(
        "reference-transaction",
        '[ "$1" = committed ]',
        "one: Did it",
        id="when the branch has moved and the index has not",
    ),
    pytest.param("post-commit", "true", "one: Did it", id="when the commit is made and ralph does not know"),
]


@pytest.mark.parametrize(("hook", "condition", "subject"), WITHIN)
def test_a_death_within_the_commit_leaves_one_commit_of_the_task(
    project: Project, agent: Agent, hook: str, condition: str, subject: str
) -> None:
    has_work(project)
    wants(project, ONE)
    killed = project.outputs / "killed"
    kill = f"[ ! -e {killed} ] && {condition} || exit 0\ntouch {killed}\nkill -9 {RALPH} $PPID"
    has_hook(project, kill, hook)
    agent.story(tries(writes("one.txt", "1\n"), writes("more/one.txt", "1\n")))
    built(project, code=-signal.SIGKILL)
    if hook == "pre-commit":  # as docs/strict.md allows
        shutil.rmtree(project.state_folders[0].parent / "shadow")
    built(project)
    assert len(agent.calls) == 1, "it was ticked, and no agent is paid again"
    assert project.git("log", "--format=%s").splitlines() == [subject, "plan"]
    assert project.git("log", "--format=%(trailers:key=Ralph-Task,valueonly)").split() == ["one"]
    assert sorted(files_of(project)) == ["more/one.txt", "one.txt"]
    status = project.git("status", "--porcelain").splitlines()
    assert status == ["A  staged.txt", "?? feature_PROGRESS.md", "?? mine.txt"]
    assert list((project.root / ".git").glob("*.lock")) == []


def test_what_a_try_left_that_was_cut_short_is_committed_though_a_later_one_was_restored(
    project: Project, agent: Agent
) -> None:
    wants(project, "- [ ] one: The first\n  - verify: File `two.txt` exists\n")
    made = writes("one.txt", "1\n")
    agent.story(tries(made, runs(f"kill -9 {RALPH}")), tries(made), tries(made, writes("two.txt", "2\n")))
    built(project, "--on-failure", "restore", code=-signal.SIGKILL)
    built(project, "--on-failure", "restore")
    assert sorted(files_of(project)) == ["one.txt", "two.txt"]


def test_only_holds_after_a_death_without_strict_too(project: Project, agent: Agent) -> None:
    (project.root / "app.py").write_text("mine\n")
    project.has_tasks("x done", "other")
    cut_short = raw(init(), writes("app.py", "cheat\n"), runs(f"kill -9 {RALPH}"), result())
    agent.story(cut_short, step(ticks="all", writes_done=True))
    assert project.build("--only", "tests/**").code == -signal.SIGKILL
    project.build("--only", "tests/**")
    assert (project.root / "app.py").read_text() == "mine\n"


def test_what_a_person_set_between_two_deaths_keeps_no_start_from_working(project: Project, agent: Agent) -> None:
    wants(project, ONE)
    dies = runs(f"kill -9 {RALPH}")
    agent.story(tries(dies), step(dies), tries(writes("one.txt", "1")))
    built(project, code=-signal.SIGKILL)
    assert project.build().code == -signal.SIGKILL
    project.git("config", "core.editor", "vi")
    built(project)
