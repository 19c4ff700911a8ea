"""How ralph is called (design section 3) and how it ends (section 8)."""

import re

import pytest
from ralph_driver import Project, progress_text
from stories import Act, Agent, fails, raw, step

SETTINGS = (
    ("max-iterations", "unlimited"),
    ("max-turns", ""),
    ("max-failures", "3"),
    ("delay", "2"),
    ("notify-frequency", "5"),
    ("model", ""),
    ("effort", ""),
    ("agent", "claude"),
    ("auto-commit", "true"),
    ("progress-file", "_PROGRESS.md"),
    ("prompts", ""),
)
LATER = ("verify", "max-stalls", "max-time", "max-cost", "idle-timeout", "strict", "doctor", "report")


def is_wrong_use(project: Project, agent: Agent, *args: str) -> str:
    """Ends with 2 and a message for people, before anything was made or paid for; the message."""
    run = project.ralph(*args)
    assert run.code == 2, run.text
    assert run.stderr.startswith("ralph: ")
    assert "Traceback" not in run.text
    assert not agent.calls
    assert not list(project.root.glob("*_PROGRESS.md"))
    return run.stderr


@pytest.mark.parametrize("args", [(), ("help",), ("--help",), ("-h",), ("feature.md", "--help")])
def test_help_is_no_error(project: Project, args: tuple[str, ...]) -> None:
    run = project.ralph(*args)
    assert (run.code, run.stderr) == (0, "")
    assert "ralph PLAN [MODE]" in run.stdout


@pytest.mark.parametrize(("setting", "default"), SETTINGS)
def test_help_shows_every_setting_with_its_default_and_its_name(project: Project, setting: str, default: str) -> None:
    shown = project.ralph("--help").stdout
    name = f"RALPH_{setting.upper().replace('-', '_')}"
    blocks = [shown[found.start() :][:400] for found in re.finditer(rf"--(\[no-\])?{setting}\b", shown)]
    assert [block for block in blocks if name in block and default in block], shown


def test_help_shows_the_folder_and_the_dry_run_too(project: Project) -> None:
    shown = project.ralph("--help").stdout
    assert re.search(r"-C\b", shown)
    assert "--dry-run" in shown
    for verb in ("rehearse", "notify", "config"):
        assert verb in shown


def test_help_shows_only_what_exists(project: Project) -> None:
    shown = project.ralph("--help").stdout
    assert not [word for word in LATER if f"--{word}" in shown or f"ralph {word}" in shown]


@pytest.mark.parametrize("word", ["--version", "-V", "-v"])
def test_the_version_is_told(project: Project, word: str) -> None:
    run = project.ralph(word)
    assert run.code == 0
    assert re.search(r"\b\d+\.\d+", run.stdout)


@pytest.mark.parametrize(
    ("args", "telling"),
    [
        pytest.param(("missing.md", "build"), ["missing.md"], id="a plan that is not there"),
        pytest.param((".", "build"), ["."], id="a plan that is a folder"),
        pytest.param(("", "build"), ["plan"], id="a plan without a name"),
        pytest.param(("feature.md", "BUILD"), ["BUILD", "build", "plan"], id="an unknown mode names the known ones"),
        pytest.param(("feature.md", "build", "--foo"), ["--foo"], id="an unknown option"),
        pytest.param(("feature.md", "build", "0"), ["unlimited"], id="no iterations at all"),
        pytest.param(("feature.md", "build", "--max-iterations", "0"), ["unlimited"], id="the same as an option"),
        pytest.param(("feature.md", "build", "-C", "nowhere"), ["nowhere"], id="a folder that is not there"),
        pytest.param(("feature.md", "build", "3", "4"), ["4"], id="a word too many"),
        pytest.param(("feature.md", "--prompts", "nowhere"), ["nowhere"], id="a prompts folder that is not there"),
    ],
)
def test_wrong_use_is_said_before_anything_happens(
    project: Project, agent: Agent, args: tuple[str, ...], telling: list[str]
) -> None:
    message = is_wrong_use(project, agent, *args)
    assert all(word in message for word in telling), message


def test_a_plan_that_cannot_be_read_is_no_plan(project: Project, agent: Agent, no_override: list[str]) -> None:
    (project.root / "feature.md").chmod(0)
    run = project.ralph("feature.md", "build", prefix=no_override)
    assert (run.code, agent.calls) == (2, []), run.text
    assert run.stderr.startswith("ralph: ")
    assert "feature.md" in run.stderr


def test_a_plan_may_be_of_any_encoding(project: Project, agent: Agent) -> None:
    (project.root / "feature.md").write_bytes(b"caf\xe9 \x00 \xff\nRALPH_MAX_ITERATIONS: 1\n")
    agent.story(step(), step())
    run = project.build()
    assert (run.code, len(agent.calls)) == (3, 1), run.text


def test_a_state_folder_that_cannot_be_is_said_before_money_is_spent(project: Project, agent: Agent) -> None:
    (project.root / "file").write_text("")
    run = project.build("1", env={"XDG_STATE_HOME": str(project.root / "file")})
    assert (run.code, agent.calls) == (1, []), run.text
    assert run.stderr.startswith("ralph: ")
    assert str(project.root / "file") in run.stderr


def test_cron_need_not_know_a_home(project: Project, agent: Agent) -> None:
    agent.story(step())
    run = project.ralph("feature.md", "build", "1", prefix=("env", "-u", "HOME", "-u", "LANG"))
    assert (run.code, len(agent.calls)) == (3, 1), run.text


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("feature.md", "build", "2"), id="as the original: plan, mode, number"),
        pytest.param(("feature.md", "2"), id="without the mode"),
        pytest.param(("feature.md", "--max-iterations", "2"), id="as an option"),
        pytest.param(("--max-iterations", "2", "feature.md", "build"), id="options first"),
    ],
)
def test_the_number_of_iterations_can_be_given_in_each_form(
    project: Project, agent: Agent, args: tuple[str, ...]
) -> None:
    project.has_tasks("one")
    agent.story(step(), repeat=True)
    assert project.ralph(*args, "--delay", "0").code == 3
    assert len(agent.calls) == 2


def test_what_follows_the_dashes_goes_to_the_agent(project: Project, agent: Agent) -> None:
    agent.story(step())
    project.ralph("feature.md", "build", "1", "--", "--add-dir", "/x", "--", "--delay", "wrong")
    assert agent.calls[0].argv[-5:] == ["--add-dir", "/x", "--", "--delay", "wrong"]


@pytest.mark.parametrize(
    ("plan", "progress"),
    [
        ("plan", "plan_PROGRESS.md"),
        ("plan.txt", "plan.txt_PROGRESS.md"),
        ("sub/plan.md", "plan_PROGRESS.md"),
        ("./notify", "notify_PROGRESS.md"),
        ("./-dash.md", "-dash_PROGRESS.md"),
    ],
)
def test_the_progress_file_is_named_after_the_plan(project: Project, agent: Agent, plan: str, progress: str) -> None:
    (project.root / "sub").mkdir()
    (project.root / plan).write_text("Do it.\n")
    agent.story(step(), progress=progress)
    assert project.ralph(plan, "build", "1").code == 3
    assert (project.root / progress).is_file()
    assert len(agent.calls) == 1


def test_another_folder_is_entered_first(project: Project, agent: Agent) -> None:
    agent.story(step())
    run = project.ralph("-C", str(project.root), "feature.md", "build", "1", cwd=project.home)
    assert run.code == 3, run.text
    assert agent.calls[0].cwd == str(project.root)
    assert project.progress.exists()
    assert not list(project.home.glob("*_PROGRESS.md"))


def test_a_dry_run_prints_the_command_and_the_prompt_and_starts_nothing(project: Project, agent: Agent) -> None:
    run = project.ralph("feature.md", "build", "--dry-run", "--model", "opus", "--", "--add-dir", "/x y")
    assert run.code == 0, run.text
    command = "claude -p --dangerously-skip-permissions --verbose --output-format stream-json --model opus"
    assert command in run.stdout
    assert "--add-dir '/x y'" in run.stdout
    assert str(project.root / "feature.md") in run.stdout
    assert not agent.calls
    assert not project.progress.exists()
    assert not list(project.state.rglob("*"))


ALL_DONE = progress_text("x one", status="RALPH_DONE")
ONE_OPEN = progress_text("one")


@pytest.mark.parametrize(
    ("before", "args", "story", "code"),
    [
        pytest.param(ALL_DONE, "build", [], 0, id="nothing left to do"),
        pytest.param(ONE_OPEN, "build", [step(ticks="all", writes_done=True)], 0, id="done"),
        pytest.param(ONE_OPEN, "plan", [step(adds="two")], 0, id="planned"),
        pytest.param(ONE_OPEN, "build 1", [step()], 3, id="a limit was reached"),
        pytest.param(progress_text(status="RALPH_STOP"), "build", [], 3, id="a person said stop"),
        pytest.param(progress_text(status="RALPH_BLOCKED: key"), "build", [], 4, id="a person is needed"),
        pytest.param(ONE_OPEN, "build", [step(blocks="no key")], 4, id="the agent needs a person"),
        pytest.param(ONE_OPEN, "build", [fails()] * 3, 1, id="it fails again and again"),
        pytest.param(ONE_OPEN, "plan", [fails()], 1, id="planning failed"),
    ],
)
def test_the_exit_code_tells_how_it_ended(
    project: Project, agent: Agent, *, before: str, args: str, story: list[Act], code: int
) -> None:
    project.progress.write_text(before)
    agent.story(*story)
    run = project.ralph("feature.md", *args.split(), "--delay", "0")
    assert run.code == code, run.text
    assert len(agent.calls) == len(story)


@pytest.mark.parametrize(("status", "code"), [("RALPH_DONE", 0), ("RALPH_STOP", 3), ("RALPH_BLOCKED: no key", 4)])
class TestAStartThatFindsAControlWord:
    def test_ends_without_a_word_where_nobody_looks(
        self, project: Project, agent: Agent, status: str, code: int
    ) -> None:
        project.has_tasks("x one", status=status)
        before = project.progress.read_bytes()
        run = project.build()
        assert (run.code, run.text) == (code, "")
        assert not agent.calls
        assert project.progress.read_bytes() == before

    def test_says_one_line_on_a_terminal(self, project: Project, agent: Agent, status: str, code: int) -> None:
        project.has_tasks("x one", status=status)
        run = project.ralph_tty("feature.md")
        assert (run.code, run.stdout.count("\n")) == (code, 1), run.stdout
        telling = {"RALPH_DONE": "done", "RALPH_STOP": "stop"}.get(status, "no key")
        assert telling in run.stdout.lower()
        assert not agent.calls


def test_nothing_is_left_in_the_working_directory_but_the_progress_file(project: Project, agent: Agent) -> None:
    agent.story(step(), repeat=True)
    project.build("2")
    assert project.git("status", "--porcelain", "--ignored") == "?? feature_PROGRESS.md\n"
    assert [path.name for path in project.home.iterdir()] == [".gitconfig"]


def test_the_state_folder_is_private(project: Project, agent: Agent) -> None:
    agent.story(step())
    project.build("1")
    (folder,) = project.state_folders
    assert folder.name.startswith("feature-")
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31m"], ids=["a newline", "an escape"])
def test_a_message_quotes_what_would_confuse_the_terminal(project: Project, agent: Agent, text: str) -> None:
    assert "\x1b" not in is_wrong_use(project, agent, f"{text}.md", "build")


def test_a_closed_output_ends_nothing(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    agent.story(step(ticks="one"), step(ticks="two", writes_done=True))
    run = project.ralph("feature.md", "build", "--delay", "0", prefix=("sh", "-c", '"$@" >&- 2>&-', "sh"))
    assert (run.code, len(agent.calls)) == (0, 2)


def test_a_reader_that_leaves_ends_nothing(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    agent.story(step(ticks="one"), step(ticks="two", writes_done=True))
    project.ralph("feature.md", "build", "--delay", "0", prefix=("sh", "-c", '"$@" 2>&1 | true', "sh"))
    assert len(agent.calls) == 2
    assert "RALPH_DONE" in project.progress_text


def test_an_agent_that_says_nothing_and_reads_nothing_is_followed_too(project: Project, agent: Agent) -> None:
    agent.story(raw())
    script = project.root / "quiet"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    big = project.root / ".ralph"
    big.mkdir()
    (big / "PROMPT_build.md").write_text("x" * 200_000)
    run = project.build("2", "--agent", "./quiet")
    assert run.code == 3, run.text
