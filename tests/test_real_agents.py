"""Ralph with real agents, whose models are scripts on loopback; see real_agents.py.

Runs where they are on PATH. What is the same for every agent is tested with the fake one, and more of claude in
test_real_claude.py.
"""

import os
import signal

import pytest
from offspring import Offspring
from ralph_driver import LONG, MARK, Project, eventually, marked
from real_agents import KINDS, SLOW_S, Real
from scripted_model import Json, Reply, told
from stories import signal as done_signal

OTHERS = [name for name in KINDS if name != "claude"]
WORK = "echo 1 > one.txt; echo wrote; (setsid sleep 601 > /dev/null 2>&1 &); exit 3"


@pytest.mark.parametrize("real", OTHERS, indirect=True)
def test_it_proposes_and_is_seen_like_claude_and_ralph_disposes(project: Project, real: Real) -> None:
    project.has_tasks("one: The first")
    real.play(real.runs(WORK, text="I begin."), Reply(text=f"All done.\n\n{done_signal()}"))
    run = real.build("--strict")
    assert run.code == 0, run.text
    marks = ("  ⎿ ", "  ✗ ")[real.name != "gemini"]  # which does not tell that a command failed
    for said in ("  I begin.", "  ▸ Bash echo 1 > one.txt", "wrote", "  All done.", marks):
        assert said in run.stdout, run.text
    assert "ended what the agent left running: sleep 601" in run.stderr
    assert project.git("log", "-1", "--format=%s", "--name-only").split() == ["one:", "All", "done", "one.txt"]
    line = project.journal()[0]
    assert (line["agent"], line["ended"], line["cost_usd"]) == (real.name, "ok", None)
    assert (line["message"].splitlines()[0], line["input"], line["output"]) == ("All done.", 200, 40)
    log = project.ralph("log", "feature.md", "1")
    assert "  ▸ Bash echo 1 > one.txt" in log.stdout, log.text


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
    ("real", "status"),  # codex and gemini try again for 40 s when a server fails, opencode at its limit too, for 75 s
    [(name, status) for name in KINDS for status in STATUSES if name not in ("claude", "opencode") or status == 401],
    indirect=["real"],
)
def test_what_its_errors_mean(project: Project, real: Real, status: int) -> None:
    ended, code, remedy = {401: ("hopeless", 1, "log in"), 429: ("limit", 3, ""), 503: ("trouble", 3, "")}[status]
    project.has_tasks("one")
    real.play(*[Reply(status=status, error=LIMITS.get(real.name) if status == 429 else None)] * 20)
    run = real.build("--max-time", "50s", "--no-wait")
    assert (run.code, project.journal()[0]["ended"]) == (code, ended), run.text
    assert remedy in run.stderr


@pytest.mark.parametrize("real", [name for name in KINDS if LONG or name != "opencode"], indirect=True)
def test_nothing_of_it_outlives_ralph(project: Project, real: Real, offspring: Offspring) -> None:
    project.has_tasks("one")
    before = project.progress_text
    tool = f"{offspring.daemon('daemon')}; setsid {offspring.sleeper('server')} & {offspring.sleeper('tool')}"
    real.play(real.runs(tool))
    run = project.start("feature.md", "build", "--agent", real.name)
    eventually(lambda: offspring.alive() == ["daemon", "server", "tool"], SLOW_S)
    assert os.getsid(offspring.pid("tool")) != os.getsid(run.pid), "the tool is out of reach of ralph's process group"
    run.signal(signal.SIGINT)
    assert run.wait().code == -signal.SIGINT
    eventually(lambda: not marked(project.env[MARK]))
    assert (offspring.alive(), project.progress_text) == ([], before)
    is_told = any(b'"terminal_reason":"aborted_tools"' in told for told in project.transcripts().values())
    assert is_told is (real.name == "claude"), "what it cost"


def test_codex_reviews_what_claude_builds_and_validates_it_blind(
    project: Project, request: pytest.FixtureRequest
) -> None:
    """Each asks its own model; what the reviewer may not change is put back, and its word is heard."""
    project.has_tasks("one: The first")
    claude, codex = (Real(project, name, request) for name in ("claude", "codex"))
    done = Reply(text=f"All done.\n\n{done_signal()}")
    fault = done_signal().replace("task-done", "task-reject").replace("@TASK@<", "one.txt: it is empty<")
    fault = fault.replace('">', '" id="@TASK@">', 1)
    built = claude.play(claude.runs("touch one.txt"), done, claude.runs("echo 1 > one.txt"), done)
    looks = "echo it may not > one.txt; touch two.txt"
    reviewed = codex.play(
        codex.runs(looks), done, Reply(text=fault), codex.runs("cat one.txt"), done, Reply("All met.")
    )
    env = {"RALPH_AGENT_REVIEW": "codex", "RALPH_AGENT_VALIDATE": "codex,claude"}
    how = ("--strict", "--roles", "build,review", "--model", "sonnet", "--delay", "0")
    run = project.ralph("feature.md", "all", *how, env=env, timeout_s=SLOW_S)
    assert run.code == 0, run.text
    who = [("build", "claude"), ("review", "codex")]
    assert project.iterations("mode", "agent") == [*who, who[1], *who, ("validate", "codex")]
    assert "the agent codex does not support RALPH_TOOLS" in run.stderr
    assert "one.txt: it is empty" in told(built.requests[2])
    assert ("You change nothing" in told(reviewed.requests[0]), len(reviewed.requests)) == (True, 6)
    last = told(reviewed.requests[-1])
    assert ("You validate" in last, "ralph's notes on recent iterations" in last) == (True, False)
    assert project.git("show", "--format=%(trailers:key=Ralph-Role)", "--name-only").split() == [
        "Ralph-Role:",
        "review",
        "one.txt",
    ]
    assert (project.root / "one.txt").read_text() == "1\n"


def test_codex_climbs_its_ladder_of_models_and_claude_validates_what_it_built(
    project: Project, request: pytest.FixtureRequest
) -> None:
    """The models of the ladder are codex's; the validator finds something once, and is asked again."""
    project.has_tasks("one: The first")
    claude, codex = (Real(project, name, request) for name in ("claude", "codex"))
    says_done = "sed -i 's/^IN_PROGRESS$/RALPH_DONE/' feature_PROGRESS.md"
    builds = f"echo 1 >> one.txt; sed -i 's/^- .../- [x]/' feature_PROGRESS.md; {says_done}"
    done, unticks = Reply(text="Done."), "sed -i 's/^- .x. one.*/- [ ] one: The first (not twice)/' feature_PROGRESS.md"
    built = codex.play(codex.runs(says_done), done, codex.runs(builds), done, codex.runs(builds), done)
    looked = claude.play(claude.runs(unticks), done, Reply(text="All is met."))
    how = ("--agent", "codex", "--model", "m1, m2", "--agent-for", "validate=claude", "--delay", "0")
    run = project.ralph("feature.md", "all", *how, timeout_s=SLOW_S)
    assert run.code == 0, run.text
    who = [("build", "codex"), ("build", "codex"), ("validate", "claude")]
    assert project.iterations("mode", "agent") == [*who, *who[1:]]
    models = project.iterations("model")
    assert [one for one in models if not one.startswith("claude-")] == ["m1", "m2", "m1"], "whose is not claude's"
    assert [body["model"] for body in built.requests] == ["m1", "m1", "m2", "m2", "m1", "m1"]
    assert ("You validate" in told(looked.requests[0]), len(looked.requests)) == (True, 3)
    assert "1/1 tasks" in run.stdout.splitlines()[-1]
