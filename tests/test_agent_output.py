"""What the agent prints (design section 6): kept whole in files, shown as it comes, harmless to the terminal."""

import json
import re
import tracemalloc

import pytest
from ralph_driver import Project, eventually
from stories import (
    Act,
    Agent,
    api_retry,
    init,
    marks,
    prints,
    raw,
    result,
    says,
    sleeps,
    step,
    tool,
    tool_result,
    waits_for,
)
from tmux import lines_only

from ralph.agent.stream import Stream
from ralph.process import Ended


def one(project: Project, agent: Agent, *acts: Act) -> str:
    """What is shown on stdout of one good iteration with these acts."""
    agent.story(step(*acts))
    run = project.build("1")
    assert run.code == 3, run.text
    return run.stdout


def test_each_iteration_has_its_transcript_and_it_is_private(project: Project, agent: Agent) -> None:
    agent.story(step(says("Word one."), prints("trouble one\n", stderr=True)), step(says("Word two.")))
    project.build("2")
    assert {(call.stdout, call.stderr) for call in agent.calls} == {("file", "file")}
    files = project.transcripts()
    assert any("/transcripts/" in name for name in files)
    for telling in (b"Word one.", b"Word two.", b"trouble one", *(p.encode() for p in agent.prompts)):
        assert any(telling in content for content in files.values()), telling
    (folder,) = project.state_folders
    assert folder.stat().st_mode & 0o077 == 0


def test_a_transcript_has_every_byte(project: Project, agent: Agent) -> None:
    odd = "\udcff\udcfe \x00 \x1b[31m no newline at the end"
    long = "0123456789" * 40_000 + " the end"
    agent.story(raw(init(), says("ü"), says(long), result(), prints(odd)))
    project.build("1")
    files = project.transcripts().values()
    assert any(content.endswith(odd.encode("utf-8", "surrogateescape")) for content in files)
    assert any(long.encode() in content for content in files)


def test_words_tools_and_retries_are_shown_in_plain_lines(project: Project, agent: Agent) -> None:
    shown = one(
        project,
        agent,
        says("I run the tests."),
        tool("Bash", command="pytest -q"),
        tool_result("42 passed"),
        tool("Read", file_path="/x/a.py"),
        api_retry(3, status=529, error="overloaded"),
        prints("Warning: plain words\n"),
    )
    lines = [line.strip() for line in shown.splitlines()]
    assert "I run the tests." in lines
    assert "▸ Bash pytest -q" in lines
    assert any(line.startswith("▸ Read ") and "a.py" in line for line in lines)
    assert lines.index("I run the tests.") < lines.index("▸ Bash pytest -q")
    assert any("overloaded" in line and "3" in line for line in lines)
    assert "Warning: plain words" in lines
    assert "\x1b" not in shown, "no colour where nobody sees it"


def test_a_tool_call_takes_one_line_and_sub_agents_are_indented(project: Project, agent: Agent) -> None:
    shown = one(
        project,
        agent,
        tool("Bash", command="cat <<X\n" + "very long\n" * 1000 + "X"),
        tool("Task", description="look around", prompt="..."),
        says("Inside.", parent="t1"),
        tool("Grep", pattern="def x", parent="t1"),
    )
    assert shown.count("very long") < 50
    places = {line.split()[1]: line.index("▸") for line in shown.splitlines() if "▸" in line}
    assert places.keys() == {"Bash", "Task", "Grep"}
    assert places["Grep"] > places["Task"]
    assert next(line.index("Inside.") for line in shown.splitlines() if "Inside." in line) > places["Task"]


def test_it_is_shown_while_it_happens(project: Project, agent: Agent) -> None:
    agent.story(step(says("Already here."), marks("on"), waits_for("go")))
    running = project.start("feature.md", "build", "1")
    eventually(lambda: "Already here." in running.stdout)
    assert running.poll() is None
    agent.let("go")
    assert running.wait().code == 3


EVIL = "\x1b]0;title\x07\x1b[2J\x1b[1;1Hoverwritten\r\x08\x9b31m\x90q\u202e \x7f"


def test_control_characters_cannot_drive_the_terminal(project: Project, agent: Agent) -> None:
    """In its words, in a command, in the name of a tool, in plain text, in an error."""
    evil = f"before {EVIL} after"
    acts = (says(evil), tool("Bash", command=evil), tool(evil), prints(f"{evil}\n"), api_retry(error=evil))
    agent.story(step(*acts))
    screen = project.ralph_tty("feature.md", "build", "1", "--delay", "0").stdout
    plain = lines_only(screen)
    assert plain.count("before") == len(acts)
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


ODD: dict[str, Act] = {
    "an unknown system event": {"type": "system", "subtype": "unheard_of", "x": [1]},
    "an unknown event": {"type": "unheard_of"},
    "a message without a message": {"type": "assistant"},
    "content that is a string": {"type": "assistant", "message": {"content": "words"}},
    "odd blocks": {"type": "assistant", "message": {"content": [{"type": "thinking"}, 7]}},
    "nothing where something was": {"type": "assistant", "message": None},
    "an empty answer": {"type": "user", "message": {"content": None}},
    "a limit without information": {"type": "rate_limit_event"},
    "arguments of another shape": tool("Bash", command={"odd": ["arguments"]}),
    "JSON that is no object": prints("[1, 2]\n"),
    "JSON that is nothing": prints("null\n"),
    "a line that was cut": prints('{"type": "result", "is_err\n'),
    "bytes that are no UTF-8": prints("\udcff\udcfe\n"),
    "half a letter": prints('{"type": "assistant", "message": {"content": [{"text": "\\ud800"}]}}\n'),
    "empty lines": prints("\n\r\n\x00\n"),
}


def endings(project: Project) -> list[str]:
    """How each iteration ended."""
    return [line["ended"] for line in project.journal() if line["event"] == "iteration"]


def test_odd_lines_do_no_harm(project: Project, agent: Agent) -> None:
    agent.story(*(step(odd) for odd in ODD.values()))
    run = project.build(str(len(ODD)), "--max-stalls", "off")
    assert [name for name, ended in zip(ODD, endings(project), strict=True) if ended != "ok"] == [], run.text
    assert "Traceback" not in run.text


WORDS = "You've hit your session limit · resets 3pm. Not logged in · Please run /login. Credit balance is too low"


MERELY_WORDS: dict[str, Act] = {
    "read in a file": tool_result(WORDS),
    "printed by a test that failed": tool_result(WORDS, is_error=True),
    "said by the model": says(WORDS),
    "as a line of text": prints(WORDS + "\n"),
    "on stderr": prints(WORDS + "\n", stderr=True),
}


def test_words_about_limits_are_only_words(project: Project, agent: Agent) -> None:
    agent.story(*(step(act) for act in MERELY_WORDS.values()))
    run = project.build(str(len(MERELY_WORDS)))
    assert [name for name, ended in zip(MERELY_WORDS, endings(project), strict=True) if ended != "ok"] == [], run.text


# Its last words.


def unheard() -> Stream:
    """One that shows nobody anything."""
    return Stream(lambda _event: None, lambda _line: None)


def last_words(*printed: Act | bytes, errors: bytes = b"") -> str:
    """What a turn keeps of an agent that prints these events, or these bytes, in pieces of any size."""
    stream = unheard()
    output = b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in printed)
    for at in range(0, len(output), 1000):
        stream.sees(output[at : at + 1000])
    stream.complains(errors)
    return stream.turn(ENDED, took_s=1.0, now=0.0).said


ENDED = Ended(code=0)
INNER = {**result("Of a sub-agent."), "parent_tool_use_id": "t1"}


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        pytest.param([init(), says("Before."), result("The result.\n")], "The result.", id="its result"),
        pytest.param([init(), says("Words.")], "", id="nothing, where there is no result"),
        pytest.param([init(), INNER], "", id="nothing of a sub-agent"),
        pytest.param([init(), result("First."), init(), result("Second.")], "Second.", id="the last of two results"),
        pytest.param([init(), result("R."), b"A line of text.\n"], "R.", id="no text beside its stream"),
        pytest.param([b"Warning: old.\n", init(), says("Words.")], "", id="no text before its stream"),
        pytest.param([b"One.\nTwo.\n\n"], "One.\nTwo.", id="its lines, where it has no stream"),
        pytest.param([b"One.\r\n\r\n  Two."], "One.\n\n  Two.", id="lines as Windows ends them, the last one open"),
        pytest.param([b"caf\xe9\n"], "caf\N{REPLACEMENT CHARACTER}", id="bytes that are no UTF-8"),
    ],
)
def test_its_last_words_are_its_result_or_its_last_lines(printed: list[Act | bytes], said: str) -> None:
    assert last_words(*printed, errors=b"A complaint.\n") == said


def test_of_many_lines_the_last_are_its_words_and_no_others_are_kept() -> None:
    stream = unheard()
    tracemalloc.start()
    for _ in range(100):
        stream.sees(b"a line of many\n" * 1000)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 500_000
    stream.sees(b"the signal\n")
    said = stream.turn(ENDED, took_s=1.0, now=0.0).said
    assert said.endswith("a line of many\nthe signal")
    assert len(said) <= 2000


def test_a_line_that_was_cut_does_not_begin_anew() -> None:
    """Else a quotation could lose its mark and become a word of the agent's own."""
    assert last_words(b"> " + b"x" * 5000 + b"\n") == "…" + "x" * 1999
    assert last_words(b"> quoted " + b"x" * 1990 + b"\nend") == "…oted " + "x" * 1990 + "\nend"
    assert last_words(init(), result("> " + "y" * 30_000)) == "…" + "y" * 19_999
