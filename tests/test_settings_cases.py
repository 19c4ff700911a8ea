"""Settings (design section 3): one name everywhere, who wins, and every problem at once."""

from pathlib import Path

import pytest
from ralph_driver import Project
from stories import Agent, fails, step

TEMPLATE = "Work on ${PLAN_FILE}, state in ${PROGRESS_FILE}. Commit: ${AUTO_COMMIT}.\n"


def option(agent: Agent, name: str) -> str | None:
    """What the first call of the agent got for this option."""
    argv = agent.calls[0].argv
    return argv[argv.index(name) + 1] if name in argv else None


def template(project: Project, text: str) -> Path:
    file = project.root / ".ralph" / "PROMPT_build.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


LEVELS = ["command line", "environment", "plan", "./.ralph.env", "~/.ralph.env", "template"]


@pytest.mark.parametrize("strongest", range(len(LEVELS)), ids=LEVELS)
def test_each_level_beats_those_after_it(project: Project, agent: Agent, strongest: int) -> None:
    agent.story(step())
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
    run = project.build("1", *args, env=env)
    assert run.code == 3, run.text
    assert option(agent, "--model") == LEVELS[strongest].replace(" ", "-")


@pytest.mark.parametrize("place", ["environment", "feature.md", ".ralph.env", "home", "PROMPT_build.md"])
@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        pytest.param("RALPH_MAX_ITERATIONS", "1", 3, id="max-iterations"),
        pytest.param("RALPH_MAX_FAILURES", "1", 1, id="max-failures"),
    ],
)
def test_a_setting_has_the_same_name_everywhere(
    project: Project, agent: Agent, place: str, name: str, value: str, *, code: int
) -> None:
    agent.story(fails(), repeat=True)
    files = {"feature.md": project.root, ".ralph.env": project.root, "home": project.home}
    if place == "PROMPT_build.md":
        template(project, f"{{#\n{name}: {value}\n#}}\n{TEMPLATE}")
    elif place in files:
        text = f"{name}: {value}\n" if place == "feature.md" else f"{name}={value}\n"
        (files[place] / place.replace("home", ".ralph.env")).write_text(text)
    run = project.build(env={name: value} if place == "environment" else {})
    assert (run.code, len(agent.calls)) == (code, 1), run.text


def test_files_and_folders_can_be_set_in_the_environment(project: Project, agent: Agent) -> None:
    (project.root / "mine").mkdir()
    (project.root / "mine" / "PROMPT_build.md").write_text("Mine.\n")
    agent.story(step(), progress="state.md")
    env = {"RALPH_PROMPTS": "mine", "RALPH_PROGRESS_FILE": "state.md", "RALPH_EFFORT": "low", "RALPH_MAX_TURNS": "9"}
    assert project.build("1", env=env).code == 3
    assert agent.prompts[0].strip() == "Mine."
    assert (option(agent, "--effort"), option(agent, "--max-turns")) == ("low", "9")
    assert (project.root / "state.md").exists()
    assert not project.progress.exists()


def test_what_the_agent_is_told_by_default(project: Project, agent: Agent) -> None:
    agent.story(step())
    project.build("1")
    expected = ["-p", "--dangerously-skip-permissions", "--verbose", "--output-format", "stream-json"]
    assert agent.calls[0].argv == expected


@pytest.mark.parametrize(("name", "value"), [("model", "opus"), ("effort", "high"), ("max-turns", "7")])
def test_what_the_agent_is_told_when_it_is_set(project: Project, agent: Agent, name: str, value: str) -> None:
    agent.story(step())
    project.build("1", f"--{name}", value)
    assert option(agent, f"--{name}") == value


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("RALPH_MAX_ITERATIONS=1\n", id="plain"),
        pytest.param('export RALPH_MAX_ITERATIONS="1"\n', id="as the original's wizard writes it"),
        pytest.param("export RALPH_MAX_ITERATIONS='1'\r\n", id="from Windows"),
        pytest.param("\ufeffRALPH_MAX_ITERATIONS=1\n", id="with a BOM"),
        pytest.param("# mine\n\n  RALPH_MAX_ITERATIONS = 1 # one\n", id="with a comment and blanks"),
        pytest.param("OTHER=$(touch pwned)`touch pwned`\nRALPH_MAX_ITERATIONS=1\n", id="and is never executed"),
        pytest.param("RALPH_MODEL='$HOME ${HOME}'\nRALPH_MAX_ITERATIONS=1\n", id="nor expanded"),
    ],
)
def test_an_env_file_is_read(project: Project, agent: Agent, text: str) -> None:
    (project.home / ".ralph.env").write_bytes(text.encode())
    agent.story(step(), step())
    run = project.build()
    assert (run.code, len(agent.calls)) == (3, 1), run.text
    assert not (project.root / "pwned").exists()
    assert option(agent, "--model") in {None, "$HOME ${HOME}"}


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
def test_a_directive_stands_on_a_line_of_its_own(project: Project, agent: Agent, plan: str, *, obeyed: bool) -> None:
    (project.root / "feature.md").write_bytes(f"# Plan\n\n{plan}\n".encode())
    agent.story(step())
    run = project.build("1")
    assert run.code == 3, run.text
    assert option(agent, "--model") == ("opus" if obeyed else None)


@pytest.mark.parametrize(
    ("plan", "commits"),
    [
        pytest.param("Nothing.", "true", id="commits unless told otherwise"),
        pytest.param("DO_NOT_COMMIT", "false", id="told so in the plan"),
        pytest.param(" DO_NOT_COMMIT \t", "false", id="with blanks around it"),
        pytest.param("```\nDO_NOT_COMMIT\n```", "true", id="not in a fence"),
        pytest.param("~~~\nDO_NOT_COMMIT\n~~~", "true", id="nor in a tilde fence"),
        pytest.param("do_not_commit", "true", id="nor in lower case"),
        pytest.param("Never write DO_NOT_COMMIT.", "true", id="nor in a sentence"),
        pytest.param("```\nDO_NOT_COMMIT", "false", id="but after a fence that is never closed"),
        pytest.param("RALPH_AUTO_COMMIT: false", "false", id="or as a directive"),
    ],
)
def test_a_plan_can_say_not_to_commit(project: Project, agent: Agent, plan: str, commits: str) -> None:
    (project.root / "feature.md").write_text(f"# Plan\n\n{plan}\n")
    template(project, TEMPLATE)
    agent.story(step())
    project.build("1")
    assert f"Commit: {commits}." in agent.prompts[0]


@pytest.mark.parametrize(
    "args",
    [("--no-auto-commit",), ("--auto-commit", "false"), ("--auto-commit=false",)],
)
def test_the_command_line_can_say_so_too(project: Project, agent: Agent, args: tuple[str, ...]) -> None:
    template(project, TEMPLATE)
    agent.story(step())
    assert project.build("1", *args).code == 3
    assert "Commit: false." in agent.prompts[0]


def test_the_home_of_a_person_may_name_the_agent(project: Project, agent: Agent) -> None:
    agent.install(project.root / "mine")
    (project.home / ".ralph.env").write_text("RALPH_AGENT=./mine --flag\n")
    agent.story(step())
    assert project.build("1").code == 3
    assert agent.calls[0].argv == ["--flag"]


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o640, True), (0o600, False)])
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
    def test_sets_it_for_good(self, project: Project, agent: Agent) -> None:
        template(project, TEMPLATE)
        agent.story(step(), step())
        assert project.ralph("config", "commit", "off").code == 0
        project.build("1")
        assert project.ralph("config", "commit", "on").code == 0
        project.build("1")
        assert ["Commit: false." in prompt for prompt in agent.prompts] == [True, False]

    def test_tells_how_it_stands(self, project: Project) -> None:
        for word, other in (("on", "off"), ("off", "on")):
            project.ralph("config", "commit", word)
            shown = project.ralph("config", "commit", "status")
            assert shown.code == 0
            assert f" {word}" in f" {shown.stdout}".replace("\n", " ")
            assert f" {other} " not in f" {shown.stdout}".replace("\n", " ")

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
