"""The last word: ralph with the real `claude`, whose model is a script on loopback.

Runs where a `claude` is on PATH, or where RALPH_TEST_CLAUDE names one. It gets a home of its own, no key that is one,
and no address but the scripted model's.
"""

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from offspring import Offspring
from ralph_driver import Project, alive, eventually, marked
from scripted_model import Reply, ScriptedModel, Tool, bash, edit, read, write

BUILD = ("feature.md", "build", "--delay", "0")
LONG_S = 40
AS_ROOT = os.getuid() == 0
SERVER = """
import http.server, os, pathlib, sys
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
note = pathlib.Path(sys.argv[1])
note.with_suffix(".new").write_text(f"{os.getpid()} {server.server_port}")
note.with_suffix(".new").rename(note)
server.serve_forever()
"""

Play = Callable[..., ScriptedModel]


@pytest.fixture(scope="session")
def claude() -> Path:
    found = os.environ.get("RALPH_TEST_CLAUDE") or shutil.which("claude")
    if not found:
        pytest.skip("no claude: neither on PATH nor named by RALPH_TEST_CLAUDE")
    return Path(found).absolute()


@pytest.fixture
def play(project: Project, claude: Path, tmp_path: Path) -> Iterator[Play]:
    """Gives the project the real claude; called with replies, it starts the model that says them."""
    programs = tmp_path / "bin"
    (programs / "claude").unlink()
    (programs / "claude").symlink_to(claude)
    project.env |= {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "ANTHROPIC_API_KEY": "dummy",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_TMPDIR": project.env["TMPDIR"],
        "DISABLE_AUTOUPDATER": "1",
        **({"IS_SANDBOX": "1"} if AS_ROOT else {}),
    }
    with ExitStack() as models:

        def start(*script: Reply) -> ScriptedModel:
            model = models.enter_context(ScriptedModel(script))
            project.env["ANTHROPIC_BASE_URL"] = model.url
            return model

        yield start


def uses(*tools: Tool, text: str | None = None) -> Reply:
    return Reply(text=text, tools=tools)


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
    run = project.ralph(*BUILD, timeout_s=LONG_S)
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


def test_a_last_message_of_400_kb_is_whole_in_the_transcript(project: Project, play: Play) -> None:
    long = "".join(f"{number:07}\n" for number in range(50_000))
    project.has_tasks("one")
    play(*finishes(project, last=long))
    run = project.ralph(*BUILD, timeout_s=LONG_S)
    assert run.code == 0, run.stderr
    assert results(project)[-1]["result"] == long


def test_a_prompt_that_begins_with_a_slash_is_no_command(project: Project, play: Play) -> None:
    prompts = project.root.parent / "prompts"
    prompts.mkdir()
    (prompts / "PROMPT_build.md").write_text("/clear everything on the list in {{ PROGRESS_FILE }}.\n")
    project.has_tasks("one")
    model = play(*finishes(project))
    run = project.ralph(*BUILD, "--prompts", str(prompts), timeout_s=LONG_S)
    assert run.code == 0, run.text
    assert model.requests[0].says("/clear everything on the list in ")


def test_the_account_that_pays_is_said_once(project: Project, play: Play) -> None:
    project.has_tasks("one")
    play(Reply(text="I think about it."), *finishes(project))
    run = project.ralph(*BUILD, timeout_s=LONG_S)
    assert run.text.count("ANTHROPIC_API_KEY") == 1


def test_model_and_effort_reach_the_api(project: Project, play: Play) -> None:
    project.has_tasks("one")
    model = play(*finishes(project))
    run = project.ralph(*BUILD, "--model", "opus", "--effort", "low", timeout_s=LONG_S)
    assert run.code == 0, run.text
    asked = model.requests[0].body
    assert ("opus" in asked["model"], asked["output_config"]["effort"]) == (True, "low")


# Turns, errors and limits.


def test_reaching_max_turns_with_progress_made_is_no_failure(project: Project, play: Play) -> None:
    tasks = ("one", "two", "three", "four")
    project.has_tasks(*tasks)
    steps = [
        (uses(read(project.progress)), uses(edit(project.progress, f"- [ ] {task}", f"- [x] {task}"))) for task in tasks
    ]
    play(*(reply for step in steps for reply in step))
    run = project.ralph(*BUILD, "--max-turns", "2", "--max-iterations", "4", timeout_s=LONG_S)
    assert run.code == 3, run.text
    assert project.progress_text.count("- [x]") == 4
    assert {result["subtype"] for result in results(project)} == {"error_max_turns"}


def test_reaching_max_turns_without_progress_is_a_failure(project: Project, play: Play) -> None:
    project.has_tasks("one")
    play(*[uses(bash("true"))] * 6)
    run = project.ralph(*BUILD, "--max-turns", "1", timeout_s=LONG_S)
    assert (run.code, len(results(project))) == (1, 3), run.text


def test_an_api_error_is_a_failed_iteration(project: Project, play: Play) -> None:
    project.has_tasks("one")
    model = play(Reply(status=500, message="the server is ill"), *finishes(project))
    run = project.ralph(*BUILD, timeout_s=LONG_S)
    assert (run.code, says_done(project)) == (0, True), run.text
    assert "the server is ill" in run.text
    assert len(model.requests) == 5


def test_three_api_errors_in_a_row_block_the_plan(project: Project, play: Play) -> None:
    project.has_tasks("one")
    play(*[Reply(status=500, message="the server is ill")] * 4)
    run = project.ralph(*BUILD, timeout_s=LONG_S)
    assert (run.code, len(results(project))) == (1, 3), run.text
    assert "\nRALPH_BLOCKED: ralph: 3 iterations failed in a row" in project.progress_text


@pytest.mark.parametrize("message", ["invalid x-api-key", "something else"])
def test_a_refused_key_stops_at_once(project: Project, play: Play, message: str) -> None:
    stops_at_once(project, play, Reply(status=401, message=message), remedy="log in")


def test_used_up_credit_stops_at_once(project: Project, play: Play) -> None:
    reply = Reply(status=400, message="Your credit balance is too low to access the Anthropic API.")
    stops_at_once(project, play, reply, remedy="add credit")


def test_an_unknown_model_stops_at_once(project: Project, play: Play) -> None:
    stream, no_stream = [Reply(status=404, message="model: nonesuch")] * 2  # claude asks once more without streaming
    stops_at_once(project, play, stream, no_stream, remedy="--model")


def stops_at_once(project: Project, play: Play, *replies: Reply, remedy: str) -> None:
    """What cannot mend itself: one iteration, exit 1, the remedy, and nothing written."""
    project.has_tasks("one")
    before = project.progress_text
    play(*replies)
    run = project.ralph(*BUILD, timeout_s=LONG_S)
    assert (run.code, len(results(project))) == (1, 1), run.text
    assert remedy in run.text
    assert project.progress_text == before


def test_not_logged_in_stops_at_once(project: Project, play: Play) -> None:
    project.has_tasks("one")
    before = project.progress_text
    model = play()
    del project.env["ANTHROPIC_API_KEY"]
    run = project.ralph(*BUILD, timeout_s=LONG_S)
    assert (run.code, len(results(project)), model.requests) == (1, 1, []), run.text
    assert "/login" in run.text
    assert project.progress_text == before


@pytest.mark.skipif(not AS_ROOT, reason="only root is refused")
def test_refused_as_root_stops_at_once(project: Project, play: Play) -> None:
    project.has_tasks("one")
    before = project.progress_text
    model = play()
    del project.env["IS_SANDBOX"]
    run = project.ralph(*BUILD, timeout_s=LONG_S)
    assert (run.code, model.requests, len(project.transcripts()) <= 3) == (1, [], True), run.text
    assert "IS_SANDBOX" in run.text
    assert project.progress_text == before


def test_a_usage_limit_ends_the_start_and_names_the_time(project: Project, play: Play) -> None:
    resets_at = int(time.time()) + 3700
    prefix = "anthropic-ratelimit-unified"
    headers = {
        f"{prefix}-status": "rejected",
        f"{prefix}-reset": str(resets_at),
        f"{prefix}-representative-claim": "five_hour",
        f"{prefix}-overage-status": "rejected",
    }
    project.has_tasks("one")
    before = project.progress_text
    play(Reply(status=429, headers=headers))
    del project.env["ANTHROPIC_API_KEY"]
    project.env |= {"CLAUDE_CODE_OAUTH_TOKEN": "dummy", "TZ": "Asia/Kolkata"}
    run = project.ralph(*BUILD, timeout_s=LONG_S)
    assert (run.code, len(results(project))) == (3, 1), run.text
    there = time.gmtime(resets_at + 5.5 * 3600)
    assert time.strftime("%H:%M", there) in run.text or time.strftime("%I:%M%p", there).lstrip("0").lower() in run.text
    assert project.progress_text == before


# Processes.


def test_ctrl_c_in_the_middle_of_a_tool_call_ends_the_tool(project: Project, play: Play, offspring: Offspring) -> None:
    project.has_tasks("one")
    before = project.progress_text
    play(uses(bash(offspring.sleeper("tool"))))
    run = project.start(*BUILD)
    tool = offspring.pid("tool")
    assert os.getsid(tool) != os.getsid(run.pid), "the tool is out of reach of ralph's own process group"
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
    run = project.start(*BUILD)
    eventually(lambda: offspring.alive() == ["server", "tool"])
    run.signal(which)
    assert run.wait().code == -which
    eventually(lambda: not marked(mark), 15)
    assert offspring.alive() == []


def test_a_daemon_of_a_tool_call_is_found_without_mark_and_parent(
    project: Project, play: Play, offspring: Offspring
) -> None:
    project.has_tasks("one")
    play(uses(bash(f"{offspring.daemon('daemon')}; {offspring.sleeper('tool')}")))
    run = project.start(*BUILD)
    eventually(lambda: offspring.alive() == ["daemon", "tool"])
    run.signal(signal.SIGINT)
    assert run.wait().code == -signal.SIGINT
    assert offspring.alive() == []


def test_ctrl_c_while_the_model_is_silent(project: Project, play: Play, mark: str) -> None:
    project.has_tasks("one")
    model = play(Reply(text="I begin to say something, and then", hang="mid"))
    run = project.start(*BUILD)
    eventually(lambda: model.requests)
    run.signal(signal.SIGINT)
    assert run.wait().code == -signal.SIGINT
    assert marked(mark) == []


def test_a_server_left_by_a_tool_is_ended_and_its_port_is_free(project: Project, play: Play, tmp_path: Path) -> None:
    note, script = tmp_path / "note", tmp_path / "server.py"
    script.write_text(SERVER)
    project.has_tasks("one")
    command = f"setsid {sys.executable} {script} {note} >/dev/null 2>&1 & until [ -e {note} ]; do sleep 0.02; done"
    play(uses(bash(command)), *finishes(project))
    run = project.ralph(*BUILD, timeout_s=LONG_S)
    assert run.code == 0, run.text
    pid, port = map(int, note.read_text().split())
    assert not alive(pid)
    with socket.socket() as free:
        assert free.connect_ex(("127.0.0.1", port)) != 0
    assert "server.py" in run.text


def test_what_a_message_says_cannot_drive_the_terminal(project: Project, play: Play) -> None:
    project.has_tasks("one")
    play(uses(bash("printf '\\033[2J'"), text="\x1b]0;stolen\x07I clear the screen."), *finishes(project))
    run = project.ralph_tty(*BUILD, timeout_s=LONG_S)
    assert run.code == 0, run.stdout
    assert "I clear the screen." in run.stdout
    assert not [escape for escape in ("\x1b]", "\x07", "\x1b[2J") if escape in run.stdout]


def test_the_agent_gets_no_secrets_and_no_tmux(project: Project, play: Play, tmp_path: Path) -> None:
    seen = tmp_path / "environment"
    project.has_tasks("one")
    play(uses(bash(f"env > {seen}")), *finishes(project))
    secret = {"RALPH_TELEGRAM_BOT_TOKEN": "secret", "TMUX": "/tmp/tmux-0/default,1,0"}
    run = project.ralph(*BUILD, env=secret, timeout_s=LONG_S)
    assert run.code == 0, run.text
    lines = seen.read_text().splitlines()
    names = {line.partition("=")[0] for line in lines}
    assert "RALPH_RUN_ID" in names
    assert not names & {"RALPH_TELEGRAM_BOT_TOKEN", "TMUX"}
