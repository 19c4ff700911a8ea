"""`ralph doctor`: what it sees of a machine, a project and a plan, and what it advises."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from http_server import Answer, Server
from ralph_driver import Project, progress_text
from scripted_model import ScriptedModel

from ralph import cli, lock
from ralph.state import State

Prepare = Callable[[Project], object]
AS_ROOT = os.getuid() == 0
KNOWN = "2.1.197 (Claude Code)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the doctor said, and its exit code."""

    code: int
    ok: bool
    checks: list[dict[str, Any]]

    def of(self, name: str) -> list[tuple[str, str]]:
        """Level and words of the checks of that name, remedies included."""
        return [(one["level"], f"{one['said']} -> {one['remedy']}") for one in self.checks if one["name"] == name]

    def says(self, level: str, name: str, *words: str) -> bool:
        """Whether a check of that name and level has all these words."""
        return any(level == one and all(word in text for word in words) for one, text in self.of(name))


Doctor = Callable[..., Report]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a check shall say."""

    level: str
    name: str
    words: tuple[str, ...]


def claude_says(project: Project, *, version: str = KNOWN, result: object = None, exit_code: int = 0) -> Path:
    """Puts a claude on PATH that knows its version, and answers a prompt with `result`."""
    path = programs(project) / "claude"
    (programs(project) / "answer").write_text(result if isinstance(result, str) else json.dumps(result))
    path.unlink(missing_ok=True)
    lines = [
        "#!/bin/sh",
        f'[ "$1" = --version ] && echo "{version}" && exit 0',
        'echo "$CLAUDE_CODE_MAX_RETRIES $MAX_THINKING_TOKENS $@" >> "$0.log"',
        'cat "${0%/*}/answer"',
        f"exit {exit_code}",
    ]
    path.write_text("\n".join(lines))
    path.chmod(0o755)
    return path


def programs(project: Project) -> Path:
    return Path(project.env["PATH"].split(os.pathsep)[0])


@pytest.fixture
def patient(project: Project) -> Project:
    """A project where nothing is wrong but that nobody would hear of it."""
    claude_says(project)
    project.env["IS_SANDBOX"] = "1"
    return project


@pytest.fixture
def doctor(patient: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Doctor:
    """`ralph doctor --json ARGS` in the project."""

    def look(*args: str, env: Mapping[str, str] | None = None) -> Report:
        for name in [*os.environ]:
            monkeypatch.delenv(name)
        for name, value in {**patient.env, **(env or {})}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(patient.root)
        code = cli.run(["doctor", "--json", *args])
        said = json.loads(capfd.readouterr().out)
        return Report(code=code, ok=said["ok"], checks=said["checks"])

    return look


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:
        yield lambda *answers: stack.enter_context(Server(*answers))


def case(sentence: str, prepare: Prepare, level: str, name: str, *words: str, args: str = "") -> Any:
    return pytest.param(prepare, args.split(), Seen(level=level, name=name, words=words), id=sentence)


def nothing(_: Project) -> None: ...


def sets(**env: str) -> Prepare:
    return lambda project: project.env.update(env)


def has(name: str, text: str, mode: int = 0o644) -> Prepare:
    """A file of the project, or with ~/ of the home folder."""

    def write(project: Project) -> None:
        path = project.home / name[2:] if name.startswith("~/") else project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    return write


def plan_says(*lines: str) -> Prepare:
    return has("feature.md", "\n".join(("# A feature", *lines)))


def progress_says(*tasks: str, **more: str) -> Prepare:
    return lambda project: project.has_tasks(*tasks, **more)


def hooks(*commands: str, **more: object) -> str:
    listed = [{"type": "command", "command": command} for command in commands]
    return json.dumps({"hooks": {"Stop": [{"matcher": "", "hooks": listed}]}, **more})


def all_of(*parts: Prepare) -> Prepare:
    return lambda project: [part(project) for part in parts]


def git(*arguments: str) -> Prepare:
    return lambda project: project.git(*arguments)


def without(path: Callable[[Project], Path]) -> Prepare:
    return lambda project: path(project).unlink()


def program(name: str, text: str) -> Prepare:
    def write(project: Project) -> None:
        (programs(project) / name).unlink(missing_ok=True)
        (programs(project) / name).write_text(text)
        (programs(project) / name).chmod(0o755)

    return write


def only_own_programs(project: Project) -> None:
    project.env["PATH"] = str(programs(project))


def behind_another(project: Project) -> None:
    second = project.home / "second"
    shutil.copytree(programs(project), second)
    project.env["PATH"] += f":{second}"
    program("claude", "#!/gone\n")(project)


def has_no_name(project: Project) -> None:
    (project.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")


def sits_on(name: str, path: str) -> Prepare:
    """A folder of the machine that is a file."""
    return lambda project: project.env.update({name: str(project.root / path)})


AGENT = [
    case("a claude that was measured", nothing, "ok", "agent", "claude 2.1.197 at /"),
    case(
        "no agent on the PATH",
        without(lambda project: programs(project) / "claude"),
        "bad",
        "agent",
        "claude is not on the PATH",
        "install it",
    ),
    case("an agent that is no program", has("mine", "x"), "bad", "agent", "is not executable", args="--agent ./mine"),
    case("another agent, which is only found", nothing, "ok", "agent", "cat at /", args="--agent cat"),
    case("a newer claude", lambda p: claude_says(p, version="3.0.1 (X)"), "ok", "agent", "3.0.1", "2.1.197 was"),
    case("an old claude", lambda p: claude_says(p, version="1.0.60"), "warning", "agent", "1.0.60", "claude update"),
    case("a claude without a version", lambda p: claude_says(p, version="hi"), "warning", "agent", "says no version"),
    case("a claude that fails", program("claude", "#!/bin/sh\necho broken >&2; exit 3\n"), "bad", "agent", "3: broken"),
    case("a claude whose interpreter is gone", program("claude", "#!/gone\n"), "bad", "agent", "#! line"),
    case("one behind another that cannot start", behind_another, "ok", "agent", "2.1.197 at /", "/second/claude"),
    case("not inside of another claude", nothing, "ok", "nested"),
    case("inside of another claude", sets(CLAUDECODE="1"), "warning", "nested", "unset CLAUDECODE"),
    case(
        "a short PATH of cron",
        nothing,
        "warning",
        "cron",
        "no claude",
        "/bin:/usr/bin:",
        ":/bin ralph feature.md build",
    ),
    case("an agent by its path", nothing, "warning", "cron", "has no ralph -> ", args="--agent /bin/cat"),
    case("a setting cron does not know", sets(RALPH_DELAY="4s"), "warning", "cron", "no RALPH_DELAY", "--delay 4s"),
    case(
        "a verify program cron would not find",
        program("mine", "#!/bin/sh\n"),
        "warning",
        "cron",
        "no mine",
        args="--verify mine",
    ),
    case(
        "a script whose interpreter cron would not find",
        all_of(program("mynode", "#!/bin/sh\n"), has("mine", "#!/usr/bin/env mynode\n", 0o755)),
        "warning",
        "cron",
        "no mynode",
        args="--agent ./mine",
    ),
    case("a login that is not tried", nothing, "ok", "login", "not tried", "claude's own login pays"),
    case("a key that would pay", sets(ANTHROPIC_API_KEY="sk-x"), "ok", "login", "ANTHROPIC_API_KEY", "no subscription"),
    case("a token that would pay", sets(CLAUDE_CODE_OAUTH_TOKEN="t"), "ok", "login", "CLAUDE_CODE_OAUTH_TOKEN"),
]
SETTINGS = [
    case("no settings", nothing, "ok", "settings", "nobody set any"),
    case("one from the plan", plan_says("RALPH_MAX_TIME: 8h"), "ok", "settings", "max-time 8h (feature.md:2)"),
    case("one from the command line", nothing, "ok", "settings", "delay 3s (--delay)", args="--delay 3s"),
    case("one from the environment", sets(RALPH_MODEL="opus"), "ok", "settings", "model opus (environment)"),
    case(
        "one from the project's file", has(".ralph.env", "RALPH_DELAY=1s"), "ok", "settings", "delay 1s (.ralph.env:1"
    ),
    case(
        "the stronger of two", all_of(plan_says("RALPH_DELAY: 9s"), sets(RALPH_DELAY="4s")), "ok", "settings", "4s (en"
    ),
    case("a wrong one", plan_says("RALPH_DELAY: soon"), "bad", "settings", 'feature.md:2: RALPH_DELAY: "soon" is no'),
    case("an unknown one", plan_says("RALPH_DELLAY: 1s"), "bad", "settings", "did you mean RALPH_DELAY"),
    case("one for claude, for another agent", nothing, "bad", "settings", "--model", args="--agent cat --model x"),
    case("an unknown mode", nothing, "bad", "settings", '"odd" is no mode', args="odd"),
    case("an empty plan", has("feature.md", ""), "bad", "settings", "is empty", "write what shall be built"),
    case("no limit", nothing, "warning", "limits", "none is set", "--max-iterations"),
    case("a limit", nothing, "ok", "limits", "at most 50 iterations", args="50"),
    case("a mode of one iteration", nothing, "ok", "limits", "one iteration", args="plan"),
    case("no verify command", nothing, "ok", "verify", "no command is set"),
    case("a verify command", plan_says("RALPH_VERIFY: X=1 git --version"), "ok", "verify", "X=1 git --version"),
    case("a verify command of the shell", plan_says("RALPH_VERIFY: cd src && make"), "ok", "verify"),
    case("a verify command too odd to judge", plan_says("RALPH_VERIFY: (cd src; x)"), "ok", "verify"),
    case("a verify program that is missing", plan_says("RALPH_VERIFY: gone -q"), "bad", "verify", "no program gone"),
    case("one that the plan may ask for", plan_says("RALPH_VERIFY: ./check.sh"), "warning", "verify", "./check.sh"),
    case("prompts", nothing, "ok", "prompts", "build (", "plan ("),
    case(
        "a prompt with a variable that is none",
        has(".ralph/PROMPT_odd.md", "Read it.\n{{ PLAN_FIEL }}\n"),
        "bad",
        "prompts",
        ".ralph/PROMPT_odd.md:2: PLAN_FIEL is no variable",
    ),
    case(
        "a prompt with a wrong setting",
        has(".ralph/PROMPT_odd.md", "{# RALPH_DELAY: x #}\nDo.\n"),
        "bad",
        "prompts",
        "PROMPT_odd.md:1",
    ),
]
PROGRESS = [
    case("no progress file yet", nothing, "ok", "progress", "the first start makes it"),
    case("tasks", progress_says("x one", "two"), "ok", "progress", "1/2 tasks"),
    case("done", progress_says("x one", status="RALPH_DONE"), "warning", "progress", "ends at once", "take RALPH_DONE"),
    case(
        "blocked", progress_says("a", status="RALPH_BLOCKED: no key"), "bad", "progress", "no key", "RALPH_BLOCKED out"
    ),
    case("stopped", progress_says("a", status="RALPH_STOP"), "bad", "progress", "stopped", "take RALPH_STOP out"),
    case(
        "what the plan may cost is spent",
        has("feature_PROGRESS.md", progress_text("a").replace("## Status", "Spent: $9\n\n## Status", 1)),
        "bad",
        "progress",
        "goes no further",
        args="--max-total-cost 5",
    ),
    case("an open fence", progress_says("a", notes="```\n"), "warning", "progress", "feature_PROGRESS.md:15", "fence"),
    case("a large one", progress_says("a", notes="word " * 12_000), "warning", "progress", "60 kB"),
    case(
        "another plan's",
        all_of(
            has("sub/feature.md", "x"), has("feature_PROGRESS.md", progress_text("a").replace("Plan: ", "Plan: sub/"))
        ),
        "bad",
        "progress",
        "belongs to another plan",
        "--progress-file",
    ),
    case("a folder in its place", lambda p: p.progress.mkdir(), "bad", "progress", "a directory", "move it away"),
    case("no task for --strict", nothing, "bad", "tasks", "none yet", "plan --strict", args="build --strict"),
    case("no task there either", progress_says(), "bad", "tasks", "none yet", args="build --strict"),
    case("tasks for --strict", progress_says("x a: A", "b: B"), "ok", "tasks", "1 open task", args="build --strict"),
    case(
        "tasks that wait for each other",
        progress_says("a: A\n  - after: b", "b: B\n  - after: a"),
        "bad",
        "tasks",
        "a, b wait for each other",
        args="build --strict",
    ),
    case(
        "a check that no machine can make",
        progress_says("a: A\n  - verify: it is fast"),
        "bad",
        "tasks",
        "it is fast",
        args="build --strict --criteria strict",
    ),
    case("a lock that is free", nothing, "ok", "lock"),
]
REPOSITORY = [
    case("a repository", nothing, "ok", "git", "/git, repository /"),
    case("no git", only_own_programs, "bad", "git", "git is not on the PATH", "install git"),
    case("no repository", lambda p: shutil.rmtree(p.root / ".git"), "warning", "git", "is no repository", "git init"),
    case("a broken repository", without(lambda p: p.root / ".git/HEAD"), "bad", "git", "not a git repository"),
    case("a name to commit by", nothing, "ok", "identity", "A Tester <tester@example.invalid>"),
    case("no name to commit by", has_no_name, "bad", "identity", "commits fail", "git config --global user.name"),
    case("no name, and nothing to commit", has_no_name, "warning", "identity", args="--no-auto-commit"),
    case("a clean tree", progress_says("a"), "ok", "tree", "everything is committed"),
    case(
        "a file that is not committed", has("new.txt", "x"), "warning", "tree", "1 uncommitted file: new.txt", "stash"
    ),
    case("a merge that is not finished", has(".git/MERGE_HEAD", ""), "bad", "git", "a merge", "git merge --continue"),
    case("a rebase that is not finished", has(".git/rebase-merge/x", ""), "bad", "git", "a rebase"),
    case("a lock that a git left", has(".git/index.lock", ""), "bad", "git", "that is gone", "rm /"),
    case("a HEAD without a branch", git("checkout", "-q", "--detach"), "warning", "git", "on no branch"),
]
MACHINE = [
    case("room on the disks", nothing, "ok", "state", "can be written to"),
    case("a file where the state should be", sits_on("XDG_STATE_HOME", "feature.md"), "bad", "state", "is no folder"),
    case("a file where temporary files go", sits_on("TMPDIR", "feature.md"), "bad", "temporary", "set TMPDIR"),
    case("no env file", nothing, "ok", "env file", "there is no"),
    case("a private env file", has("~/.ralph.env", "", 0o600), "ok", "env file", "yours alone"),
    case("an env file for all", has("~/.ralph.env", ""), "warning", "env file", "chmod 600"),
]
TOLD = [
    case("no channel", nothing, "warning", "channel", "none is set up", "ralph notify setup"),
    case("a channel", sets(RALPH_SLACK_WEBHOOK_URL="https://x.example/y"), "ok", "channel", "slack", "not tried"),
    case(
        "a channel cron does not know",
        sets(RALPH_SLACK_WEBHOOK_URL="https://x.example/y"),
        "warning",
        "channel",
        "RALPH_SLACK_WEBHOOK_URL: only in this environment",
        "/.ralph.env",
    ),
    case("half a channel", sets(RALPH_TELEGRAM_CHAT_ID="1"), "warning", "channel", "TELEGRAM_BOT_TOKEN is not set"),
    case("a notify script", sets(RALPH_CUSTOM_NOTIFY_SCRIPT="/bin/true"), "ok", "channel", "custom is set up"),
    case(
        "a notify script that is gone", sets(RALPH_CUSTOM_NOTIFY_SCRIPT="/gone"), "bad", "channel", "/gone is not there"
    ),
    case("a channel file that is none", has("~/.ralph/notify/x.toml", "["), "bad", "channel", "x.toml"),
    case("no monitor", nothing, "ok", "heartbeat", "no monitor"),
    case("one cron does not know", sets(RALPH_HEARTBEAT_URL="http://x.example/y"), "warning", "heartbeat", "only in"),
    case("a monitor", sets(RALPH_HEARTBEAT_URL="http://x.example/y"), "ok", "heartbeat", "not tried"),
]
PROJECT = [
    case("nothing that claude would load", nothing, "ok", "project"),
    case("hooks", has(".claude/settings.json", hooks("a", "b")), "warning", "project", "settings.json: 2 hooks"),
    case(
        "a key helper and variables",
        has(".claude/settings.local.json", hooks(apiKeyHelper="./k", env={"B": "1", "A": "2"})),
        "warning",
        "project",
        "sets A B, apiKeyHelper",
    ),
    case("harmless settings", has(".claude/settings.json", '{"model": "opus"}'), "ok", "project", "no hooks"),
    case("settings that are no JSON", has(".claude/settings.json", "{"), "warning", "project", "claude ignores it"),
    case("settings that are odd", has(".claude/settings.json", '{"hooks": [1], "env": 2}'), "ok", "project"),
    case(
        "servers of tools",
        has(".mcp.json", '{"mcpServers": {"db": {}}}'),
        "warning",
        "project",
        "1 server of tools (db)",
    ),
    case(
        "servers that are left out",
        has(".mcp.json", '{"mcpServers": {"db": {}}}'),
        "ok",
        "project",
        args="-- --strict-mcp-config",
    ),
]
CASES = [*AGENT, *SETTINGS, *PROGRESS, *REPOSITORY, *MACHINE, *TOLD, *PROJECT]


@pytest.mark.parametrize(("prepare", "args", "seen"), CASES)
def test_it_sees(doctor: Doctor, patient: Project, prepare: Prepare, args: list[str], seen: Seen) -> None:
    prepare(patient)
    report = doctor("feature.md", *args)
    assert report.says(seen.level, seen.name, *seen.words), report.of(seen.name)
    assert all(one["ok"] or one["remedy"] or seen.name == "settings" for one in report.checks)
    bad = [one["name"] for one in report.checks if one["level"] == "bad"]
    assert bad == [seen.name] * len(bad), report.checks
    assert (report.ok, report.code) == ((True, 0) if not bad else (False, 1))


@pytest.mark.skipif(not AS_ROOT, reason="only root is refused")
@pytest.mark.parametrize(
    ("prepare", "level", "words"),
    [
        pytest.param(sets(IS_SANDBOX="1"), "ok", "IS_SANDBOX", id="told by the environment"),
        pytest.param(sets(IS_SANDBOX="true"), "bad", "export IS_SANDBOX=1", id="told in words claude does not take"),
        pytest.param(
            all_of(sets(IS_SANDBOX=""), has("~/.claude/settings.json", '{"env": {"IS_SANDBOX": "1"}}')),
            "ok",
            "settings.json",
            id="told by the person's settings of claude",
        ),
        pytest.param(sets(IS_SANDBOX=""), "bad", "refuses", id="told by nobody"),
    ],
)
def test_root_needs_a_sandbox(doctor: Doctor, patient: Project, prepare: Prepare, level: str, words: str) -> None:
    prepare(patient)
    report = doctor()
    assert report.says(level, "rights", words), report.of("rights")
    assert report.code == (level == "bad")


def test_a_run_that_works_here(doctor: Doctor, patient: Project) -> None:
    patient.has_tasks("one")
    held = lock.acquire(patient.root)
    try:
        report = doctor("feature.md")
    finally:
        held.release()
    assert (report.code, report.says("bad", "lock", "another run works in", "75")) == (1, True), report.of("lock")


def test_a_run_that_died(doctor: Doctor, patient: Project) -> None:
    """A start judges the RALPH_DONE that it left, before it believes it."""
    patient.has_tasks("x one", status="RALPH_DONE")
    assert doctor("feature.md").says("warning", "progress", "ends at once")
    State("feature", patient.progress).begin("run", "build", 7, Path("x.jsonl"), b"")
    report = doctor("feature.md")
    assert report.says("ok", "progress", "died in iteration 7"), report.of("progress")
    assert not report.says("warning", "progress")


@pytest.mark.parametrize(
    ("what", "level", "name"),
    [
        pytest.param("XDG_STATE_HOME", "bad", "disk", id="where ralph writes"),
        pytest.param("TMPDIR", "warning", "temporary", id="for temporary files, which the work may not need"),
    ],
)
def test_a_full_disk(doctor: Doctor, tmp_path: Path, what: str, level: str, name: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if not AS_ROOT or not shutil.which("mount") or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root, and not in every container, can mount a small disk")
    try:
        report = doctor("feature.md", env={what: str(disk)})
    finally:
        subprocess.run(["umount", disk], check=True)
    assert report.says(level, name, f"4 MB free in {disk}", "free some space"), report.of(name)
    assert report.code == (level == "bad")


def test_what_may_not_be_written_to(patient: Project, no_override: list[str]) -> None:
    patient.has_tasks("one")
    patient.progress.chmod(0o444)
    patient.state.chmod(0o555)
    run = patient.ralph("doctor", "feature.md", prefix=no_override)
    assert (run.code, run.stderr) == (1, "")
    assert "BAD  progress: feature_PROGRESS.md is read-only" in run.stdout
    assert f"BAD  state: {patient.state} cannot be written to\n     set XDG_STATE_HOME elsewhere\n" in run.stdout
    assert run.stdout.splitlines()[-1] == "2 things need mending: progress, state."


def test_what_may_not_be_read_is_no_traceback(patient: Project, no_override: list[str]) -> None:
    patient.state.chmod(0)
    (patient.root / ".ralph").mkdir(mode=0)
    run = patient.ralph("doctor", "feature.md", prefix=no_override)
    start = patient.ralph("feature.md", prefix=no_override)
    patient.state.chmod(0o755)
    (patient.root / ".ralph").chmod(0o755)
    assert (start.code, start.stderr) == (2, "ralph: .ralph/PROMPT_build.md: Permission denied\n")
    assert (run.code, run.stderr) == (1, "")
    assert "BAD  settings: .ralph/PROMPT_build.md: Permission denied\n" in run.stdout, run.stdout
    assert "ok   git: " in run.stdout, "the other checks are made all the same"


def test_all_that_is_wrong_with_the_settings_is_said_at_once(doctor: Doctor, patient: Project) -> None:
    plan_says("RALPH_DELAY: soon", "RALPH_MODEL: opus", "RALPH_WAIT: perhaps")(patient)
    has("~/.ralph.env", "RALPH_MAX_COST=much\nRALPH_MAX_TIME=8h\n")(patient)
    report = doctor("feature.md", "--max-iterations", "0")
    assert len([level for level, _ in report.of("settings") if level == "bad"]) == 4, report.of("settings")
    assert report.says("ok", "limits", "at most 8h00m"), "what is right counts for the other checks"
    last = patient.ralph("doctor", "feature.md").stdout.splitlines()[-1]
    assert last == "1 thing needs mending: settings.", "once, however much is wrong with them"


def test_without_a_plan_it_looks_at_the_rest(doctor: Doctor) -> None:
    names = [one["name"] for one in doctor().checks]
    assert names[0] == "version"
    assert "progress" not in names
    assert {"agent", "login", "nested", "settings", "prompts", "lock", "git", "disk", "cron"} <= {*names}


def test_of_a_plan_in_json_it_looks_at_the_tasks(doctor: Doctor, patient: Project) -> None:
    broken = patient.root / "r.json"
    broken.write_text('{"requirements": [{"id": 1}]}')
    report = doctor("r.json", "build", "--delay", "soon")
    assert report.says("bad", "tasks", "r.json:1: requirements[0].requirement: is missing", "say what shall be built")
    assert report.says("bad", "settings", "--delay"), "and at the settings all the same"
    assert not report.says("bad", "settings", "r.json")

    broken.write_text('{"requirements": [{"id": 1, "requirement": "x", "verification_criteria": ["it is fast"]}]}')
    assert doctor("r.json", "build", "--strict").says("ok", "tasks", "1 open task")
    assert doctor("r.json", "build", "--strict", "--criteria", "strict").says("bad", "tasks", "it is fast")
    (patient.root / "r_PROGRESS.md").write_text(progress_text("2: y", plan="r").replace("r.md", "r.json"))
    assert doctor("r.json").says("warning", "tasks", "1 task of r.json is not in the Task List", "`- [ ] 1: x`")


def test_a_plan_is_known_by_its_name_too(doctor: Doctor, patient: Project) -> None:
    patient.has_tasks("x one", "two")
    assert doctor("feature").says("ok", "progress", "1/2 tasks")


@pytest.mark.parametrize("plan", ["../feature.md", "./status", "./-x.md"])
def test_the_line_for_the_crontab_works_as_it_stands(doctor: Doctor, patient: Project, plan: str) -> None:
    program("ralph", "#!/bin/sh\npwd; command -v claude; printf '%s\\n' \"$@\"\n")(patient)
    folder = patient.root / "100% 'mine'"
    has(f"{folder.name}/{plan}", "Do.")(patient)
    options = ["--max-time", "3h", "--verify", "true && git --version"]
    rest = ["--", "--add-dir", "../x"]
    env = {"RALPH_MAX_COST": "5", "RALPH_MAX_TIME": "4h", "RALPH_VERIFY": ""}
    (text,) = [text for _, text in doctor(plan, "7", *options, "-C", str(folder), *rest, env=env).of("cron")]
    assert ("RALPH_MAX_COST" in text, "RALPH_MAX_TIME" in text) == (True, False), "what decides, and is lost"
    line = text.partition("in the crontab: ")[2]
    assert r"100\% " in line, "cron takes a bare % for the end of the command"
    command = ["sh", "-c", line.replace(r"\%", "%")]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, cwd="/", capture_output=True, text=True, check=False)
    words = [plan, "build", *options, "--max-iterations", "7", "--max-cost", "5", *rest]
    assert done.stdout.splitlines() == [str(folder), str(programs(patient) / "claude"), *words], line


def test_a_ralph_that_cron_would_not_find_either(patient: Project) -> None:
    """One that was called by its path, which is not on this PATH."""
    folder = patient.home / "venv"
    has("~/venv/ralph", f"#!{sys.executable}\nfrom ralph.cli import main\nmain()\n", 0o755)(patient)
    run = patient.ralph("doctor", command=[str(folder / "ralph")])
    assert "no ralph" in run.stdout, run.text
    assert f":{folder}:" in run.stdout, run.text


@pytest.mark.skipif(not AS_ROOT, reason="only root is refused")
def test_cron_does_not_know_of_the_sandbox(doctor: Doctor, patient: Project) -> None:
    assert doctor().says("warning", "cron", "no IS_SANDBOX", "&& IS_SANDBOX=1 PATH=")
    has("~/.claude/settings.json", '{"env": {"IS_SANDBOX": "1"}}')(patient)
    assert not doctor().says("warning", "cron", "IS_SANDBOX"), "claude finds that file from cron too"


def snapshot(*folders: Path) -> dict[str, tuple[int, ...]]:
    """What tells one version of each file and folder from another."""
    found = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_ino, path.lstat().st_size) for path in found}


def test_as_cron_starts_it_it_says_a_line_for_each_check_and_writes_nothing(patient: Project) -> None:
    patient.has_tasks("one")
    folders = (patient.root, patient.home, patient.state, Path(patient.env["TMPDIR"]))
    before = snapshot(*folders)
    run = patient.ralph(
        "doctor", "feature.md", "50", prefix=["env", "-i", *(f"{n}={v}" for n, v in patient.env.items())]
    )
    assert (run.code, run.stderr) == (0, "")
    first, *lines, last = run.stdout.splitlines()
    assert first.startswith("ok   version: ralph ")
    assert last == "A run would find what it needs."
    assert all(line.startswith(("ok   ", "warn ", "BAD  ", "     ")) for line in lines)
    assert "     ralph notify setup" in lines
    assert snapshot(*folders) == before


def test_ralph_gave_up_which_is_for_a_person_to_mend(patient: Project) -> None:
    patient.has_tasks("one", status="RALPH_BLOCKED: ralph: 3 failures in a row")
    cron = patient.ralph("doctor", "feature.md")
    assert (cron.code, "BAD  progress: feature is blocked: ralph: 3 failures" in cron.stdout) == (1, True), cron.text
    person = patient.ralph_tty("doctor", "feature.md")
    assert (person.code, "a start from a terminal tries again" in person.stdout) == (0, True), person.text


def test_the_folder_may_be_named(patient: Project) -> None:
    run = patient.ralph("doctor", "feature.md", "-C", str(patient.root), cwd=patient.home)
    assert run.code == 0, run.text
    gone = patient.ralph("doctor", "-C", "gone")
    assert (gone.code, gone.stdout) == (2, "")


# Live: requests go out, one of them to the model.

OK = {"type": "result", "subtype": "success", "is_error": False, "result": "ok", "total_cost_usd": 0.0021}
ERROR = {**OK, "is_error": True, "result": "API Error: 400 no such thing", "total_cost_usd": 0}
KEY = {**ERROR, "result": "Invalid API key", "api_error_status": 401}
MODEL = {**ERROR, "result": "It may not exist", "api_error_status": 404}
LIMIT = {**ERROR, "result": "You've hit your session limit", "api_error_status": 429}
NETWORK = {**ERROR, "result": "API Error: Unable to connect to API (ConnectionRefused)"}
BUDGET = {"type": "result", "subtype": "error_max_turns", "is_error": True, "errors": ["Reached maximum"]}


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        pytest.param((OK, 0), "ok", ("claude answered, for $0.0021",), id="it answers"),
        pytest.param((KEY, 1), "bad", ("Invalid API key (", "log in", "claude setup-token"), id="its key is none"),
        pytest.param((MODEL, 1), "bad", ("not exist (", "-> choose another --model"), id="there is no such model"),
        pytest.param((ERROR, 1), "bad", ("400 no such thing", "start claude"), id="it says an error"),
        pytest.param((LIMIT, 1), "warning", ("session limit", "a run waits"), id="its limit is reached"),
        pytest.param((NETWORK, 1), "warning", ("Unable to connect", "a run waits"), id="there is no network"),
        pytest.param((BUDGET, 1), "bad", ("Reached maximum",), id="it says errors in a list"),
        pytest.param(("error: unknown option", 1), "bad", ("unknown option",), id="it says no result"),
        pytest.param(("", 7), "bad", ("exited with 7",), id="it says nothing"),
    ],
)
def test_a_cheap_call(
    doctor: Doctor, patient: Project, answer: tuple[object, int], level: str, words: tuple[str, ...]
) -> None:
    path = claude_says(patient, result=answer[0], exit_code=answer[1])
    report = doctor("--live", "--model", "sonnet", "--", "--verbose")
    assert report.says(level, "login", *words), report.of("login")
    assert report.code == (level == "bad")
    asked = path.with_name("claude.log").read_text()
    assert asked.startswith("1 0 -p --dangerously-skip-permissions --verbose --output-format stream-json ")
    assert asked.endswith("--model sonnet --verbose\n"), "the model and the words of a run"


def test_without_live_nothing_is_asked(doctor: Doctor, patient: Project, serve: Callable[..., Server]) -> None:
    server = serve()
    path = claude_says(patient, result=OK)
    doctor(env={"RALPH_WEBHOOK_URL": server.url(), "RALPH_HEARTBEAT_URL": server.url()})
    assert not path.with_name("claude.log").exists()
    assert server.received == []


def test_channels_and_the_monitor_are_reached(doctor: Doctor, patient: Project, serve: Callable[..., Server]) -> None:
    claude_says(patient, result=OK)
    good, dead = serve(), serve(Answer(status=404, body="no such hook"))
    urls = {"RALPH_WEBHOOK_URL": good.url("/hook"), "RALPH_SLACK_WEBHOOK_URL": dead.url("/services/T0/secretly")}
    report = doctor("--live", env={**urls, "RALPH_HEARTBEAT_URL": good.url("/beat")})
    assert report.says("ok", "channel", "webhook: a notice was sent")
    assert report.says("bad", "channel", "slack: not sent: HTTP 404 from 127.0.0.1: no such hook")
    assert report.says("ok", "heartbeat", "was told")
    assert report.code == 1
    assert sorted(one.path for one in good.received) == ["/beat", "/hook"]
    assert b"Ralph Doctor" in good.received[0].body + good.received[1].body


def test_a_monitor_that_is_gone(doctor: Doctor, patient: Project, serve: Callable[..., Server]) -> None:
    claude_says(patient, result=OK)
    report = doctor("--live", env={"RALPH_HEARTBEAT_URL": serve(Answer(status=404)).url("/beat")})
    assert report.says("bad", "heartbeat", "HTTP 404"), report.of("heartbeat")


SECRET = "s3cr3t-never-to-be-seen"


FORMS = [
    f"GH_TOKEN={SECRET.upper()} make",
    f"tool --api-key {SECRET} --password='{SECRET} {SECRET}'",
    f"curl -H 'Authorization: Bearer {SECRET}' -H 'Authorization: {SECRET}' -H 'X-Api-Key: {SECRET}'",
    f"curl -u me:{SECRET} https://me:{SECRET}@x.example/{SECRET}",
    "tool a/n/o/t/h/e/r",
]
"""How a command may hold it."""


@pytest.mark.parametrize(
    "how", [pytest.param([], id="at rest"), pytest.param(["--live", "--json"], id="live, as JSON")]
)
def test_no_line_shows_a_secret(patient: Project, serve: Callable[..., Server], how: list[str]) -> None:
    hook = serve(Answer(status=403, body=f"not {SECRET}")).url(f"/{SECRET}")
    claude_says(patient, result={**ERROR, "result": f"Invalid key {SECRET}"}, exit_code=1, version=f"{KNOWN} {SECRET}")
    has("~/.ralph.env", f"RALPH_SLACK_WEBHOOK_URL={hook}\nRALPH_HEARTBEAT_URL={hook}\n")(patient)
    patient.env |= {"ANTHROPIC_API_KEY": SECRET, "RALPH_TELEGRAM_BOT_TOKEN": SECRET}
    patient.env |= {"RALPH_WEBHOOK_URL": f"no-address/{SECRET}", "A_TOKEN": "a/n/o/t/h/e/r"}
    has(".claude/settings.json", hooks(SECRET, env={"A": SECRET}, apiKeyHelper=SECRET))(patient)
    said = [patient.ralph("doctor", "feature.md", *how, "--heartbeat-url", hook).text]
    patient.env |= {"RALPH_HEARTBEAT_URL": f"also-{SECRET[::-1]}"}
    said += [patient.ralph("doctor", "feature.md", *how[1:]).text]
    assert all("heartbeat" in one and "***" in one for one in said)
    assert not [line for one in said for line in one.splitlines() if SECRET in line.lower() or SECRET[::-1] in line]


@pytest.mark.parametrize("command", FORMS)
def test_no_command_shows_a_secret(doctor: Doctor, command: str) -> None:
    report = doctor("--verify", command, env={"A_TOKEN": "a/n/o/t/h/e/r", "SOME_PAT": "another"})
    seen = [text for name in ("settings", "verify", "cron") for _, text in report.of(name)]
    assert all("***" in text for text in seen)
    assert not [text for text in seen if SECRET in text.lower() or "a/n/o/t/h/e/r" in text]


@pytest.mark.parametrize("harmless", ["python -u run.py", "git log x:y", "KEY_FILE=~/.ssh/id make", "set -u; make"])
def test_what_is_no_secret_is_shown(doctor: Doctor, harmless: str) -> None:
    report = doctor("--verify", harmless, env={"A_KEY": "/home/me/.ssh/id"})
    assert report.says("ok", "settings", f"verify {harmless} ("), report.of("settings")


@pytest.fixture
def real(patient: Project) -> None:
    """The real claude on the project's PATH, with a key and no way out."""
    found = os.environ.get("RALPH_TEST_CLAUDE") or shutil.which("claude")
    if not found:
        pytest.skip("no claude: neither on PATH nor named by RALPH_TEST_CLAUDE")
    path = programs(patient) / "claude"
    path.unlink()
    path.symlink_to(Path(found).absolute())
    patient.env |= {
        "PATH": f"{patient.env['PATH']}{os.pathsep}{os.environ['PATH']}",
        "ANTHROPIC_API_KEY": "dummy-key",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_TMPDIR": patient.env["TMPDIR"],
        "DISABLE_AUTOUPDATER": "1",
    }


@pytest.mark.usefixtures("real")
def test_the_real_claude_answers_and_runs_nothing_of_the_project(doctor: Doctor, patient: Project) -> None:
    has(".claude/settings.json", hooks("touch hook-ran").replace("Stop", "SessionStart"))(patient)
    has(".mcp.json", '{"mcpServers": {"x": {"command": "touch", "args": ["server-ran"]}}}')(patient)
    with ScriptedModel([]) as model:
        report = doctor("--live", env={"ANTHROPIC_BASE_URL": model.url})
    assert report.says("ok", "login", "claude answered, for $0.0002", "ANTHROPIC_API_KEY"), report.of("login")
    assert report.says("ok", "agent", "claude 2.1.197 at ") or report.says("ok", "agent", "not measured")
    assert not [path for path in patient.root.iterdir() if path.name.endswith("-ran")]
    assert not list(patient.home.glob(".claude/projects/*")), "no session is kept"


@pytest.mark.usefixtures("real")
def test_the_real_claude_has_a_key_that_is_none(doctor: Doctor, serve: Callable[..., Server]) -> None:
    error = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
    server = serve(Answer(status=401, body=json.dumps(error)))
    report = doctor("--live", env={"ANTHROPIC_BASE_URL": server.url("")})
    assert report.says("bad", "login", "Invalid API key", "-> log in"), report.of("login")
    assert report.code == 1


@pytest.mark.usefixtures("real")
def test_the_real_claude_is_not_logged_in(doctor: Doctor, patient: Project) -> None:
    del patient.env["ANTHROPIC_API_KEY"]
    report = doctor("--live")
    assert report.says("bad", "login", "Not logged in", "/login"), report.of("login")


@pytest.mark.usefixtures("real")
def test_the_real_claude_has_no_network(doctor: Doctor) -> None:
    """Which a run waits for."""
    report = doctor("--live")
    assert report.says("warning", "login", "Unable to connect", "a run waits"), report.of("login")
    assert report.code == 0


@pytest.mark.usefixtures("real")
def test_the_real_claude_that_is_asked_for_its_version_writes_nothing(patient: Project) -> None:
    folders = (patient.root, patient.home, patient.state, Path(patient.env["TMPDIR"]))
    before = snapshot(*folders)
    assert patient.ralph("doctor").code == 0
    assert snapshot(*folders) == before
