"""Settings that are refused (design section 3): where they stand, what is allowed, all in one go."""

import re
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


NO_SENSE = [
    ("max-iterations", "abc", "unlimited"),
    ("max-failures", "many", "off"),
    ("max-stalls", "none", "off"),
    ("max-turns", "0", "from 1"),
    ("delay", "soon", "2s"),
    ("iteration-timeout", "1h30", "1h30m"),
    ("notify-frequency", "1.5", "off"),
    ("auto-commit", "perhaps", "false"),
    ("effort", "banana", "high"),
    ("max-cost", "lots", "unlimited"),
    ("max-context", "60", "60%"),
    ("max-time", "0", "leaves no time"),
    ("verify-timeout", "later", "off"),
    ("max-iterations", "-1", "unlimited"),
    ("max-iterations", "1.5", "unlimited"),
    ("max-turns", "abc", "from 1"),
    ("delay", "-1", "2s"),
    ("notify-frequency", "abc", "off"),
]


def test_a_value_that_makes_no_sense_is_refused_with_what_is_allowed(project: Project, agent: Agent) -> None:
    wrong = {f"--{name}": (value, allowed) for name, value, allowed in reversed(NO_SENSE) if name != "auto-commit"}
    run = project.ralph("feature.md", *(word for option, (value, _) in wrong.items() for word in (option, value)))
    assert (run.code, agent.calls) == (2, []), run.text
    for option, (value, allowed) in wrong.items():
        assert re.search(rf'^ralph: {option}(?: \(or --\w+\))?: "{value}".*{allowed}', run.stderr, re.MULTILINE), (
            run.stderr
        )


def test_and_with_its_file_and_line(project: Project, agent: Agent) -> None:
    settings = [f"RALPH_{name.upper().replace('-', '_')}" for name, *_ in NO_SENSE]
    lines = [f"{setting}={value}\n" for setting, (_, value, _) in zip(settings, NO_SENSE, strict=True)]
    (project.root / ".ralph.env").write_text("# mine\n\n" + "".join(lines))
    run = project.ralph("feature.md")
    assert (run.code, agent.calls) == (2, []), run.text
    for number, (setting, (_, value, allowed)) in enumerate(zip(settings, NO_SENSE, strict=True), 3):
        told = rf'^ralph: \.ralph\.env:{number}: {setting}: "{value}".*{allowed}'
        assert re.search(told, run.stderr, re.MULTILINE), run.stderr


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


def test_another_agent_is_not_told_what_it_cannot_know(project: Project, agent: Agent) -> None:
    agent.install(project.root / "mine")
    words = ("--model", "opus", "--effort", "high", "--max-turns", "3", "--max-cost", "5", "--max-context", "60%")
    run = project.build("1", "--agent", "./mine", *words)
    assert (run.code, agent.calls) == (2, []), run.text
    assert [option for option in words[::2] if option not in run.stderr] == []
