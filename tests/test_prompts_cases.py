"""Prompts (design section 1.2 and the issue's paragraph): where a mode is found, and what the agent reads."""

import re
from pathlib import Path

import pytest
from ralph_driver import CHECKOUT, Project
from stories import Agent, step

from ralph.prompt import Prompt, Value, find

HOSTILE = ["{{ 7 * 7 }}", "{% raw %}", "${PROGRESS_FILE}", 'it\'s "quoted"', " a\\b\nü", "<b> & </b>"]


def write(folder: Path, text: str, mode: str = "build") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"PROMPT_{mode}.md"
    file.write_text(text)
    return file


def test_any_plan_name_arrives_exactly(project: Project) -> None:
    name = "$(touch pwned) {{ 7 * 7 }}\n${PROGRESS_FILE}.md"
    names = ("PLAN_FILE", "PROGRESS_FILE", "PLAN_NAME")
    write(project.root / ".ralph", "\n".join(f"{{{{ {one} }}}}\n${{{one}}}" for one in names) + "\nend")
    (project.root / name).write_text("Do it.\n")
    stem = name.removesuffix(".md")
    run = project.ralph(name, "build", "--dry-run")
    assert run.code == 0, run.text
    values = (f"{project.root / name}", f"{stem}_PROGRESS.md", stem)
    assert run.stdout.partition("\n\n")[2].strip("\n") == "".join(f"{one}\n{one}\n" for one in values) + "end"
    assert not (project.root / "pwned").exists()


def test_the_folders_are_looked_through_in_order(project: Project, agent: Agent) -> None:
    given = write(project.root / "given", "given")
    local = write(project.root / ".ralph", "local")
    own = write(project.home / ".ralph", "own")
    agent.story(step(), repeat=True)
    for file in (given, local, own):
        assert project.build("1", "--prompts", "given").code == 3
        assert agent.prompts[-1].strip() == file.read_text()
        file.unlink()
    assert project.build("1").code == 3
    assert str(project.root / "feature.md") in agent.prompts[-1], "the built-in one"


def test_the_iteration_is_told(project: Project, agent: Agent) -> None:
    write(project.root / ".ralph", "{{ ITERATION }} of {{ MAX_ITERATIONS }}")
    agent.story(step(), repeat=True)
    project.build("2")
    assert [prompt.strip() for prompt in agent.prompts] == ["1 of 2", "2 of 2"]
    project.build("1")
    assert agent.prompts[2].strip() == "3 of 1", "its number is that of the plan, the limit that of the start"
    assert project.ralph("feature.md", "5", "--dry-run").stdout.splitlines()[-1].strip() == "4 of 5"


def test_a_template_of_the_original_works_unchanged(project: Project, agent: Agent) -> None:
    text = """# Build

Read ${PLAN_FILE} and ${PROGRESS_FILE} of ${PLAN_NAME}. If ${AUTO_COMMIT} is true, commit.

```bash
echo "$HOME ${HOME} $(date) ${x:-y} {a,b} 100% {1}" | awk '{ print $1 }'
```
"""
    write(project.root / ".ralph", text)
    agent.story(step())
    assert project.build("1").code == 3
    expected = text
    values = {"PLAN_FILE": f"{project.root}/feature.md", "PROGRESS_FILE": "feature_PROGRESS.md"}
    for name, value in {**values, "PLAN_NAME": "feature", "AUTO_COMMIT": "true"}.items():
        expected = expected.replace(f"${{{name}}}", value)
    assert agent.prompts[0].strip() == expected.strip()


@pytest.mark.parametrize(
    ("text", "line", "telling"),
    [
        pytest.param("{# nothing #}\n  \n", None, "renders to nothing", id="nothing"),
        pytest.param(
            "Hi.\n{% if ITERATION > 1 %}\n{{ PLAN_FIEL }}\n{% endif %}\n", None, "PLAN_FIEL", id="one for later"
        ),
        pytest.param("Hello.\n\n{% if %}\n", 3, "", id="a mistyped tag"),
        pytest.param(
            "\n{{ PLAN_NAME.__class__.__mro__[1].__subclasses__() }}\n", None, "", id="a way out of the sandbox"
        ),
        pytest.param("{# RALPH_MODLE: opus #}\nHello.\n", 1, "RALPH_MODLE", id="a mistyped setting"),
        pytest.param("Hello.\n{{ PLAN_NAME | uper }}\n", 2, "uper", id="a mistyped filter"),
        pytest.param("${PLAN_FILE}\nps '{{.Names}}'\n", 2, "{% raw %}", id="braces of another kind"),
    ],
)
def test_a_mistake_in_a_template_is_one_clear_error_before_money_is_spent(
    project: Project, agent: Agent, text: str, line: int | None, telling: str
) -> None:
    write(project.root / ".ralph", text)
    run = project.build()
    assert run.code == 2, run.text
    assert f"PROMPT_build.md:{line or ''}" in run.stderr
    assert telling in run.stderr
    assert run.stderr.count("ralph: ") == 1
    assert "Traceback" not in run.text
    assert not agent.calls
    assert not project.progress.exists()


@pytest.mark.parametrize("text", ["{# x #}\n/clear\nHello.", "/"])
def test_a_prompt_is_no_slash_command(project: Project, text: str) -> None:
    write(project.root / ".ralph", text)
    prompt = project.ralph("feature.md", "--dry-run").stdout.partition("\n\n")[2]
    assert not prompt.startswith("/")
    assert prompt.strip().startswith("/")


OF_A_TASK: dict[str, Value] = {
    "PLAN_FILE": "/project/feature.md",
    "PROGRESS_FILE": "feature_PROGRESS.md",
    "PLAN_NAME": "feature",
    "AUTO_COMMIT": True,
    "ITERATION": 1,
    "MAX_ITERATIONS": "",
    "STRICT": True,
    "TASK_ID": "auth-02",
    "TASK": "Add the endpoint",
    "CRITERIA": ["Run `pytest` - exits with code 0", "File `app.py` exists"],
    "UNCHECKED": ["it reads well"],
    "FAILURES": ["2026-11-21 03:12:05 try 1: two tests fail"],
    "TRY": 2,
    "VERIFY": "make check",
    "ONLY": ["app/**", "tests/**"],
    "SESSION": "ralph-20261121-031200-0123456789ab",
    "HISTORY_FILE": "/project/tries.jsonl",
    "MEMORY": "- #1 it went well",
}


def rendered(text: str, **more: Value) -> str:
    return Prompt(Path("PROMPT_x.md"), text, (), {}).render({**OF_A_TASK, **more})


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_of_a_task_arrives_exactly(text: str) -> None:
    """It is somebody's: a person's, or an agent's that planned."""
    for name in ("TASK_ID", "TASK", "VERIFY", "SESSION", "HISTORY_FILE"):
        assert rendered(f"[{{{{ {name} }}}}]", **{name: text}) == f"[{text}]"
    for name in ("CRITERIA", "UNCHECKED", "FAILURES", "ONLY"):
        loop = f"{{% for one in {name} %}}[{{{{ one }}}}]{{% endfor %}}"
        assert rendered(loop, **{name: [text, "more"]}) == f"[{text}][more]"


def test_where_there_is_no_task_its_variables_are_there_and_empty(project: Project) -> None:
    names = list(OF_A_TASK)[list(OF_A_TASK).index("TASK_ID") :]
    write(project.root / ".ralph", "{{ STRICT }}:" + "".join(f"{{% if {name} %}}{name}{{% endif %}}" for name in names))
    assert project.ralph("feature.md", "--dry-run").stdout.endswith("\n\nfalse:")


class TestThePromptOfATask:
    TEMPLATE = find("task", [CHECKOUT / "prompts"])[1]

    def test_says_everything_once_and_in_order(self) -> None:
        """First what never changes, since that is cached; then what ralph looks at, in its order; the task at last."""
        prompt = rendered(self.TEMPLATE)
        told = (
            *("`app/**`, `tests/**`", "- Run `pytest` - exits with code 0", "- File `app.py` exists", "make check"),
            *("- it reads well", "This is try 2 ", "- 2026-11-21 03:12:05 try 1: two tests fail"),
            "at most 60 characters",
            '<task-done session="ralph-20261121-031200-0123456789ab">auth-02</task-done>',
            '<task-blocked session="ralph-20261121-031200-0123456789ab" id="auth-02">',
            "- #1 it went well",
            *("/project/feature.md", "feature_PROGRESS.md", "/project/tries.jsonl", "auth-02: Add the endpoint"),
        )
        assert [prompt.count(one) for one in told] == [1] * len(told)
        assert sorted(told, key=prompt.index) == list(told)
        assert prompt.index(told[0]) > len(prompt) // 2
        assert len(prompt.encode()) < 6000
        assert "\n\n\n" not in prompt

    def test_is_strict_also_where_it_is_named_as_a_mode(self, project: Project) -> None:
        project.has_tasks("one: The first")
        args = (("task", "--dry-run"), ("build", "--strict", "--dry-run"))
        named, asked = (re.sub(r'session="[^"]+"', "", project.ralph("feature.md", *words).stdout) for words in args)
        assert "<task-done >one</task-done>" in named
        assert named == asked


class TestTheBuiltInPrompts:
    def prompts(self, project: Project, mode: str, *args: str) -> str:
        return project.ralph("feature.md", mode, "--dry-run", *args).stdout.partition("\n\n")[2]

    @pytest.mark.parametrize("mode", ["plan", "build", "task", "validate"])
    def test_are_short_rendered_and_tell_what_agents_stumbled_over(self, project: Project, mode: str) -> None:
        """As seen with a real model that planned and built with them. What never changes stands first."""
        project.has_tasks("one: The first")
        prompt = self.prompts(project, mode)
        assert len(prompt.encode()) < 6000
        assert not [left for left in ("{{", "}}", "{%", "{#", "${") if left in prompt]
        assert prompt.index(str(project.root / "feature.md")) > len(prompt) // 2
        told = ["feature_PROGRESS.md", "AGENTS.md where there is one"]
        if mode == "validate":
            told += ["every requirement", "specs/", "## Validation", "untick", "Tick nothing", "Never write RALPH_DONE"]
        else:
            told += ["plan and progress file are untracked is normal"]
        if mode in ("build", "task"):
            told += ["a floor: the task's words and the plan bind", "a failure that was there before, note and leave"]
            told += ["throwaway environment", "saves you much reading"]
        if mode == "task":
            told += ["`## Messages` you may empty", "Never write RALPH_DONE", "Do not commit", "every mark, id, text"]
            told += ["The plan, `.ralph.env`, `.ralph/` and the prompts are not yours", "## Proposed", "## Notes"]
        if mode == "build":
            told += ["## Messages", "one task", "CLAUDE.md", "RALPH_DONE", "RALPH_BLOCKED", "IN_PROGRESS", "Notes"]
        assert [words for words in [*told, "sub-agent"] if words.lower() not in prompt.lower()] == []
