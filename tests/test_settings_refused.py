"""Settings that are refused (design section 3): where they stand, what is allowed, all in one go."""

from pathlib import Path

import pytest
from ralph_driver import Project
from stories import Agent, step

TEMPLATE = "Work on ${PLAN_FILE}, state in ${PROGRESS_FILE}. Commit: ${AUTO_COMMIT}.\n"


def template(project: Project, text: str) -> Path:
    file = project.root / ".ralph" / "PROMPT_build.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("max-iterations", "abc", "unlimited"),
        ("max-iterations", "-1", "unlimited"),
        ("max-iterations", "1.5", "unlimited"),
        ("max-failures", "many", "off"),
        ("max-turns", "0", ""),
        ("max-turns", "abc", ""),
        ("delay", "soon", "2s"),
        ("delay", "-1", ""),
        ("notify-frequency", "abc", ""),
        ("notify-frequency", "1.5", ""),
        ("auto-commit", "perhaps", "false"),
        ("effort", "banana", "high"),
    ],
)
class TestAValueThatMakesNoSense:
    def test_is_refused_with_what_is_allowed(
        self, project: Project, agent: Agent, name: str, value: str, allowed: str
    ) -> None:
        run = project.build(f"--{name}", value)
        assert run.code == 2, run.text
        assert f"--{name}" in run.stderr
        assert value in run.stderr
        assert allowed in run.stderr
        assert not agent.calls

    def test_is_refused_with_its_file_and_line(
        self, project: Project, agent: Agent, name: str, value: str, allowed: str
    ) -> None:
        setting = f"RALPH_{name.upper().replace('-', '_')}"
        (project.root / ".ralph.env").write_text(f"# mine\n\n{setting}={value}\n")
        run = project.build()
        assert run.code == 2, run.text
        assert ".ralph.env:3: " in run.stderr
        assert setting in run.stderr
        assert allowed in run.stderr
        assert not agent.calls


def test_all_problems_are_told_in_one_go(project: Project, agent: Agent) -> None:
    (project.root / "feature.md").write_text("# X\n\nRALPH_MAX_ITERATIONS: lots\nRALPH_MAX_ITERATION: 3\n")
    (project.root / ".ralph.env").write_text("RALPH_DELAY=soon\n")
    (project.home / ".ralph.env").write_text("\nRALPH_MODLE=opus\n")
    template(project, "{#\nRALPH_MAX_FAILURES: few\n#}\nHello.\n")
    run = project.ralph("feature.md", "--notify-frequency", "often", env={"RALPH_AUTO_COMMIT": "perhaps"})
    assert run.code == 2
    for where in ("feature.md:3", "feature.md:4", ".ralph.env:1", ".ralph.env:2", "PROMPT_build.md:2"):
        assert f"{where}: " in run.stderr, run.stderr
    for name in ("--notify-frequency", "RALPH_AUTO_COMMIT", "RALPH_MODLE", "RALPH_MAX_ITERATION:"):
        assert name.rstrip(":") in run.stderr
    assert not agent.calls
    assert not project.progress.exists()


def test_an_unknown_name_in_the_environment_is_nobodys_business(project: Project, agent: Agent) -> None:
    agent.story(step())
    run = project.build("1", env={"RALPH_MODLE": "opus", "RALPHX": "1"})
    assert run.code == 3
    assert "MODLE" not in run.text


@pytest.mark.parametrize("place", ["feature.md", ".ralph.env", "PROMPT_build.md"])
@pytest.mark.parametrize(
    ("name", "value"), [("RALPH_AGENT", "sh evil"), ("RALPH_SLACK_WEBHOOK_URL", "http://127.0.0.1:9/secret")]
)
def test_files_of_the_project_set_neither_agent_nor_secrets(
    project: Project, agent: Agent, place: str, name: str, value: str
) -> None:
    (project.root / "evil").write_text("touch pwned\n")
    if place == "PROMPT_build.md":
        template(project, f"{{# {name}: {value} #}}\n{TEMPLATE}")
    else:
        sign = "=" if place == ".ralph.env" else ": "
        (project.root / place).write_text(f"{name}{sign}{value}\n")
    run = project.build("1")
    assert run.code == 2, run.text
    assert name in run.stderr
    assert f"{place}:1" in run.stderr
    assert "secret" not in run.text
    assert not agent.calls
    assert not (project.root / "pwned").exists()


@pytest.mark.parametrize("name", ["model", "effort", "max-turns"])
def test_another_agent_is_not_told_what_it_cannot_know(project: Project, agent: Agent, name: str) -> None:
    agent.install(project.root / "mine")
    value = {"model": "opus", "effort": "high", "max-turns": "3"}[name]
    run = project.build("1", "--agent", "./mine", f"--{name}", value)
    assert run.code == 2, run.text
    assert name in run.stderr
    assert not agent.calls
