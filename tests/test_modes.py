"""Modes: what holds, what follows, and that the progress file says it."""

from pathlib import Path

import pytest
from ralph_driver import Project
from stories import Act, Agent, edits, fails, runs, says, step, tries, writes

HEAD = "Started: 2026-11-20 22:14:03\n"
SEES = runs("grep '^Mode:' feature_PROGRESS.md >> ../seen || echo none >> ../seen")


def modes(project: Project) -> list[str]:
    """The mode of each iteration, as the journal has it."""
    return [line["mode"] for line in project.journal() if line["event"] == "iteration"]


def names(project: Project, line: str) -> None:
    """The head of the progress file has this line."""
    project.progress.write_text(project.progress_text.replace(HEAD, f"{HEAD}{line}\n"))


def named(project: Project) -> list[str]:
    """The lines there that say the mode."""
    return [line for line in project.progress_text.splitlines() if line.startswith("Mode:")]


def seen(project: Project) -> list[str]:
    """What the agent of each iteration found there."""
    return (project.root.parent / "seen").read_text().splitlines()


def has_mode(project: Project, mode: str, *settings: str, asks: str = "Look at it.") -> Path:
    """There is a template of this mode."""
    path = project.root / ".ralph" / f"PROMPT_{mode}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["{#", *settings, "#}", asks, "{{ PROGRESS_FILE }}"]))
    return path


def everything(project: Project, *more: str) -> tuple[int, str]:
    """What comes of `all`."""
    run = project.ralph("feature.md", "all", "--delay", "0", *more)
    return run.code, run.text


MISSES = edits("- [x] one", "- [ ] one (not at its edges)")
BUILDS = step(SEES, ticks="all", file="a.txt", commits="one", writes_done=True)


def test_all_plans_builds_and_validates_until_nothing_is_left(project: Project, agent: Agent) -> None:
    decides = edits("## Notes\n", "## Notes\n\n- Decision: no database\n")
    agent.story(step(SEES, decides, adds="one"), BUILDS, step(SEES, MISSES), BUILDS, step(SEES, says("All is there.")))
    code, text = everything(project, "--verify", "true")
    assert (code, modes(project)) == (0, ["plan", "build", "validate", "build", "validate"]), text
    assert "ralph: done · 1/1 tasks · 5 iterations · 2 commits · " in text
    assert seen(project) == ["Mode: plan", "none", "Mode: validate 1/3", "Mode: build 1/3", "Mode: validate 2/3"]
    assert "\nRALPH_DONE\nVerified: " in project.progress_text
    assert named(project) == []
    assert [line["round"] for line in project.journal() if line["event"] == "iteration"] == [0, 0, 1, 1, 2]
    changes = [line["message"] for line in project.journal() if line["event"] == "mode"]
    assert changes == ["plan -> build", "build -> validate", "validate -> build", "build -> validate"]
    left = "mode: build -> validate\n  changed by then: a.txt\n  Decision: no database\n"
    assert [left in prompt for prompt in agent.prompts] == [False, False, True, False, True]
    assert (everything(project), len(agent.calls)) == ((0, ""), 5)


def test_every_start_goes_on_where_the_last_one_stood_and_counts_on(project: Project, agent: Agent) -> None:
    """One iteration each, as cron may start them; used up, a person has to look."""
    agent.story(step(adds="one"), *[BUILDS, step(SEES, MISSES)] * 2)
    codes = [everything(project, "--max-iterations", "1", "--max-rounds", "2")[0] for _ in range(5)]
    assert codes == [3, 3, 3, 3, 4]
    assert seen(project) == ["none", "Mode: validate 1/2", "Mode: build 1/2", "Mode: validate 2/2"]
    assert "RALPH_BLOCKED: ralph: done was claimed" not in project.progress_text
    assert (
        'max-rounds is 2, and validate still finds something: 1 task is not ticked: "one (not' in project.progress_text
    )
    assert named(project) == []
    assert (everything(project)[0], len(agent.calls)) == (4, 5)


def test_without_a_mode_it_goes_on_in_the_one_that_stands_there(project: Project, agent: Agent) -> None:
    project.has_tasks("x one")
    names(project, "Mode: validate 2/3")
    agent.story(step(MISSES), BUILDS, step())
    run = project.ralph("feature.md")
    assert (run.code, modes(project), named(project)) == (3, ["validate"], ["Mode: build 2/3"]), run.text
    assert "work remains" in run.text
    run = project.ralph("feature.md")
    assert (run.code, modes(project)) == (0, ["validate", "build"]), run.text
    project.has_tasks("x one")
    names(project, "Mode: validate")
    run = project.ralph("feature.md")
    assert (run.code, modes(project)[2:], named(project)) == (0, ["validate"], []), run.text
    assert "RALPH_DONE" in project.progress_text


def test_a_mode_on_the_command_line_is_that_of_one_start(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    names(project, "Mode: validate 1/3")
    agent.story(step(adds="two"), step(ticks="all", writes_done=True), step())
    assert (project.plan().code, named(project)) == (0, ["Mode: validate 1/3"])
    assert (project.build().code, named(project)) == (0, ["Mode: validate 1/3"])
    assert modes(project) == ["plan", "build"]
    assert (project.ralph("feature.md").code, len(agent.calls)) == (0, 2), "RALPH_DONE counts for more"


def test_a_mode_that_the_agent_names_holds_from_the_next_iteration_on(project: Project, agent: Agent) -> None:
    """One of a single iteration gives way to what follows on it; the run goes on."""
    project.has_tasks("one", "two", "three")
    has_mode(project, "look", "RALPH_ONCE: yes", "RALPH_MODEL: haiku")
    has_mode(project, "deep", asks="Go deep.")

    def asks_for(mode: str) -> Act:
        return edits(HEAD, f"{HEAD}Mode: {mode}\n")

    agent.story(
        step(asks_for("look"), ticks="one"),
        step(),
        step(asks_for("no/mode"), ticks="two"),
        step(edits("Mode: no/mode", "Mode: deep"), adds="four"),
        step(edits("Mode: deep\n", ""), ticks="all"),
        step(writes_done=True),
    )
    run = project.build()
    assert (run.code, modes(project)) == (0, ["build", "look", "build", "build", "deep", "build"]), run.text
    assert ["haiku" in call.argv for call in agent.calls] == [False, True, *[False] * 4]
    assert "Go deep." in agent.calls[4].prompt
    assert run.stderr.count("Mode: no/mode is ignored: ") == 1


@pytest.mark.parametrize("line", ["Mode: nothing", "Mode: build", "Mode: broken"])
def test_what_is_no_mode_is_said_and_ignored(project: Project, agent: Agent, line: str) -> None:
    project.has_tasks("one")
    has_mode(project, "broken", "RALPH_ONCE: perhaps")
    names(project, line)
    agent.story(BUILDS)
    run = project.ralph("feature.md")
    assert (run.code, modes(project)) == (0, ["build"]), run.text
    assert ("is ignored" in run.stderr) == (line != "Mode: build")


@pytest.mark.parametrize(("head", "asks"), [("RALPH_ONCE: yes", "{{ NOTHING }}"), ("RALPH_ONCE: NOTHING", "Hi.")])
def test_all_ends_where_the_next_mode_cannot_be(project: Project, agent: Agent, head: str, asks: str) -> None:
    has_mode(project, "validate", head, asks=asks)
    project.has_tasks("one")
    agent.story(step(ticks="all", writes_done=True))
    code, text = everything(project)
    assert (code, len(agent.calls), "NOTHING" in text) == (2, 1, True), text


def test_who_validates_only_unticks_and_adds(project: Project, agent: Agent) -> None:
    project.has_tasks("x one", "two", "three")
    deeds = [edits("- [ ] two\n", ""), edits("- [x] one", "- [ ] one")]
    deeds.append(edits("## Notes", "## Validation\n\nNo.\n\n## Notes"))
    agent.story(step(*deeds, writes("a.py", "mended"), adds="four", writes_done=True))
    run = project.ralph("feature.md", "validate")
    assert run.code == 3, run.text
    assert "put back what validate may not take away: 1 open task" in run.text
    assert not (project.root / "a.py").exists()
    text = project.progress_text
    assert all(f"- [ ] {task}\n" in text for task in ("one", "two", "three", "four")), text
    assert "\nIN_PROGRESS\n" in text
    assert "\n## Validation\n\nNo.\n" in text


def test_a_red_verify_sends_it_back_as_an_open_task_does(project: Project, agent: Agent) -> None:
    project.has_tasks("x one")
    names(project, "Mode: validate 1/3")
    agent.story(step(runs("touch ../red")), step(runs("rm ../red"), file="a.txt", writes_done=True), step())
    code, text = everything(project, "--verify", "test ! -e ../red")
    assert (code, modes(project)) == (0, ["validate", "build", "validate"]), text
    assert "RALPH_DONE was taken back" in agent.calls[1].prompt or "exited with 1" in text


def test_one_that_fails_is_tried_again_and_not_for_ever(project: Project, agent: Agent) -> None:
    project.has_tasks("x one")
    names(project, "Mode: validate 1/3")
    agent.story(fails(), step(), fails(), repeat=True)
    assert (everything(project)[0], modes(project)) == (0, ["validate", "validate"])
    project.has_tasks("x one")
    names(project, "Mode: validate 1/3")
    code, text = everything(project)
    assert (code, modes(project)[2:]) == (1, ["validate"] * 3), text
    assert "RALPH_BLOCKED: ralph: 3 iterations failed in a row" in project.progress_text


def test_a_template_may_wish_for_a_persons_word_before_it_goes_on(project: Project, agent: Agent) -> None:
    wish = "Plan, then write RALPH_BLOCKED: look at it."
    has_mode(project, "plan", "RALPH_ONCE: yes", "RALPH_THEN: build", asks=wish)
    agent.story(step(adds="one", blocks="look at the list"), BUILDS, step())
    code, text = everything(project)
    assert (code, len(agent.calls)) == (4, 1), text
    assert (everything(project)[0], len(agent.calls)) == (4, 1)
    project.progress.write_text(project.progress_text.replace("RALPH_BLOCKED: look at the list", "IN_PROGRESS"))
    code, text = everything(project)
    assert (code, modes(project)) == (0, ["plan", "build", "validate"]), text


def test_all_under_strict(project: Project, agent: Agent) -> None:
    """Who validates may untick and add there too; ralph gives what is new its ids, and nobody else ticks."""
    task = edits("## Task List\n", "## Task List\n\n- [ ] a: one\n  - verify: File `a.txt` exists\n")
    unticks = edits("- [x] a: one", "- [ ] a: one")
    adds = edits("## Task List\n", "## Task List\n\n- [x] two\n  - verify: File `b.txt` exists\n")
    agent.story(
        step(task),
        tries(writes("a.txt", "a")),
        step(unticks, adds, writes("b.txt", "sly")),
        tries(writes("b.txt", "b")),
        tries(writes("a.txt", "better")),
        step(says("All is there.")),
    )
    code, text = everything(project, "--strict")
    tried = [line["requirement_id"] for line in project.journal() if line["event"] == "iteration"]
    assert tried == [None, "a", None, "two", "a", None], text
    assert (code, modes(project)) == (0, ["plan", "build", "validate", "build", "build", "validate"]), text
    assert project.git("log", "--format=%s").count("Did it") == 3
    assert "a validate iteration ticks nothing: 1 task unticked" in text
    assert named(project) == []
    assert "RALPH_DONE" in project.progress_text
