"""Settings: one name everywhere, who wins, what they do, and what is refused, all problems in one go."""

import re
import shlex
from collections.abc import Mapping, Sequence

import pytest
from ralph_driver import Project
from stories import Agent, step

from ralph.sources import of_plan

SAYS = (
    "commit {{ AUTO_COMMIT }}; strict {{ STRICT }}; only {{ ONLY | join(' | ') }}; verify {{ VERIFY }}; "
    "history {{ HISTORY_FILE }};\n"
)


def shown(project: Project, *args: str, env: Mapping[str, str] | None = None) -> tuple[list[str], str]:
    """The command that a build would start, and what it would be told by templates that tell the settings."""
    for mode in ("build", "task"):
        template(project, f"Of {mode}: {SAYS}", mode, only_new=True)
    project.has_tasks("one: The first")
    run = project.ralph("feature.md", "build", "--dry-run", *args, env=env)
    assert (run.code, run.stderr) == (0, ""), run.text
    command, _, prompt = run.stdout.partition("\n\n")
    return shlex.split(command), prompt


def template(project: Project, text: str, mode: str = "build", *, only_new: bool = False) -> None:
    file = project.root / ".ralph" / f"PROMPT_{mode}.md"
    file.parent.mkdir(exist_ok=True)
    if not (only_new and file.exists()):
        file.write_text(text)


def plan(project: Project, *lines: str) -> None:
    (project.root / "feature.md").write_text("# Plan\n\n" + "".join(f"{line}\n" for line in lines))


def option(argv: list[str], name: str) -> str | None:
    """What stands after this option."""
    return argv[argv.index(name) + 1] if name in argv else None


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
        plan(project, "RALPH_MODEL: plan")
    if strongest <= 3:
        (project.root / ".ralph.env").write_text("RALPH_MODEL=./.ralph.env\n")
    if strongest <= 4:
        (project.home / ".ralph.env").write_text("RALPH_MODEL=~/.ralph.env\n")
    template(project, f"{{#\nRALPH_MODEL: template\n#}}\n{SAYS}")
    command, _ = shown(project, *args, env=env)
    assert option(command, "--model") == LEVELS[strongest].replace(" ", "-")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("RALPH_MODEL: opus  \r", ["RALPH_MODEL=opus"], id="on its own line, from Windows"),
        pytest.param("```\nx\n```\nRALPH_MODEL: opus", ["RALPH_MODEL=opus"], id="after a fence"),
        pytest.param("~~~~\nRALPH_MODEL: opus\n~~~~", [], id="in a fence"),
        pytest.param("````\n```\nRALPH_MODEL: opus\n```\n````", [], id="in a fence in a fence"),
        pytest.param("- RALPH_MODEL: opus\nSet `RALPH_MODEL: opus` here", [], id="in a list, in a sentence"),
        pytest.param("```\nRALPH_MODEL: opus", ["RALPH_MODEL=opus"], id="after a fence that is never closed"),
        pytest.param(" DO_NOT_COMMIT \t", ["RALPH_AUTO_COMMIT=false"], id="told so in the plan"),
        pytest.param("```\nDO_NOT_COMMIT\n```\ndo_not_commit\nNever write DO_NOT_COMMIT.", [], id="not told so"),
    ],
)
def test_a_directive_of_a_plan_stands_on_a_line_of_its_own(text: str, says: list[str]) -> None:
    given = of_plan(f"# Plan\n\n{text}\n".encode(), "feature.md")
    assert [f"{one.variable}={one.text.strip()}" for one in given] == says


@pytest.mark.parametrize(
    ("lines", "args", "env", "commits"),
    [
        pytest.param((), (), {}, "true", id="unless told otherwise"),
        pytest.param(("RALPH_AUTO_COMMIT: false",), (), {}, "false", id="a directive"),
        pytest.param(("RALPH_AUTO_COMMIT: true", "DO_NOT_COMMIT"), (), {}, "false", id="the word is stronger"),
        pytest.param(("DO_NOT_COMMIT",), (), {"RALPH_AUTO_COMMIT": "true"}, "false", id="than the environment"),
        pytest.param(("DO_NOT_COMMIT",), ("--auto-commit",), {}, "true", id="but not than the command line"),
        pytest.param((), ("--auto-commit", "--no-auto-commit"), {}, "false", id="of which the last counts"),
    ],
)
def test_who_decides_about_commits(
    project: Project, lines: Sequence[str], args: Sequence[str], env: Mapping[str, str], commits: str
) -> None:
    plan(project, *lines)
    assert f"commit {commits};" in shown(project, *args, env=env)[1]


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


def test_what_the_agent_is_told(project: Project, agent: Agent) -> None:
    agent.story(step(), step())
    project.build("1")
    always = ["-p", "--dangerously-skip-permissions", "--verbose", "--output-format", "stream-json"]
    assert agent.calls[0].argv == always
    more = ["--model", "opus", "--effort", "high", "--max-turns", "7"]
    project.build("1", *more)
    assert sorted(agent.calls[1].argv) == sorted(always + more)


def test_an_env_file_is_read_and_neither_executed_nor_expanded(project: Project) -> None:
    written = "\ufeff# mine\r\n\r\n  export RALPH_EFFORT = 'low'  # for now\r\nOTHER=$(touch pwned)`touch pwned`\r\n"
    (project.home / ".ralph.env").write_bytes(f"{written}RALPH_MODEL='$HOME ${{HOME}}'\n".encode())
    command, _ = shown(project)
    assert (option(command, "--effort"), option(command, "--model")) == ("low", "$HOME ${HOME}")
    assert not (project.root / "pwned").exists()


def test_the_home_of_a_person_may_name_the_agent_and_should_be_private(project: Project, agent: Agent) -> None:
    agent.install(project.root / "mine")
    file = project.home / ".ralph.env"
    file.write_text("RALPH_AGENT=./mine --flag\n")
    agent.story(step(), repeat=True)
    for mode, warned in ((0o640, True), (0o600, False)):
        file.chmod(mode)
        run = project.build("1")
        assert (run.code, "chmod 600" in run.stderr) == (3, warned), run.text
    assert agent.calls[0].argv == ["--flag"]


class TestConfigCommit:
    def test_sets_it_for_good_in_a_private_file_and_tells_how_it_stands(self, project: Project) -> None:
        for word, commits in (("off", "false"), ("on", "true")):
            assert project.ralph("config", "commit", word).code == 0
            status = project.ralph("config", "commit", "status").stdout
            assert status.startswith(f"auto-commit is {word} ({project.home}/.ralph.env:")
            assert f"commit {commits};" in shown(project)[1]
        assert (project.home / ".ralph.env").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("args", [(), ("commit",), ("commit", "perhaps"), ("colour", "on")])
    def test_says_how_it_is_used(self, project: Project, args: tuple[str, ...]) -> None:
        run = project.ralph("config", *args)
        assert (run.code, run.stderr.count("\n"), "(see ralph config --help)" in run.stderr) == (2, 1, True)
        assert not (project.home / ".ralph.env").exists()


class TestStrict:
    @pytest.mark.parametrize(
        ("line", "args", "env", "strict"),
        [
            pytest.param("", ("--strict",), {}, True, id="stands alone on the command line"),
            pytest.param("RALPH_STRICT: true", (), {}, True, id="has a value in the plan"),
            pytest.param("RALPH_STRICT: true", (), {"RALPH_STRICT": "no"}, False, id="where the environment wins"),
            pytest.param("RALPH_STRICT: true", ("--no-strict",), {}, False, id="and the command line"),
        ],
    )
    def test_is_a_setting_like_others(
        self, project: Project, line: str, args: Sequence[str], env: Mapping[str, str], *, strict: bool
    ) -> None:
        plan(project, line)
        _, prompt = shown(project, *args, env=env)
        assert f"strict {str(strict).lower()};" in prompt
        assert prompt.startswith("Of task" if strict else "Of build"), "a task has a prompt of its own"

    def test_what_its_agent_is_told_of_other_settings(self, project: Project) -> None:
        _, prompt = shown(project, "--strict", "--verify", "make {{ test }}", "--history", "../tries.jsonl")
        assert f"verify make {{{{ test }}}}; history {project.root}/../tries.jsonl;" in prompt


class TestOnly:
    @pytest.mark.parametrize("place", ["feature.md", ".ralph.env"])
    def test_its_lines_in_a_file_add_up_and_each_may_hold_several(self, project: Project, place: str) -> None:
        sign, quote = ("=", '"') if place.endswith("env") else (": ", "")
        lines = f"RALPH_ONLY{sign}tests/** docs\nRALPH_ONLY{sign}{quote}'my tests'{quote}\n"
        (project.root / place).write_text(lines)
        only = shown(project)[1].partition("only ")[2].partition(";")[0]
        assert sorted(only.split(" | ")) == ["docs", "my tests", "tests/**"]

    @pytest.mark.parametrize(
        ("args", "env", "only"),
        [
            pytest.param((), {"RALPH_ONLY": " "}, "plan", id="an environment that says nothing does not count"),
            pytest.param((), {"RALPH_ONLY": "here there"}, "here | there", id="the environment before the plan"),
            pytest.param(
                ("--only", "./my tests/it's", "--only=*.md"),
                {"RALPH_ONLY": "here"},
                "my tests/it's | *.md",
                id="the command line before all, each pattern as it stands",
            ),
        ],
    )
    def test_the_strongest_place_wins_as_a_whole(
        self, project: Project, args: Sequence[str], env: Mapping[str, str], only: str
    ) -> None:
        plan(project, "RALPH_ONLY: plan")
        (project.home / ".ralph.env").write_text("RALPH_ONLY=home\n")
        assert f"only {only};" in shown(project, *args, env=env)[1]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param(("--reasoning", "med"), ["--effort", "medium"], id="has the name and words that ralph1 gave it"),
        pytest.param(("--effort", "MAX"), ["--effort", "max"], id="in any case"),
    ],
)
def test_effort(project: Project, args: Sequence[str], told: list[str]) -> None:
    assert shown(project, *args)[0][-2:] == told


def test_no_effort_is_no_word_for_the_agent(project: Project) -> None:
    """It takes the word and ignores it; tests/test_real_claude_settings.py shows what works."""
    command, _ = shown(project, "--effort", "none")
    assert command[:2] == ["MAX_THINKING_TOKENS=0", "claude"], "as a shell would take it"
    assert "--effort" not in command


NO_SENSE = [
    ("max-iterations", "1.5", "unlimited"),
    ("max-failures", "many", "off"),
    ("max-turns", "0", "from 1"),
    ("max-tries", "0", "from 1, or off"),
    ("delay", "soon", "2s"),
    ("iteration-timeout", "1h30", "1h30m"),
    ("max-time", "0", "90m, 4h or 1h30m, or unlimited"),
    ("max-cost", "lots", "such as 5 or 2.50, or unlimited"),
    ("max-total-cost", "-1", "such as 5 or 2.50"),
    ("max-context", "200%", "60%"),
    ("effort", "ultra", "write none, low, medium, high, xhigh or max"),
    ("on-failure", "drop", "keep or restore"),
    ("base-url", "localhost:8000", "https://"),
    ("only", "../x", "a pattern of files"),
    ("history", "", "write a path"),
    ("auto-commit", "perhaps", "true or false"),
]


class TestWhatIsRefused:
    def test_a_value_that_makes_no_sense_is_told_with_what_is_allowed(self, project: Project, agent: Agent) -> None:
        wrong = [one for one in reversed(NO_SENSE) if one[0] != "auto-commit"]
        run = project.ralph("feature.md", *(word for name, value, _ in wrong for word in (f"--{name}", value)))
        assert (run.code, agent.calls) == (2, []), run.text
        for name, value, allowed in wrong:
            told = rf'^ralph: --{name}: "{re.escape(value)}".*{allowed}'
            assert re.search(told, run.stderr, re.MULTILINE), run.stderr

    def test_and_with_its_file_and_line(self, project: Project, agent: Agent) -> None:
        wrong = [(f"RALPH_{name.upper().replace('-', '_')}", *more) for name, *more in NO_SENSE if more[0]]
        lines = [f"{name}={value}\n" for name, value, _ in wrong]
        (project.root / ".ralph.env").write_text("# mine\n\n" + "".join(lines))
        run = project.ralph("feature.md")
        assert (run.code, agent.calls) == (2, []), run.text
        for number, (name, value, allowed) in enumerate(wrong, 3):
            told = rf'^ralph: \.ralph\.env:{number}: {name}: "{re.escape(value)}".*{allowed}'
            assert re.search(told, run.stderr, re.MULTILINE), run.stderr

    def test_all_problems_are_told_in_one_go(self, project: Project, agent: Agent) -> None:
        plan(project, "RALPH_MAX_ITERATIONS: lots", "RALPH_MAX_ITERATION: 3", "RALPH_ONLY: 'tests", "DO_NOT_COMMIT")
        (project.root / ".ralph.env").write_text("RALPH_DURATION=long\n")
        (project.home / ".ralph.env").write_text("\nRALPH_MODLE=opus\n")
        template(project, "{#\nRALPH_MAX_FAILURES: few\nRALPH_HISTORY: x\n#}\nHello.\n", "task")
        args = ("--notify-frequency", "often", "--strict", "--on-failure", "restore")
        run = project.ralph("feature.md", *args, env={"RALPH_STALLS": "x", "RALPH_REASONING": "deep"})
        assert (run.code, agent.calls, project.progress.exists()) == (2, [], False)
        for told in (
            '--notify-frequency: "often": write a whole number from 1, or off',
            'environment: RALPH_REASONING: "deep": write none, low',
            'feature.md:3: RALPH_MAX_ITERATIONS: "lots"',
            "feature.md:4: RALPH_MAX_ITERATION is no setting; did you mean RALPH_MAX_ITERATIONS?",
            'feature.md:5: RALPH_ONLY: "\'tests": cannot be split',
            '.ralph.env:1: RALPH_DURATION: "long": write a time',
            f"{project.home}/.ralph.env:2: RALPH_MODLE is no setting; did you mean RALPH_MODEL?",
            '.ralph/PROMPT_task.md:2: RALPH_MAX_FAILURES: "few"',
            ".ralph/PROMPT_task.md:3: RALPH_HISTORY comes too late in a template",
            "--on-failure: restore goes back to a good commit, and feature.md:6 forbids commits; leave one of them out",
        ):
            assert f"ralph: {told}" in run.stderr, run.stderr
        assert len(run.stderr.splitlines()) == 10, "an unknown name in the environment is nobody's business"

    @pytest.mark.parametrize("place", ["feature.md", ".ralph.env", "PROMPT_build.md"])
    @pytest.mark.parametrize(
        ("name", "value"), [("RALPH_AGENT", "sh evil"), ("RALPH_SLACK_WEBHOOK_URL", "http://127.0.0.1:9/secret")]
    )
    def test_files_of_the_project_set_neither_agent_nor_secrets(
        self, project: Project, agent: Agent, place: str, name: str, value: str
    ) -> None:
        (project.root / "evil").write_text("touch pwned\n")
        if place == "PROMPT_build.md":
            template(project, f"{{# {name}: {value} #}}\n{SAYS}")
        else:
            sign = "=" if place == ".ralph.env" else ": "
            (project.root / place).write_text(f"{name}{sign}{value}\n")
        run = project.build("1")
        assert run.code == 2, run.text
        assert f"{place}:1: {name} belongs " in run.stderr
        assert "secret" not in run.text
        assert not agent.calls
        assert not (project.root / "pwned").exists()

    def test_another_agent_is_not_told_what_it_cannot_know(self, project: Project, agent: Agent) -> None:
        agent.install(project.root / "mine")
        words = ("--model", "opus", "--effort", "none", "--max-turns", "3", "--max-context", "60%", "--max-cost", "5")
        more = ("--max-iteration-cost", "5", "--max-total-cost", "5")
        run = project.build("1", "--agent", "./mine", *words, *more)
        assert (run.code, agent.calls, project.progress.exists()) == (2, [], False), run.text
        assert "only claude understands this, and the agent is ./mine" in run.stderr
        assert [name for name in (*words, *more)[::2] if name not in run.stderr] == []


def test_what_was_said_is_told_by_the_doctor_and_can_be_written_into_a_crontab(project: Project) -> None:
    env = {"RALPH_STRICT": "yes", "RALPH_ONLY": "tests/** 'my docs'"}
    run = project.ralph("doctor", "feature.md", "--verbose", env=env)
    assert "only tests/** 'my docs' (environment)" in run.stdout
    assert "RALPH_STRICT=yes RALPH_ONLY='tests/** '\"'\"'my docs'\"'\"'' PATH=" in run.stdout
    assert (
        "ralph feature.md build --no-strict --only 'my docs'"
        in project.ralph("doctor", "feature.md", "--no-strict", "--only", "my docs", env={"RALPH_MODEL": "x"}).stdout
    )
