"""One run per working tree."""

from functools import partial
from pathlib import Path

from ralph_driver import LONG, Project, eventually
from stories import Agent, init, marks, raw, step, waits_for, writes
from test_signals import BUILD, LOCKED


def test_of_many_runs_at_once_one_runs_and_all_others_leave_at_once_and_leave_nothing(
    project: Project, agent: Agent
) -> None:
    """The same plan, another one, one in a folder below; only on a terminal it says who is at work."""
    agent.story(step(marks("on"), waits_for("go"), writes_done=True))
    starts = [project.start(*BUILD) for _ in range(200 if LONG else 20)]  # one of them makes the progress file
    eventually(lambda: sum(run.poll() is None for run in starts) == 1)
    (first,) = (run for run in starts if run.poll() is None)
    assert {(run.wait().code, run.wait().text) for run in starts if run is not first} == {(LOCKED, "")}
    eventually(lambda: agent.reached("on"))
    assert [path.name for path in project.root.iterdir() if "PROGRESS" in path.name] == [project.progress.name]
    folder = project.root / "sub"
    folder.mkdir()
    for plan in (project.root / "other.md", folder / "other.md"):
        plan.write_text("# Another\n")
    before = sorted(project.root.rglob("*"))
    for words in (BUILD, ("other.md", "build"), ("other.md", "build", "-C", "sub")):
        second = project.ralph(*words)
        assert (second.code, second.text) == (LOCKED, ""), words
    on_terminal = project.ralph_tty(*BUILD)
    (line,) = on_terminal.stdout.splitlines()
    assert (on_terminal.code, str(first.pid) in line, "feature" in line) == (LOCKED, True, True)
    assert sorted(project.root.rglob("*")) == before
    agent.let("go")
    assert (first.wait().code, len(agent.calls)) == (0, 1)


def test_another_worktree_and_outside_of_git_another_folder_is_another_tree(
    project: Project, agent: Agent, tmp_path: Path
) -> None:
    """And where git's lock lies elsewhere, that of an agent that died does not stop the next."""
    worktree, elsewhere = tmp_path / "worktree", tmp_path / "elsewhere"
    project.git("worktree", "add", "-q", "-b", "other", str(worktree))
    elsewhere.mkdir()
    (elsewhere / "feature.md").write_text("# A feature\n")
    places = {"here": project.root, "there": worktree, "elsewhere": elsewhere}
    lock = project.root / ".git" / "worktrees" / "worktree" / "index.lock"
    dies = raw(init(), marks("there"), waits_for("go"), writes(str(lock), ""), exit_code=-9)
    first, third = (
        step(marks(name), waits_for("go"), file="made.txt", writes_done=True) for name in ("here", "elsewhere")
    )
    agent.story(first, dies, third, step(file="a.txt", commits="second try", writes_done=True))
    runs = []
    for name, place in places.items():
        runs.append(project.start(*BUILD, cwd=place))
        eventually(partial(agent.reached, name))
    assert [run.poll() for run in runs] == [None] * 3
    assert project.ralph(*BUILD, cwd=elsewhere).code == LOCKED
    agent.let("go")
    assert ([run.wait().code for run in runs], lock.exists()) == ([0, 0, 0], False)
    assert project.git("log", "-1", "--format=%s", "other") == "second try\n"
