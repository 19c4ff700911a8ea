"""Prompts (design section 1.2 and the issue's paragraph): where a mode is found, and what the agent reads."""

import re
from pathlib import Path

import pytest
from ralph_driver import Project, executable
from stories import Agent, step


def write(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "PROMPT_build.md").write_text(text)


def test_the_folders_are_looked_through_in_order_the_iteration_hears_of_it_and_a_prompt_is_not_a_slash_command(
    project: Project, agent: Agent
) -> None:
    """Its number is that of the plan, the limit that of the start."""
    agent.story(step(), repeat=True)
    words = ("build", "2", "--delay", "0", "--prompts", "given")
    (project.root / "given").mkdir()
    assert str(project.root / "feature.md") in project.ralph("feature.md", *words, "--dry-run").stdout, "the built-in"
    stronger = {"own": project.home / ".ralph", "local": project.root / ".ralph", "given": project.root / "given"}
    for name, folder in stronger.items():
        write(folder, "{# x #}\n/" + name + ": {{ ITERATION }} of {{ MAX_ITERATIONS }}")
        assert project.ralph("feature.md", *words, "--dry-run").stdout.endswith(f"\n\n\n/{name}: 1 of 2")
    assert project.ralph("feature.md", *words).code == 3
    assert agent.prompts == ["\n/given: 1 of 2", "\n/given: 2 of 2"]
    assert project.ralph("feature.md", *words, "--dry-run").stdout.endswith("/given: 3 of 2")


def test_a_template_of_the_original_works_unchanged_and_any_plan_name_arrives_exactly(project: Project) -> None:
    name = "$(touch pwned) {{ 7 * 7 }}\n${PROGRESS_FILE}"
    plan = project.root / f"{name}.md"
    plan.write_text("Do it.\n")
    command = """echo "$HOME ${HOME} $(date) ${x:-y} {a,b} 100% {1}" | awk '{ print $1 }'"""
    template = "Read ${PLAN_FILE}, ${PROGRESS_FILE}, ${PLAN_NAME}: ${AUTO_COMMIT}\n{{ PLAN_NAME }}, {{ PLAN_FILE }}\n\n"
    write(project.root / ".ralph", template + command)
    run = project.ralph(plan.name, "build", "--dry-run")
    told = f"Read {plan}, {name}_PROGRESS.md, {name}: true\n{name}, {plan}\n\n{command}"
    assert (run.code, run.stdout.partition("\n\n")[2]) == (0, told), run.text
    assert not (project.root / "pwned").exists()


MISTAKES = {
    "{% include 'PROMPT_build.md' %}": ": maximum recursion depth",
    "{# nothing #}\n  \n": ": renders to nothing",
    "Hi.\n{% if ITERATION > 1 %}\n{{ PLAN_FIEL }}\n{% endif %}\n": ": PLAN_FIEL is not a variable",
    "Hello.\n\n{% if %}\n": ":3: ",
    "\n{{ PLAN_NAME.__class__.__mro__[1].__subclasses__() }}\n": ": access to attribute",
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


def test_the_prompt_of_a_task_says_everything_once_as_it_was_written_and_in_order(project: Project) -> None:
    """First what never changes, since that is cached; then what ralph looks at, in its order; the task at last.

    Any text is somebody's: the user's, or an agent's that planned.
    """
    odd = """{{ 7 * 7 }} {% raw %} ${PROGRESS_FILE} it's "quoted" a\\b ü <b> & </b>"""
    notes = ["verify: Run `pytest` - exits with code 0", f"verify: File `{odd}` exists", "verify: it reads well"]
    notes.append("failed: 2026-11-21 03:12:05 attempt 1: two tests fail")
    project.has_tasks("\n  - ".join([f"auth-02: Add {odd}", *notes]))
    words = ("--strict", "--only", "app/**", "--verify", f"check {odd}", "--history", "tries.jsonl", "--dry-run")
    shown = [project.ralph("feature.md", mode, *words).stdout.partition("\n\n")[2] for mode in ("build", "task")]
    prompt, of_task = (re.sub(r' session="[^"]+"', "", text) for text in shown)
    told = (
        *("`app/**`", "- Run `pytest` - exits with code 0", f"- File `{odd}` exists", f"check {odd}"),
        *(
            "- it reads well",
            "This is attempt 2 ",
            "- 2026-11-21 03:12:05 attempt 1: two tests fail",
            "at most 60 characters",
        ),
        *("<task-done>auth-02</task-done>", '<task-blocked id="auth-02">', str(project.root / "feature.md")),
        *("feature_PROGRESS.md", "/tries.jsonl", f"auth-02: Add {odd}"),
    )
    assert [prompt.count(one) for one in told] == [1] * len(told)
    assert sorted(told, key=prompt.index) == list(told)
    assert prompt.index(told[0]) > len(prompt) // 2
    assert (len(prompt.encode()) < 6200, "\n\n\n" in prompt, prompt == of_task) == (True, False, True)
    for is_there in (False, True):
        planning = project.ralph("feature.md", "plan", "--strict", "--dry-run").stdout
        assert ("- agent-browser: click" in planning) == is_there
        executable(project.root.parent / "bin" / "agent-browser", "")


CHECKED = "ralph runs `make test` here: run exactly that. If it cannot start, and no task will change that, write"
BUILT_IN = {
    "plan": ("plan and the progress file are untracked", "Never write RALPH_DONE", "IN_PROGRESS", CHECKED),
    "build": ("one task", "CLAUDE.md", "RALPH_DONE", "IN_PROGRESS", "reword one only if", "go to 9", CHECKED),
    "task": (
        "Never write RALPH_DONE",
        "Do not commit",
        "every mark, id, text",
        "## Proposed",
        "Do not change the plan",
    ),
    "validate": ("every requirement", "## Validation", "untick", "Tick nothing", "counts above the plan"),
}


@pytest.mark.parametrize("mode", BUILT_IN)
def test_the_built_in_prompts_are_short_and_tell_what_agents_stumbled_over(project: Project, mode: str) -> None:
    """As seen with a real model that planned and built with them. What never changes stands first."""
    project.has_tasks("one: The first")
    prompt = project.ralph("feature.md", mode, "--verify", "make test", "--dry-run").stdout.partition("\n\n")[2]
    assert len(prompt.encode()) < 6000
    assert not [left for left in ("{{", "}}", "{%", "{#", "${") if left in prompt]
    assert prompt.index(str(project.root / "feature.md")) > len(prompt) // 2
    told = [*BUILT_IN[mode], "feature_PROGRESS.md", "AGENTS.md if there is one", "## Messages", "sub-agent"]
    assert [words for words in told if words.lower() not in prompt.lower()] == []


def test_what_each_iteration_of_a_night_reads_is_few_words(project: Project) -> None:
    """It is paid for again and again; and files of lessons that models write lower success and cost more."""
    project.has_tasks("one: The first")
    for mode, most in {"build": 520, "task": 560}.items():
        prompt = project.ralph("feature.md", mode, "--dry-run").stdout.partition("\n\n")[2]
        assert most - 60 < len(prompt.split()) <= most, (mode, len(prompt.split()))
        assert "A command or pitfall that took several attempts to find belongs in AGENTS.md" in prompt
        assert "in a browser, if there is one" in prompt


def test_who_validates_writes_down_what_it_found_before_it_reads_what_others_claim(project: Project) -> None:
    project.has_tasks("x one: The first")
    prompt = project.ralph("feature.md", "validate", "--dry-run").stdout
    order = [
        *("`specs/`", "Run the project's tests", "Write down what you found", "open the progress file", "can fail"),
        *("Verify each finding once more, at its file and line", "untick"),
    ]
    assert [prompt.count(words) for words in order] == [1] * len(order)
    assert sorted(order, key=prompt.index) == order
