"""The progress file as ralph finds it (design section 4): odd files, accidents, hand edits."""

import re

import pytest
from ralph_driver import Project, eventually, paced, progress_text
from stories import Agent, edits, marks, runs, step, waits_for


def test_what_ralph_writes_ends_its_lines_as_the_file_does(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    project.progress.write_bytes(project.progress.read_bytes().replace(b"\n", b"\r\n"))
    agent.story(step(edits("IN_PROGRESS", "RALPH_DONE"), edits("- [ ] one\r\n", "")))
    assert project.build("--max-failures", "1").code == 4
    now = project.progress.read_bytes()
    for line in (b"RALPH_DONE was taken back", b"- [ ] one", b"RALPH_BLOCKED: ralph: "):
        assert line in now
    assert now.count(b"\n") == now.count(b"\r\n")


ACCIDENTS = (
    "rm feature_PROGRESS.md",
    "ln -sf nowhere feature_PROGRESS.md",
    "rm feature_PROGRESS.md; mkdir feature_PROGRESS.md; echo precious > feature_PROGRESS.md/x",
)


def test_it_is_created_at_the_end_of_a_link_and_put_back_when_it_is_lost(project: Project, agent: Agent) -> None:
    project.progress.symlink_to("target.md")
    agent.story(step())
    assert project.build("1").code == 3
    now = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-11-20 22:14:03", project.progress_text)
    assert now == progress_text()
    assert project.progress.is_symlink()
    project.has_tasks("x one", "two")
    before = project.progress_text
    agent.story(*[step(runs(accident)) for accident in ACCIDENTS])
    run = project.build("4")
    assert (run.code, project.progress_text) == (3, before), run.text
    assert run.stderr.count("feature_PROGRESS.md was gone") == len(ACCIDENTS)
    kept = [file.read_text() for file in project.state.glob("ralph/*/kept/**/*") if file.is_file()]
    assert "precious\n" in kept


def test_a_hand_edit_is_kept_during_an_iteration_and_obeyed_behind_it(project: Project, agent: Agent) -> None:
    """An unclosed fence hides nothing; of a file that is too long there is one word."""
    project.has_tasks("one")
    agent.story(step(marks("on"), waits_for("go")), step())
    running = project.start("feature.md", "build", "--delay", "10m", command=paced(speed=50))
    eventually(lambda: agent.reached("on"))
    project.progress.write_text(progress_text("one", "mine", notes=f"\nUse port 81.{' more' * 12_000}\n"))
    agent.let("go")
    eventually(lambda: "#1 · 0/2 tasks" in running.stdout)
    assert "Use port 81." in project.progress_text
    project.progress.write_text(progress_text("one", "mine", "more", status="```\nRALPH_STOP"))
    assert running.wait().code == 3
    assert len(agent.calls) == 1
    assert running.stderr.count("60 kB") == 1
    assert "- [ ] more\n" in project.progress_text


CANNOT_BE = {
    "a pipe, which would block for ever": "mkfifo feature_PROGRESS.md",
    "read-only": "touch feature_PROGRESS.md; chmod 444 feature_PROGRESS.md",
    "not readable": "touch feature_PROGRESS.md; chmod 0 feature_PROGRESS.md",
    "a new one in a folder that is read-only": "chmod 555 .",
}


@pytest.mark.parametrize("what", CANNOT_BE)
def test_a_file_that_cannot_be_is_reported_before_money_is_spent(
    project: Project, agent: Agent, no_override: list[str], what: str
) -> None:
    project.does(CANNOT_BE[what])
    run = project.start("feature.md", "build", "--delay", "0", prefix=no_override).wait()
    assert (run.code, agent.calls, "Traceback" in run.text) == (1, [], False), run.text
    assert run.stderr.startswith("ralph: ")
    assert "feature_PROGRESS.md" in run.stderr


def test_two_plans_of_the_same_name_need_a_file_each(project: Project, agent: Agent) -> None:
    """And cron in a wrong folder is told so."""
    for folder in ("a", "b"):
        (project.root / folder).mkdir()
        (project.root / folder / "feature.md").write_text("Do it.\n")
    agent.story(step(), repeat=True)
    assert project.ralph("a/feature.md", "build", "1").code == 3
    run = project.ralph("b/feature.md", "build", "1")
    assert run.code == 2, run.text
    assert "a/feature.md" in run.stderr
    assert "--progress-file" in run.stderr
    assert project.ralph("b/feature.md", "build", "1", "--progress-file", "b/state.md").code == 3
    assert "b/state.md" in agent.prompts[-1]
    assert "1 iteration" in project.ralph("status", "b/feature.md", env={"RALPH_PROGRESS_FILE": "b/state.md"}).stdout
    assert "1 iteration" in project.ralph("status", "b/feature.md", "--progress-file", "b/state.md").stdout
    (project.root / "a" / "feature.md").unlink()
    assert project.ralph("b/feature.md", "build", "1").code == 3, "a plan that was moved is no other plan"
    called = len(agent.calls)
    run = project.ralph(str(project.root / "feature.md"), "build", "1", cwd=project.home)
    assert (run.code, "-C" in run.stderr, len(agent.calls)) == (2, True, called), run.text
    assert not list(project.home.glob("*_PROGRESS.md"))
