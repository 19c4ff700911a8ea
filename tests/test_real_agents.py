"""Ralph with the real codex, gemini and opencode, whose models are scripts on loopback; see real_agents.py.

Runs where they are on PATH. What is the same for every agent is tested with the fake one.
"""

import os
import signal

import pytest
from offspring import Offspring
from ralph_driver import LONG, Project, eventually, marked
from real_agents import KINDS, SLOW_S, Other
from scripted_model import Json, Reply
from stories import signal as done_signal

TICK = "sed -i 's/- \\[ \\]/- [x]/; s/IN_PROGRESS/RALPH_DONE/' feature_PROGRESS.md"
WORK = "echo 1 > one.txt && git add -A && git commit -qm one && echo committed; setsid sleep 601 > /dev/null 2>&1 &"


def test_it_builds_and_is_seen_like_claude(project: Project, other: Other) -> None:
    for name in ("user.name", "user.email"):  # gemini has git read the repository's settings alone
        project.git("config", name, "a@example.invalid")
    project.has_tasks("one")
    model = other.play(other.runs(f"{WORK} {TICK}; exit 3", text="I begin."), Reply(text="All done."))
    run = other.build()
    assert run.code == 0, run.text
    assert model.requests[0].says("feature_PROGRESS.md")
    for said in ("  I begin.", "  ▸ Bash echo 1 > one.txt", "committed", "  All done."):
        assert said in run.stdout, run.text
    assert "ended what the agent left running: sleep 601" in run.stderr
    assert project.git("log", "-1", "--format=%s") == "one\n"
    line = project.journal()[0]
    assert (line["agent"], line["ended"], line["message"], line["cost_usd"]) == (other.name, "ok", "All done.", None)
    assert (line["input"], line["output"]) == (200, 40)
    log = project.ralph("log", "feature.md", "1")
    assert "  ▸ Bash echo 1 > one.txt" in log.stdout, log.text


@pytest.mark.parametrize("other", KINDS if LONG else ["codex"], indirect=True)  # opencode takes 13 s for it
def test_under_strict_it_proposes_and_ralph_disposes(project: Project, other: Other) -> None:
    project.has_tasks("one: The first")
    other.play(other.runs("echo 1 > one.txt"), Reply(text=f"Wrote it.\n\n{done_signal()}"))
    run = other.build("--strict")
    assert run.code == 0, run.text
    assert project.git("log", "-1", "--format=%s", "--name-only").split() == ["one:", "Wrote", "it", "one.txt"]


QUOTA = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "RequestsPerDayPerProject"}],
}
STATUSES = (401, 429, 503) if LONG else (401, 429)
LIMITS: dict[str, Json] = {
    "codex": {"type": "usage_limit_reached", "message": "m"},
    "gemini": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m", "details": [QUOTA]},
}


@pytest.mark.parametrize(
    ("other", "status"),  # codex and gemini try again for 40 s when a server fails, opencode at its limit too, for 75 s
    [(name, status) for name in KINDS for status in STATUSES if name != "opencode" or status == 401],
    indirect=["other"],
)
def test_what_its_errors_mean(project: Project, other: Other, status: int) -> None:
    ended, code, remedy = {401: ("hopeless", 1, "log in"), 429: ("limit", 3, ""), 503: ("trouble", 3, "")}[status]
    project.has_tasks("one")
    other.play(*[Reply(status=status, message="m", error=LIMITS.get(other.name) if status == 429 else None)] * 20)
    run = other.build("--max-time", "50s", "--no-wait")
    assert (run.code, project.journal()[0]["ended"]) == (code, ended), run.text
    assert remedy in run.stderr


def test_nothing_of_it_outlives_ralph(project: Project, other: Other, offspring: Offspring, mark: str) -> None:
    project.has_tasks("one")
    before = project.progress_text
    tool = f"{offspring.daemon('daemon')}; setsid {offspring.sleeper('server')} & {offspring.sleeper('tool')}"
    other.play(other.runs(tool))
    run = project.start("feature.md", "build", "--agent", other.name)
    eventually(lambda: offspring.alive() == ["daemon", "server", "tool"], SLOW_S)
    assert os.getsid(offspring.pid("tool")) != os.getsid(run.pid), "the tool is out of reach of ralph's process group"
    run.signal(signal.SIGINT)
    assert run.wait().code == -signal.SIGINT
    eventually(lambda: not marked(mark))
    assert (offspring.alive(), project.progress_text) == ([], before)
