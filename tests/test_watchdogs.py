"""Agents that hang, take too long, print too much or fill their context (design section 6): how they are ended."""

import json
import sys
from collections.abc import Sequence

from leaps import leaping_at_marks
from offspring import Offspring
from ralph_driver import Project, Run, eventually
from stories import (
    Act,
    Agent,
    api_retry,
    hangs,
    init,
    marks,
    prints,
    raw,
    result,
    runs,
    says,
    sleeps,
    starts,
    step,
    ticks,
    tool,
    tool_result,
    weighs,
)

ONE_FAILURE = ("--max-failures", "1")
DONE = step(ticks="all", writes_done=True)


def until_time_is_over(project: Project, agent: Agent, heard: str, *args: str) -> Run:
    """A run to its end, for which half an hour goes by as soon as it has heard this."""
    running = project.start("feature.md", "build", "--delay", "0", *args, command=leaping_at_marks(agent))
    eventually(lambda: heard in running.stdout)
    agent.let("later")
    agent.let("much later")
    return running.wait()


# Silence.


def test_a_silent_agent_is_ended_with_its_tools_and_its_cost_is_kept(
    project: Project, agent: Agent, offspring: Offspring
) -> None:
    project.has_tasks("one")
    tools = [starts(offspring.sleeper("tool"), tool=True), starts(offspring.hidden("hidden"))]
    there = [runs(offspring.until(name)) for name in ("tool", "hidden")]
    agent.story(raw(init(), *tools, *there, says("Let me see."), hangs()))
    run = until_time_is_over(project, agent, "Let me see.", *ONE_FAILURE)
    assert (run.code, offspring.alive()) == (1, []), run.text
    assert agent.was_interrupted(), "it was asked first, so that it reports its cost"
    assert "$0.02 · hung: it was silent for longer than idle-timeout" in run.stdout
    assert "it was silent for longer than idle-timeout, and nothing was ticked, added or committed" in run.stderr
    (line, _) = project.journal()
    assert (line["ended"], line["success"], line["cost_usd"]) == ("hung", False, 0.02)


def test_an_agent_that_only_asks_again_and_again_is_ended_and_started_anew(project: Project, agent: Agent) -> None:
    """As codex does without a network, for ever, with a line each time."""
    project.has_tasks("one")
    again = (sleeps(0.2), api_retry(1, status=503, error="overloaded"))
    agent.story(raw(init(), says("I ask."), *again * 300), DONE)
    run = until_time_is_over(project, agent, "overloaded")
    assert (run.code, len(agent.calls)) == (0, 2), run.text
    assert "it got no answer for longer than idle-timeout, however often it asked" in run.stdout
    assert [line["ended"] for line in project.journal() if line["event"] == "iteration"] == ["trouble", "ok"]


def test_an_agent_that_prints_something_is_left_alone(project: Project, agent: Agent) -> None:
    """Be it dots without a line end, or complaints."""
    sounds = [act for number in range(3) for act in (prints("."), marks(f"dot-{number}"), sleeps(0.2))]
    complaints = [
        act for number in range(3) for act in (prints("no\n", stderr=True), marks(f"no-{number}"), sleeps(0.2))
    ]
    agent.story(raw(init(), *sounds, *complaints, prints("\n"), *DONE["acts"]))
    run = project.build(*ONE_FAILURE, command=leaping_at_marks(agent))
    assert (run.code, len(agent.calls)) == (0, 1), run.text


# Time, and a result that is there.


def test_a_busy_agent_is_ended_when_its_time_is_over(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(raw(init(), says("Still at it."), *[sleeps(0.3), says("Yes.")] * 200), DONE)
    run = until_time_is_over(project, agent, "Still at it.", "--iteration-timeout", "30m")
    assert (run.code, len(agent.calls)) == (0, 2), run.text
    assert "timed out: it took longer than iteration-timeout" in run.stdout
    assert [line["success"] for line in project.journal()] == [False, True, True]


# Too much to record.


LITTLE = "from ralph.cli import main; from ralph.run import Pace; main(Pace(transcript_bytes=100_000))"


def test_an_agent_that_prints_without_end_is_ended(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    both = [prints("x" * 1000 + "\n", times=51, stderr=stderr) for stderr in (False, True)]
    agent.story(raw(init(), *both, hangs()), DONE)
    run = project.build(command=(sys.executable, "-P", "-c", LITTLE))
    assert (run.code, len(agent.calls)) == (0, 2), run.text
    assert "said too much: it printed more than ralph records of one iteration" in run.stdout
    assert project.journal()[0]["ended"] == "too_long"


# The context.


def fills(tokens: int, *during: Act, model: str = "claude-sonnet-5", then: Sequence[Act] = (hangs(),)) -> Act:
    """An invocation whose model says how full its context is, uses a tool, and would go on."""
    call = weighs(tokens, tool("Bash", command="make test"))
    goes_on = {"type": "stream_event", "event": {"type": "content_block_start", "content_block": {"type": "tool_use"}}}
    return raw(init(model=model), call, *during, marks("tool ended"), tool_result("42 passed"), goes_on, *then)


MOST = ("--max-context", "60%", *ONE_FAILURE, "--idle-timeout", "8s")


def test_a_full_context_ends_the_iteration_after_the_last_tool_that_runs(project: Project, agent: Agent) -> None:
    project.has_tasks("one", "two")
    second = [tool("Bash", tool_id="t2", command="make all"), tool_result("made", tool_id="t2"), sleeps(0.7)]
    agent.story(fills(121_000, *second, ticks("one")), DONE)
    run = project.build(*MOST)
    assert (run.code, len(agent.calls)) == (0, 2), run.text
    assert agent.reached("tool ended")
    assert agent.was_interrupted()
    assert "context full: it used more of its context than max-context" in run.stdout
    first, *_ = project.journal()
    assert (first["ended"], first["success"]) == ("context_full", True)


LEARNT = {"claude-sonnet-5": {"inputTokens": 1, "contextWindow": 1_000_000}}


def test_a_context_that_is_not_too_full_is_left_alone(project: Project, agent: Agent) -> None:
    """The agent thinks for a moment, and then it goes on."""
    project.has_tasks(*"abcd")
    on = [sleeps(0.4), *step(ticks="first")["acts"]]
    sub_agents = [
        weighs(5000, tool("Agent", description="Look around")),
        weighs(190_000, tool("Read", parent="t1", tool_id="t2")),
        tool_result("text", parent="t1", tool_id="t2"),
        tool_result("It is all there."),
    ]
    agent.story(
        fills(119_000, then=on),
        raw(init(), *sub_agents, *on),
        raw(init(), weighs(190_000, says("So this is done.")), *on),
        raw(init(), ticks("first"), result(modelUsage=LEARNT)),
        fills(300_000, then=[sleeps(0.4), *DONE["acts"]]),
    )
    run = project.build(*MOST)
    assert (run.code, len(agent.calls), agent.was_interrupted()) == (0, 5, False), run.text
    assert {line["ended"] for line in project.journal()} <= {"ok", "done"}, run.text


def in_part(text: str) -> Act:
    """A piece of an answer, in the form of the real one's lines."""
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return prints(json.dumps({"type": "stream_event", "event": delta}, separators=(",", ":")) + "\n")


def test_the_parts_of_answers_that_it_takes_are_neither_shown_nor_kept(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(in_part("I begin "), in_part("to speak."), says("I begin to speak."), ticks="one"))
    run = project.build("1", *MOST)
    assert "--include-partial-messages" in agent.calls[0].argv
    assert run.stdout.count("I begin") == run.stdout.count("\n  I begin to speak.\n") == 1
    (record,) = (data for name, data in project.transcripts().items() if name.endswith(".jsonl"))
    assert (record.count(b"stream_event"), record.count(b"I begin"), b'"result"' in record) == (0, 1, True)
    assert not [name for name in project.transcripts() if name.endswith(".short")]
