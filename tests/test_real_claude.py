"""The last word: ralph with the real `claude`, whose model is a script on loopback.

Runs where a `claude` is on PATH, or where RALPH_TEST_CLAUDE names one. It gets a home of its own, no key that is one,
and no address but the scripted model's.
"""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from leaps import leaping
from offspring import Offspring
from ralph_driver import COMMAND, Project, Run, Running, alive, eventually, marked
from real_claude import AS_ROOT, Play, uses
from scripted_model import Reply, ScriptedModel, bash, edit, read, write

LONG_S = 60
DEAR = {"input_tokens": 100_000, "output_tokens": 1000}
"""With sonnet 0.315 dollars."""
SERVER = """
import http.server, os, pathlib, sys
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
note = pathlib.Path(sys.argv[1])
note.with_suffix(".new").write_text(f"{os.getpid()} {server.server_port}")
note.with_suffix(".new").rename(note)
server.serve_forever()
"""


def build(project: Project, *args: str, command: Sequence[str] = COMMAND) -> Run:
    return project.build(*args, timeout_s=LONG_S, command=command)


def finishes(project: Project, *, last: str = "All done.") -> list[Reply]:
    """An iteration that ticks the first task and says done, by the agent's own tools."""
    return [
        uses(read(project.progress)),
        uses(edit(project.progress, "- [ ]", "- [x]")),
        uses(edit(project.progress, "IN_PROGRESS", "RALPH_DONE")),
        Reply(text=last),
    ]


def events(project: Project) -> list[dict[str, object]]:
    """All that the agent printed, iteration after iteration."""
    texts = [text for name, text in sorted(project.transcripts().items()) if name.endswith(".jsonl")]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def results(project: Project) -> list[dict[str, object]]:
    return [event for event in events(project) if event["type"] == "result"]


def says_done(project: Project) -> bool:
    return "\nRALPH_DONE\n" in project.progress_text


def logged_in(project: Project) -> None:
    """A subscription in place of a key: only there the real claude knows of usage limits."""
    del project.env["ANTHROPIC_API_KEY"]
    project.env["CLAUDE_CODE_OAUTH_TOKEN"] = "dummy"


def iterations(project: Project) -> list[tuple[int, str, bool]]:
    """Of each iteration in the journal its number, how it ended, and whether it counted."""
    lines = [line for line in project.journal() if line["event"] == "iteration"]
    return [(line["iteration"], line["ended"], line["counted"]) for line in lines]


# Plan and build.

PLANNED = """## Task List

- [ ] greet.py: a function greet(name)
- [ ] test_greet.py: a test of it
"""


def test_it_plans_and_builds_a_small_repository(project: Project, play: Play) -> None:
    (project.root / "feature.md").write_text("# Greet\n\nA Python function that greets, and a test of it.\n")
    (project.root / "README.md").write_text("# Greetings\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "the plan")
    plan_it(project, play)
    model = build_it(project, play)
    run = build(project)
    assert run.code == 0, run.text
    assert says_done(project)
    assert project.git("log", "--format=%s", "--reverse").splitlines()[-2:] == ["greet", "test of greet"]
    assert "Hello, " in (project.root / "greet.py").read_text()
    assert "2/2 tasks" in run.text
    assert model.requests[0].says(str(project.root / "feature.md"))
    assert [result["is_error"] for result in results(project)] == [False, False, False]


def plan_it(project: Project, play: Play) -> None:
    play(
        uses(read(project.root / "feature.md"), read(project.progress), text="I read the plan."),
        uses(edit(project.progress, "## Task List\n", PLANNED)),
        Reply(text="Planned."),
    )
    run = project.ralph("feature.md", "plan", timeout_s=LONG_S)
    assert run.code == 0, run.text
    assert PLANNED in project.progress_text
    assert "\nIN_PROGRESS\n" in project.progress_text
    assert "I read the plan." in run.text


def build_it(project: Project, play: Play) -> ScriptedModel:
    test = "from greet import greet\n\nassert greet('Ada') == 'Hello, Ada'\n"
    return play(
        uses(read(project.progress), read(project.root / "README.md")),
        uses(write(project.root / "greet.py", "def greet(name):\n    return f'Hello, {name}'\n")),
        uses(edit(project.root / "README.md", "# Greetings", "# Greetings, by greet.py")),
        uses(edit(project.progress, "- [ ] greet.py", "- [x] greet.py")),
        uses(bash("git add -A && git commit -q -m greet")),
        Reply(text="The function is there."),
        uses(read(project.progress)),
        uses(write(project.root / "test_greet.py", test)),
        uses(bash(f"{sys.executable} test_greet.py && rm -r __pycache__")),
        uses(
            edit(project.progress, "- [ ] test_greet.py", "- [x] test_greet.py"),
            edit(project.progress, "IN_PROGRESS", "RALPH_DONE"),
        ),
        uses(bash("git add -A && git commit -q -m 'test of greet'")),
        Reply(text="All tasks are done."),
    )


def test_what_is_asked_reaches_the_api_and_nothing_more_reaches_the_agent(
    project: Project, play: Play, tmp_path: Path
) -> None:
    prompts, seen = tmp_path / "prompts", tmp_path / "environment"
    prompts.mkdir()
    (prompts / "PROMPT_build.md").write_text("/clear everything on the list in {{ PROGRESS_FILE }}.\n")
    project.env |= {"RALPH_TELEGRAM_BOT_TOKEN": "secret", "TMUX": "/tmp/tmux-0/default,1,0"}
    project.has_tasks("one")
    model = play(uses(bash(f"env > {seen}")), *finishes(project))
    run = build(project, "--prompts", str(prompts), "--model", "opus", "--effort", "low")
    assert run.code == 0, run.text
    asked = model.requests[0]
    assert asked.says("/clear everything on the list in "), "a slash at the beginning makes no command of it"
    assert ("opus" in asked.body["model"], asked.body["output_config"]["effort"]) == (True, "low")
    names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert "RALPH_RUN_ID" in names
    assert not names & {"RALPH_TELEGRAM_BOT_TOKEN", "TMUX"}


def test_what_comes_back_is_whole_and_the_account_that_pays_is_said_once(project: Project, play: Play) -> None:
    long = "".join(f"{number:07}\n" for number in range(50_000))
    project.has_tasks("one")
    play(Reply(text="I think about it."), *finishes(project, last=long))
    run = build(project)
    assert run.code == 0, run.stderr
    assert results(project)[-1]["result"] == long
    assert run.text.count("ANTHROPIC_API_KEY") == 1


def test_a_model_woken_again_by_a_job_of_its_own_is_one_iteration(project: Project, play: Play) -> None:
    project.has_tasks("one")
    job = bash("sleep 0.3", run_in_background=True)
    play(uses(job), Reply(text="I wait for the job."), *finishes(project, last="The job is over, and all is done."))
    run = build(project, "--model", "sonnet")
    assert run.code == 0, run.text
    first, second = results(project)
    assert (first["result"], second["result"]) == ("I wait for the job.", "The job is over, and all is done.")
    (line, _) = project.journal()
    assert (line["iteration"], line["message"]) == (1, second["result"])
    assert line["cost_usd"] == second["total_cost_usd"] == pytest.approx(6 * 0.0006), "the last one is the sum"


def test_done_counts_when_what_the_agent_made_passes(project: Project, play: Play) -> None:
    answer = project.root / "answer.txt"
    project.has_tasks("one")
    model = play(
        uses(write(answer, "a wrong answer\n")),
        *finishes(project),
        uses(read(project.progress), read(answer)),
        uses(edit(answer, "wrong", "right"), edit(project.progress, "IN_PROGRESS", "RALPH_DONE")),
        Reply(text="Mended."),
    )
    run = build(project, "--verify", "cat answer.txt; ! grep wrong answer.txt")
    assert run.code == 0, run.text
    assert model.requests[-2].says("`cat answer.txt; ! grep wrong answer.txt` exited with 1")
    lines = [(line["event"], line["success"]) for line in project.journal()]
    refused, done = [("iteration", True), ("verify", False)], [("iteration", True), ("verify", True)]
    assert lines == [*refused, *done, ("run", True)]
    assert "\nRALPH_DONE\nVerified: " in project.progress_text.replace("\n\n", "\n")


# Turns, costs and contexts.


def test_reaching_max_turns_with_progress_made_is_no_failure(project: Project, play: Play) -> None:
    tasks = ("one", "two")
    project.has_tasks(*tasks)
    steps = [
        (uses(read(project.progress)), uses(edit(project.progress, f"- [ ] {task}", f"- [x] {task}"))) for task in tasks
    ]
    play(*(reply for step in steps for reply in step))
    run = build(project, "--max-turns", "2", "--max-iterations", "2", "--max-failures", "1")
    assert (run.code, project.progress_text.count("- [x]")) == (3, 2), run.text
    assert {result["subtype"] for result in results(project)} == {"error_max_turns"}


def test_reaching_max_turns_without_progress_is_a_failure(project: Project, play: Play) -> None:
    project.has_tasks("one")
    play(*[uses(bash("true"))] * 2)
    run = build(project, "--max-turns", "1", "--max-failures", "1")
    assert (run.code, iterations(project)) == (1, [(1, "out_of_turns", True)]), run.text


def test_a_budget_ends_the_iteration_then_the_run(project: Project, play: Play) -> None:
    beyond = project.root / "beyond"
    project.has_tasks("one", "two")
    ticks = (read(project.progress), edit(project.progress, "- [ ] one", "- [x] one"))
    too_much = Reply(tools=[bash(f"touch {beyond}")], usage=DEAR)
    play(Reply(tools=ticks, usage=DEAR), too_much, too_much)
    bounds = ("--max-iteration-cost", "0.5", "--max-cost", "0.8", "--max-failures", "1")
    run = build(project, "--model", "sonnet", *bounds)
    assert (run.code, beyond.exists()) == (3, False), run.text
    assert [result["errors"] for result in results(project)] == [
        ["Reached maximum budget ($0.5)"],
        ["Reached maximum budget ($0.17)"],
    ]
    assert "this iteration cost $0.63; max-iteration-cost is $0.50" in run.stderr
    assert "max-cost is $0.80, and this start cost $0.9" in run.text  # half a cent decides how it is rounded


def test_a_full_context_ends_the_iteration_with_its_cost_and_the_next_one_is_fresh(
    project: Project, play: Play
) -> None:
    beyond, little, much = project.root / "beyond", {"input_tokens": 80_000}, {"cache_read_input_tokens": 130_900}
    project.has_tasks("one", "two")
    steps = (read(project.progress), edit(project.progress, "- [ ] one", "- [x] one"))
    model = play(
        Reply(text="I begin.", tools=steps, usage=little),
        Reply(tools=[bash(f"touch {beyond}")], usage=much, hang="mid"),
        *finishes(project),
    )
    run = build(project, "--model", "sonnet", "--max-context", "60%", "--idle-timeout", "20s")
    assert (run.code, beyond.exists()) == (0, False), run.text
    first, *_ = project.journal()
    assert (first["ended"], first["success"], first["context"]) == ("context_full", True, 0.655)
    assert (first["cost_usd"], first["cost_at_least"]) == (pytest.approx(0.2403), False)
    assert results(project)[0]["terminal_reason"] == "aborted_streaming"
    assert [name for name, record in project.transcripts().items() if b'"stream_event"' in record] == []
    assert [request.says("I begin.") for request in model.requests[:3]] == [False, True, False]


# Limits and trouble outside.


def reached_limit(resets_at: int | None = None) -> Reply:
    prefix = "anthropic-ratelimit-unified"
    headers = {
        f"{prefix}-status": "rejected",
        f"{prefix}-representative-claim": "five_hour",
        f"{prefix}-overage-status": "rejected",
        **({f"{prefix}-reset": str(resets_at)} if resets_at else {}),
    }
    return Reply(status=429, headers=headers)


def test_a_usage_limit_is_waited_for_until_it_resets(project: Project, play: Play) -> None:
    resets_at = int(time.time()) + 3700
    project.has_tasks("one")
    logged_in(project)
    model = play(uses(bash("true"), text="I begin."), reached_limit(resets_at), *finishes(project))
    run = build(project, "--max-iterations", "1", command=leaping())
    assert (run.code, says_done(project)) == (0, True), run.text
    assert iterations(project) == [(1, "limit", False), (1, "ok", True)]
    assert f"waiting until {time.strftime('%H:%M', time.gmtime(resets_at + 2))}" in run.stdout
    (wait,) = [line for line in project.journal() if line["event"] == "wait"]
    assert 3500 < wait["planned_s"] <= 3702
    assert [request.says("I begin.") for request in model.requests[:3]] == [False, True, False]


def test_without_waiting_a_usage_limit_ends_the_start_and_names_the_time(project: Project, play: Play) -> None:
    resets_at = int(time.time()) + 3700
    project.has_tasks("one")
    before = project.progress_text
    logged_in(project)
    project.env["TZ"] = "Asia/Kolkata"
    play(reached_limit(resets_at))
    run = build(project, "--no-wait")
    assert (run.code, len(results(project))) == (3, 1), run.text
    there = time.gmtime(resets_at + 5.5 * 3600)
    assert time.strftime("%H:%M", there) in run.text or time.strftime("%I:%M%p", there).lstrip("0").lower() in run.text
    assert project.progress_text == before


def test_trouble_and_limits_that_name_no_time_are_waited_out(project: Project, play: Play) -> None:
    project.has_tasks("one")
    logged_in(project)
    model = play(
        Reply(drops=True),
        Reply(status=500, message="the server is ill"),
        Reply(status=529, message="Overloaded"),
        reached_limit(),
        *finishes(project),
    )
    run = build(project, "--max-iterations", "1", "--max-failures", "1", command=leaping())
    assert (run.code, says_done(project)) == (0, True), run.text
    assert iterations(project) == [*[(1, "trouble", False)] * 3, (1, "limit", False), (1, "ok", True)]
    waits = [line["planned_s"] for line in project.journal() if line["event"] == "wait"]
    assert waits == [30, 60, 120, 300]
    assert "the server is ill" in run.text
    assert len(model.requests) == 8


@pytest.mark.parametrize(
    ("reply", "login", "remedy"),
    [
        pytest.param(Reply(status=401, message="invalid x-api-key"), False, "log in", id="a refused key"),
        pytest.param(Reply(status=401, message="something else"), True, "log in", id="a login that is over"),
        pytest.param(
            Reply(status=400, message="Your credit balance is too low to access the Anthropic API."),
            False,
            "add credit",
            id="used up credit",
        ),
        pytest.param(Reply(status=404, message="model: nonesuch"), False, "--model", id="an unknown model"),
    ],
)
def test_what_cannot_mend_itself_stops_at_once(
    project: Project, play: Play, reply: Reply, login: bool, remedy: str
) -> None:
    project.has_tasks("one")
    before = project.progress_text
    play(reply, reply)  # of an unknown model claude asks once more, without streaming
    if login:
        logged_in(project)
    run = build(project)
    assert (run.code, len(results(project))) == (1, 1), run.text
    assert remedy in run.text
    assert project.progress_text == before


def test_not_logged_in_stops_at_once(project: Project, play: Play) -> None:
    project.has_tasks("one")
    before = project.progress_text
    model = play()
    del project.env["ANTHROPIC_API_KEY"]
    run = build(project)
    assert (run.code, len(results(project)), model.requests) == (1, 1, []), run.text
    assert "/login" in run.text
    assert project.progress_text == before


@pytest.mark.skipif(not AS_ROOT, reason="only root is refused")
def test_refused_as_root_stops_at_once(project: Project, play: Play) -> None:
    project.has_tasks("one")
    before = project.progress_text
    model = play()
    del project.env["IS_SANDBOX"]
    run = build(project)
    assert (run.code, model.requests, len(project.transcripts()) <= 3) == (1, [], True), run.text
    assert "IS_SANDBOX" in run.text
    assert project.progress_text == before


# Processes.


def start(project: Project) -> Running:
    return project.start("feature.md", "build", "--model", "sonnet")


def test_ctrl_c_in_the_middle_of_a_tool_call_ends_the_tool_and_its_daemon(
    project: Project, play: Play, offspring: Offspring
) -> None:
    project.has_tasks("one")
    before = project.progress_text
    play(uses(bash(f"{offspring.daemon('daemon')}; {offspring.sleeper('tool')}")))
    run = start(project)
    eventually(lambda: offspring.alive() == ["daemon", "tool"], LONG_S)
    assert os.getsid(offspring.pid("tool")) != os.getsid(run.pid), "the tool is out of reach of ralph's process group"
    run.signal(signal.SIGINT)
    ended = run.wait()
    assert (ended.code, offspring.alive()) == (-signal.SIGINT, []), ended.text
    assert results(project)[-1]["terminal_reason"] == "aborted_tools", "its cost is known"
    assert project.progress_text == before


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_of_a_tool_call_outlives_ralph(
    project: Project, play: Play, offspring: Offspring, mark: str, which: signal.Signals
) -> None:
    project.has_tasks("one")
    play(uses(bash(f"setsid {offspring.sleeper('server')} & {offspring.sleeper('tool')}")))
    run = start(project)
    eventually(lambda: offspring.alive() == ["server", "tool"], LONG_S)
    run.signal(which)
    assert run.wait().code == -which
    eventually(lambda: not marked(mark), 15)
    assert offspring.alive() == []


def test_ctrl_c_while_the_model_does_not_answer(project: Project, play: Play, mark: str) -> None:
    project.has_tasks("one")
    model = play(Reply(hang="headers"))
    run = start(project)
    eventually(lambda: model.requests, LONG_S)
    run.signal(signal.SIGINT)
    assert run.wait().code == -signal.SIGINT
    assert marked(mark) == []
    line, _ = project.journal()
    assert line["cost_at_least"] or line["cost_usd"] == 0, "at this moment it does not always say what it cost"


def test_a_model_that_falls_silent_is_ended_by_the_watchdog(
    project: Project, play: Play, offspring: Offspring, mark: str
) -> None:
    project.has_tasks("one")
    server = bash(f"setsid {offspring.sleeper('server')} >/dev/null 2>&1 &")
    model = play(uses(server), Reply(text="I begin to say something, and then", hang="mid"))
    run = build(project, "--model", "sonnet", "--idle-timeout", "5s", "--max-failures", "1")
    assert (run.code, len(model.requests)) == (1, 2), run.text
    assert "silent for longer than idle-timeout" in run.stderr
    assert "ended what the agent left running" in run.stderr
    line, _ = project.journal()
    assert (line["ended"], line["cost_usd"], line["cost_at_least"]) == ("hung", pytest.approx(0.0006), False)
    assert (offspring.alive(), marked(mark)) == ([], [])


def test_max_time_ends_the_agent_in_the_middle_of_a_tool_call(
    project: Project, play: Play, offspring: Offspring, tmp_path: Path
) -> None:
    late = tmp_path / "late"
    project.has_tasks("one")
    play(uses(bash(offspring.sleeper("tool", before=f"touch {late};"))))
    hours_pass = leaping(running_s=7200, when=late)
    bounds = ("--max-time", "2h", "--idle-timeout", "20s", "--max-failures", "1")
    run = build(project, "--model", "sonnet", *bounds, command=hours_pass)
    assert (run.code, offspring.alive()) == (3, []), run.text
    line, _ = project.journal()
    assert (line["ended"], line["cost_usd"]) == ("out_of_time", pytest.approx(0.0006))
    assert "max-time is 2h00m" in run.text


def test_servers_left_by_a_tool_are_ended_and_their_ports_are_free(
    project: Project, play: Play, tmp_path: Path
) -> None:
    notes, script = [tmp_path / "one", tmp_path / "two"], tmp_path / "server.py"
    script.write_text(SERVER)
    project.has_tasks("one")
    servers = [
        f"{how} {sys.executable} {script} {note} >/dev/null 2>&1 &" for how, note in zip(HOW, notes, strict=True)
    ]
    waits = "; ".join(f"until [ -e {note} ]; do sleep 0.02; done" for note in notes)
    play(uses(bash(f"{' '.join(servers)} {waits}")), *finishes(project))
    run = build(project)
    assert run.code == 0, run.text
    for note in notes:
        pid, port = map(int, note.read_text().split())
        assert not alive(pid)
        with socket.socket() as free:
            assert free.connect_ex(("127.0.0.1", port)) != 0
    assert run.stderr.count("ended what the agent left running: ") == 2


HOW = ("setsid", "nohup")


def test_what_a_message_says_cannot_drive_the_terminal(project: Project, play: Play) -> None:
    project.has_tasks("one")
    play(uses(bash("printf '\\033[2J'"), text="\x1b]0;stolen\x07I clear the screen."), *finishes(project))
    run = project.ralph_tty("feature.md", "build", timeout_s=LONG_S)
    assert run.code == 0, run.stdout
    assert "I clear the screen." in run.stdout
    assert not [escape for escape in ("\x1b]", "\x07", "\x1b[2J") if escape in run.stdout]
