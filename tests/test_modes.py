"""Modes: what holds, what follows, and that the progress file says it (docs/modes.md)."""

from ralph_driver import Project
from stories import Agent, edits, runs, says, step


def modes(project: Project) -> list[str]:
    """The mode of each iteration, as the journal has it."""
    return [line["mode"] for line in project.journal() if line["event"] == "iteration"]


def named(project: Project, mode: str) -> None:
    """The progress file names this mode."""
    head, started, rest = project.progress_text.partition("Started: 2026-11-20 22:14:03\n")
    project.progress.write_text(f"{head}{started}Mode: {mode}\n{rest}")


def head(project: Project) -> list[str]:
    """The lines that say the mode."""
    return [line for line in project.progress_text.splitlines() if line.startswith(("Mode:", "Round:"))]


SEES_MODE = runs("grep -h '^Mode:\\|^Round:' feature_PROGRESS.md >> ../seen || echo none >> ../seen")


def seen(project: Project) -> list[str]:
    """What the agent of each iteration found."""
    return (project.root.parent / "seen").read_text().splitlines()


def test_all_plans_builds_and_validates_until_nothing_is_left(project: Project, agent: Agent) -> None:
    agent.story(
        step(SEES_MODE, adds="one"),
        step(SEES_MODE, ticks="all", writes_done=True),
        step(SEES_MODE, edits("- [x] one", "- [ ] one (not at its edges)")),
        step(SEES_MODE, ticks="all", writes_done=True),
        step(SEES_MODE, says("All is there.")),
    )
    run = project.ralph("feature.md", "all", "--delay", "0", "--verify", "true")
    assert run.code == 0, run.text
    assert modes(project) == ["plan", "build", "validate", "build", "validate"]
    assert seen(project) == ["Mode: plan", "none", "Mode: validate 1/3", "Round: 1/3", "Mode: validate 2/3"]
    assert head(project) == []
    assert "\nRALPH_DONE\nVerified: " in project.progress_text
    run = project.ralph("feature.md", "all")
    assert (run.code, run.text, len(agent.calls)) == (0, "", 5)
