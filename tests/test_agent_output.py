"""What the agent prints (design section 6): kept whole in files, shown as it comes, harmless to the terminal."""

import json

import pytest
from ralph_driver import Project, eventually
from stories import Act, Agent, api_retry, init, marks, prints, raw, result, says, step, tool, tool_result, waits_for

from ralph.agent import command
from ralph.agent.stream import Stream
from ralph.agent.turn import Outcome
from ralph.process.keeper import Ended
from ralph.settings import Settings


def test_each_iteration_has_its_transcript_with_every_byte_and_it_is_private(project: Project, agent: Agent) -> None:
    odd = "\udcff\udcfe \x00 \x1b[31m no newline at the end"
    long = "0123456789" * 40_000 + " the end"
    agent.story(
        step(says("Word one."), prints("trouble\n", stderr=True)), raw(init(), says(long), result(), prints(odd))
    )
    project.build("2")
    assert {(call.stdout, call.stderr) for call in agent.calls} == {("file", "file")}
    files = project.transcripts()
    assert any("/transcripts/" in name for name in files)
    for telling in (b"Word one.", b"trouble", long.encode(), *(p.encode() for p in agent.prompts)):
        assert any(telling in content for content in files.values()), telling[:80]
    assert any(content.endswith(odd.encode("utf-8", "surrogateescape")) for content in files.values())
    (folder,) = project.state_folders
    assert folder.stat().st_mode & 0o077 == 0


def test_it_is_shown_while_it_happens(project: Project, agent: Agent) -> None:
    acts = (api_retry(3, status=529, error="overloaded"), says("Already here."), marks("on"), waits_for("go"))
    agent.story(step(*acts))
    running = project.start("feature.md", "build", "1")
    eventually(lambda: "Already here." in running.stdout)
    assert running.poll() is None
    assert any("overloaded" in line and "3" in line for line in running.stdout.splitlines())
    agent.let("go")
    assert running.wait().code == 3


ODD: dict[str, Act] = {
    "an unknown system event": {"type": "system", "subtype": "unheard_of", "x": [1]},
    "a message without a message": {"type": "assistant"},
    "content that is a string": {"type": "assistant", "message": {"content": "words"}},
    "odd blocks": {"type": "assistant", "message": {"content": [{"type": "thinking"}, 7]}},
    "nothing where something was": {"type": "assistant", "message": None},
    "a limit without information": {"type": "rate_limit_event"},
    "arguments of another shape": tool("Bash", command={"odd": ["arguments"]}),
    "JSON that is no object": prints("[1, 2]\n"),
    "a line that was cut": prints('{"type": "result", "is_err\n'),
    "bytes that are no UTF-8": prints("\udcff\udcfe\n"),
    "half a letter": prints('{"type": "assistant", "message": {"content": [{"text": "\\ud800"}]}}\n'),
    "empty lines": prints("\n\r\n\x00\n"),
    "of another agent": prints('{"type": "text", "part": {"type": "text", "text": "hello"}}\n'),
    "errors that are true": prints('{"type": "result", "is_error": true, "errors": true}\n'),
    "a retry soon": prints('{"type": "system", "subtype": "api_retry", "retry_delay_ms": "soon"}\n'),
    "a cost of 400 digits": prints('{"type": "result", "total_cost_usd": 1%s}\n' % ("0" * 400)),
    "an odd end": prints('{"type": "result", "is_error": true, "subtype": []}\n'),
    "deeply nested": prints(f'{{"type": "assistant", "message": {"[" * 100_000}{"]" * 100_000}}}\n'),
}


WORDS = "You've hit your session limit · resets 3pm. Not logged in · Please run /login. Credit balance is too low"
MERELY_WORDS: dict[str, Act] = {
    "printed by a test that failed": tool_result(WORDS, is_error=True),
    "said by the model": says(WORDS),
    "as a line of text": prints(WORDS + "\n"),
    "on stderr": prints(WORDS + "\n", stderr=True),
}


def test_odd_lines_do_no_harm_and_words_about_limits_are_only_words(project: Project, agent: Agent) -> None:
    acts = {**ODD, **MERELY_WORDS}
    agent.story(*(step(act) for act in acts.values()))
    run = project.build(str(len(acts)), "--max-stalls", "off")
    ended = [line["ended"] for line in project.journal() if line["event"] == "iteration"]
    assert [name for name, how in zip(acts, ended, strict=True) if how != "ok"] == [], run.text
    assert "Traceback" not in run.text


# Its last words.


ENDED = Ended(code=0)
CLAUDE = command.chosen(Settings())[0]
INNER = {**result("Of a sub-agent."), "parent_tool_use_id": "t1"}


def last_words(*printed: Act | bytes, errors: bytes = b"") -> str:
    """What a turn keeps of an agent that prints these events, or these bytes, in pieces of any size."""
    stream = Stream(lambda _event: None, lambda _line: None)
    output = b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in printed)
    for at in range(0, len(output), 1000):
        stream.sees(output[at : at + 1000])
    stream.complains(errors)
    return stream.turn(CLAUDE, ENDED, took_s=1.0, now=0.0).said


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        pytest.param([init(), says("Before."), result("The result.\n")], "The result.", id="its result"),
        pytest.param([init(), INNER], "", id="nothing of a sub-agent"),
        pytest.param([init(), result("First."), init(), result("Second.")], "Second.", id="the last of two results"),
        pytest.param([init(), result("R."), b"A line of text.\n"], "R.", id="no text beside its stream"),
        pytest.param([b"Warning: old.\n", init(), says("Words.")], "", id="no text before its stream"),
        pytest.param([b"One.\r\n\r\n  Two. \xe9"], "One.\n\n  Two. \N{REPLACEMENT CHARACTER}", id="its lines"),
    ],
)
def test_its_last_words_are_its_result_or_its_last_lines(printed: list[Act | bytes], said: str) -> None:
    assert last_words(*printed, errors=b"A complaint.\n") == said


def test_a_line_that_was_cut_does_not_begin_anew() -> None:
    """Else a quotation could lose its mark and become a word of the agent's own."""
    assert last_words(b"> " + b"x" * 5000 + b"\n") == "…" + "x" * 1998
    assert last_words(b"> quoted " + b"x" * 1990 + b"\nend") == "…ted " + "x" * 1990 + "\nend"
    assert last_words(init(), result("> " + "y" * 30_000)) == "…" + "y" * 19_999


# What others print.

GEMINI = (
    b'{"type":"init","model":"gemini-2.5-pro"}\n{"type":"message","role":"assistant","content":"Wor","delta":true}\n'
)
GEMINI += b'{"type":"message","role":"assistant","content":"ds.","delta":true}\n'
STATS = b'"stats":{"total_tokens":150,"input_tokens":100,"output_tokens":20,"cached":60}'
CODEX = (
    b'{"type":"thread.started"}\n{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"Words."}}\n'
)
TOKENS = b'"cost":0.25,"tokens":{"input":40,"output":20,"reasoning":30,"cache":{"read":60,"write":0}}'
STEP = b'{"type":"step_start","part":{}}\n{"type":"text","part":{"text":"Words."}}\n'
STEP += b'{"type":"step_finish","part":{"reason":"%s",' + TOKENS + b"}}\n"


@pytest.mark.parametrize(
    ("printed", "outcome", "said"),
    [
        pytest.param(GEMINI + b'{"type":"result","status":"success",%s}\n' % STATS, Outcome.OK, "Words.", id="gemini"),
        pytest.param(GEMINI, Outcome.FAILED, "", id="gemini, interrupted: it exits with 0 then too"),
        pytest.param(
            GEMINI + b'{"type":"error","message":"Loop detected"}\n{"type":"result","status":"success",%s}\n' % STATS,
            *(Outcome.FAILED, ""),
            id="gemini, which found itself in a loop",
        ),
        pytest.param(CODEX, Outcome.FAILED, "", id="codex, killed"),
        pytest.param(CODEX + b'{"type":"turn.completed","usage":{}}\n', Outcome.OK, "Words.", id="codex"),
        pytest.param(STEP % b"tool-calls" + STEP % b"stop", Outcome.OK, "Words.", id="opencode"),
        pytest.param(STEP % b"tool-calls", Outcome.FAILED, "", id="opencode, which was refused a tool"),
    ],
)
def test_what_other_agents_print_means_what_it_would_of_claude(printed: bytes, outcome: Outcome, said: str) -> None:
    stream = Stream(lambda _event: None, lambda _line: None)
    stream.sees(printed)
    turn = stream.turn(CLAUDE, ENDED, took_s=1.0, now=0.0)
    assert (turn.outcome, turn.said) == (outcome, said)
    if outcome is Outcome.OK and b"step" not in printed and b"usage" not in printed:
        assert turn.tokens == {"input": 40, "output": 50, "cache_read": 60, "cache_write": 0}
    if outcome is Outcome.OK and b"step" in printed:
        assert (turn.tokens, turn.cost_usd) == ({"input": 80, "output": 100, "cache_read": 120, "cache_write": 0}, 0.5)
