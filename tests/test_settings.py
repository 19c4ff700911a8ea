"""Settings: one name everywhere, who wins, what they do, and what is refused, all problems in one go."""

import shlex

import pytest
from ralph_driver import Project
from stories import Agent

from ralph.settings.sources import read_directives

SAYS = (
    "commit {{ AUTO_COMMIT }}; strict {{ STRICT }}; only {{ ONLY | join(' | ') }}; verify {{ VERIFY }}; "
    "history {{ HISTORY_FILE }}; {{ DENIED | join(' ') }}\n"
)


def says(project: Project, **where: str) -> None:
    """Writes what is said of settings into the plan, the env files of project and home, and the template."""
    (project.root / ".ralph").mkdir(exist_ok=True)
    of_template = where.get("template", "")
    for mode in ("build", "task"):
        text = f"{{#\n{of_template}\n#}}\nOf {mode}: {SAYS}"
        (project.root / ".ralph" / f"PROMPT_{mode}.md").write_text(text)
    (project.root / "feature.md").write_text(f"# Plan\n\n{where.get('plan', '')}\n")
    (project.root / ".ralph.env").write_text(where.get("file", ""))
    (project.home / ".ralph.env").write_text(where.get("home", ""))


def shown(project: Project, **said: str) -> str:
    """The command that a build would start, and what it would be told by templates that tell the settings."""
    says(project, **said)
    project.has_tasks("one: The first")
    name, _, text = said.get("env", "").partition("=")
    env = {name: text} if name else {}
    run = project.ralph("feature.md", "build", "--dry-run", *shlex.split(said.get("args", "")), env=env)
    assert (run.code, run.stderr) == (0, ""), run.text
    return run.stdout


def test_each_place_beats_those_after_it(project: Project) -> None:
    said = {"args": "--max-turns 1", "env": "RALPH_MAX_TURNS=2", "plan": "RALPH_MAX_TURNS: 3"}
    said |= {"file": "RALPH_MAX_TURNS=4\n", "home": "RALPH_MAX_TURNS=5\n", "template": "RALPH_MAX_TURNS: 6"}
    for number, strongest in enumerate([*said], 1):
        assert f"--max-turns {number}\n" in shown(project, **said), strongest
        del said[strongest]


def test_a_directive_of_a_plan_stands_on_a_line_of_its_own() -> None:
    for text, counts in {
        "RALPH_MODEL: opus  \r": ["RALPH_MODEL=opus"],
        "~~~~\nRALPH_MODEL: opus\n~~~~": [],
        "- RALPH_MODEL: opus\nSet `RALPH_MODEL: opus` here": [],
        "```\nRALPH_MODEL: after a fence that is never closed": ["RALPH_MODEL=after a fence that is never closed"],
        " DO_NOT_COMMIT \t": ["RALPH_AUTO_COMMIT=false"],
        "```\nDO_NOT_COMMIT\n```\ndo_not_commit\nNever write DO_NOT_COMMIT.": [],
    }.items():
        given = read_directives(f"# Plan\n\n{text}\n".encode(), "feature.md")
        assert [f"{one.variable}={one.text.strip()}" for one in given] == counts, text


WHO_DECIDES = {
    "unless told otherwise": ({}, "Of build: commit true; strict false; only ; verify ; history ;"),
    "the word is stronger": ({"plan": "RALPH_AUTO_COMMIT: true\nDO_NOT_COMMIT"}, "commit false;"),
    "than the environment": ({"plan": "DO_NOT_COMMIT", "env": "RALPH_AUTO_COMMIT=true"}, "commit false;"),
    "but not than the command line": ({"plan": "DO_NOT_COMMIT", "args": "--auto-commit"}, "commit true;"),
    "an environment that says nothing": ({"plan": "RALPH_ONLY: a", "env": "RALPH_ONLY= "}, "only a;"),
    "as it is": ({"args": '--only "./a b/it\'s" --only=*.md', "env": "RALPH_ONLY=c"}, "only a b/it's | *.md;"),
    "lines add up": ({"plan": "RALPH_ONLY: a b\nRALPH_ONLY: 'c d'"}, "only a | b | c d;"),
    "as a variable, in any case": ({"env": "RALPH_REASONING=MAX"}, "--effort max\n"),
    "the name of ralph1": ({"args": "--reasoning none"}, "MAX_THINKING_TOKENS=0 claude -p"),
    "who may not commit does not": ({"plan": "RALPH_DENY: git-write", "args": "--auto-commit"}, "commit false;"),
    "but ralph does": ({"args": "--strict --deny git-write"}, "Of task: commit true; strict true;"),
    "what to do instead": ({"args": "--deny not-uv,Write"}, "`uv sync`, `uv run pytest`) `Write`"),
    "the model is the mode's own": ({"template": "RALPH_MODEL: haiku", "plan": "RALPH_MODEL: opus"}, "--model haiku\n"),
    "but on the command line": ({"template": "RALPH_REASONING: low", "args": "--effort max"}, "--effort max\n"),
    "a template narrows": ({"template": "RALPH_ONLY: t/** u", "plan": "RALPH_ONLY: a"}, "only a & t/** | a & u;"),
    "also what the command line allows": ({"template": "RALPH_ONLY: t", "args": "--only 'a b'"}, "only a b & t;"),
    "to nothing": ({"template": "RALPH_ONLY: none", "plan": "RALPH_ONLY: src/**"}, "only ;"),
    "the tools": ({"template": "RALPH_TOOLS: Read, Grep", "args": "--tools Bash,Read"}, " --tools=Read\n"),
    "which may be none": ({"template": "RALPH_TOOLS: none", "args": "--tools Read"}, " --tools=\n"),
    "and denies more": (
        {"template": "RALPH_DENY: Write", "args": "--deny 'A, B(x y:*)'"},
        "'--disallowedTools=A,B(x y:*),Write'",
    ),
}


@pytest.mark.parametrize("what", WHO_DECIDES)
def test_who_decides(project: Project, what: str) -> None:
    said, told = WHO_DECIDES[what]
    assert told in shown(project, **said)


def test_an_env_file_is_read_and_neither_executed_nor_expanded(project: Project) -> None:
    written = "\ufeff# mine\r\n\r\n  export RALPH_EFFORT = 'low'  # for now\r\nOTHER=$(touch pwned)`touch pwned`\r\n"
    home = f"{written}RALPH_MODEL='$HOME ${{HOME}}'\nRALPH_ONLY=e\n"
    told = shown(project, file='RALPH_ONLY="a b"\nRALPH_ONLY="\'c d\'"\n', home=home)
    assert "--model '$HOME ${HOME}' --effort low\n" in told
    assert "only c d | a | b;" in told, "the strongest place, as a whole"
    assert not (project.root / "pwned").exists()


NO_SENSE = [
    ("max-iterations", "1.5", "write a whole number from 1, off or unlimited"),
    ("max-turns", "0", "write a whole number from 1\n"),
    ("iteration-timeout", "1h30", "write a time such as 90m, 4h or 1h30m, off or unlimited"),
    ("max-time", "0", "write a time such as"),
    ("max-cost", "lots", "write US dollars such as 5 or 2.50, off or unlimited"),
    ("max-context", "200%", "write a part of the context such as 60%"),
    ("effort", "ultra", "write none or low or medium or high or xhigh or max"),
    ("base-url", "localhost:8000", "write an address such as https://"),
    ("only", "../x", "write a pattern of files in the project"),
    ("tools", "Bash(git", "write names such as Read"),
    ("deny", "Write,git-wirte", "git-wirte is not a list; there are git-write, not-uv"),
]


def test_all_problems_are_reported_in_one_go(project: Project, agent: Agent) -> None:
    """Files of the project, which the agent can write, name neither the agent nor where notices go."""
    (project.root / "evil").write_text("touch pwned\n")
    says(
        project,
        plan="RALPH_MAX_ITERATIONS: x\nRALPH_MAX_ITERATION: 3\nRALPH_ONLY: 'tests\nDO_NOT_COMMIT\nRALPH_AGENT: sh evil",
        file="RALPH_DURATION=long\nRALPH_WAIT=perhaps\nRALPH_AGENT='sh evil'\nRALPH_SLACK_WEBHOOK_URL=http://s3cret\n",
        home="\ufeff# mine\r\n\r\n  export OTHER='two\r\nlines'  # why\r\nRALPH_MODLE=opus\n",
        template="RALPH_MAX_FAILURES: few\nRALPH_HISTORY: x\nRALPH_AGENT: sh evil\nRALPH_NTFY_TOKEN: s3cret\n"
        "RALPH_VERIFY: tru\0e",
    )
    words = [word for name, value, _ in NO_SENSE for word in (f"--{name}", value)]
    env = {"RALPH_STALLS": "x", "RALPH_REASONING": "deep", "RALPH_MAX_TYME": "8h"}
    run = project.ralph("feature.md", "--strict", *words, env=env)
    assert (run.code, agent.calls, project.progress.exists()) == (2, [], False)
    problems = [
        *(f'--{name}: "{value}": {allowed}' for name, value, allowed in NO_SENSE),
        'environment: RALPH_REASONING: "deep": write none or low',
        "environment: RALPH_MAX_TYME is not a setting; did you mean RALPH_MAX_TIME?",
        'feature.md:3: RALPH_MAX_ITERATIONS: "x"',
        "feature.md:4: RALPH_MAX_ITERATION is not a setting; did you mean RALPH_MAX_ITERATIONS?",
        'feature.md:5: RALPH_ONLY: "\'tests": No closing quotation',
        "feature.md:7: RALPH_AGENT belongs on the command line",
        '.ralph.env:1: RALPH_DURATION: "long": write a time',
        '.ralph.env:2: RALPH_WAIT: "perhaps": write true or false',
        ".ralph.env:3: RALPH_AGENT belongs on the command line",
        ".ralph.env:4: RALPH_SLACK_WEBHOOK_URL belongs on the command line",
        f"{project.home}/.ralph.env:5: RALPH_MODLE is not a setting; did you mean RALPH_MODEL?",
        '.ralph/PROMPT_task.md:2: RALPH_MAX_FAILURES: "few"',
        ".ralph/PROMPT_task.md:3: RALPH_HISTORY comes too late in a template",
        ".ralph/PROMPT_task.md:4: RALPH_AGENT belongs on the command line",
        ".ralph/PROMPT_task.md:5: RALPH_NTFY_TOKEN belongs on the command line",
        '.ralph/PROMPT_task.md:6: RALPH_VERIFY: "tru\ufffde": write something, without NUL bytes',
    ]
    assert [told for told in problems if f"ralph: {told}" not in run.stderr] == [], run.stderr
    assert len(run.stderr.splitlines()) == len(problems), "RALPH_STALLS is nobody's business"
    assert ("s3cret" in run.stderr, (project.root / "pwned").exists()) == (False, False)
    (project.home / ".ralph.env").write_text('RALPH_WAIT=no\n\n\nRALPH_X="s3cret\n')
    run = project.ralph("feature.md")
    open_quote = 'not NAME="value" (a quote left open?); fix that first'
    assert run.stderr == f"ralph: {project.home}/.ralph.env:4: {open_quote}\n"


def test_what_has_no_effect_alone_is_refused_where_it_was_asked_for_and_remarked_in_files(
    project: Project, agent: Agent
) -> None:
    """In a role, a rehearsal or an attempt under --jobs it has one: their stories would fail."""
    project.has_tasks("one")
    for args, what, needed in (
        ("--max-agents 20", "--jobs", "--strict"),
        ("--no-strict --task x --on-failure keep", "--task, --on-failure", "--strict"),
        ("--strict --setup true", "--setup", "--jobs"),
        ("--setup true", "--setup", "--strict --jobs"),
    ):
        no_effect = f": no effect without {needed}; add {needed} or leave that out\n"
        run = project.ralph("feature.md", "build", *shlex.split(args))
        assert (run.code, agent.calls) == (2, [])
        assert run.text == "".join(f"ralph: {one}{no_effect}" for one in what.split(", "))
    assert "--jobs: no effect" in project.ralph("doctor", "feature.md", "--jobs", "2").stdout
    says(project, plan="RALPH_MAX_TRIES: 2\nRALPH_JOBS: 2\nRALPH_SETUP: true", file="RALPH_ROLES=build\n")
    places = [f"feature.md:{line}: RALPH_{name}" for line, name in ((3, "MAX_TRIES"), (4, "JOBS"), (5, "SETUP"))]
    for words in (["doctor", "feature.md"], ["feature.md", "--dry-run"], ["feature.md", "--max-iterations", "1"]):
        run = project.ralph(*words)
        for place in (*places, ".ralph.env:1: RALPH_ROLES"):
            assert " ".join(run.text.split()).count(f"{place}: no effect without --strict") == 1, run.text
    assert "build" in agent.prompts[-1]
    run = project.ralph("feature.md", "build", "--keep-clones")
    assert (run.code, "--keep-clones: no effect without --strict" in run.text) == (2, True), "a plan's jobs have none"
