"""Words on the command line: one too many, mistyped, in the wrong place, of ralph1; help; output that cannot be."""

from pathlib import Path

import pytest
from ralph_driver import Project, executable
from stories import Agent

GONE = ("sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh")
NOT_MEANT = {
    "feature.md 7 99": "99 is a word too many",
    "other.md --requirements feature.md": '"other.md" is not a mode',
    "--max-iterations 5": "no plan is named",
    "feature.md --wait false": '"false" is not a mode',
    "feature.md -1": "No such option",
    "build feature.md": "did you mean ralph feature.md build?",
    "stauts feature.md": "did you mean ralph status feature.md?",
    "featur.md plan": "did you mean ralph feature.md plan?",
    "nothing-like-it.md": "name the plan first",
    ". build": "ralph: .: ",
    "feature.md BUILD": "there are build, ",
    "feature.md -C nowhere": "nowhere",
    "config commit perhaps": "see ralph help",
    "help nonsense": "there is no help on nonsense; see ralph help",
}


@pytest.mark.parametrize("words", NOT_MEANT)
def test_what_cannot_be_meant_is_reported_with_what_can(project: Project, agent: Agent, words: str) -> None:
    run = project.ralph(*words.split())
    assert (run.code, agent.calls, run.stderr.count("\n")) == (2, [], 1), run.text
    assert (NOT_MEANT[words] in run.stderr, ".;" in run.stderr) == (True, False), run.text


def test_help_is_there_for_each_verb_and_for_all_settings(project: Project) -> None:
    assert project.ralph().stdout == project.ralph("-h").stdout == project.ralph("help").stdout
    assert project.ralph("help", "status").stdout == project.ralph("status", "--help").stdout
    settings = project.ralph("help", "settings").stdout
    assert settings == project.ralph("feature.md", "--help").stdout
    assert ("--on-tamper" in settings, "--requirements" in settings) == (True, False)
    groups = [line.rstrip(":") for line in settings.splitlines() if line.endswith(":") and line[:1].isalpha()]
    assert groups[:4] == ["Options", "Limits", "Pauses and timeouts", "Checks"]
    doctor = project.ralph("help", "doctor").stdout
    assert doctor.index("--json") < doctor.index("Limits:"), "its own come first"


def test_the_help_on_settings_is_paged_on_a_terminal(project: Project) -> None:
    pager = executable(project.home / "bin" / "pager", 'echo "paged with LESS=$LESS"; head -n 1')
    shown = project.ralph_tty("help", "settings", env={"PAGER": str(pager)}).stdout
    assert "paged with LESS=FRX" in shown


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", ["help", "doctor", "feature.md --dry-run"])
def test_output_that_cannot_be_written_is_a_line(project: Project, words: str) -> None:
    run = project.ralph(*words.split(), prefix=("sh", "-c", 'exec "$@" > /dev/full', "sh"))
    assert (run.code, run.stderr) == (1, "ralph: No space left on device\n")


def test_what_is_not_a_path_is_gone_or_may_not_be_entered_is_a_line(project: Project, no_override: list[str]) -> None:
    """From a folder that is gone one can look elsewhere."""
    project.has_tasks("one")
    sentence = "please do " * 40
    closed = ("sh", "-c", 'exec "$@" <&-', "sh")
    for prefix, words, code, said in [
        (closed, [sentence], 2, "No such file; name the plan first"),
        (closed, ["status", sentence], 2, "there is no such plan here"),
        (closed, ["feature.md", "--progress-file", sentence], 1, "File name too long"),
        (closed, ["feature.md", "--prompts", "~nobody/prompts"], 2, '--prompts: "~nobody/prompts": is not a folder'),
        (GONE, ["status"], 1, "No such file"),
        (GONE, ["feature.md", "build"], 2, "No such file"),
    ]:
        run = project.ralph(*words, prefix=prefix)
        assert (run.code, run.stderr.count("\n"), said in run.stderr) == (code, 1, True), run.text
    assert project.ralph("status", "-C", str(project.root), prefix=GONE).code == 3
    (project.root / ".ralph.env").mkdir()
    assert project.ralph("feature.md").stderr == "ralph: .ralph.env: cannot be read: Is a directory\n"
    (project.root / ".ralph.env").rmdir()
    (project.home / ".ralph").mkdir(mode=0)
    run, refused = project.ralph("feature.md", prefix=(*no_override, "env")), "cannot be read: Permission denied"
    assert (run.code, run.stderr) == (1, f"ralph: {project.home}/.ralph/PROMPT_build.md: {refused}\n")
