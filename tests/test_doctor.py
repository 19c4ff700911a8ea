"""`ralph doctor`: what it sees of a machine, a project and a plan, and what it advises."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ralph_driver import Project, everything_in, executable
from real_agents import AS_ROOT, Play
from tmux import lines_only

from ralph.screen.text import display_width

SECRET = "s3cr3t-never-to-be-seen"


def has(project: Project, files: Mapping[str, str]) -> None:
    """Writes these; ../bin is first on the PATH, ../home is the user's."""
    for name, text in files.items():
        path = project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def patient(project: Project) -> Project:
    """A project where nothing is wrong but that nobody would hear of it."""
    executable(project.root / "../bin/claude", "exit 0")
    project.env["IS_SANDBOX"] = "1"
    return project


def look(patient: Project, *args: str, env: Mapping[str, str] = {}) -> list[str]:
    """What `ralph doctor --json ARGS` says: each check as a line."""
    run = patient.ralph("doctor", "--json", *args, env=env)
    said = json.loads(run.stdout)
    seen = [f"{one['level']} {one['subject']}: {one['said']} -> {one['fix']}" for one in said["checks"]]
    is_ok = not any(one.startswith("bad") for one in seen)
    assert (said["ok"], run.code, SECRET in run.text) == (is_ok, 0 if is_ok else 1, False)
    assert all(one.startswith("ok") or not one.endswith("-> ") for one in seen), "each with a remedy"
    return seen


def says(seen: list[str], *told: str) -> None:
    """Each of these, level, subject and words, is in a line; `…` stands for anything between."""
    for one in told:
        first, *parts = one.split("…")
        assert [line for line in seen if line.startswith(first) and all(part in line for part in parts)], (one, seen)


def test_what_is_right_and_what_deserves_a_word_is_reported(patient: Project) -> None:
    seen = look(patient, "feature.md", "--delay", "9s", env={"RALPH_DELAY": "4s"})
    says(
        seen,
        "ok agent: claude at /…its own login pays",
        "ok settings: RALPH_DELAY 9s (--delay)",
        "ok plan: …the first run makes it",
        "ok sandbox: none",
        "ok repository: …A Tester <tester@example.invalid> ->",
        "warning cron: …except RALPH_DELAY…/.ralph.env…IS_SANDBOX=1 ralph feature.md",
        "warning settings: no limit…--max-iterations",
    )
    has(patient, {"feature.md": "# F\nRALPH_MAX_TIME: 8h\nRALPH_VERIFY: X=1 test -e x\n", "../home/.ralph.env": ""})
    has(patient, dict.fromkeys("abcd", ""))
    patient.has_tasks("x one")
    patient.env |= {"ANTHROPIC_API_KEY": "sk-x", "RALPH_SLACK_WEBHOOK_URL": "https://x.example/y", "RALPH_DELAY": "4s"}
    says(
        look(patient, "feature.md", "--wrap", "env", "--heartbeat-url", f"https://x.example/{SECRET}"),
        "ok settings: RALPH_MAX_TIME 8h (feature.md:2)",
        "ok settings: RALPH_HEARTBEAT_URL *** (",
        "ok plan: …1/1 tasks",
        "ok sandbox: env",
        "ok notices: slack: set up, `ralph notify test` tries it",
        "warning repository: 5 uncommitted files: feature.md, a, b and 2 more…stash",
        "warning cron: …except RALPH_DELAY, RALPH_SLACK_WEBHOOK_URL…/.ralph.env",
    )
    if AS_ROOT:
        says(look(patient, env={"IS_SANDBOX": "true"}), "bad sandbox: …refuses…export IS_SANDBOX=1")
    shutil.rmtree(patient.root / ".git")
    says(look(patient), "ok agent: …: ANTHROPIC_API_KEY pays")
    seen = look(patient, "--agent", "/bin/cat")
    says(seen, "warning repository: …is not a repository…git init", "ok agent: cat at /")
    assert not [one for one in seen if " plan: " in one or " cron: " in one], "none is named"


def test_what_needs_fixing_is_reported_with_the_remedy_and_hides_nothing_else(
    patient: Project, no_override: list[str]
) -> None:
    """A progress file that may not be read, one that is none, and all else that can be wrong with a project."""
    patient.has_tasks("one")
    patient.progress.chmod(0)
    run = patient.ralph("doctor", "feature.md", prefix=no_override)
    assert (run.code, run.stderr) == (1, "")
    assert (
        "\nBAD  plan        feature_PROGRESS.md: cannot be read: Permission denied\n                 → fix that\n"
        in run.stdout
    )
    assert run.stdout.splitlines()[-1] == "1 problem to fix: plan."
    old_terminal = (*no_override, "env", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0", "LC_ALL=C")
    assert patient.ralph("doctor", "feature.md", prefix=old_terminal).stdout == run.stdout.replace("→", ">")
    patient.progress.unlink()
    claude = executable(patient.root.parent / "bin" / "claude", "exit 1")
    nobody = "[user]\n\tuseConfigOnly = true\n"
    has(patient, {"../home/.gitconfig": nobody, "feature_PROGRESS.md/x": ""})
    says(
        look(patient, "feature.md"),
        "bad agent: …nobody is logged in…claude setup-token",
        "bad plan: …move it away",
        "bad repository: …commits fail…git config",
    )
    has(patient, {".ralph/PROMPT_build.md": "{{ PLAN_FIEL }}\n", "../home/.ralph/notify/x.toml": "["})
    claude.unlink()
    says(
        look(patient, "feature.md", env={"PATH": str(claude.parent), "RALPH_X_URL": "https://x.example"}),
        "bad plan: …PROMPT_build.md: PLAN_FIEL is not a",
        "bad agent: the agent claude is not on the PATH",
        "bad repository: …directory: 'git'",
        "bad notices: …x.toml: not a channel file: ",
    )
    has(patient, {"feature.md": "F\nRALPH_VERIFY: X=1 ./check.sh -q"})
    unknown = "feature.md:2: the verify command begins with ./check.sh, which is not found"
    says(look(patient, "feature.md"), f"bad settings: {unknown}")
    has(patient, {"feature.md": "F\nRALPH_DELAY: soon", ".git/HEAD": ""})
    seen = look(patient, "feature.md")
    says(seen, 'bad settings: feature.md:2: RALPH_DELAY: "soon": write', "bad repository: …not a git repository")
    assert [one for one in seen if " plan: " in one or " agent: " in one] == [], "which the settings name"


def test_the_line_for_the_crontab_works_as_it_stands(patient: Project) -> None:
    folder, plan = patient.root / "100% 'mine'", "../feature.md"
    tell = 'pwd; command -v claude; printf "%s\\n" "$RALPH_VERIFY" "$RALPH_BASE_URL" "$@"'
    executable(patient.root / "../bin/ralph", tell)
    folder.mkdir()
    verify, base_url = "true && curl -fs http://localhost:8000/health", "http://localhost:3000/app"
    more = ["--", "--add-dir", "../x"]
    asked = (plan, "all", "7", "--verify", verify, "--base-url", base_url, "-C", str(folder), *more)
    text = look(patient, *asked, env={"RALPH_MAX_COST": "5", "RALPH_VERIFY": ""})[-1]
    assert text.startswith(
        "warning cron: this line of a crontab gives a run all that it finds here, except RALPH_MAX_COST"
    )
    line = text.partition(f"-> write that into {patient.home}/.ralph.env\n")[2]
    assert r"100\% " in line, "cron takes a bare % for the end of the command"
    command = ["sh", "-c", line.replace(r"\%", "%")]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, cwd="/", capture_output=True, text=True, check=False)
    found = [str(folder), str(patient.root.parent / "bin" / "claude"), verify, base_url, plan, "all", *more]
    assert done.stdout.splitlines() == found, line


def test_it_says_a_line_for_each_subject_the_worst_last_and_writes_nothing(patient: Project) -> None:
    """Where ralph gave up, a start from a terminal tries again, and one from cron does not."""
    patient.has_tasks("one")
    folders = (patient.root, patient.home, patient.state, Path(patient.env["TMPDIR"]))
    before = everything_in(*folders)
    run = patient.ralph("doctor", "feature.md", "50")
    assert (run.code, run.stderr) == (0, "")
    *lines, last = run.stdout.splitlines()
    subjects = ["settings", "plan", "agent", "sandbox", "repository", "machine", "notices", "cron"]
    assert [line[5:16].strip() for line in lines if line.startswith("ok ")] == subjects
    assert lines[0] == "ok   settings    RALPH_MAX_ITERATIONS 50 (--max-iterations)"
    notices = lines.index("ok   notices     no channel is set up: nobody hears how a run ends")
    assert lines[notices + 1] == "                 → ralph notify setup"
    assert last == "A run would find what it needs."
    assert everything_in(*folders) == before
    assert "\nok   settings    no verify command: " in patient.ralph("doctor", "feature.md", "50", "--verbose").stdout
    patient.has_tasks("one", status="RALPH_BLOCKED: ralph: 3 failures in a row")
    cron = patient.ralph("doctor", "feature.md")
    assert (cron.code, "\nBAD  plan        feature: blocked: ralph: 3 failures" in cron.stdout) == (1, True)
    person = patient.ralph_tty("doctor", "feature.md")
    assert person.code == 0, person.text
    lines = lines_only(person.stdout).splitlines()
    assert all(display_width(line) <= 80 for line in lines if "cd /" not in line), (
        "a command is not broken, to be copied"
    )
    assert "ok   notices     no channel is set up: nobody hears how a run ends" in lines


def test_the_real_claude_says_who_is_logged_in_and_runs_nothing_of_the_project(patient: Project, play: Play) -> None:
    model = play()
    hook: Any = {"matcher": "", "hooks": [{"type": "command", "command": "touch hook-ran"}]}
    servers = {"mcpServers": {"x": {"command": "touch", "args": ["server-ran"]}}}
    settings = json.dumps({"hooks": {"SessionStart": [hook]}})
    has(patient, {".claude/settings.json": settings, ".mcp.json": json.dumps(servers)})
    says(look(patient), "ok agent: …ANTHROPIC_API_KEY pays")
    del patient.env["ANTHROPIC_API_KEY"]
    says(look(patient), "bad agent: …nobody is logged in")
    assert (list(patient.root.glob("*-ran")), model.requests) == ([], [])
    assert not list(patient.home.glob(".claude/projects/*")), "no session is kept"
