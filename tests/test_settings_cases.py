"""Settings (design section 3): one name everywhere, who wins, and every problem at once."""

import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from ralph_driver import Project
from stories import Agent, fails, step

from ralph.sources import of_plan

TEMPLATE = "Work on ${PLAN_FILE}, state in ${PROGRESS_FILE}. Commit: ${AUTO_COMMIT}.\n"


def option(argv: list[str], name: str) -> str | None:
    """What stands after this option."""
    return argv[argv.index(name) + 1] if name in argv else None


def shown(project: Project, *args: str, env: Mapping[str, str] | None = None) -> tuple[list[str], str]:
    """The command and the prompt that a build would start with, as --dry-run shows them."""
    run = project.ralph("feature.md", "build", "--dry-run", *args, env=env)
    assert (run.code, run.stderr) == (0, ""), run.text
    command, _, prompt = run.stdout.partition("\n\n")
    return shlex.split(command), prompt


def template(project: Project, text: str) -> Path:
    file = project.root / ".ralph" / "PROMPT_build.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


LEVELS = ["command line", "environment", "plan", "./.ralph.env", "~/.ralph.env", "template"]


@pytest.mark.parametrize("strongest", range(len(LEVELS)), ids=LEVELS)
def test_each_level_beats_those_after_it(project: Project, strongest: int) -> None:
    args: list[str] = []
    env: dict[str, str] = {}
    if strongest <= 0:
        args = ["--model", LEVELS[0].replace(" ", "-")]
    if strongest <= 1:
        env = {"RALPH_MODEL": "environment"}
    if strongest <= 2:
        (project.root / "feature.md").write_text("# X\n\nRALPH_MODEL: plan\n")
    if strongest <= 3:
        (project.root / ".ralph.env").write_text("RALPH_MODEL=./.ralph.env\n")
    if strongest <= 4:
        (project.home / ".ralph.env").write_text("RALPH_MODEL=~/.ralph.env\n")
    template(project, "{# RALPH_MODEL: template #}\n" + TEMPLATE)
    command, _ = shown(project, *args, env=env)
    assert option(command, "--model") == LEVELS[strongest].replace(" ", "-")


@pytest.mark.parametrize("place", ["environment", "feature.md", ".ralph.env", "home", "PROMPT_build.md"])
def test_a_setting_has_the_same_name_everywhere(project: Project, agent: Agent, place: str) -> None:
    agent.story(fails(), repeat=True)
    settings = {"RALPH_MAX_ITERATIONS": "7", "RALPH_MAX_FAILURES": "1"}
    files = {"feature.md": project.root, ".ralph.env": project.root, "home": project.home}
    sign = "=" if place.endswith(("env", "home")) else ": "
    text = "".join(f"{name}{sign}{value}\n" for name, value in settings.items())
    if place == "PROMPT_build.md":
        template(project, f"{{#\n{text}#}}\n{TEMPLATE}")
    elif place in files:
        (files[place] / place.replace("home", ".ralph.env")).write_text(text)
    run = project.build(env=settings if place == "environment" else {})
    assert (run.code, len(agent.calls)) == (1, 1), run.text
    assert "iteration 1 of at most 7" in run.stdout


def test_files_and_folders_can_be_set_in_the_environment(project: Project, agent: Agent) -> None:
    (project.root / "mine").mkdir()
    (project.root / "mine" / "PROMPT_build.md").write_text("Mine.\n")
    agent.story(step(), progress="state.md")
    env = {"RALPH_PROMPTS": "mine", "RALPH_PROGRESS_FILE": "state.md", "RALPH_EFFORT": "low", "RALPH_MAX_TURNS": "9"}
    assert project.build("1", env=env).code == 3
    assert agent.prompts[0].strip() == "Mine."
    argv = agent.calls[0].argv
    assert (option(argv, "--effort"), option(argv, "--max-turns")) == ("low", "9")
    assert (project.root / "state.md").exists()
    assert not project.progress.exists()


def test_what_the_agent_is_told_by_default(project: Project, agent: Agent) -> None:
    agent.story(step())
    project.build("1")
    expected = ["-p", "--dangerously-skip-permissions", "--verbose", "--output-format", "stream-json"]
    assert agent.calls[0].argv == expected


def test_what_the_agent_is_told_when_it_is_set(project: Project, agent: Agent) -> None:
    agent.story(step())
    project.build("1", "--model", "opus", "--effort", "high", "--max-turns", "7")
    told = [option(agent.calls[0].argv, name) for name in ("--model", "--effort", "--max-turns")]
    assert told == ["opus", "high", "7"]


def test_an_env_file_is_read_and_neither_executed_nor_expanded(project: Project) -> None:
    written = "\ufeff# mine\r\n\r\n  export RALPH_EFFORT = 'low'  # for now\r\nOTHER=$(touch pwned)`touch pwned`\r\n"
    (project.home / ".ralph.env").write_bytes(f"{written}RALPH_MODEL='$HOME ${{HOME}}'\n".encode())
    command, _ = shown(project)
    assert (option(command, "--effort"), option(command, "--model")) == ("low", "$HOME ${HOME}")
    assert not (project.root / "pwned").exists()


@pytest.mark.parametrize(
    ("plan", "obeyed"),
    [
        pytest.param("RALPH_MODEL: opus", True, id="on its own line"),
        pytest.param("RALPH_MODEL: opus  \r", True, id="with blanks and from Windows"),
        pytest.param("```\nx\n```\nRALPH_MODEL: opus", True, id="after a fence"),
        pytest.param("```\nRALPH_MODEL: opus\n```", False, id="in a fence"),
        pytest.param("~~~~\nRALPH_MODEL: opus\n~~~~", False, id="in a tilde fence"),
        pytest.param("````\n```\nRALPH_MODEL: opus\n```\n````", False, id="in a fence in a fence"),
        pytest.param("Set `RALPH_MODEL: opus` here", False, id="in a sentence"),
        pytest.param("- RALPH_MODEL: opus", False, id="in a list"),
        pytest.param("```\nRALPH_MODEL: opus", True, id="after a fence that is never closed"),
    ],
)
def test_a_directive_stands_on_a_line_of_its_own(plan: str, *, obeyed: bool) -> None:
    given = of_plan(f"# Plan\n\n{plan}\n".encode(), "feature.md")
    assert [(one.variable, one.text.strip()) for one in given] == [("RALPH_MODEL", "opus")] * obeyed


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        pytest.param("Nothing.", False, id="commits unless told otherwise"),
        pytest.param("DO_NOT_COMMIT", True, id="told so in the plan"),
        pytest.param(" DO_NOT_COMMIT \t", True, id="with blanks around it"),
        pytest.param("```\nDO_NOT_COMMIT\n```", False, id="not in a fence"),
        pytest.param("~~~\nDO_NOT_COMMIT\n~~~", False, id="nor in a tilde fence"),
        pytest.param("do_not_commit", False, id="nor in lower case"),
        pytest.param("Never write DO_NOT_COMMIT.", False, id="nor in a sentence"),
        pytest.param("```\nDO_NOT_COMMIT", True, id="but after a fence that is never closed"),
        pytest.param("RALPH_AUTO_COMMIT: false", True, id="or as a directive"),
    ],
)
def test_a_plan_can_say_not_to_commit(plan: str, *, said: bool) -> None:
    given = of_plan(f"# Plan\n\n{plan}\n".encode(), "feature.md")
    assert [(one.variable, one.text.strip()) for one in given] == [("RALPH_AUTO_COMMIT", "false")] * said


@pytest.mark.parametrize(
    ("plan", "commits"), [("Nothing.", "true"), ("DO_NOT_COMMIT", "false"), ("RALPH_AUTO_COMMIT: false", "false")]
)
def test_the_agent_is_told_what_the_plan_says(project: Project, plan: str, commits: str) -> None:
    (project.root / "feature.md").write_text(f"# Plan\n\n{plan}\n")
    template(project, TEMPLATE)
    assert f"Commit: {commits}." in shown(project)[1]


@pytest.mark.parametrize(
    "args",
    [("--no-auto-commit",), ("--auto-commit", "--no-auto-commit")],
)
def test_the_command_line_can_say_so_too(project: Project, args: tuple[str, ...]) -> None:
    template(project, TEMPLATE)
    assert "Commit: false." in shown(project, *args)[1]


def test_the_home_of_a_person_may_name_the_agent(project: Project, agent: Agent) -> None:
    agent.install(project.root / "mine")
    (project.home / ".ralph.env").write_text("RALPH_AGENT=./mine --flag\n")
    agent.story(step())
    assert project.build("1").code == 3
    assert agent.calls[0].argv == ["--flag"]


@pytest.mark.parametrize(("mode", "warned"), [(0o640, True), (0o600, False)])
def test_secrets_that_others_can_read_are_worth_a_warning(
    project: Project, agent: Agent, mode: int, *, warned: bool
) -> None:
    (project.home / ".ralph.env").write_text("RALPH_MAX_ITERATIONS=1\n")
    (project.home / ".ralph.env").chmod(mode)
    agent.story(step())
    run = project.build()
    assert run.code == 3
    assert ("chmod 600" in run.stderr) == warned


class TestConfigCommit:
    def test_sets_it_for_good_and_tells_how_it_stands(self, project: Project) -> None:
        template(project, TEMPLATE)
        for word, other, commits in (("off", "on", "false"), ("on", "off", "true")):
            assert project.ralph("config", "commit", word).code == 0
            status = project.ralph("config", "commit", "status")
            assert status.code == 0
            assert f" {word}" in f" {status.stdout}".replace("\n", " ")
            assert f" {other} " not in f" {status.stdout}".replace("\n", " ")
            assert f"Commit: {commits}." in shown(project)[1]

    def test_keeps_the_rest_of_the_file(self, project: Project) -> None:
        file = project.home / ".ralph.env"
        file.write_text('# mine\nexport RALPH_AUTO_COMMIT="true"\nRALPH_MODEL=opus\nexport OTHER=x')
        assert project.ralph("config", "commit", "off").code == 0
        lines = file.read_text().splitlines()
        assert [lines[0], *lines[2:]] == ["# mine", "RALPH_MODEL=opus", "export OTHER=x"]
        assert "false" in lines[1]

    def test_writes_a_private_file(self, project: Project) -> None:
        project.ralph("config", "commit", "off")
        assert (project.home / ".ralph.env").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("args", [(), ("commit",), ("commit", "perhaps"), ("colour", "on")])
    def test_says_how_it_is_used(self, project: Project, args: tuple[str, ...]) -> None:
        run = project.ralph("config", *args)
        assert run.code == 2
        assert "commit" in run.text
        assert not (project.home / ".ralph.env").exists()
