"""Agents that cannot work, agents of another kind, and what the agent finds around itself (design section 6)."""

import os
import re
import shutil
from pathlib import Path

import pytest
from ralph_driver import Project
from stories import Act, Agent, prints, raw, refused, step

LOGIN = refused("Not logged in · Please run /login", "authentication_failed")
CREDIT = refused("Credit balance is too low", "billing_error", status=400)
MODEL = refused("There's an issue with the selected model (opsu).", "model_not_found", status=404)
ROOT = raw(
    prints(
        "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n", stderr=True
    ),
    exit_code=1,
)
FORBIDDEN = refused("API Error: 403 Forbidden", "unknown", status=403)
SPENT = refused("You've hit your org's monthly spend limit · ask your admin to raise it", "rate_limit", status=429)
OPTION = raw(prints("error: unknown option '--x'\n", stderr=True), exit_code=1)


@pytest.mark.parametrize(
    ("trouble", "cause", "remedy"),
    [
        pytest.param(LOGIN, "Not logged in", "login", id="nobody is logged in"),
        pytest.param(CREDIT, "Credit balance", "credit", id="the credit is used up"),
        pytest.param(MODEL, "opsu", "--model", id="there is no such model"),
        pytest.param(ROOT, "root", "IS_SANDBOX", id="it is refused as root"),
        pytest.param(OPTION, "--x", "--", id="there is no such option"),
        pytest.param(FORBIDDEN, "403", "log in", id="it is forbidden"),
        pytest.param(SPENT, "spend limit", "ask who pays", id="nothing is left to spend, though it is called a limit"),
    ],
)
def test_what_cannot_mend_itself_stops_at_once_and_changes_nothing(
    project: Project, agent: Agent, trouble: Act, cause: str, remedy: str
) -> None:
    project.has_tasks("one")
    before = project.progress.read_bytes()
    agent.story(trouble, repeat=True)
    run = project.build()
    assert (run.code, len(agent.calls)) == (1, 1), run.text
    message = run.stderr[run.stderr.index("ralph: ") :]
    assert cause in message
    assert remedy.lower() in message.replace(cause, "").lower(), message
    assert "Traceback" not in message
    assert project.progress.read_bytes() == before


def without_claude(project: Project) -> None:
    """A PATH on which there are git and a shell, and no claude of this machine either."""
    tools = project.root.parent / "tools"
    tools.mkdir()
    for name in ("git", "sh", "env"):
        found = shutil.which(name, path=project.env["PATH"])
        assert found
        (tools / name).symlink_to(found)
    project.env["PATH"] = str(tools)


@pytest.mark.parametrize(
    ("agent_is", "words"),
    [
        pytest.param("claude", "on the PATH", id="not on the PATH"),
        pytest.param("./missing --x", "./missing", id="not there"),
        pytest.param("./mine", "chmod", id="not executable"),
        pytest.param("./odd", "#! line", id="of an interpreter that is missing"),
    ],
)
def test_an_agent_that_cannot_start_is_said_with_the_remedy(project: Project, agent_is: str, words: str) -> None:
    without_claude(project)
    (project.root / "mine").write_text("#!/bin/sh\n")
    (project.root / "odd").write_text("#!/nowhere/python\n")
    (project.root / "odd").chmod(0o755)
    run = project.build("--agent", agent_is)
    assert run.code == 1, run.text
    assert run.stderr.startswith("ralph: ")
    assert words in run.stderr
    assert "Traceback" not in run.text
    assert project.progress.exists() is ("odd" in agent_is), "what can be seen before is"


def script(project: Project, text: str) -> str:
    file = project.root / "mine"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def test_another_agent_gets_the_prompt_and_its_own_arguments_only(project: Project, agent: Agent) -> None:
    agent.install(project.root / "my agents" / "codex")
    agent.story(step())
    run = project.build("1", "--agent", "'my agents/codex' exec -", "--", "--more", "a b")
    assert run.code == 3, run.text
    (call,) = agent.calls
    assert call.argv == ["exec", "-", "--more", "a b"]
    assert "feature_PROGRESS.md" in call.prompt


def test_another_agent_may_print_plain_text_and_fails_by_its_exit_code(project: Project) -> None:
    command = script(project, "cat >/dev/null; echo 'Hello from mine.'; exit 3")
    run = project.build("--agent", command)
    assert run.code == 1, run.text
    assert "Hello from mine." in run.stdout
    assert "$" not in next(line for line in run.text.splitlines() if line.startswith("#1 · "))
    assert "RALPH_BLOCKED: ralph: 3 iterations failed in a row" in project.progress_text


OWN = """command = ["COMMAND"]
run = ["exec"]
env = { MINE = "yes" }
[flags]
model = ["--model={}"]
[[errors]]
means = "limit"
says = "That was all"
"""


def test_an_agent_of_ones_own_is_a_file(project: Project) -> None:
    file = project.home / ".ralph" / "agents" / "mine.toml"
    file.parent.mkdir(parents=True)
    command = script(project, 'cat >/dev/null; echo "$MINE $*" > seen.txt; echo "That was all for today."; exit 9')
    file.write_text(OWN.replace("COMMAND", command))
    run = project.build("--agent", "mine", "--model", "m1", "--no-wait", "--", "x")
    assert (run.code, (project.root / "seen.txt").read_text()) == (3, "yes exec --model=m1 x\n"), run.text
    assert project.journal()[0]["agent"] == "mine"
    for wrong, why in {"command": "Expected '='", 'command = "mine"': "a list of words", "run = []": "command"}.items():
        file.write_text(wrong)
        run = project.build("--agent", "mine")
        assert (run.code, f"{file}: is no agent file: " in run.stderr, why in run.stderr) == (2, True, True), run.text


@pytest.mark.parametrize(
    ("prompt", "shows"),
    [
        pytest.param("", 'echo "$*"; cat', id="on its standard input, unless the file says more"),
        pytest.param('prompt = ["-f", "{file}"]', 'echo "$1 $2"; cat "$4" -', id="in a file"),
        pytest.param('prompt = ["{}"]', 'echo "$1 $2"; echo "$3"; cat', id="as a word"),
    ],
)
def test_the_file_of_an_agent_says_how_the_prompt_arrives(project: Project, prompt: str, shows: str) -> None:
    (project.root / ".ralph").mkdir()
    (project.root / ".ralph" / "PROMPT_build.md").write_text("Work on\n{{ PLAN_FILE }} {file}")
    file = project.home / ".ralph" / "agents" / "mine.toml"
    file.parent.mkdir(parents=True)
    command = script(project, f"({shows}) > seen.txt")
    file.write_text(f'command = ["{command}"]\nrun = ["exec"]\n{prompt}\n')
    run = project.build("1", "--agent", "mine", "--", "x")
    told = f"exec x\nWork on\n{project.root / 'feature.md'} {{file}}"
    assert (run.code, (project.root / "seen.txt").read_text().strip()) == (3, told), run.text


def test_what_only_a_template_asks_of_an_agent_that_cannot_is_said(project: Project) -> None:
    (project.root / ".ralph").mkdir()
    (project.root / ".ralph" / "PROMPT_build.md").write_text("{# RALPH_MAX_TURNS: 3\nRALPH_TOOLS: Read #}\nWork.\n")
    run = project.build("1", "--agent", script(project, "cat > /dev/null"))
    assert run.code == 3, run.text
    for line in (1, 2):
        assert re.search(rf"PROMPT_build.md:{line}: the agent \S*mine cannot do this", run.stderr), run.stderr


def test_a_claude_by_its_path_is_claude(project: Project, agent: Agent) -> None:
    other = agent.install(project.root / "opt" / "claude")
    agent.story(step())
    project.build("1", "--agent", f"{other} --add-dir /x", "--model", "opus")
    argv = agent.calls[0].argv
    assert argv[:2] == ["--add-dir", "/x"] or argv[-2:] == ["--add-dir", "/x"]
    assert {"-p", "--output-format", "stream-json", "--model", "opus"} <= set(argv)


def test_the_agents_environment_holds_nothing_of_ralphs_or_the_persons(project: Project, agent: Agent) -> None:
    secrets = {
        "RALPH_SLACK_WEBHOOK_URL": "s3cret",
        "RALPH_DISCORD_WEBHOOK_URL": "s3cret",
        "RALPH_TELEGRAM_BOT_TOKEN": "s3cret",
    }
    outside = {"RALPH_RUN_ID": "outer", "TMUX": "/tmp/tmux-0/default,1,0", "TMUX_TMPDIR": str(project.home)}
    git = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Me"}
    agent.story(step())
    assert project.build("1", env=secrets | outside | git).code == 3
    (call,) = agent.calls
    assert (Path(call.cwd), call.ignored) == (project.root, [])
    found = call.env
    assert not set(found) & set(secrets)
    assert "s3cret" not in str(found)
    assert found["RALPH_RUN_ID"].startswith("outer:"), "a mark that tells the run around it"
    assert "TMUX" not in found
    assert found["TMUX_TMPDIR"] not in {"/tmp", os.environ.get("TMPDIR"), str(project.home)}
    count = int(found["GIT_CONFIG_COUNT"])
    pairs = {found[f"GIT_CONFIG_KEY_{n}"]: found[f"GIT_CONFIG_VALUE_{n}"] for n in range(count)}
    assert pairs == {"user.name": "Me", "gc.autoDetach": "false"}, "git does not tidy up in the background"
