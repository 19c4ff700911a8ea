"""The settings of strict mode: one stands alone, one adds up, some are a choice of words, and two conflict."""

import shlex
from collections.abc import Mapping, Sequence

import pytest
from ralph_driver import Project
from stories import Agent

SAYS = "strict {{ STRICT }}; only {{ ONLY | join(' | ') }}; verify {{ VERIFY }}; history {{ HISTORY_FILE }};\n"


def shown(project: Project, *args: str, env: Mapping[str, str] | None = None) -> tuple[list[str], str]:
    """The command that a build would start, and what it would be told by templates that tell the settings."""
    for mode in ("build", "task"):
        template = project.root / ".ralph" / f"PROMPT_{mode}.md"
        template.parent.mkdir(exist_ok=True)
        if not template.exists():
            template.write_text(f"Of {mode}: {SAYS}")
    project.has_tasks("one: The first")
    run = project.ralph("feature.md", "build", "--dry-run", *args, env=env)
    assert (run.code, run.stderr) == (0, ""), run.text
    command, _, prompt = run.stdout.partition("\n\n")
    return shlex.split(command), prompt


def plan(project: Project, *lines: str) -> None:
    (project.root / "feature.md").write_text("# Plan\n\n" + "".join(f"{line}\n" for line in lines))


class TestStrict:
    @pytest.mark.parametrize(
        ("line", "args", "env", "strict"),
        [
            pytest.param("", (), {}, False, id="is off"),
            pytest.param("", ("--strict",), {}, True, id="stands alone on the command line"),
            pytest.param("", (), {"RALPH_STRICT": "true"}, True, id="has a value in the environment"),
            pytest.param("RALPH_STRICT: true", (), {}, True, id="and in the plan"),
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

    def test_takes_no_word_as_its_value(self, project: Project) -> None:
        project.has_tasks("one: The first")
        assert project.ralph("--strict", "feature.md", "--dry-run", "--strict", "build").code == 0

    def test_that_makes_no_sense_is_told_once(self, project: Project) -> None:
        run = project.ralph("feature.md", env={"RALPH_STRICT": "perhaps"})
        assert (run.code, run.stderr) == (2, 'ralph: environment: RALPH_STRICT: "perhaps": write true or false\n')


class TestOnly:
    @pytest.mark.parametrize(
        ("args", "only"),
        [
            pytest.param((), "", id="nothing"),
            pytest.param(("--only", "tests/**"), "tests/**", id="one pattern"),
            pytest.param(("--only", "tests/**", "--only=*.md"), "tests/** | *.md", id="several add up"),
            pytest.param(("--only", "my tests/it's"), "my tests/it's", id="each as it stands, with blanks and quotes"),
            pytest.param(("--only", "./docs"), "docs", id="one that begins here"),
        ],
    )
    def test_on_the_command_line(self, project: Project, args: Sequence[str], only: str) -> None:
        assert f"only {only};" in shown(project, *args)[1]

    @pytest.mark.parametrize("place", ["feature.md", ".ralph.env", "~/.ralph.env", ".ralph/PROMPT_build.md"])
    def test_its_lines_in_a_file_add_up_and_each_may_hold_several(self, project: Project, place: str) -> None:
        sign, quote = ("=", '"') if place.endswith("env") else (": ", "")
        lines = f"RALPH_ONLY{sign}tests/** docs\nRALPH_ONLY{sign}{quote}'my tests'{quote}\n"
        file = project.home / ".ralph.env" if place[0] == "~" else project.root / place
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{{#\n{lines}#}}\n{SAYS}" if "PROMPT" in place else lines)
        _, prompt = shown(project)
        only = prompt.partition("only ")[2].partition(";")[0]
        assert sorted(only.split(" | ")) == ["docs", "my tests", "tests/**"]

    @pytest.mark.parametrize(
        ("args", "env", "only"),
        [
            pytest.param((), {}, "plan", id="the plan before the person's file"),
            pytest.param((), {"RALPH_ONLY": " "}, "plan", id="an environment that says nothing does not count"),
            pytest.param((), {"RALPH_ONLY": "here there"}, "here | there", id="the environment before the plan"),
            pytest.param(("--only", "**"), {"RALPH_ONLY": "here"}, "**", id="the command line before all"),
        ],
    )
    def test_the_strongest_place_wins_as_a_whole(
        self, project: Project, args: Sequence[str], env: Mapping[str, str], only: str
    ) -> None:
        plan(project, "RALPH_ONLY: plan")
        (project.home / ".ralph.env").write_text("RALPH_ONLY=home\n")
        assert f"only {only};" in shown(project, *args, env=env)[1]

    @pytest.mark.parametrize("pattern", ["/etc/*", "../x", "a/../../b", ""])
    def test_does_not_lead_out_of_the_project(self, project: Project, agent: Agent, pattern: str) -> None:
        run = project.build("1", "--only", pattern)
        assert (run.code, agent.calls) == (2, [])
        assert run.stderr.startswith(f'ralph: --only: "{pattern}" is '), run.text

    def test_an_open_quote_is_told_with_its_line(self, project: Project) -> None:
        plan(project, "RALPH_ONLY: 'tests")
        assert project.build("1").stderr.startswith('ralph: feature.md:3: RALPH_ONLY: "\'tests": cannot be split')


class TestEffort:
    @pytest.mark.parametrize(
        ("args", "told"),
        [
            pytest.param(("--reasoning", "high"), "high", id="has the name that ralph1 gave it"),
            pytest.param(("--reasoning", "med"), "medium", id="and its words"),
            pytest.param(("--effort", "MAX"), "max", id="in any case"),
        ],
    )
    def test_is_told_the_agent(self, project: Project, args: Sequence[str], told: str) -> None:
        command, _ = shown(project, *args)
        assert command[-2:] == ["--effort", told]

    def test_none_is_no_word_for_the_agent(self, project: Project) -> None:
        """It takes the word and ignores it; tests/test_real_claude.py shows what works."""
        command, _ = shown(project, "--effort", "none")
        assert command[:2] == ["MAX_THINKING_TOKENS=0", "claude"], "as a shell would take it"
        assert "--effort" not in command

    def test_none_is_for_claude_alone(self, project: Project, agent: Agent) -> None:
        agent.install(project.root / "mine")
        run = project.build("1", "--agent", "./mine", "--effort", "none")
        assert (run.code, agent.calls) == (2, [])
        assert "only claude understands" in run.stderr


def test_what_the_agent_is_told_of_the_others(project: Project) -> None:
    _, prompt = shown(project, "--strict", "--verify", "make {{ test }}", "--history", "../tries.jsonl")
    assert f"verify make {{{{ test }}}}; history {project.root}/../tries.jsonl;" in prompt


CONFLICT = ("--on-failure", "restore", "--no-auto-commit")


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("option", "value", "allowed"),
        [
            ("max-tries", "0", "from 1, or off"),
            ("on-failure", "drop", "keep or restore"),
            ("on-tamper", "ignore", "undo or abort"),
            ("criteria", "hard", "lenient or strict"),
            ("base-url", "localhost:8000", "https://"),
            ("history", "", "is empty"),
        ],
    )
    def test_with_what_is_allowed(self, project: Project, agent: Agent, option: str, value: str, allowed: str) -> None:
        run = project.build("1", f"--{option}", value)
        assert (run.code, agent.calls) == (2, [])
        assert run.stderr.startswith(f'ralph: --{option}: "{value}"')
        assert allowed in run.stderr

    @pytest.mark.parametrize(("option", "value"), [("effort", "ultra"), ("reasoning", "wrong")])
    def test_with_both_names_of_an_option(self, project: Project, option: str, value: str) -> None:
        allowed = "write none, low, medium (or med), high, xhigh or max"
        run = project.build("1", f"--{option}", value)
        assert (run.code, run.stderr) == (2, f'ralph: --effort (or --reasoning): "{value}": {allowed}\n')

    @pytest.mark.parametrize("place", ["environment", "feature.md", ".ralph.env"])
    @pytest.mark.parametrize(("alias", "name"), [("REASONING=med", "EFFORT"), ("DURATION=4h", "MAX_TIME")])
    def test_a_name_that_only_an_option_has(self, project: Project, place: str, alias: str, name: str) -> None:
        variable, _, value = f"RALPH_{alias}".partition("=")
        if place == "feature.md":
            plan(project, f"{variable}: {value}")
        elif place == ".ralph.env":
            (project.root / place).write_text(f"{variable}={value}\n")
        run = project.build("1", env={variable: value} if place == "environment" else None)
        assert run.code == 2
        assert f"{variable} is no setting; did you mean RALPH_{name}?" in run.stderr

    def test_a_history_in_a_template_comes_too_late(self, project: Project) -> None:
        (project.root / ".ralph").mkdir()
        (project.root / ".ralph" / "PROMPT_build.md").write_text("{# RALPH_HISTORY: x #}\nHello.\n")
        assert "RALPH_HISTORY comes too late in a template" in project.build("1").stderr

    def test_going_back_to_a_good_commit_where_none_is_made(self, project: Project, agent: Agent) -> None:
        plan(project, "DO_NOT_COMMIT", "RALPH_DELAY: soon")
        run = project.build("1", "--strict", "--on-failure", "restore")
        assert (run.code, agent.calls) == (2, [])
        delay, conflict = run.stderr.splitlines()
        assert "RALPH_DELAY" in delay, "with all other problems"
        assert conflict.startswith("ralph: --on-failure: restore goes back to a good commit, and feature.md:3 forbids")

    def test_but_not_where_neither_has_an_effect(self, project: Project) -> None:
        shown(project, *CONFLICT)

    def test_and_the_doctor_tells_it_as_one_check(self, project: Project) -> None:
        run = project.ralph("doctor", "feature.md", "--strict", *CONFLICT)
        assert "Traceback" not in run.text
        assert run.stdout.count("forbids commits") == 1


def test_the_doctor_tells_all_patterns_of_a_command_line(project: Project) -> None:
    run = project.ralph("doctor", "feature.md", "--strict", "--only", "a", "--only", "b c")
    assert "only a b c (--only)" in run.stdout
    assert "strict true (--strict)" in run.stdout


def test_what_the_environment_says_can_be_written_into_a_crontab(project: Project) -> None:
    env = {"RALPH_STRICT": "yes", "RALPH_ONLY": "tests/** 'my docs'"}
    run = project.ralph("doctor", "feature.md", env=env)
    assert "ralph feature.md build --strict --only 'tests/**' --only 'my docs'" in run.stdout
    assert "--no-strict" in project.ralph("doctor", "feature.md", env={**env, "RALPH_STRICT": "no"}).stdout
