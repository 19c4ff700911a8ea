"""The last word: ralph with the real `claude`, whose model is a script on loopback.

Runs where a `claude` is on PATH. What is the same with the fake of stories.py is tested there, what is the same for
every agent in test_real_agents.py.
"""

import json
import time

import pytest
from ralph_driver import Project, leaping, progress_text
from real_agents import AS_ROOT, Play, uses
from scripted_model import Json, Reply, Tool, bash, edit, read, told, write
from stories import signal as done_signal

SONNET = ("--model", "sonnet")


def finishes(project: Project, *, last: str = "All done.") -> list[Reply]:
    """An iteration that ticks the first task and says done, by the agent's own tools."""
    return [
        uses(read(project.progress)),
        uses(edit(project.progress, "- [ ]", "- [x]"), edit(project.progress, "IN_PROGRESS", "RALPH_DONE")),
        Reply(text=last),
    ]


def printed(project: Project, kind: str) -> list[Json]:
    """The events of that type, as the agent printed them."""
    texts = [text for name, text in sorted(project.transcripts().items()) if name.endswith(".jsonl")]
    events = [json.loads(line) for text in texts for line in text.splitlines()]
    return [event for event in events if event["type"] == kind]


def test_all_plans_builds_and_validates_a_small_repository(project: Project, play: Play) -> None:
    """Who validates has an eye on it, and hands off the code; what it finds is built in a second round."""
    seen, code, tested = project.outputs / "environment", project.root / "greet.py", project.root / "test_greet.py"
    project.env |= {"RALPH_TELEGRAM_BOT_TOKEN": "secret", "TMUX": "/tmp/tmux-0/default,1,0"}
    begins = "## Task List\n"
    finds = edit(project.progress, begins, f"{begins}\n- [ ] test_greet.py: the test that the plan asks for\n")
    report = edit(project.progress, "## Notes\n", "## Notes\n\n## Validation\n\nThere is no test.\n")
    model = play(
        uses(read(project.root / "feature.md"), read(project.progress), text="I read the plan."),
        uses(edit(project.progress, begins, f"{begins}\n- [ ] greet.py: a function\n")),
        Reply(text="Planned."),
        uses(write(code, "print('hello')\n")),
        uses(bash(f"env > {seen} && git add -A && git commit -q -m greet")),
        *finishes(project),
        uses(read(project.progress)),
        uses(finds, report, write(tested, "mended by who may not")),
        Reply(text="There is no test."),
        uses(write(tested, "def test_it(): assert True\n")),
        *finishes(project),
        Reply(text="All is there."),
    )
    how = ("--delay", "0", "--verify", "test -e greet.py", "--model", "opus", "--effort", "low")
    run = project.ralph("feature.md", "all", *how)
    assert run.code == 0, run.text
    assert project.iterations("mode") == ["plan", "build", "validate", "build", "validate"]
    assert "I read the plan." in run.text
    assert run.text.count("ANTHROPIC_API_KEY") == 1, "which account pays is said once"
    committed = project.git("log", "-1", "--format=%s", "--name-only").split()
    assert committed == ["greet", "feature_PROGRESS.md", "greet.py"]
    assert tested.read_text() == "def test_it(): assert True\n"
    assert "Mode:" not in project.progress_text
    assert "## Validation\n\nThere is no test.\n" in project.progress_text
    asked = model.requests[0]
    assert str(project.root / "feature.md") in told(asked)
    assert ("opus" in asked["model"], asked["output_config"]["effort"]) == (True, "low")
    assert "You validate; you do not build." in told(model.requests[8])
    names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert ("RALPH_RUN_ID" in names, names & {"RALPH_TELEGRAM_BOT_TOKEN", "TMUX"}) == (True, set())


def test_a_model_woken_again_by_a_job_of_its_own_is_one_iteration(project: Project, play: Play) -> None:
    """With effort none, which turns thinking off; the environment does not matter. The word itself it would ignore."""
    long = "".join(f"{number:07}\n" for number in range(50_000))
    project.env |= {"MAX_THINKING_TOKENS": "9000"}
    project.has_tasks("one")
    job = bash("sleep 0.3", run_in_background=True)
    model = play(uses(job), Reply(text="I wait for the job."), *finishes(project, last=long))
    run = project.build(*SONNET, "--reasoning", "none")
    assert run.code == 0, run.text
    first, second = printed(project, "result")
    assert (first["result"], second["result"]) == ("I wait for the job.", long)
    (line, _) = project.journal()
    assert line["cost_usd"] == second["total_cost_usd"] == pytest.approx(5 * 0.0006), "the last one is the sum"
    assert {one.get("thinking", {}).get("type", "disabled") for one in model.requests} == {"disabled"}


# What it is allowed.


def test_a_budget_ends_the_iteration(project: Project, play: Play) -> None:
    beyond = project.root / "beyond"
    project.has_tasks("one", "two")
    ticks = (read(project.progress), edit(project.progress, "- [ ] one", "- [x] one"))
    dear = {"input_tokens": 100_000, "output_tokens": 1000}  # with sonnet 0.315 dollars
    play(Reply(tools=ticks, usage=dear), Reply(tools=[bash(f"touch {beyond}")], usage=dear))
    run = project.build(*SONNET, "--max-iteration-cost", "0.5", "--max-cost", "0.6", "--max-failures", "1")
    assert (run.code, beyond.exists()) == (3, False), run.text
    assert [result["errors"] for result in printed(project, "result")] == [["Reached maximum budget ($0.5)"]]


def test_a_full_context_ends_the_iteration_with_its_cost_and_the_next_one_is_fresh(
    project: Project, play: Play
) -> None:
    beyond, little, much = project.root / "beyond", {"input_tokens": 80_000}, {"cache_read_input_tokens": 130_900}
    project.has_tasks("one", "two")
    steps = (read(project.progress), edit(project.progress, "- [ ] one", "- [x] one"))
    model = play(
        Reply(text="I begin.", tools=steps, usage=little),
        Reply(tools=[bash(f"touch {beyond}")], usage=much, hangs=True),
        *finishes(project),
    )
    run = project.build(*SONNET, "--max-context", "60%")
    assert (run.code, beyond.exists()) == (0, False), run.text
    first, *_ = project.journal()
    assert (first["ended"], first["success"]) == ("context_full", True)
    said = [one for one in printed(project, "result") if one["terminal_reason"] == "aborted_streaming"]
    cost = (pytest.approx(0.2403), False) if said else (None, True)  # on a busy machine it can leave without a word
    assert (first["cost_usd"], first["cost_at_least"]) == cost
    left = "; its last words: I begin."
    assert [told(one).count("I begin.") - told(one).count(left) for one in model.requests[:3]] == [0, 1, 0]
    assert left in told(model.requests[2]), "what it is told of the one before"


# Limits and trouble outside.


def test_trouble_and_limits_are_waited_out(project: Project, play: Play) -> None:
    resets_at = int(time.time()) + 3700
    limit = {"status": "rejected", "representative-claim": "five_hour", "overage-status": "rejected"}
    limit["reset"] = str(resets_at)
    headers = {f"anthropic-ratelimit-unified-{name}": value for name, value in limit.items()}
    project.has_tasks("one")
    play(Reply(status=529), uses(bash("true"), text="I begin."), Reply(status=429, headers=headers), *finishes(project))
    del project.env["ANTHROPIC_API_KEY"]  # only with a subscription the real claude knows of usage limits
    project.env["CLAUDE_CODE_OAUTH_TOKEN"] = "dummy"
    run = project.build("--max-iterations", "1", "--max-failures", "1", command=leaping())
    assert run.code == 0, run.text
    assert project.iterations("ended", "counted") == [("trouble", False), ("limit", False), ("ok", True)]
    trouble_s, limit_s = (line["planned_s"] for line in project.journal() if line["event"] == "wait")
    assert (trouble_s, 3000 < limit_s <= 3702) == (30, True)


REFUSALS = {"not logged in": ("ANTHROPIC_API_KEY", "/login"), "as root": ("IS_SANDBOX", "IS_SANDBOX")}


@pytest.mark.parametrize("why", REFUSALS if AS_ROOT else ["not logged in"])
def test_what_cannot_recover_stops_at_once(project: Project, play: Play, why: str) -> None:
    without, remedy = REFUSALS[why]
    project.has_tasks("one")
    before = project.progress_text
    model = play()
    del project.env[without]
    run = project.build()
    assert run.code == 1, run.text
    assert model.requests == []
    assert len(project.transcripts()) <= 3
    assert remedy in run.text
    assert "login pays" not in run.text
    assert project.progress_text == before


# --strict.

LIST = "- [ ] one: The first\n  - verify: File `tests/one.txt` contains `1`\n- [ ] two: The second\n  - after: one\n"
WORK = "mkdir -p tests && echo 1 > tests/one.txt"
CHEAT = (
    "sed -i 's/- \\[ \\]/- [x]/; s/- \\[~\\]/- [x]/; s/IN_PROGRESS/RALPH_DONE/; /verify:/d' feature_PROGRESS.md; "
    f"{WORK}; echo 2 > feature.md; git add -A; git commit -qm mine; git checkout -qb elsewhere; "
    "git reset -q --hard HEAD~1; "
    "mkdir -p .git/hooks; echo exit 0 > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"
)


def test_under_strict_cheats_gain_nothing_and_an_honest_try_does(project: Project, play: Play) -> None:
    project.progress.write_text(progress_text().replace("## Task List\n\n", f"## Task List\n\n{LIST}"))
    (project.root / "notes.txt").write_text("the user's, not committed\n")
    said = Reply(text=f"It is all done.\n\n{done_signal()}")
    sub_agent = Tool(name="Agent", input={"description": "help", "prompt": "help", "subagent_type": "general-purpose"})
    old = Reply(text=f"It is all done.\n\n{done_signal(session='ralph-20260101-010101-0123456789ab')}")
    play(
        *(uses(bash(CHEAT)), said),
        *(uses(bash(WORK)), uses(sub_agent), said, old),
        *(uses(bash(WORK)), Reply(text=f"Wrote the first one.\n\n{done_signal()}")),
    )
    run = project.build("--strict", "--only", "tests/**", "--max-iterations", "3")
    assert run.code == 3, run.text
    assert project.iterations("success") == [False, False, True]
    tasks = [line for line in project.progress_text.splitlines() if "- failed: " not in line]
    assert LIST.replace("[ ] one", "[x] one") in "\n".join(tasks) + "\n"
    log = project.git("log", "--format=%s|%(trailers:key=Ralph-Task,valueonly,separator=)", "--name-only", "main")
    assert log.splitlines() == ["one: Wrote the first one|one", "", "tests/one.txt", "plan|", "", "feature.md"]
    assert project.git("symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert project.git("status", "--porcelain").splitlines() == ["?? feature_PROGRESS.md", "?? notes.txt"]


CAUGHT = ("git commit -m x", "cd . && git  commit", "env GIT_DIR=x timeout 5 git commit", "x=$(git commit)", "pytest")
PASSING = ("git commit-tree", "git -C . commit", "sh -c 'git commit'", "/usr/bin/git commit", 'echo "$(git commit)"')


def test_what_is_denied_is_refused_to_an_honest_agent(project: Project, play: Play) -> None:
    """And the ways around that docs/limitations.md names are there; a template says which tools there are at all."""
    project.has_tasks("one")
    (project.root / ".ralph").mkdir()
    (project.root / ".ralph" / "PROMPT_build.md").write_text("{#\nRALPH_TOOLS: Bash, Write\n#}\nDo it.\n")
    commands = [uses(bash(f"{command} 2>&1 | cat")) for command in (*CAUGHT, *PASSING)]
    play(*commands, uses(write(project.root / "x", "")), uses(read(project.root / "feature.md")))
    project.build("1", "--deny", "git-write,not-uv,Write", "--tools", "Bash,Read,Write", *SONNET)
    contents = [event["message"]["content"] for event in printed(project, "user")]
    answers = [str(one["content"]) for content in contents for one in content if one["type"] == "tool_result"]
    assert ["has been denied" in one for one in answers] == [True] * len(CAUGHT) + [False] * (len(PASSING) + 2)
    assert ["No such tool" in one for one in answers[-2:]] == [True, True]
    assert not (project.root / "x").exists()
