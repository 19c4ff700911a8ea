"""Prompts (design section 1.2 and the issue's paragraph): where a mode is found, and what the agent reads."""

import re
from pathlib import Path

import pytest
from ralph_driver import Project
from stories import Agent, step


def write(folder: Path, text: str, mode: str = "build") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"PROMPT_{mode}.md"
    file.write_text(text)
    return file


def test_the_folders_are_looked_through_in_order_and_the_iteration_is_told(project: Project, agent: Agent) -> None:
    """Its number is that of the plan, the limit that of the start."""
    agent.story(step(), repeat=True)
    places = {"given": project.root / "given", "local": project.root / ".ralph", "own": project.home / ".ralph"}
    told = ": {{ ITERATION }} of {{ MAX_ITERATIONS }}"
    for file in [write(folder, name + told) for name, folder in places.items()]:
        assert project.build("1", "--prompts", "given", "--max-stalls", "off").code == 3
        file.unlink()
    assert [prompt.strip() for prompt in agent.prompts] == ["given: 1 of 1", "local: 2 of 1", "own: 3 of 1"]
    assert project.build("2", "--max-stalls", "off").code == 3
    assert str(project.root / "feature.md") in agent.prompts[-1], "the built-in one"
    assert "Iteration: 5\n" in agent.prompts[-1]


def test_a_template_of_the_original_works_unchanged_and_any_plan_name_arrives_exactly(project: Project) -> None:
    name = "$(touch pwned) {{ 7 * 7 }}\n${PROGRESS_FILE}.md"
    (project.root / name).write_text("Do it.\n")
    text = """# Build

Read ${PLAN_FILE} and ${PROGRESS_FILE} of ${PLAN_NAME}. If ${AUTO_COMMIT} is true, commit.
{{ PLAN_NAME }}, {{ PLAN_FILE }}

```bash
echo "$HOME ${HOME} $(date) ${x:-y} {a,b} 100% {1}" | awk '{ print $1 }'
```"""
    write(project.root / ".ralph", text)
    run = project.ralph(name, "build", "--dry-run")
    values = {"PLAN_FILE": str(project.root / name), "PLAN_NAME": name[:-3], "AUTO_COMMIT": "true"}
    values["PROGRESS_FILE"] = f"{name[:-3]}_PROGRESS.md"
    expected = re.sub(r"\$\{([A-Z]+_[A-Z]+)\}|\{\{ (\w+) \}\}", lambda found: values[found[1] or found[2]], text)
    assert (run.code, run.stdout.partition("\n\n")[2].strip("\n")) == (0, expected), run.text
    assert not (project.root / "pwned").exists()


MISTAKES = {
    "{% include 'PROMPT_build.md' %}": ": maximum recursion depth",
    "{# nothing #}\n  \n": ": renders to nothing",
    "Hi.\n{% if ITERATION > 1 %}\n{{ PLAN_FIEL }}\n{% endif %}\n": ": PLAN_FIEL is no variable",
    "Hello.\n\n{% if %}\n": ":3: ",
    "\n{{ PLAN_NAME.__class__.__mro__[1].__subclasses__() }}\n": ": access to attribute",
    "{# RALPH_MODLE: opus #}\nHello.\n": ":1: RALPH_MODLE",
    "Hello.\n{{ PLAN_NAME | uper }}\n": ":2: No filter named 'uper'",
    "${PLAN_FILE}\nps '{{.Names}}'\n": ":2: ",
}


def test_a_mistake_in_a_template_is_one_clear_error_before_money_is_spent(project: Project, agent: Agent) -> None:
    for text, telling in MISTAKES.items():
        write(project.root / ".ralph", text)
        run = project.build()
        assert (run.code, f"PROMPT_build.md{telling}" in run.stderr) == (2, True), run.text
        assert (run.stderr.count("ralph: "), "Traceback" in run.text) == (1, False), run.text
    assert "{% raw %}" in run.stderr, "braces of another kind"
    assert (agent.calls, project.progress.exists()) == ([], False)


def test_a_prompt_is_no_slash_command(project: Project) -> None:
    for text in ("{# x #}\n/clear\nHello.", "/"):
        write(project.root / ".ralph", text)
        prompt = project.ralph("feature.md", "--dry-run").stdout.partition("\n\n")[2]
        assert (prompt.startswith("/"), prompt.strip().startswith("/")) == (False, True)


def strict_prompt(project: Project, *lines: str, mode: str = "build", more: tuple[str, ...] = ()) -> str:
    """What the agent is told under --strict, with these lines as the list of tasks; without the session's token."""
    project.has_tasks()
    listed = "\n".join(["## Task List", "", *lines, ""])
    project.progress.write_text(project.progress_text.replace("## Task List\n", listed))
    run = project.ralph("feature.md", mode, "--strict", "--dry-run", *more)
    return re.sub(r' ?session="[^"]+"', "", run.stdout.partition("\n\n")[2])


def test_any_text_of_a_task_arrives_exactly_and_without_a_task_there_is_none(project: Project) -> None:
    """It is somebody's: a person's, or an agent's that planned."""
    loop = "{% for one in CRITERIA %}[{{ one }}]{% endfor %}{{ STRICT }}"
    write(project.root / ".ralph", f"[{{{{ TASK }}}}][{{{{ VERIFY }}}}]{loop}", mode="task")
    for text in ("{{ 7 * 7 }}", "{% raw %}", "${PROGRESS_FILE}", 'it\'s "quoted"', "a\\b ü", "<b> & </b>"):
        listed = f"- [ ] one: {text}", f"  - verify: File `{text}` exists"
        told = strict_prompt(project, *listed, more=("--verify", text))
        assert told == f"[{text}][{text}][File `{text}` exists]true"
    assert project.ralph("feature.md", "task", "--dry-run", "--no-strict").stdout.endswith("\n\n[][]false")


def test_the_prompt_of_a_task_says_everything_once_and_in_order(project: Project) -> None:
    """First what never changes, since that is cached; then what ralph looks at, in its order; the task at last."""
    notes = ["verify: Run `pytest` - exits with code 0", "verify: File `app.py` exists", "verify: it reads well"]
    notes.append("failed: 2026-11-21 03:12:05 try 1: two tests fail")
    listed = ["- [ ] auth-02: Add the endpoint", *(f"  - {note}" for note in notes)]
    more = ("--only", "app/**", "--verify", "make check", "--history", "tries.jsonl")
    prompt = strict_prompt(project, *listed, more=more)
    told = (
        *("`app/**`", "- Run `pytest` - exits with code 0", "- File `app.py` exists", "make check"),
        *("- it reads well", "This is try 2 ", "- 2026-11-21 03:12:05 try 1: two tests fail", "at most 60 characters"),
        *("<task-done>auth-02</task-done>", '<task-blocked id="auth-02">', str(project.root / "feature.md")),
        *("feature_PROGRESS.md", "/tries.jsonl", "auth-02: Add the endpoint"),
    )
    assert [prompt.count(one) for one in told] == [1] * len(told)
    assert sorted(told, key=prompt.index) == list(told)
    assert prompt.index(told[0]) > len(prompt) // 2
    assert (len(prompt.encode()) < 6000, "\n\n\n" in prompt) == (True, False)
    assert strict_prompt(project, *listed, mode="task", more=more) == prompt


@pytest.mark.parametrize("mode", ["plan", "build", "task", "validate"])
def test_the_built_in_prompts_are_short_and_tell_what_agents_stumbled_over(project: Project, mode: str) -> None:
    """As seen with a real model that planned and built with them. What never changes stands first."""
    project.has_tasks("one: The first")
    prompt = project.ralph("feature.md", mode, "--dry-run").stdout.partition("\n\n")[2]
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
