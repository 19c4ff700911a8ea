"""What the agent prints (design section 6): kept whole in files, shown as it comes, harmless to the terminal."""

import re

import pytest
from ralph_driver import Project, eventually
from stories import (
    Agent,
    api_retry,
    init,
    marks,
    prints,
    rate_limit,
    raw,
    result,
    says,
    sleeps,
    step,
    tool,
    tool_result,
    waits_for,
)


def one(project: Project, agent: Agent, *acts: dict[str, object]) -> str:
    """What is shown on stdout of one good iteration with these acts."""
    agent.story(step(*acts))
    run = project.build("1")
    assert run.code == 3, run.text
    return run.stdout


def test_its_output_goes_to_files(project: Project, agent: Agent) -> None:
    one(project, agent)
    (call,) = agent.calls
    assert (call.stdout, call.stderr) == ("file", "file")


def test_each_iteration_has_its_transcript(project: Project, agent: Agent) -> None:
    agent.story(step(says("Word one."), prints("trouble one\n", stderr=True)), step(says("Word two.")))
    project.build("2")
    files = project.transcripts()
    assert any("/transcripts/" in name for name in files)
    for telling in (b"Word one.", b"Word two.", b"trouble one", *(p.encode() for p in agent.prompts)):
        assert any(telling in content for content in files.values()), telling


def test_a_transcript_has_every_byte(project: Project, agent: Agent) -> None:
    odd = "\udcff\udcfe \x00 \x1b[31m no newline at the end"
    agent.story(raw(init(), says("ü"), result(), prints(odd)))
    project.build("1")
    assert any(content.endswith(odd.encode("utf-8", "surrogateescape")) for content in project.transcripts().values())


def test_transcripts_are_private(project: Project, agent: Agent) -> None:
    one(project, agent)
    (folder,) = project.state_folders
    assert folder.stat().st_mode & 0o077 == 0


def test_words_and_tools_are_shown(project: Project, agent: Agent) -> None:
    shown = one(
        project,
        agent,
        says("I run the tests."),
        tool("Bash", command="pytest -q"),
        tool_result("42 passed"),
        tool("Read", file_path="/x/a.py"),
    )
    lines = [line.strip() for line in shown.splitlines()]
    assert "I run the tests." in lines
    assert "▸ Bash pytest -q" in lines
    assert any(line.startswith("▸ Read ") and "a.py" in line for line in lines)
    assert lines.index("I run the tests.") < lines.index("▸ Bash pytest -q")


def test_a_tool_call_takes_one_line(project: Project, agent: Agent) -> None:
    shown = one(project, agent, tool("Bash", command="cat <<X\n" + "very long\n" * 1000 + "X"))
    assert shown.count("very long") < 50
    assert len([line for line in shown.splitlines() if "▸" in line]) == 1


def test_sub_agents_are_indented(project: Project, agent: Agent) -> None:
    shown = one(
        project,
        agent,
        tool("Task", description="look around", prompt="..."),
        says("Inside.", parent="t1"),
        tool("Grep", pattern="def x", parent="t1"),
    )
    places = {line.split()[1]: line.index("▸") for line in shown.splitlines() if "▸" in line}
    assert places["Grep"] > places["Task"]
    assert next(line.index("Inside.") for line in shown.splitlines() if "Inside." in line) > places["Task"]


def test_retries_are_shown(project: Project, agent: Agent) -> None:
    shown = one(project, agent, api_retry(3, status=529, error="overloaded"))
    assert "overloaded" in shown
    assert "3" in shown


def test_it_is_shown_while_it_happens(project: Project, agent: Agent) -> None:
    agent.story(step(says("Already here."), marks("on"), waits_for("go")))
    running = project.start("feature.md", "build", "1")
    eventually(lambda: "Already here." in running.stdout)
    assert running.poll() is None
    agent.let("go")
    assert running.wait().code == 3


def test_there_is_no_colour_where_nobody_sees_it(project: Project, agent: Agent) -> None:
    assert "\x1b" not in one(project, agent, says("Words."), tool("Bash", command="ls"))


EVIL = "\x1b]0;title\x07\x1b[2J\x1b[1;1Hoverwritten\r\x08\x9b31m\x90q\u202e \x7f"


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(says(f"before {EVIL} after"), id="in its words"),
        pytest.param(tool("Bash", command=f"before {EVIL} after"), id="in a command"),
        pytest.param(tool(f"before {EVIL} after"), id="in the name of a tool"),
        pytest.param(prints(f"before {EVIL} after\n"), id="in plain text"),
        pytest.param(api_retry(error=f"before {EVIL} after"), id="in an error"),
    ],
)
def test_control_characters_cannot_drive_the_terminal(project: Project, agent: Agent, act: dict[str, object]) -> None:
    agent.story(step(act))
    screen = project.ralph_tty("feature.md", "build", "1", "--delay", "0").stdout
    assert "before" in screen
    plain = re.sub(r"\x1b\[[0-9;]*[mK]", "", screen)  # ralph's own colours
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", plain), repr(plain)
    assert "\x1b]0;" not in screen
    assert "\x1b[2J" not in screen


def test_an_agent_that_is_woken_after_its_result_goes_on(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    woken = {"act": "ticks", "which": "one"}
    agent.story(raw(init(), says("First."), result(), sleeps(0.5), init(), says("Second."), woken, result()))
    run = project.build("1")
    assert "#1 · 1/1 tasks (+1)" in run.stdout
    assert "Second." in run.stdout


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"type": "system", "subtype": "unheard_of", "x": [1]}, id="an unknown system event"),
        pytest.param({"type": "unheard_of"}, id="an unknown event"),
        pytest.param({"type": "assistant"}, id="a message without a message"),
        pytest.param({"type": "assistant", "message": {"content": "words"}}, id="content that is a string"),
        pytest.param({"type": "assistant", "message": {"content": [{"type": "thinking"}, 7]}}, id="odd blocks"),
        pytest.param({"type": "assistant", "message": None}, id="nothing where something was"),
        pytest.param({"type": "user", "message": {"content": None}}, id="an empty answer"),
        pytest.param({"type": "rate_limit_event"}, id="a limit without information"),
        pytest.param(tool("Bash", command={"odd": ["arguments"]}), id="arguments of another shape"),
        pytest.param(prints("[1, 2]\n"), id="JSON that is no object"),
        pytest.param(prints("null\n"), id="JSON that is nothing"),
        pytest.param(prints('{"type": "result", "is_err\n'), id="a line that was cut"),
        pytest.param(prints("\udcff\udcfe\n"), id="bytes that are no UTF-8"),
        pytest.param(
            prints('{"type": "assistant", "message": {"content": [{"text": "\\ud800"}]}}\n'), id="half a letter"
        ),
        pytest.param(prints("\n\r\n\x00\n"), id="empty lines"),
    ],
)
def test_odd_lines_do_no_harm(project: Project, agent: Agent, odd: dict[str, object]) -> None:
    assert "#1 · " in one(project, agent, odd)


def test_lines_that_are_no_stream_are_shown_as_they_are(project: Project, agent: Agent) -> None:
    assert "Warning: plain words" in one(project, agent, prints("Warning: plain words\n"))


def test_what_it_says_on_stderr_is_not_lost(project: Project, agent: Agent) -> None:
    agent.story(raw(prints("cannot open the thing\n", stderr=True), exit_code=2), step(writes_done=True))
    run = project.build()
    assert "cannot open the thing" in run.text


def test_a_message_of_400_kb_arrives_whole(project: Project, agent: Agent) -> None:
    text = "0123456789" * 40_000 + " the end"
    agent.story(step(says(text), exit_code=0))
    project.build("1")
    assert any(text.encode() in content for content in project.transcripts().values())


def test_output_of_any_size_is_followed_in_little_memory(project: Project, agent: Agent) -> None:
    chatter = prints("noise " * 1000 + "\n", times=15_000)  # 90 MB
    agent.story(step(chatter))
    limited = ("sh", "-c", 'ulimit -v 600000 2>/dev/null; exec "$@"', "sh")
    running = project.start("feature.md", "build", "1", "--delay", "0", prefix=limited)
    run = running.wait(60)
    assert run.code == 3, run.stderr[:2000]
    assert "#1 · " in run.stdout


def test_which_account_pays_is_said_once(project: Project, agent: Agent) -> None:
    agent.story(*[raw(init(key_source="ANTHROPIC_API_KEY"), result())] * 3)
    run = project.build("3")
    assert run.text.count("ANTHROPIC_API_KEY") == 1


def test_limits_that_are_only_near_or_paid_for_are_no_failure(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    agent.story(
        step(rate_limit("allowed_warning", resets_at=9e9), ticks="one"),
        step(rate_limit("rejected", resets_at=9e9, overage=True), ticks="two", writes_done=True),
    )
    assert project.build().code == 0


WORDS = "You've hit your session limit · resets 3pm. Not logged in · Please run /login. Credit balance is too low"


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(tool_result(WORDS), id="read in a file"),
        pytest.param(tool_result(WORDS, is_error=True), id="printed by a test that failed"),
        pytest.param(says(WORDS), id="said by the model"),
        pytest.param(prints(WORDS + "\n"), id="as a line of text"),
        pytest.param(prints(WORDS + "\n", stderr=True), id="on stderr"),
    ],
)
def test_words_about_limits_are_only_words(project: Project, agent: Agent, act: dict[str, object]) -> None:
    project.has_tasks("one")
    agent.story(step(act, ticks="one", writes_done=True))
    assert project.build().code == 0
