"""How ralph is called (design section 3) and how it ends (section 8)."""

import pytest
from away import Mailbox
from ralph_driver import Project
from stories import Agent, step


@pytest.mark.parametrize(
    ("args", "telling"),
    [
        pytest.param((".", "build"), ["."], id="a plan that is a folder"),
        pytest.param(("feature.md", "BUILD"), ["BUILD", "build", "plan"], id="an unknown mode names the known ones"),
        pytest.param(("feature.md", "build", "0"), ["unlimited"], id="no iterations at all"),
        pytest.param(("feature.md", "build", "-C", "nowhere"), ["nowhere"], id="a folder that is not there"),
        pytest.param(("feature.md", "--prompts", "nowhere"), ["nowhere"], id="a prompts folder that is not there"),
        pytest.param(("a\nb\x1b[31m.md", "build"), ["a"], id="a name that would steer the terminal"),
    ],
)
def test_wrong_use_is_said_before_anything_happens(
    project: Project, agent: Agent, args: tuple[str, ...], telling: list[str]
) -> None:
    run = project.ralph(*args)
    assert run.code == 2, run.text
    assert run.stderr.startswith("ralph: ")
    assert all(word in run.stderr for word in telling), run.stderr
    assert "\x1b" not in run.stderr
    assert "Traceback" not in run.text
    assert not agent.calls
    assert not list(project.root.glob("*_PROGRESS.md"))


def test_a_plan_that_cannot_be_read_is_no_plan(project: Project, agent: Agent, no_override: list[str]) -> None:
    (project.root / "feature.md").chmod(0)
    run = project.ralph("feature.md", "build", prefix=no_override)
    assert (run.code, agent.calls) == (2, []), run.text
    assert run.stderr.startswith("ralph: feature.md")


def test_a_plan_may_be_of_any_encoding(project: Project, agent: Agent) -> None:
    (project.root / "feature.md").write_bytes(b"caf\xe9 \x00 \xff\nRALPH_MAX_ITERATIONS: 1\n")
    agent.story(step(), step())
    run = project.build()
    assert (run.code, len(agent.calls)) == (3, 1), run.text


def test_a_state_folder_that_cannot_be_is_said_before_money_is_spent(project: Project, agent: Agent) -> None:
    (project.root / "file").write_text("")
    run = project.build("1", env={"XDG_STATE_HOME": str(project.root / "file")})
    assert (run.code, agent.calls) == (1, []), run.text
    assert run.stderr.startswith(f"ralph: {project.root / 'file'}")


def test_cron_need_not_know_a_home(project: Project, agent: Agent) -> None:
    agent.story(step())
    run = project.ralph("feature.md", "build", "1", prefix=("env", "-u", "HOME", "-u", "LANG"))
    assert (run.code, len(agent.calls)) == (3, 1), run.text


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param(("feature.md", "build", "2"), "feature_PROGRESS.md, at most 2.", id="plan, mode, number"),
        pytest.param(("plan.txt", "2"), "plan.txt_PROGRESS.md, at most 2.", id="without the mode"),
        pytest.param(("--max-iterations", "2", "sub/plan.md"), "plan_PROGRESS.md, at most 2.", id="options first"),
        pytest.param(("./notify", "build"), "notify_PROGRESS.md, at most .", id="a plan that a folder is called like"),
        pytest.param(("./-dash.md", "build"), "-dash_PROGRESS.md, at most .", id="like an option"),
    ],
)
def test_plan_mode_and_number_in_each_form_and_what_the_progress_file_is_called(
    project: Project, args: tuple[str, ...], told: str
) -> None:
    for folder in ("sub", ".ralph"):
        (project.root / folder).mkdir()
    for name in ("plan.txt", "sub/plan.md", "notify", "-dash.md"):
        (project.root / name).write_text("Do it.\n")
    template = "{{ PROGRESS_FILE }}, at most {{ MAX_ITERATIONS }}."
    (project.root / ".ralph" / "PROMPT_build.md").write_text(template)
    assert project.ralph(*args, "--dry-run").stdout.partition("\n\n")[2].strip() == told


def test_another_folder_is_entered_first_and_what_follows_the_dashes_is_the_agents(
    project: Project, agent: Agent
) -> None:
    agent.story(step())
    words = ("--add-dir", "/x", "--", "--delay", "wrong")
    run = project.ralph("-C", str(project.root), "feature.md", "build", "1", "--", *words, cwd=project.home)
    assert run.code == 3, run.text
    assert agent.calls[0].cwd == str(project.root)
    assert agent.calls[0].argv[-5:] == [*words]
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


@pytest.mark.parametrize(
    ("status", "code", "telling"),
    [("RALPH_DONE", 0, "done"), ("RALPH_STOP", 3, "stop"), ("RALPH_BLOCKED: no key", 4, "no key")],
)
def test_a_start_that_finds_a_control_word_says_one_line_where_somebody_looks(
    project: Project, agent: Agent, status: str, code: int, telling: str
) -> None:
    project.has_tasks("x one", status=status)
    mailbox, before = Mailbox(project), project.progress.read_bytes()
    run = project.build()
    assert (run.code, run.text) == (code, "")
    assert (mailbox.notices, project.progress.read_bytes(), project.state_folders) == ([], before, [])
    run = project.ralph_tty("feature.md")
    assert (run.code, run.stdout.count("\n")) == (code, 1), run.stdout
    assert telling in run.stdout.lower()
    assert not agent.calls


def test_nothing_is_left_but_the_progress_file_and_a_private_folder(project: Project, agent: Agent) -> None:
    agent.story(step(), repeat=True)
    project.build("2")
    assert project.git("status", "--porcelain", "--ignored") == "?? feature_PROGRESS.md\n"
    assert [path.name for path in project.home.iterdir()] == [".gitconfig"]
    (folder,) = project.state_folders
    assert folder.name.startswith("feature-")
    assert folder.stat().st_mode & 0o777 == 0o700
