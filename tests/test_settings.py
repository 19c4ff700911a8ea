"""Settings: one name everywhere, who wins, what they do, and what is refused, all problems in one go."""

import re
import shlex
from collections.abc import Mapping

import pytest
from ralph_driver import Project
from stories import Agent, step

from ralph.settings import Given, Source, resolve
from ralph.sources import of_plan

SAYS = (
    "commit {{ AUTO_COMMIT }}; strict {{ STRICT }}; only {{ ONLY | join(' | ') }}; verify {{ VERIFY }}; "
    "history {{ HISTORY_FILE }}; {{ DENIED | join(' ') }}\n"
)


def shown(project: Project, *args: str, env: Mapping[str, str] | None = None) -> str:
    """The command that a build would start, and what it would be told by templates that tell the settings."""
    for mode in ("build", "task"):
        if not (project.root / ".ralph" / f"PROMPT_{mode}.md").exists():
            template(project, f"Of {mode}: {SAYS}", mode)
    project.has_tasks("one: The first")
    run = project.ralph("feature.md", "build", "--dry-run", *args, env=env)
    assert (run.code, run.stderr) == (0, ""), run.text
    return run.stdout


def template(project: Project, text: str, mode: str = "build") -> None:
    file = project.root / ".ralph" / f"PROMPT_{mode}.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def plan(project: Project, *lines: str) -> None:
    (project.root / "feature.md").write_text("# Plan\n\n" + "".join(f"{line}\n" for line in lines))


LEVELS = ["command line", "environment", "plan", "./.ralph.env", "~/.ralph.env", "template"]


@pytest.mark.parametrize("strongest", range(len(LEVELS)), ids=LEVELS)
def test_each_level_beats_those_after_it(project: Project, strongest: int) -> None:
    args = ["--max-turns", "1"] if strongest == 0 else []
    env = {"RALPH_MAX_TURNS": "2"} if strongest <= 1 else {}
    if strongest <= 2:
        plan(project, "RALPH_MAX_TURNS: 3")
    if strongest <= 3:
        (project.root / ".ralph.env").write_text("RALPH_MAX_TURNS=4\n")
    if strongest <= 4:
        (project.home / ".ralph.env").write_text("RALPH_MAX_TURNS=5\n")
    template(project, f"{{#\nRALPH_MAX_TURNS: 6\n#}}\n{SAYS}")
    assert f"--max-turns {strongest + 1}\n" in shown(project, *args, env=env)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("RALPH_MODEL: opus  \r", ["RALPH_MODEL=opus"], id="on its own line, from Windows"),
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


NONE: dict[str, str] = {}


@pytest.mark.parametrize(
    ("line", "args", "env", "told"),
    [
        pytest.param("", "", NONE, "commit true; strict false; only ; verify ; history ;", id="unless told otherwise"),
        pytest.param("RALPH_AUTO_COMMIT: false", "", NONE, "commit false;", id="a directive"),
        pytest.param("RALPH_AUTO_COMMIT: true\nDO_NOT_COMMIT", "", NONE, "commit false;", id="the word is stronger"),
        pytest.param("DO_NOT_COMMIT", "", {"RALPH_AUTO_COMMIT": "true"}, "commit false;", id="than the environment"),
        pytest.param("DO_NOT_COMMIT", "--auto-commit", NONE, "commit true;", id="but not than the command line"),
        pytest.param("", "--auto-commit --no-auto-commit", NONE, "commit false;", id="of which the last counts"),
        pytest.param("RALPH_STRICT: yes", "", NONE, "Of task: commit true; strict true;", id="a prompt for tasks"),
        pytest.param("RALPH_STRICT: true", "", {"RALPH_STRICT": "no"}, "Of build: commit true; strict", id="or not"),
        pytest.param("", "--strict --verify 'a {{ b }}'", NONE, "verify a {{ b }};", id="a text is no template"),
        pytest.param("RALPH_ONLY: a", "", {"RALPH_ONLY": " "}, "only a;", id="an environment that says nothing"),
        pytest.param("RALPH_ONLY: a", "", {"RALPH_ONLY": "b c"}, "only b | c;", id="one that says two"),
        pytest.param(
            "", '--only "./a b/it\'s" --only=*.md', {"RALPH_ONLY": "c"}, "only a b/it's | *.md;", id="as it is"
        ),
        pytest.param("RALPH_ONLY: a b\nRALPH_ONLY: 'c d'", "", NONE, "only a | b | c d;", id="lines add up"),
        pytest.param("", "--reasoning medium", NONE, "--effort medium\n", id="the name of ralph1"),
        pytest.param("RALPH_DENY: git-write", "--auto-commit", NONE, "commit false;", id="who may not commit does not"),
        pytest.param("", "--strict --deny git-write", NONE, "commit true;", id="but ralph does"),
        pytest.param("", "--deny not-uv,Write", NONE, "`uv sync`, `uv run pytest`) `Write`", id="what to do instead"),
        pytest.param(
            "", "--deny 'Write, Bash(x y:*)'", NONE, "'--disallowedTools=Write,Bash(x y:*)'\n", id="to claude"
        ),
        pytest.param("", "", {"RALPH_REASONING": "MAX"}, "--effort max\n", id="as a variable, in any case"),
        pytest.param("", "--effort none", NONE, "MAX_THINKING_TOKENS=0 claude -p", id="a word that claude ignores"),
    ],
)
def test_who_decides(project: Project, line: str, args: str, env: Mapping[str, str], told: str) -> None:
    plan(project, *line.splitlines())
    (project.home / ".ralph.env").write_text("# quiet\n")
    (project.home / ".ralph.env").chmod(0o600)
    assert told in shown(project, *shlex.split(args), env=env)


@pytest.mark.parametrize(
    ("of_template", "line", "args", "told"),
    [
        pytest.param(
            "RALPH_MODEL: haiku", "RALPH_MODEL: opus", "", "--model haiku\n", id="the model is the mode's own"
        ),
        pytest.param("RALPH_REASONING: low", "", "--effort max", "--effort max\n", id="but on the command line"),
        pytest.param("RALPH_ONLY: t/**", "", "", "only t/**;", id="what only the template limits"),
        pytest.param(
            "RALPH_ONLY: t/** u", "RALPH_ONLY: a b", "", "only a & t/** | a & u | b & t/** | b & u;", id="both"
        ),
        pytest.param("RALPH_ONLY: t", "", "--only 'a b'", "only a b & t;", id="also than the command line allows"),
    ],
)
def test_a_template_says_what_its_mode_is_and_narrows_what_others_allow(
    project: Project, of_template: str, line: str, args: str, told: str
) -> None:
    template(project, f"{{#\n{of_template}\n#}}\n{SAYS}")
    plan(project, line)
    assert told in shown(project, *shlex.split(args))


def test_a_list_is_what_a_place_names() -> None:
    for variable, narrows, allows, counts in (
        ("RALPH_ONLY", "none", "src/**", (("src/**",), ())),
        ("RALPH_ONLY", "", "none", ((),)),
        ("RALPH_TOOLS", "Read, Grep", "Bash,Read", (("Bash", "Read"), ("Read", "Grep"))),
        ("RALPH_TOOLS", "", "", ()),
        ("RALPH_DENY", "Bash(git push:*), Write", "WebFetch", ("WebFetch", "Bash(git push:*)", "Write")),
        ("RALPH_ROLES", "", "test,build review", ("test", "build", "review")),
    ):
        given = [Given(variable, narrows, Source.TEMPLATE, "here"), Given(variable, allows, Source.PLAN, "there")]
        assert getattr(resolve([one for one in given if one.text]), variable[6:].lower()) == counts


def test_what_the_agent_is_told(project: Project, agent: Agent) -> None:
    (project.root / "mine").mkdir()
    (project.root / "mine" / "PROMPT_build.md").write_text("Mine.\n")
    agent.story(step(), step(), progress="state.md")
    env = {"RALPH_PROMPTS": "mine", "RALPH_PROGRESS_FILE": "state.md"}
    assert project.build("1", env=env).code == 3
    always = ["-p", "--dangerously-skip-permissions", "--verbose", "--output-format", "stream-json"]
    assert (agent.calls[0].argv, agent.prompts[0].strip()) == (always, "Mine.")
    assert (project.root / "state.md").exists()
    assert not project.progress.exists()
    more = ["--model", "opus", "--effort", "high", "--max-turns", "7"]
    project.build("1", *more, env=env)
    assert sorted(agent.calls[1].argv) == sorted(always + more)


def test_an_env_file_is_read_and_neither_executed_nor_expanded(project: Project) -> None:
    written = "\ufeff# mine\r\n\r\n  export RALPH_EFFORT = 'low'  # for now\r\nOTHER=$(touch pwned)`touch pwned`\r\n"
    (project.root / ".ralph.env").write_text('RALPH_ONLY="a b"\nRALPH_ONLY="\'c d\'"\n')
    (project.home / ".ralph.env").write_bytes(f"{written}RALPH_MODEL='$HOME ${{HOME}}'\nRALPH_ONLY=e\n".encode())
    (project.home / ".ralph.env").chmod(0o600)
    told = shown(project)
    assert "--model '$HOME ${HOME}' --effort low\n" in told
    assert "only c d | a | b;" in told, "the strongest place, as a whole"
    assert not (project.root / "pwned").exists()


NO_SENSE = [
    ("max-iterations", "1.5", "unlimited"),
    ("max-failures", "many", "off"),
    ("max-turns", "0", "from 1"),
    ("max-tries", "0", "from 1, off or unlimited"),
    ("delay", "soon", "2s"),
    ("iteration-timeout", "1h30", "1h30m"),
    ("max-time", "0", "90m, 4h or 1h30m, off or unlimited"),
    ("max-cost", "lots", "such as 5 or 2.50, off or unlimited"),
    ("max-total-cost", "-1", "such as 5 or 2.50"),
    ("max-context", "200%", "60%"),
    ("effort", "ultra", "write none or low or medium or high or xhigh or max"),
    ("on-failure", "drop", "keep or restore"),
    ("base-url", "localhost:8000", "https://"),
    ("only", "../x", "a pattern of files"),
    ("tools", "Bash(git", "names such as Read"),
    ("deny", "Write,git-wirte", "git-wirte is no list; there are git-write, not-uv"),
]


class TestWhatIsRefused:
    def test_a_value_that_makes_no_sense_is_told_with_what_is_allowed(self, project: Project, agent: Agent) -> None:
        words = [word for name, value, _ in NO_SENSE for word in (f"--{name}", value)]
        told = [rf'^ralph: --{name}: "{re.escape(value)}": .*{allowed}' for name, value, allowed in NO_SENSE]
        run = project.ralph("feature.md", *words)
        assert (run.code, agent.calls) == (2, []), run.text
        assert [one for one in told if not re.search(one, run.stderr, re.MULTILINE)] == [], run.stderr

    def test_all_problems_are_told_in_one_go(self, project: Project, agent: Agent) -> None:
        plan(project, "RALPH_MAX_ITERATIONS: lots", "RALPH_MAX_ITERATION: 3", "RALPH_ONLY: 'tests", "DO_NOT_COMMIT")
        (project.root / ".ralph.env").write_text("RALPH_DURATION=long\nRALPH_WAIT=perhaps\n")
        (project.home / ".ralph.env").write_text("\nRALPH_MODLE=opus\n")
        template(project, "{#\nRALPH_MAX_FAILURES: few\nRALPH_HISTORY: x\n#}\nHello.\n", "task")
        args = ("--notify-frequency", "often", "--strict")
        run = project.ralph("feature.md", *args, env={"RALPH_STALLS": "x", "RALPH_REASONING": "deep"})
        assert (run.code, agent.calls, project.progress.exists()) == (2, [], False)
        for told in (
            '--notify-frequency: "often": write a whole number from 1, off or unlimited',
            'environment: RALPH_REASONING: "deep": write none or low',
            'feature.md:3: RALPH_MAX_ITERATIONS: "lots"',
            "feature.md:4: RALPH_MAX_ITERATION is no setting; did you mean RALPH_MAX_ITERATIONS?",
            'feature.md:5: RALPH_ONLY: "\'tests": No closing quotation',
            '.ralph.env:1: RALPH_DURATION: "long": write a time',
            '.ralph.env:2: RALPH_WAIT: "perhaps": write true or false',
            f"{project.home}/.ralph.env:2: RALPH_MODLE is no setting; did you mean RALPH_MODEL?",
            '.ralph/PROMPT_task.md:2: RALPH_MAX_FAILURES: "few"',
            ".ralph/PROMPT_task.md:3: RALPH_HISTORY comes too late in a template",
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
        (project.home / ".ralph.env").write_text("RALPH_AGENT=./mine\n")
        words = ("--model", "opus", "--effort", "none", "--max-turns", "3", "--max-context", "60%", "--max-cost", "5")
        more = ("--max-iteration-cost", "5", "--max-total-cost", "5")
        run = project.build("1", *words, *more)
        assert (run.code, agent.calls, project.progress.exists()) == (2, [], False), run.text
        assert "the agent ./mine cannot do this" in run.stderr
        assert [name for name in (*words, *more)[::2] if name not in run.stderr] == []
