"""Agents that cannot work, agents of another kind, and what the agent finds around itself (design section 6)."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ralph_driver import Mailbox, Project, executable
from stories import Act, Agent, prints, raw, refused, step

ROOT = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n"
SPENT = "You've hit your org's monthly spend limit · ask your admin to raise it"
NO_MODEL = "There's an issue with the selected model (opsu)."
TROUBLE: dict[str, tuple[Act, str, str]] = {
    "nobody is logged in": (refused("Not logged in", "authentication_failed"), "Not logged in", "log in"),
    "there is no such model": (refused(NO_MODEL, "model_not_found", status=404), "opsu", "--model"),
    "it is refused as root": (raw(prints(ROOT, stderr=True), exit_code=1), "root", "IS_SANDBOX"),
    "no such option": (raw(prints("error: unknown option '--x'\n", stderr=True), exit_code=1), "--x", "--"),
    "it is forbidden": (refused("API Error: 403 Forbidden", "unknown", status=403), "403", "log in"),
    "nothing is left to spend": (refused(SPENT, "rate_limit", status=429), "spend limit", "waiting does not help"),
}


@pytest.mark.parametrize(("trouble", "cause", "remedy"), TROUBLE.values(), ids=TROUBLE)
def test_what_cannot_recover_stops_at_once_and_changes_nothing(
    project: Project, agent: Agent, trouble: Act, cause: str, remedy: str
) -> None:
    project.has_tasks("one")
    before = project.progress.read_bytes()
    agent.story(trouble, repeat=True)
    run = project.build()
    assert (run.code, len(agent.calls)) == (1, 1), run.text
    message = run.stderr[run.stderr.index("ralph: ") :]
    assert (cause in message, remedy in message.replace(cause, ""), "Traceback" in message) == (True, True, False)
    assert project.progress.read_bytes() == before
    shown = " ".join(project.ralph_tty("feature.md", "build").stdout.split())
    why = message.rpartition("ralph: ")[2].strip()
    assert shown.count(why) == 1, "on a terminal it is in the iteration's line, and not once more below it"


UNSTARTED = {"claude": "on the PATH", "./missing --x": "./missing", "./feature.md": "chmod", "./odd": "#! line"}


@pytest.mark.parametrize(("agent_is", "words"), UNSTARTED.items())
def test_an_agent_that_cannot_start_is_reported_with_the_remedy(project: Project, agent_is: str, words: str) -> None:
    """On a PATH with git and a shell, and without a claude here; nobody is told of what never began."""
    mailbox = Mailbox(project)
    tools = project.root.parent / "tools"
    tools.mkdir()
    for name in ("git", "sh", "env"):
        (tools / name).symlink_to(shutil.which(name, path=project.env["PATH"]) or "/nowhere")
    executable(project.root / "odd", "").write_text("#!/nowhere/python\n")
    run = project.build("--agent", agent_is, env={"PATH": str(tools)})
    assert (run.code, run.stderr.startswith("ralph: "), words in run.stderr) == (1, True, True), run.text
    assert "Traceback" not in run.text
    assert project.progress.exists() is bool(mailbox.notices) is ("odd" in agent_is), "what can be seen before is"


def test_a_command_as_it_stands_gets_the_prompt_and_its_own_arguments_and_a_path_to_claude_claudes(
    project: Project, agent: Agent
) -> None:
    agent.install(project.root / "my agents" / "codex")
    claude = agent.install(project.root / "opt" / "claude")
    agent.story(step(), step())
    run = project.build("1", "--agent", "'my agents/codex' exec -", "--", "--more", "a b")
    assert run.code == 3, run.text
    (call,) = agent.calls
    assert (call.argv, "feature_PROGRESS.md" in call.prompt) == (["exec", "-", "--more", "a b"], True)
    project.build("1", "--agent", f"{claude} --add-dir /x", "--model", "opus")
    argv = agent.calls[1].argv
    assert argv[:2] == ["--add-dir", "/x"]
    assert {"-p", "--output-format", "stream-json", "--model", "opus"} <= set(argv)


OWN = """command = ["COMMAND"]
run = ["exec"]
prompt = ["-f", "{file}", "{}"]
env = { MINE = "yes" }
[flags]
model = ["--model={}"]
[[errors]]
means = "limit"
says = "That was all"
"""
WRONG = {
    "command": "Expected '='",
    'command = "mine"': "a list of words",
    'command = ["mine", 5]': "a list of words",
    "run = []": "command",
    'command = ["a"]\nflags = []': "object",
}


def test_an_agent_of_ones_own_is_a_file_and_may_print_plain_text(project: Project) -> None:
    """The prompt comes in a file and as a word; what only a template asks of who cannot do it is said, and no more."""
    (project.root / ".ralph").mkdir()
    template = project.root / ".ralph" / "PROMPT_build.md"
    template.write_text("{#\nRALPH_TOOLS: Read #}\nWork on\n{{ PLAN_FILE }} {file}")
    file = project.home / ".ralph" / "agents" / "mine.toml"
    file.parent.mkdir(parents=True)
    shows = '(echo "$MINE $1 $2 $3 $4"; cat "$5" -; echo; echo "$6") > seen.txt'
    says = 'echo "That was ${ALL:-no idea}."; exit 9'
    mine = executable(project.root / "mine", f"{shows}\n{says}")
    file.write_text(OWN.replace("COMMAND", str(mine)))
    words = ("--agent", "mine", "--model", "m1", "--no-wait", "--", "x")
    run = project.build(*words, env={"ALL": "all for today"})
    prompt = f"Work on\n{project.root / 'feature.md'} {{file}}\n"
    told = f"yes exec --model=m1 x -f\n{prompt * 2}"
    assert (run.code, (project.root / "seen.txt").read_text()) == (3, told), run.text
    assert re.search(r"PROMPT_build.md:2: the agent \S*mine does not support RALPH_", run.stderr), run.stderr
    assert (project.journal()[0]["agent"], project.journal()[0]["ended"]) == ("mine", "limit")
    run = project.build(*words)
    assert (run.code, "  That was no idea.\n" in run.stdout) == (1, True), run.text
    assert "$" not in next(line for line in run.text.splitlines() if line.startswith("#2 · ")), "its cost is not known"
    assert "RALPH_BLOCKED: ralph: 3 iterations failed in a row" in project.progress_text
    project.progress.unlink()
    for wrong, why in WRONG.items():
        file.write_text(wrong)
        run = project.build("--agent", "mine")
        assert (run.code, f"{file}: not an agent file: " in run.stderr, why in run.stderr) == (2, True, True), run.text


def test_the_agents_environment_holds_nothing_of_ralphs_or_the_users(project: Project, agent: Agent) -> None:
    secrets = {"RALPH_SLACK_WEBHOOK_URL": "s3cret", "RALPH_TELEGRAM_BOT_TOKEN": "s3cret"}
    outside = {"RALPH_RUN_ID": "outer", "TMUX": "/tmp/tmux-0/default,1,0", "TMUX_TMPDIR": str(project.home)}
    git = {"GIT_CONFIG_COUNT": "many", "GIT_CONFIG_PARAMETERS": "'user.name=Me'"}
    agent.story(step())
    assert project.build("1", env=secrets | outside | git).code == 3
    (call,) = agent.calls
    assert (Path(call.cwd), call.ignored) == (project.root, [])
    found = call.env
    assert (set(found) & set(secrets), "s3cret" in str(found), "TMUX" in found) == (set(), False, False)
    assert found["RALPH_RUN_ID"].startswith("outer:"), "a mark that tells the run around it"
    assert found["TMUX_TMPDIR"] not in {"/tmp", os.environ.get("TMPDIR"), str(project.home)}
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_PARAMETERS": found["GIT_CONFIG_PARAMETERS"]}
    asked = ["git", "config", "--get-regexp", "^(user.name|gc.autodetach)$"]
    said = subprocess.run(asked, env=env, cwd="/", capture_output=True, check=False)
    assert said.stdout == b"user.name Me\ngc.autodetach false\n", "git does not tidy up in the background"
