"""What the agent prints (design section 6): kept whole in files, shown as it comes, harmless to the terminal."""

import json
from typing import Any

import pytest
from ralph_driver import Project, eventually
from stories import Act, Agent, api_retry, init, marks, prints, raw, result, says, step, tool, tool_result, waits_for

from ralph.agent import command
from ralph.agent.stream import OutputReader
from ralph.agent.turn import Outcome
from ralph.process.supervisor import Ended
from ralph.settings.table import Settings


def test_it_is_shown_while_it_happens_and_kept_with_every_byte_for_the_user_alone(
    project: Project, agent: Agent
) -> None:
    odd = "\udcff\udcfe \x00 \x1b[31m no newline at the end"
    long = "0123456789" * 40_000 + " the end"
    acts = (api_retry(3, status=529, error="overloaded"), says("Already here."), marks("on"), waits_for("go"))
    agent.story(step(*acts, prints("trouble\n", stderr=True)), raw(init(), says(long), result(), prints(odd)))
    running = project.start("feature.md", "build", "2", "--delay", "0")
    eventually(lambda: "Already here." in running.stdout)
    assert running.poll() is None
    assert any("overloaded" in line and "3" in line for line in running.stdout.splitlines())
    agent.let("go")
    assert running.wait().code == 3
    kept = project.transcripts().values()
    for telling in (b"Already here.", b"trouble", long.encode(), *(prompt.encode() for prompt in agent.prompts)):
        assert any(telling in content for content in kept), telling[:80]
    assert any(content.endswith(odd.encode("utf-8", "surrogateescape")) for content in kept)
    (folder,) = project.state_folders
    assert folder.stat().st_mode & 0o077 == 0


WORDS = "You've hit your session limit · resets 3pm. Not logged in · Please run /login. Credit balance is too low"
HARMLESS: dict[str, Act] = {
    "an unknown system event": {"type": "system", "subtype": "unheard_of", "x": [1]},
    "odd blocks": {"type": "assistant", "message": {"content": [{"type": "thinking"}, 7]}},
    "nothing where something was": {"type": "assistant", "message": None},
    "a limit without information": {"type": "rate_limit_event"},
    "arguments of another shape": tool("Bash", command={"odd": ["arguments"]}),
    "JSON that is no object": prints("[1, 2]\n"),
    "a line that was cut": prints('{"type": "result", "is_err\n'),
    "bytes that are no UTF-8, empty lines": prints("\udcff\udcfe\n\n\r\n\x00\n"),
    "half a letter": prints('{"type": "assistant", "message": {"content": [{"text": "\\ud800"}]}}\n'),
    "a cost of 400 digits": prints('{"type": "result", "total_cost_usd": 1%s}\n' % ("0" * 400)),
    "an odd end": prints('{"type": "result", "is_error": true, "subtype": [], "errors": true}\n'),
    "deeply nested": prints(f'{{"type": "assistant", "message": {"[" * 100_000}{"]" * 100_000}}}\n'),
    "words of a limit, printed by a test that failed": tool_result(WORDS, is_error=True),
    "the same, said by the model": says(WORDS),
    "as a line of text": prints(WORDS + "\n"),
    "on stderr": prints(WORDS + "\n", stderr=True),
}


def test_odd_lines_do_no_harm_and_words_about_limits_are_only_words(project: Project, agent: Agent) -> None:
    agent.story(*(step(act) for act in HARMLESS.values()))
    run = project.build(str(len(HARMLESS)), "--max-stalls", "off")
    ended = zip(HARMLESS, project.iterations("ended"), strict=True)
    assert [name for name, how in ended if how != "ok"] == [], run.text
    assert "Traceback" not in run.text


# What it all comes to.

GEMINI = """
{"type": "init", "model": "gemini-2.5-pro"}
{"type": "message", "role": "assistant", "content": "Wor", "delta": true}
{"type": "message", "role": "assistant", "content": "ds.", "delta": true}
"""
LOOP = '{"type": "error", "message": "Loop detected"}'
SUCCESS = """
{"type": "result", "status": "success",
 "stats": {"total_tokens": 150, "input_tokens": 100, "output_tokens": 20, "cached": 60}}
""".replace("\n", "")
CODEX = """
{"type": "thread.started"}
{"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "Words."}}
"""
COMPLETED = '{"type": "turn.completed", "usage": {}}'
OPENCODE = """
{"type": "step_start"}
{"type": "text", "part": {"text": "Words."}}
"""
STEP = """
{"type": "step_finish", "part": {"reason": "tool-calls", "cost": 0.25,
 "tokens": {"input": 40, "output": 20, "reasoning": 30, "cache": {"read": 60, "write": 0}}}}
""".replace("\n", "")
FIGURES = {"input": 40, "output": 50, "cache_read": 60, "cache_write": 0}
FOUND = '{"type": "object", "required": []}\n{"type": "error"}\nI looked at them.'


def lines(*printed: Act | str) -> str:
    return "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in printed)


OK, FAILED = Outcome.OK, Outcome.FAILED
LIMITED = "You've hit your session limit · resets 3pm (UTC)"
LIMIT = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 9_000_000_000}}
COMES_TO: dict[str, tuple[str, Outcome, str]] = {
    "its result": (lines(init(), says("Before."), result("The result.\n")), OK, "The result."),
    "nothing of a sub-agent": (lines(init(), {**result("Of one."), "parent_tool_use_id": "t1"}), FAILED, ""),
    "the last of two results": (lines(init(), result("First."), init(), result("Second.")), OK, "Second."),
    "its result, at a limit": (lines(init(), LIMIT, result(LIMITED)), OK, LIMITED),
    "another error than a limit": (lines(init(), LIMIT, says(LIMITED), result("No.", ok=False)), FAILED, "No."),
    "no text beside its stream": (lines("Warning.", init(), result("R."), "A line of text."), OK, "R."),
    "its lines": ("One.\r\n\r\n  \x1b[1;32mTwo.\x1b[0m \udce9", OK, "One.\n\n  Two. \N{REPLACEMENT CHARACTER}"),
    "its lines and those of JSON": (FOUND, OK, FOUND),
    "a line that was cut, which does not begin anew": ("> " + "x" * 5000 + "\n", OK, "…" + "x" * 1998),
    "the end of a long result": (lines(init(), result("> " + "y" * 30_000)), OK, "…" + "y" * 19_999),
    "gemini": (lines(GEMINI, SUCCESS), OK, "Words."),
    "gemini, interrupted: it exits with 0 then too": (GEMINI, FAILED, ""),
    "gemini in a loop": (lines(GEMINI, LOOP, SUCCESS), FAILED, ""),
    "codex, killed": (CODEX, FAILED, ""),
    "codex": (lines(CODEX, COMPLETED), OK, "Words."),
    "opencode": (lines(OPENCODE, STEP, OPENCODE, STEP.replace("tool-calls", "stop")), OK, "Words."),
    "opencode, which was refused a tool": (lines(OPENCODE, STEP), FAILED, ""),
}
TELL_FIGURES: dict[str, Any] = {
    "gemini": (FIGURES, None),
    "opencode": ({name: 2 * number for name, number in FIGURES.items()}, 0.5),
}


@pytest.mark.parametrize("name", COMES_TO)
def test_what_an_agent_prints_comes_to(name: str) -> None:
    printed, outcome, said = COMES_TO[name]
    reader = OutputReader(lambda _event: None)
    output = printed.encode(errors="surrogateescape")
    for at in range(0, len(output), 1000):
        reader.read_output(output[at : at + 1000])
    reader.read_output(b"", b"A complaint.\n")
    turn = reader.to_turn(command.choose_agents(Settings())[0], Ended(code=0), None, now=0.0)
    assert (turn.outcome, turn.final_words) == (outcome, said)
    if name in TELL_FIGURES:
        assert (turn.tokens, turn.cost_usd) == TELL_FIGURES[name]
