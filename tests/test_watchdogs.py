"""Agents that hang, take too long, print too much or fill their context (design section 6): how they are ended."""

import json
from collections.abc import Sequence

from offspring import Offspring
from ralph_driver import Project, alive, eventually, leaping
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
    writes,
)
from test_signals import DONE


def test_a_night_of_agents_that_do_not_end_by_themselves(project: Project, agent: Agent, offspring: Offspring) -> None:
    """One is silent, one asks for ever as codex does offline, one prints, one is busy; the last sounds and works.

    It is woken after its result, works on, and hangs after the next: that is a success.
    """
    project.has_tasks("one")
    tools = [starts(offspring.sleeper("tool"), tool=True), starts(offspring.hidden("hidden"))]
    there = [runs(offspring.until(name)) for name in ("tool", "hidden")]
    asks = (sleeps(0.2), api_retry(1, status=503, error="overloaded"))
    prints_much = [prints("x" * 1000 + "\n", times=51, stderr=stderr) for stderr in (False, True)]
    sounds = [prints("."), marks("dot"), sleeps(0.2), prints("no\n", stderr=True), marks("complaint"), sleeps(0.2)]
    woken = [sleeps(0.4), says("My job is done."), sleeps(0.4), marks("later"), sleeps(0.4), writes("late.txt", "late")]
    server, hung = starts(offspring.sleeper("server")), (sleeps(0.5), marks("much later"), hangs())
    agent.story(
        raw(init(), *tools, *there, says("Let me see."), hangs()),
        raw(init(), says("I ask."), *asks * 300),
        raw(init(), *prints_much, hangs()),
        raw(init(), says("Still at it."), *[sleeps(0.3), says("Yes.")] * 200),
        raw(init(), *sounds, prints(".\n"), result(), *woken, server, *DONE["acts"], *hung),
    )
    words = ("--iteration-timeout", "2h", "--max-failures", "5")
    hours = {"awake_clock_s": 1000, "marks": agent.folder, "max_printed_bytes": 100_000}
    run = project.start("feature.md", "build", "--delay", "0", *words, command=leaping(**hours))

    def time_goes_by(heard: str, quarters: int) -> None:
        eventually(lambda: heard in run.stdout)
        for number in range(quarters):
            agent.let(f"{heard} {number}")

    time_goes_by("Let me see.", 2)
    time_goes_by("overloaded", 2)
    assert (offspring.alive(), agent.was_interrupted()) == ([], True), "asked first, so that it tells its cost"
    time_goes_by("Still at it.", 8)
    ended = run.wait()
    assert (ended.code, len(agent.calls), offspring.alive()) == (0, 5, []), ended.text
    assert (alive(agent.calls[4].pid), (project.root / "late.txt").exists()) == (False, True)
    assert "$0.02 · hung: it was silent for longer than idle-timeout" in ended.stdout
    assert "it got no answer for longer than idle-timeout, however often it asked" in ended.stdout
    assert "said too much: it printed more than ralph records of one iteration" in ended.stdout
    assert "timed out: it took longer than iteration-timeout" in ended.stdout
    handed = project.iterations("handover")[:4]
    last = ("Let me see.", "I ask.", "", "Yes.")
    assert [left.partition("; ")[2] for left in handed] == [f"its last words: {said}" if said else "" for said in last]
    assert all(f" ready: {left}\n" in prompt for left, prompt in zip(handed, agent.prompts[1:], strict=True) if left)
    failed = [(how, False) for how in ("hung", "trouble", "too_long", "timed_out")]
    assert project.iterations("ended", "success") == [*failed, ("ok", True)]
    assert project.journal()[0]["cost_usd"] == 0.02


# The context.


GOES_ON: Act = {"type": "stream_event", "event": {"type": "content_block_start", "content_block": {"type": "tool_use"}}}


def fills(tokens: int, *during: Act, model: str = "claude-sonnet-5", then: Sequence[Act] = (hangs(),)) -> Act:
    """An invocation whose model says how full its context is, uses a tool, and would go on."""
    call = weighs(tokens, tool("Bash", command="make test"))
    return raw(init(model=model), call, *during, marks("tool ended"), tool_result("42 passed"), GOES_ON, *then)


def in_part(text: str) -> Act:
    """A piece of an answer, in the form of the real one's lines."""
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return prints(json.dumps({"type": "stream_event", "event": delta}, separators=(",", ":")) + "\n")


LEARNT = {"claude-sonnet-5": {"inputTokens": 1, "contextWindow": 1_000_000}}


def test_a_full_context_ends_the_iteration_after_the_last_tool_that_runs_and_no_other(
    project: Project, agent: Agent
) -> None:
    """Who is not full thinks for a moment and goes on; the parts of answers that tell it are not shown."""
    project.has_tasks(*"abcdef")
    second = [tool("Bash", tool_id="t2", command="make all"), tool_result("made", tool_id="t2"), sleeps(0.7)]
    on = [sleeps(0.4), *step(ticks="first")["acts"]]
    sub_agents = [
        weighs(5000, tool("Agent", description="Look around")),
        weighs(190_000, tool("Read", parent="t1", tool_id="t2")),
        tool_result("text", parent="t1", tool_id="t2"),
        tool_result("It is all there."),
    ]
    spoken = (in_part("I begin "), in_part("to speak."), says("I begin to speak."))
    agent.story(
        fills(121_000, *second, ticks("a")),
        fills(119_000, then=on),
        fills(300_000, model="claude-opus-4-8[1m]", then=on),
        raw(init(), *sub_agents, *on),
        raw(init(), weighs(190_000, tool("Bash")), GOES_ON, tool_result("late"), sleeps(0.4), says("Done."), *on),
        raw(init(), *spoken, ticks("first"), result(modelUsage=LEARNT)),
        fills(300_000, then=[sleeps(0.4), *DONE["acts"]]),
    )
    run = project.build("--max-context", "60%", "--max-failures", "1", "--idle-timeout", "8s")
    assert (run.code, len(agent.calls)) == (0, 7), run.text
    assert (agent.reached("tool ended"), agent.was_interrupted()) == (True, True)
    assert "context full: it used more of its context than max-context" in run.stdout
    assert project.iterations("ended", "success") == [("context_full", True), *[("ok", True)] * 6], run.text
    assert "--include-partial-messages" in agent.calls[0].argv
    assert run.stdout.count("I begin") == run.stdout.count("\n  I begin to speak.\n") == 1
