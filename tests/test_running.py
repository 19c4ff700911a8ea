"""How ralph is called (design section 3) and how it ends (section 8)."""

from ralph_driver import Project
from stories import Agent, step


def test_what_cannot_be_read_or_written_is_reported_before_money_is_spent_and_no_name_steers_the_terminal(
    project: Project, agent: Agent, no_override: list[str]
) -> None:
    (project.root / "closed.md").touch(mode=0)
    for name in ("closed.md", "a\nb\x1b[31m.md"):
        run = project.ralph(name, "build", prefix=no_override)
        assert (run.code, run.stderr.startswith(f"ralph: {name[0]}")) == (2, True), run.text
        assert [odd for odd in ("\x1b", "did you mean") if odd in run.stderr] == []
    assert not list(project.root.glob("*_PROGRESS.md"))
    file = project.root / "file"
    file.write_text("")
    run = project.build("1", env={"XDG_STATE_HOME": str(file)})
    assert (run.code, run.stderr.startswith(f"ralph: {file}"), agent.calls) == (1, True, []), run.text
    run = project.build(prefix=("sh", "-c", 'ulimit -n 8; exec "$@"', "sh"))
    assert (run.code, run.stderr, agent.calls) == (1, "ralph: Too many open files\n", [])
    project.root.chmod(0o311)
    run = project.build(prefix=no_override)
    project.root.chmod(0o755)
    assert (run.code, run.stderr) == (1, f"ralph: {project.root}: cannot be locked: Permission denied\n")


FORMS = {
    "plan.txt 2": "PROMPT_build: plan.txt_PROGRESS.md, at most 2.",
    "--max-iterations 2 sub/plan.md": "PROMPT_build: plan_PROGRESS.md, at most 2.",
    "./notify build": "PROMPT_build: notify_PROGRESS.md, at most .",
    "./-dash.md build": "PROMPT_build: -dash_PROGRESS.md, at most .",
    "look 5 --no-strict --requirements=feature.md": "PROMPT_look: feature_PROGRESS.md, at most 5.",
    "--requirements feature.md --duration 4h look --no-strict": "PROMPT_look: feature_PROGRESS.md, at most .",
}
"""Two are called like a verb and like an option; who comes from ralph1 names the plan by an option."""


def test_a_dry_run_prints_the_command_and_the_prompt_of_each_form_and_starts_nothing(
    project: Project, agent: Agent
) -> None:
    run = project.ralph("feature.md", "build", "--dry-run", "--model", "opus", "--", "--add-dir", "/x y")
    command = "claude -p --dangerously-skip-permissions --verbose --output-format stream-json --model opus"
    words = (command, "--add-dir '/x y'", str(project.root / "feature.md"))
    assert (run.code, [word for word in words if word not in run.stdout]) == (0, []), run.text
    for name in ("plan.txt", "sub/plan.md", "notify", "-dash.md", ".ralph/PROMPT_build.md", ".ralph/PROMPT_look.md"):
        path = project.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{path.stem}: {{{{ PROGRESS_FILE }}}}, at most {{{{ MAX_ITERATIONS }}}}.")
    for form, told in FORMS.items():
        run = project.ralph(*form.split(), "--dry-run")
        assert (run.code, run.stderr, run.stdout.partition("\n\n")[2]) == (0, "", told)
    assert not agent.calls
    assert not list(project.root.glob("*_PROGRESS.md"))
    assert not list(project.state.rglob("*"))
    assert "feature.md" in project.ralph("doctor", "--requirements", "feature.md").stdout


def test_cron_needs_no_home_and_nothing_is_left_but_the_progress_file_and_a_private_folder(
    project: Project, agent: Agent
) -> None:
    """The plan may be of any encoding, another folder is entered first, what follows the dashes is the agent's.

    A start that finds nothing to do leaves nothing at all.
    """
    project.has_tasks("x one", status="RALPH_DONE")
    assert (project.build().code, project.state_folders) == (0, [])
    project.progress.unlink()
    (project.root / "feature.md").write_bytes(b"caf\xe9 \x00 \xff\nRALPH_MAX_ITERATIONS: 1\n")
    project.commits("plan")
    agent.story(step(), step())
    words = ("--add-dir", "/x", "--", "--delay", "wrong")
    there = ("-C", str(project.root), "feature.md")
    run = project.ralph(*there, "--", *words, cwd=project.home, prefix=("env", "-u", "HOME", "-u", "LANG"))
    (call,) = agent.calls
    assert (run.code, call.cwd, call.argv[-5:]) == (3, str(project.root), [*words]), run.text
    assert project.git("status", "--porcelain", "--ignored") == "?? feature_PROGRESS.md\n"
    assert [path.name for path in project.home.iterdir()] == [".gitconfig"]
    (folder,) = project.state_folders
    assert (folder.name[:8], folder.stat().st_mode & 0o777) == ("feature-", 0o700)
