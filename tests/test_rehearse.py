"""The rehearsal as on a fresh machine; and its agent, the stand-in, by itself and with other plans."""

import json
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from http_server import Server
from ralph_driver import CHECKOUT, COMMAND, Project, Run, Running, eventually, progress_text
from tmux import lines_only

from ralph.progress import parse
from ralph.rehearsal import sample
from ralph.rehearsal.of_sample import problems

PATIENCE_S = 60
STANDIN = (sys.executable, "-P", "-m", "ralph.rehearsal.standin")
TASKS = list(sample.WORK)


REHEARSE = (*COMMAND, "rehearse")
TO_A_READER_THAT_LEAVES = ("bash", "-c", f"{shlex.join(REHEARSE)} | head -5; exit ${{PIPESTATUS[0]}}")


def rehearse(project: Project, cwd: Path = Path("/"), argv: Sequence[str] = REHEARSE, **more: str) -> Run:
    """`ralph rehearse` with next to nothing in its environment and no standard input."""
    kept = ("PATH", "HOME", "TMPDIR", "PYTHONPATH", "TEST_MARK")
    env = {name: project.env[name] for name in kept} | more
    return Running(argv, env, cwd, project.outputs / "rehearsal").wait(PATIENCE_S)


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


def litter(project: Project) -> list[str]:
    """What lies in the folder for temporary files."""
    return names_in(Path(project.env["TMPDIR"]))


def everything_in(folder: Path) -> dict[str, bytes]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def fake_git(project: Project, script: str) -> None:
    """A git that is first on the PATH; `$git` in its script is the real one."""
    git = project.root.parent / "bin" / "git"
    git.write_text(f"#!/bin/sh\ngit={shlex.quote(shutil.which('git') or '')}\n{script}\n")
    git.chmod(0o755)


# A rehearsal that goes well.


def hostile_home(project: Project, server: Server) -> None:
    """A home that would have every commit refused, and somebody told."""
    settings = f'RALPH_SLACK_WEBHOOK_URL="{server.url("/file")}"\nRALPH_MAX_ITERATIONS=1\nRALPH_NONSENSE=1\n'
    (project.home / ".ralph.env").write_text(settings)
    hook = project.home / "hooks" / "pre-commit"
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    config = f"[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n[core]\n\thooksPath = {hook.parent}\n"
    (project.home / ".gitconfig").write_text(config)


def test_nobodys_settings_and_git_count_nobody_is_told_and_nothing_is_left(plain_project: Project) -> None:
    """Nor does it need somebody who reads what it prints."""
    other = plain_project.root.parent / "other"
    with Server() as server:
        hostile_home(plain_project, server)
        before = everything_in(plain_project.home)
        run = rehearse(
            plain_project,
            cwd=plain_project.root,
            argv=TO_A_READER_THAT_LEAVES,
            RALPH_SLACK_WEBHOOK_URL=server.url("/environment"),
            RALPH_AGENT="false",
            RALPH_AUTO_COMMIT="false",
            XDG_STATE_HOME=str(other),
            NO_PROXY="127.0.0.1",
            GIT_DIR="/nowhere",
            GIT_INDEX_FILE="/nowhere/index",
            GIT_TEMPLATE_DIR="/nowhere",
        )
        assert (run.code, run.stderr, server.received) == (0, "", []), run.text
    first, *more = run.stdout.splitlines()
    assert first.startswith("A rehearsal")
    assert "$ cat sample.md" in more, "without colour"
    assert not other.exists()
    assert litter(plain_project) == []
    assert everything_in(plain_project.home) == before
    assert names_in(plain_project.root) == ["feature.md"]


QUICKER = "from ralph import cli; from ralph.rehearsal import of_sample; of_sample._PACE_S /= 5; cli.main()"
FOR_A_QUICK_READER = (sys.executable, "-P", "-c", QUICKER)
"""A rehearsal for a person who reads five times as fast."""


def test_it_plans_builds_and_shows_what_came_of_it(plain_project: Project) -> None:
    """On a terminal, from a checkout that is found by a relative path."""
    env = {"PYTHONPATH": "."}
    run = plain_project.start_tty("rehearse", command=FOR_A_QUICK_READER, cwd=CHECKOUT, env=env).wait(PATIENCE_S)
    assert run.code == 0, run.stdout
    assert "\x1b[1m$ ralph sample.md plan\x1b[0m\n" in run.stdout
    text = lines_only(run.stdout)
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if line.startswith("$ ")] == [
        "$ cat sample.md",
        "$ ralph sample.md plan",
        "$ ralph sample.md build --max-iterations 10",
        "$ git log --oneline",
        "$ cat sample_PROGRESS.md",
    ]
    log, _, progress = text.partition("$ git log --oneline\n")[2].partition("$ cat")
    messages = [line.partition(" ")[2] for line in log.splitlines() if line]
    assert messages == [*(work.message for work in reversed(sample.WORK.values())), "A plan"]
    assert [line[6:] for line in progress.splitlines() if line.startswith("- [x] ")] == TASKS
    assert "\nRALPH_DONE\n" in progress
    prints_what_a_real_run_prints(text.splitlines())


def prints_what_a_real_run_prints(lines: list[str]) -> None:
    assert lines.count("  ▸ Bash python3 -m unittest discover") == 2
    assert [line for line in lines if line.startswith("  ▸ Write")] == [
        "  ▸ Write greeting.py",
        "  ▸ Write test_greeting.py",
    ]
    summaries = [line for line in lines if line.startswith("#")]
    unwrapped = " ".join(" ".join(lines).split())
    for number, task in enumerate(TASKS, 1):  # planning was the first iteration
        assert f" Task {number}: {task} " in unwrapped
        assert any(line.startswith(f"#{number + 1} · {number}/4 tasks (+1) · 1 commit") for line in summaries), (
            summaries
        )


# One that does not.


def test_ctrl_c_ends_it_and_leaves_nothing(plain_project: Project) -> None:
    running = plain_project.start_tty("rehearse")
    eventually(lambda: "▸ Read sample.md" in running.screen, PATIENCE_S)
    running.type("\x03")
    run = running.wait(PATIENCE_S)
    assert run.code == -signal.SIGINT, run.stdout
    assert "$ git log" not in run.stdout
    assert "Traceback" not in run.stdout
    assert litter(plain_project) == []


def test_a_closed_terminal_leaves_nothing(plain_project: Project) -> None:
    running = plain_project.start_tty("rehearse", command=FOR_A_QUICK_READER)
    eventually(lambda: "▸ Write greeting.py" in running.screen, PATIENCE_S)
    running.hang_up()
    eventually(lambda: running.poll() is not None, PATIENCE_S)
    assert litter(plain_project) == []


def test_without_git_the_remedy_is_named(plain_project: Project) -> None:
    run = rehearse(plain_project, PATH=str(plain_project.home))
    assert (run.code, run.stdout) == (1, "")
    assert run.stderr.startswith("ralph: git is not on the PATH")
    assert "install git" in run.stderr
    assert litter(plain_project) == []


def test_without_room_the_remedy_is_named(plain_project: Project) -> None:
    fake = "import sys, tempfile; tempfile.tempdir = '/nowhere'; from ralph.cli import main; main()"
    argv = [sys.executable, "-P", "-c", fake, "rehearse"]
    run = Running(argv, plain_project.env, Path("/"), plain_project.outputs / "full").wait(PATIENCE_S)
    assert run.code == 1
    assert "set TMPDIR" in run.stderr


@pytest.mark.parametrize(
    ("git", "says"),
    [
        pytest.param(
            'case " $* " in *" commit -qm "*) echo no room >&2; exit 9 ;; esac\nexec "$git" "$@"',
            "`ralph sample.md build --max-iterations 10` ended with exit code 1",
            id="git refuses the agent's commits",
        ),
        pytest.param(
            'case " $* " in *" commit -qm "*) exit 0 ;; esac\nexec "$git" "$@"',
            "there are 0 commits for 4 tasks",
            id="git only says that it commits",
        ),
        pytest.param("echo out of order >&2; exit 5", "out of order", id="git does not work at all"),
    ],
)
def test_a_rehearsal_that_goes_wrong_says_what_and_exits_1(plain_project: Project, git: str, says: str) -> None:
    fake_git(plain_project, git)
    run = rehearse(plain_project)
    assert run.code == 1, run.text
    last = run.stderr.splitlines()[-1]
    assert last.startswith("ralph: the rehearsal went wrong: ")
    assert says in last
    assert "It works" not in run.stdout
    assert litter(plain_project) == []


@pytest.mark.parametrize(
    ("text", "commits", "wrong"),
    [
        pytest.param(progress_text("x one", "x two", status="RALPH_DONE"), 2, "", id="all is well"),
        pytest.param(progress_text("x one", "x two"), 2, "the progress file does not say RALPH_DONE", id="not done"),
        pytest.param(progress_text("x one", "two", status="RALPH_DONE"), 2, "1 of 2 tasks are ticked", id="unticked"),
        pytest.param(progress_text(status="RALPH_DONE"), 0, "0 of 0 tasks are ticked", id="no tasks at all"),
        pytest.param(progress_text("x one", status="RALPH_DONE"), 2, "there are 2 commits for 1 tasks", id="commits"),
    ],
)
def test_done_is_checked_and_not_believed(text: str, commits: int, wrong: str) -> None:
    assert "; ".join(problems(parse(text.encode()), commits=commits)) == wrong


# The stand-in agent.


def stand_in(project: Project, mode: str, *options: str, code: int = 0) -> list[dict[str, Any]]:
    """One turn of the stand-in by itself; its events."""
    argv = [*STANDIN, mode, "feature.md", "feature_PROGRESS.md", *options]
    prompt = "Whatever a person's own prompt says."
    done = subprocess.run(
        argv, cwd=project.root, env=project.env, input=prompt, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (code, ""), done
    return [json.loads(line) for line in done.stdout.splitlines()]


def calls(events: list[dict[str, Any]]) -> list[str]:
    """The names of the tools it used."""
    blocks = [block for event in events if event["type"] == "assistant" for block in event["message"]["content"]]
    return [block["name"] for block in blocks if block["type"] == "tool_use"]


def test_its_events_are_those_of_the_real_agent(project: Project) -> None:
    project.has_tasks("one")
    first, *between, last = stand_in(project, "build")
    assert (first["subtype"], first["model"], first["apiKeySource"]) == ("init", "stand-in", "none")
    assert {event["type"] for event in between} == {"assistant", "user"}
    assert (last["type"], last["is_error"], last["total_cost_usd"]) == ("result", False, 0.0)
    assert len({event["session_id"] for event in (first, *between, last)}) == 1
    asked, answered = (
        [block[key] for event in between for block in event["message"]["content"] if block["type"] == kind]
        for kind, key in (("tool_use", "id"), ("tool_result", "tool_use_id"))
    )
    assert asked == answered


def test_each_point_of_a_plan_becomes_a_task(project: Project) -> None:
    plan = "# Any plan\n\n- one\n  - a detail\n* [ ] two\n1. three\n\n```\n- an example\n```\n\n- one\n"
    (project.root / "feature.md").write_text(plan)
    project.has_tasks("x before", "two", notes="\nMine.\n")
    for _ in range(2):
        stand_in(project, "plan")
    now = parse(project.progress.read_bytes())
    assert [(task.text, task.done) for task in now.tasks] == [
        ("before", True),
        ("two", False),
        ("one", False),
        ("three", False),
    ]
    assert project.progress_text.count("Planned by the stand-in") == 1
    assert "\nMine.\n" in project.progress_text


@pytest.mark.parametrize(
    ("plan", "tasks"),
    [
        pytest.param("Prose.\n\n## First\n\n## Second\n", ["First", "Second"], id="its headings"),
        pytest.param("Only prose.\n", ["Build what feature.md says"], id="the plan as a whole"),
    ],
)
def test_a_plan_without_a_list(project: Project, plan: str, tasks: list[str]) -> None:
    (project.root / "feature.md").write_text(plan)
    project.has_tasks()
    stand_in(project, "plan")
    assert [task.text for task in parse(project.progress.read_bytes()).tasks] == tasks


def test_it_does_one_task_and_commits_just_that(project: Project) -> None:
    project.has_tasks("x one", "two & 'more' $(false)", "three")
    (project.root / "mine.txt").write_text("of a person, staged\n")
    project.git("add", "mine.txt")
    assert calls(stand_in(project, "build")) == ["Read", "Read", "Bash", "Write", "Bash", "Bash", "Edit"]
    assert project.git("show", "--name-only", "--format=%s").splitlines() == [
        "chore: stand in for two & 'more' $(false)",
        "",
        "standin-02-two-more-false.md",
    ]
    assert [task.done for task in parse(project.progress.read_bytes()).tasks] == [True, True, False]
    assert "\nIN_PROGRESS\n" in project.progress_text


def test_it_can_be_told_not_to_commit(project: Project) -> None:
    project.has_tasks("one")
    stand_in(project, "build", "--no-commit")
    assert project.git("log", "--format=%s") == "plan\n"
    assert (project.root / "standin-01-one.md").exists()
    assert "\nRALPH_DONE\n" in project.progress_text


def test_it_ticks_the_task_and_not_an_example_of_it(project: Project) -> None:
    project.progress.write_text("```\n- [ ] one\nIN_PROGRESS\n```\n\n" + progress_text("one", notes="- [ ] one\n"))
    stand_in(project, "build")
    example, _, rest = project.progress_text.partition("# Progress")
    assert example == "```\n- [ ] one\nIN_PROGRESS\n```\n\n"
    assert "# Progress" + rest == progress_text("x one", status="RALPH_DONE", notes="- [ ] one\n")


def test_a_task_whose_commit_fails_stays_open(project: Project) -> None:
    project.has_tasks("one")
    before = project.progress_text
    says = 'echo "fatal: no commits today\nsee elsewhere" >&2'
    fake_git(project, f'case " $* " in *" commit "*) {says}; exit 1 ;; esac\nexec "$git" "$@"')
    last = stand_in(project, "build", code=1)[-1]
    assert last["is_error"]
    assert last["result"].endswith(": fatal: no commits today")
    assert project.progress_text == before


def test_ralph_builds_any_plan_with_it(project: Project) -> None:
    plan = "# Ünïcode\r\n\r\n- Grüße an 世界\r\n- `code`\r\n- ".encode() + b"\xff\r\n"
    (project.root / "feature.md").write_bytes(plan)
    for mode in ("plan", "build"):
        agent = shlex.join([*STANDIN, mode, "feature.md", "feature_PROGRESS.md"])
        run = project.ralph("feature.md", mode, "--delay", "0", "--agent", agent, timeout_s=PATIENCE_S)
        assert run.code == 0, run.text
    assert [task.done for task in parse(project.progress.read_bytes()).tasks] == [True, True, True]
    assert len(project.git("log", "--format=%s").splitlines()) == 4
