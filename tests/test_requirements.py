"""`--requirements FILE` and `--duration TIME`, for who comes from ralph1: the plan as an option, before or behind."""

from collections.abc import Sequence

import pytest
from ralph_driver import Project
from stories import Agent, step


@pytest.fixture
def there(project: Project) -> Project:
    """A project with two plans, and modes that say what they are given."""
    (project.root / "other.md").write_text("# Another\n")
    (project.root / ".ralph").mkdir()
    for mode in ("build", "look"):
        text = f"{mode} {{{{ PLAN_NAME }}}} at most {{{{ MAX_ITERATIONS }}}}.\n"
        (project.root / ".ralph" / f"PROMPT_{mode}.md").write_text(text)
    return project


@pytest.mark.parametrize(
    ("words", "means"),
    [
        pytest.param("--requirements feature.md", "build feature at most .", id="alone"),
        pytest.param("--requirements feature.md build 5", "build feature at most 5.", id="before mode and number"),
        pytest.param("look 5 --requirements=feature.md", "look feature at most 5.", id="behind them"),
        pytest.param("--requirements feature.md 5", "build feature at most 5.", id="with a number alone"),
        pytest.param("feature.md look 5 --requirements feature.md", "look feature at most 5.", id="beside the plan"),
        pytest.param("feature.md 5 --requirements ./feature.md", "build feature at most 5.", id="by another name"),
        pytest.param("--requirements feature.md --duration 4h look", "look feature at most .", id="among options"),
    ],
)
def test_is_the_plan(there: Project, words: str, means: str) -> None:
    run = there.ralph(*words.split(), "--dry-run")
    assert (run.code, run.stderr) == (0, "")
    assert run.stdout.partition("\n\n")[2].strip() == means


@pytest.mark.parametrize(
    ("words", "telling"),
    [
        pytest.param(["other.md", "--requirements", "feature.md"], "two plans", id="two plans"),
        pytest.param(["build", "5", "6", "--requirements", "feature.md"], "6 is a word too many", id="a word too many"),
        pytest.param(["--requirements", "none.md", "build"], "none.md: No such file", id="one that is not there"),
        pytest.param(["--requirements", "feature.md", "lok"], '"lok" is no mode', id="a mistyped mode"),
        pytest.param(["--max-iterations", "5"], "Missing argument 'PLAN'", id="no plan at all"),
    ],
)
def test_what_cannot_be_meant_is_said(there: Project, agent: Agent, words: Sequence[str], telling: str) -> None:
    run = there.ralph(*words)
    assert (run.code, agent.calls) == (2, [])
    assert telling in run.stderr


def test_it_runs(there: Project, agent: Agent) -> None:
    agent.story(step(writes_done=True))
    run = there.ralph("--duration=4h", "--requirements=feature.md", "--no-spinner", "--delay", "0")
    assert (run.code, len(agent.calls)) == (0, 1), run.text


def test_the_doctor_and_a_rehearsal_take_it_too(there: Project) -> None:
    assert "feature.md" in there.ralph("doctor", "--requirements", "feature.md").stdout
    assert "none.md" in there.ralph("rehearse", "--requirements", "none.md").stderr
