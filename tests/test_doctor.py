"""`ralph doctor`: what it sees of a machine, a project and a plan, and what it advises."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ralph_driver import Project
from tmux import lines_only

from ralph import cli
from ralph.screen.text import columns

Prepare = Callable[[Project], object]
AS_ROOT = os.getuid() == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the doctor said, and its exit code."""

    code: int
    ok: bool
    checks: list[dict[str, Any]]

    def of(self, name: str) -> list[tuple[str, str]]:
        """Level and words of the checks of that name, remedies included."""
        return [(one["level"], f"{one['said']} -> {one['fix']}") for one in self.checks if one["subject"] == name]

    def says(self, level: str, name: str, *words: str) -> bool:
        """Whether a check of that name and level has all these words."""
        return any(level == one and all(word in text for word in words) for one, text in self.of(name))


Doctor = Callable[..., Report]


def programs(project: Project) -> Path:
    return Path(project.env["PATH"].split(os.pathsep)[0])


def program(name: str, text: str) -> Prepare:
    """A program on the PATH."""

    def write(project: Project) -> None:
        (programs(project) / name).unlink(missing_ok=True)
        (programs(project) / name).write_text(text)
        (programs(project) / name).chmod(0o755)

    return write


def claude_says(*, exit_code: int = 0) -> Prepare:
    """A claude on the PATH that says whether somebody is logged in."""
    return program("claude", f"#!/bin/sh\nexit {exit_code}\n")


@pytest.fixture
def patient(project: Project) -> Project:
    """A project where nothing is wrong but that nobody would hear of it."""
    claude_says()(project)
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
        code = cli.ralph.main(["doctor", "--json", *args], standalone_mode=False)
        said = json.loads(capfd.readouterr().out)
        return Report(code=code, ok=said["ok"], checks=said["checks"])

    return look


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


def test_what_is_right_is_said_with_where_it_stands(doctor: Doctor) -> None:
    report = doctor("feature.md", "--delay", "9s", env={"RALPH_DELAY": "4s"})
    for subject, *words in (
        ("agent", "claude at /"),
        ("login", "claude's own login pays"),
        ("settings", "no verify command"),
        ("settings", "delay 9s (--delay)"),
        ("plan", "the first start makes it"),
        ("repository", "A Tester <tester@example.invalid> ->"),
        ("cron", ":/bin", " ralph feature.md"),
    ):
        assert report.says("ok", subject, *words), report.of(subject)
    for subject, *words in (
        ("settings", "no limit", "--max-iterations"),
        ("notices", "no channel is set up", "ralph notify setup"),
    ):
        assert report.says("warning", subject, *words), report.of(subject)
    assert (report.ok, report.code) == (True, 0)


HOOKS = {"Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "touch hook-ran"}]}]}
SERVERS = '{"mcpServers": {"x": {"command": "touch", "args": ["server-ran"]}}}'


def test_what_deserves_a_word_is_said_with_what_to_do(doctor: Doctor, patient: Project) -> None:
    plan_says("RALPH_MAX_TIME: 8h", "RALPH_VERIFY: ./check.sh -q")(patient)
    patient.has_tasks("x one")
    for name, text in (("new.txt", "x"), ("~/.ralph.env", ""), ("a", ""), ("b", ""), ("c", "")):
        has(name, text)(patient)
    patient.env |= {"ANTHROPIC_API_KEY": "sk-x", "RALPH_SLACK_WEBHOOK_URL": "https://x.example/y", "RALPH_DELAY": "4s"}
    report = doctor("feature.md")
    for level, subject, *words in (
        ("ok", "login", "ANTHROPIC_API_KEY is set, and pays"),
        ("ok", "settings", "max-time 8h (feature.md:2)"),
        ("ok", "settings", "verify ./check.sh -q (feature.md:3)"),
        ("ok", "plan", "1/1 tasks"),
        ("ok", "notices", "slack: set up, `ralph notify test` tries it"),
        ("warning", "repository", "5 uncommitted files: a, b, c and 2 more", "stash"),
        ("warning", "cron", "RALPH_DELAY, RALPH_SLACK_WEBHOOK_URL: from this environment", "/.ralph.env"),
    ):
        assert report.says(level, subject, *words), report.of(subject)
    assert all(one["level"] == "ok" or one["fix"] for one in report.checks)
    assert not doctor().of("cron"), "where no plan is named there is no line for it"
    assert (report.ok, report.code) == (True, 0)
    shutil.rmtree(patient.root / ".git")
    report = doctor("--agent", "/bin/cat")
    assert report.says("warning", "repository", "is no repository", "git init")
    assert report.says("ok", "rights", "not wrapped")


def has_a_broken_channel(project: Project) -> None:
    has("~/.ralph/notify/x.toml", "[")(project)
    project.env["RALPH_X_URL"] = "https://x.example"  # without any such name no channel's file is read


BAD: dict[str, list[Any]] = {
    "agent": [
        (lambda project: (programs(project) / "claude").unlink(), "", "claude is not on the PATH", "install it"),
    ],
    "login": [(claude_says(exit_code=1), "", "nobody is logged in", "claude setup-token")],
    "settings": [
        (plan_says("RALPH_DELAY: soon"), "", 'feature.md:2: RALPH_DELAY: "soon": write'),
        (plan_says(), "odd", '"odd" is no mode'),
        (has(".ralph/PROMPT_build.md", "{# RALPH_DELAY: x #}\nDo.\n"), "", "PROMPT_build.md:1"),
    ],
    "plan": [
        (has(".ralph/PROMPT_build.md", "{{ PLAN_FIEL }}\n"), "", "PROMPT_build.md:1: PLAN_FIEL is no variable"),
        (progress_says("a", status="RALPH_BLOCKED: no key"), "", "no key", "RALPH_BLOCKED out"),
        (lambda project: project.progress.mkdir(), "", "move it away"),
        (progress_says(), "build --strict", "there is no task in", "plan --strict"),
        (progress_says("a: A\n  - verify: it is fast"), "build --strict --criteria strict", "it is fast"),
    ],
    "repository": [
        (lambda p: p.env.update(PATH=str(programs(p))), "", "No such file or directory: 'git'"),
        (lambda project: (project.root / ".git/HEAD").unlink(), "", "not a git repository"),
        (has("~/.gitconfig", "[user]\n\tuseConfigOnly = true\n"), "", "commits fail", "git config --global user.name"),
        (has(".git/index.lock", ""), "", "one that was killed left it", "rm /"),
    ],
    "notices": [(has_a_broken_channel, "", "x.toml")],
}


@pytest.mark.parametrize(
    ("subject", "case"),
    [pytest.param(subject, case, id=f"{subject}: {case[2]}") for subject, cases in BAD.items() for case in cases],
)
def test_what_needs_mending_is_said_with_the_remedy(
    doctor: Doctor, patient: Project, subject: str, case: tuple[Any, ...]
) -> None:
    prepare, args, *words = case
    prepare(patient)
    report = doctor("feature.md", *args.split())
    assert report.says("bad", subject, *words), report.checks
    assert {one["subject"] for one in report.checks if one["level"] == "bad"} == {subject}, report.checks
    assert (report.ok, report.code) == (False, 1)


@pytest.mark.skipif(not AS_ROOT, reason="only root is refused")
def test_root_needs_a_sandbox_which_cron_does_not_know_of(doctor: Doctor) -> None:
    report = doctor("feature.md")
    assert report.says("ok", "rights", "not wrapped")
    assert report.says("ok", "cron", "&& IS_SANDBOX=1 PATH=")
    report = doctor(env={"IS_SANDBOX": "true"})
    assert (report.code, report.says("bad", "rights", "refuses", "export IS_SANDBOX=1")) == (1, True)


def test_what_may_not_be_read_is_no_traceback(patient: Project, no_override: list[str]) -> None:
    patient.has_tasks("one")
    (patient.root / ".ralph").mkdir(mode=0)
    run = patient.ralph("doctor", "feature.md", prefix=no_override)
    (patient.root / ".ralph").chmod(0o755)
    assert (run.code, run.stderr) == (1, "")
    assert "\nBAD  settings    .ralph/PROMPT_build.md: Permission denied\n                 → mend that\n" in run.stdout
    assert "ok   repository  " in run.stdout, "the other subjects are looked at all the same"
    assert run.stdout.splitlines()[-1] == "1 thing to mend: settings."


def test_a_plan_is_known_by_its_name_need_not_be_named_and_may_be_json(doctor: Doctor, patient: Project) -> None:
    patient.has_tasks("x one", "two")
    assert doctor("feature").says("ok", "plan", "1/2 tasks")
    assert not doctor().of("plan")
    broken = patient.root / "r.json"
    broken.write_text('{"requirements": [{"id": 1}]}')
    assert doctor("r.json").says("bad", "plan", "requirements[0]: has no description", "say what shall be built")
    broken.write_text('{"requirements": [{"id": 1, "requirement": "x", "verification_criteria": ["it is fast"]}]}')
    assert doctor("r.json", "build", "--strict", "--criteria", "strict").says("bad", "plan", "it is fast")


def test_the_line_for_the_crontab_works_as_it_stands(doctor: Doctor, patient: Project) -> None:
    tell = 'pwd; command -v claude; printf "%s\\n" "$RALPH_MAX_TIME" "$RALPH_VERIFY" "$@"'
    program("ralph", f"#!/bin/sh\n{tell}\n")(patient)
    folder, plan = patient.root / "100% 'mine'", "../feature.md"
    has(f"{folder.name}/{plan}", "Do.")(patient)
    options = ["--max-time", "3h", "--verify", "true && git --version"]
    rest = ["--", "--add-dir", "../x"]
    env = {"RALPH_MAX_COST": "5", "RALPH_MAX_TIME": "4h", "RALPH_VERIFY": ""}
    (_, text), (_, lost) = doctor(plan, "7", *options, "-C", str(folder), *rest, env=env).of("cron")
    assert lost.startswith("RALPH_MAX_COST, RALPH_MAX_TIME, RALPH_VERIFY: from this environment")
    line = text.partition("-> \n")[2]
    assert r"100\% " in line, "cron takes a bare % for the end of the command"
    command = ["sh", "-c", line.replace(r"\%", "%")]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, cwd="/", capture_output=True, text=True, check=False)
    words = ["3h", "true && git --version", plan, *rest]
    assert done.stdout.splitlines() == [str(folder), str(programs(patient) / "claude"), *words], line


SUBJECTS = ["settings", "plan", "agent", "login", "rights", "repository", "machine", "cron"]


def snapshot(*folders: Path) -> dict[str, tuple[int, ...]]:
    """What tells one version of each file and folder from another."""
    found = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_ino, path.lstat().st_size) for path in found}


def test_as_cron_starts_it_it_says_a_line_for_each_subject_the_worst_last_and_writes_nothing(patient: Project) -> None:
    patient.has_tasks("one")
    folders = (patient.root, patient.home, patient.state, Path(patient.env["TMPDIR"]))
    before = snapshot(*folders)
    variables = [f"{name}={value}" for name, value in patient.env.items()]
    run = patient.ralph("doctor", "feature.md", "50", prefix=["env", "-i", *variables])
    assert (run.code, run.stderr) == (0, "")
    *lines, worst, fix, last = run.stdout.splitlines()
    assert [line[5:16].strip() for line in lines if line.startswith("ok ")] == SUBJECTS
    assert lines[0] == "ok   settings    max-iterations 50 (--max-iterations)"
    assert worst == "warn notices     no channel is set up: nobody hears how a run ends"
    assert fix == "                 → ralph notify setup"
    assert last == "A run would find what it needs."
    assert snapshot(*folders) == before
    assert "\nok   settings    no verify command: " in patient.ralph("doctor", "feature.md", "50", "--verbose").stdout


def test_on_a_terminal_it_is_wrapped_and_has_signs_in_colour(patient: Project) -> None:
    """Where ralph gave up, a start from a terminal tries again, and one from cron does not."""
    patient.has_tasks("one", status="RALPH_BLOCKED: ralph: 3 failures in a row")
    cron = patient.ralph("doctor", "feature.md")
    assert (cron.code, "\nBAD  plan        feature is blocked: ralph: 3 failures" in cron.stdout) == (1, True), (
        cron.text
    )
    person = patient.ralph_tty("doctor", "feature.md")
    assert (person.code, "\x1b[33m!\x1b[0m notices " in person.stdout) == (0, True), person.text
    lines = lines_only(person.stdout).splitlines()
    assert all(columns(line) <= 80 for line in lines if "cd /" not in line), "a command is not broken, to be copied"
    assert "! notices     no channel is set up: nobody hears how a run ends" in lines
    assert "\x1b" not in patient.ralph_tty("doctor", env={"NO_COLOR": "1"}).stdout


SECRET = "s3cr3t-never-to-be-seen"


def test_no_line_shows_a_secret(patient: Project) -> None:
    hook = f"https://x.example/{SECRET}"
    has("~/.ralph.env", f"RALPH_SLACK_WEBHOOK_URL={hook}\nRALPH_HEARTBEAT_URL={hook}\n")(patient)
    patient.env |= {"ANTHROPIC_API_KEY": SECRET, "RALPH_TELEGRAM_BOT_TOKEN": SECRET}
    patient.env |= {"RALPH_WEBHOOK_URL": f"no-address/{SECRET}", "A_TOKEN": "a/n/o/t/h/e/r"}
    asked = ["doctor", "feature.md", "--heartbeat-url", hook]
    command = f"tool {SECRET}; curl https://me:{SECRET}@x.example/{SECRET} ; cat ~/.ssh/id; tool a/n/o/t/h/e/r"
    said = [patient.ralph(*asked, "--verify", command, *how).text for how in (["--verbose"], ["--json"])]
    assert all("heartbeat-url x.example (--heartbeat-url)" in one for one in said), said
    assert all("verify tool ***; curl x.example ; cat ~/.ssh/id; tool *** (" in one for one in said), said
    assert not [line for one in said for line in one.splitlines() if SECRET in line.lower()]


def test_the_real_claude_says_who_is_logged_in_and_runs_nothing_of_the_project(
    doctor: Doctor, patient: Project
) -> None:
    found = os.environ.get("RALPH_TEST_CLAUDE") or shutil.which("claude")
    if not found:
        pytest.skip("no claude: neither on PATH nor named by RALPH_TEST_CLAUDE")
    path = programs(patient) / "claude"
    path.unlink()
    path.symlink_to(Path(found).absolute())
    patient.env |= {
        "PATH": f"{patient.env['PATH']}{os.pathsep}{os.environ['PATH']}",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_TMPDIR": patient.env["TMPDIR"],
        "DISABLE_AUTOUPDATER": "1",
    }
    has(".claude/settings.json", json.dumps({"hooks": {"SessionStart": HOOKS["Stop"]}}))(patient)
    has(".mcp.json", SERVERS)(patient)
    assert doctor().says("bad", "login", "nobody is logged in")
    assert doctor(env={"ANTHROPIC_API_KEY": "dummy-key"}).says("ok", "login", "ANTHROPIC_API_KEY is set, and pays")
    assert not [path for path in patient.root.iterdir() if path.name.endswith("-ran")]
    assert not list(patient.home.glob(".claude/projects/*")), "no session is kept"
