"""What a run leaves behind and tells (design sections 9 and 10): journal, transcripts, the last notice, heartbeats."""

import os
import re
import socket
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from away import Mailbox
from http_server import Server
from leaps import leaping
from ralph_driver import Project, eventually, paced
from stories import Agent, at_limit, fails, init, raw, result, says, step, ticks, waits_for

USED = {
    "claude-sonnet-5": {"inputTokens": 10, "outputTokens": 20, "cacheReadInputTokens": 30, "costUSD": 0.1},
    "claude-haiku-4-5": {"inputTokens": 1, "outputTokens": 2, "cacheCreationInputTokens": 3, "costUSD": 0.02},
}
HOURS = leaping()


def only(lines: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == event]


def journal_file(project: Project) -> Path:
    (folder,) = project.state_folders
    return folder / "journal.jsonl"


def test_the_journal_has_a_line_for_all_that_happened(project: Project, agent: Agent) -> None:
    """A wait, an iteration that costs and commits, a failure, a refused claim and a verified one."""
    project.has_tasks("one", "two", "three")
    paid = init(key_source="ANTHROPIC_API_KEY")
    good = [ticks("one"), *step(file="made.txt", commits="made")["acts"][1:-1], says("One is ticked.")]
    agent.story(
        at_limit(),
        raw(paid, *good, result("One is ticked.", cost_usd=0.12, modelUsage=USED)),
        fails("The disk is on fire."),
        step(writes_done=True),
        step(ticks="all", writes_done=True),
    )
    mailbox = Mailbox(project)
    run = project.build("--verify", "true", command=HOURS)
    assert run.code == 0, run.text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", run.text), "no colour, no control characters"
    lines = project.journal()
    assert [line["event"] for line in lines] == ["iteration", "wait", *["iteration"] * 4, "verify", "run"]
    assert len({line["run"] for line in lines}) == 1
    assert {line["mode"] for line in lines} == {"build"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line["timestamp"]) for line in lines)
    assert all(one["timestamp"] <= other["timestamp"] for one, other in pairwise(lines))
    limit, ticked, failed, refused, verified = only(lines, "iteration")
    told = ("iteration", "ended", "success", "counted", "refused")
    assert [[line[name] for name in told] for line in (limit, ticked, failed, refused, verified)] == [
        [1, "limit", False, False, False],
        [1, "ok", True, True, False],
        [2, "failed", False, True, False],
        [3, "ok", False, True, True],
        [4, "ok", True, True, False],
    ]
    assert "The disk is on fire." in failed["message"]
    assert "failed: The disk is on fire." in failed["summary"]
    assert "2 tasks are not ticked" in refused["message"]
    assert refused["summary"].endswith("done refused")
    assert ticked["summary"].startswith("#1 · 1/3 tasks (+1) · 1 commit +")
    assert 3000 < ticked["waited_s"] < 3700
    assert {line["waited_s"] for line in (limit, failed, refused, verified)} == {0}
    says_what_it_came_to(project, ticked)
    (wait,), (check,), (end,) = (only(lines, event) for event in ("wait", "verify", "run"))
    assert (wait["iteration"], wait["success"]) == (1, True)
    assert 3000 < wait["planned_s"] < 3700
    assert wait["until"] > 1_700_000_000, "in seconds"
    assert (check["command"], check["success"], check["iteration"]) == ("true", True, 4)
    assert (end["ended"], end["success"]) == ("done", True)
    assert re.fullmatch(r"3/3 tasks · 4 iterations · 1 commit · 1h\w+ · \w+ of it waiting · \$0.15", end["so_far"])
    title, plan, mode, sums, *last = mailbox.notices[-1].splitlines()
    assert ("Ralph Complete!" in title, plan, mode) == (True, "Plan: feature", "Mode: build")
    assert re.fullmatch(r"3/3 tasks · 4 iterations · 1 commit · \S+ · (1h0|59m)\S+ of it waiting · \$0.15, .*", sums)
    assert sums.endswith(", paid by the API key in ANTHROPIC_API_KEY")
    assert [line.partition(" ")[0] for line in last if line.startswith("#")] == ["#1", "#2", "#3", "#4"]


def says_what_it_came_to(project: Project, line: dict[str, Any]) -> None:
    """The line of the iteration that ticked and committed."""
    assert [line[name] for name in ("input", "output", "cache_read", "cache_write")] == [11, 22, 30, 3]
    assert (line["cost_usd"], line["cost_at_least"], line["message"]) == (0.12, False, "One is ticked.")
    assert [line[name] for name in ("done", "total", "moved")] == [1, 3, True]
    added = sum(int(file.split()[0]) for file in project.git("show", "--numstat", "--format=").splitlines())
    head, base = project.git("rev-parse", "HEAD", "HEAD~1").split()
    assert [line[name] for name in ("commits", "added", "removed")] == [1, added, 0]
    assert (line["head"], line["base"]) == (head, base)
    assert 0 < line["duration_s"] < 20
    transcript = journal_file(project).with_name("transcripts") / line["transcript"]
    assert "One is ticked." in transcript.read_text()


# What is not as it should be.


def test_a_journal_that_cannot_be_written_is_said_once(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    agent.story(step(), step(), step(ticks="all", writes_done=True))
    project.build("1")
    journal = journal_file(project)
    journal.unlink()
    journal.mkdir()
    run = project.build()
    assert (run.code, len(agent.calls)) == (0, 3), run.text
    assert run.stderr.count("journal.jsonl: cannot be written") == 1


def test_no_transcript_is_overwritten_when_an_iteration_is_repeated(project: Project, agent: Agent) -> None:
    agent.story(at_limit(says("First.")), at_limit(says("Second.")), step(says("Third."), writes_done=True))
    assert project.build(command=HOURS).code == 0
    files = {Path(name).name: data for name, data in project.transcripts().items()}
    run = project.journal()[0]["run"]
    for name, words in (("0001", b"First."), ("0001-2", b"Second."), ("0001-3", b"Third.")):
        assert words in files[f"{run}.{name}.jsonl"]
        assert b"feature.md" in files[f"{run}.{name}.prompt.md"]
    written = [line["transcript"] for line in only(project.journal(), "iteration")]
    assert written == [f"{run}.0001.jsonl", f"{run}.0001-2.jsonl", f"{run}.0001-3.jsonl"]


def test_the_oldest_transcripts_go_first_and_what_was_kept_stays(project: Project, agent: Agent) -> None:
    agent.story(step(says("x" * 2000)), repeat=True)
    project.build("2", "--max-stalls", "off")
    (folder,) = project.state_folders
    (folder / "kept").mkdir()
    (folder / "kept" / "mine").write_text("x" * 9000)
    for number, name in enumerate(sorted((folder / "transcripts").glob("*.jsonl"))):
        os.truncate(name, 150_000_000)
        os.utime(name, (number, number))
    project.build("1")
    names = sorted(name.name for name in (folder / "transcripts").glob("*.jsonl"))
    first, last = project.journal()[0]["run"], project.journal()[-1]["run"]
    assert names == sorted([f"{first}.0002.jsonl", f"{last}.0003.jsonl"])
    assert (folder / "kept" / "mine").exists()
    assert len(project.journal()) == 5, "the journal is no transcript"


# A monitor.


def test_a_monitor_hears_of_every_iteration_and_every_five_minutes_of_waiting(project: Project, agent: Agent) -> None:
    with Server() as server:
        project.env["RALPH_HEARTBEAT_URL"] = server.url("/ping/s3cr3t")
        unknown = at_limit(resets_in_s=None, text="You've hit your limit")
        agent.story(step(), step(waits_for("go")), unknown, unknown, unknown, step(writes_done=True))
        running = project.start("feature.md", "--delay", "0", command=paced(speed=4000))
        server.wait_for(1)
        eventually(lambda: len(agent.calls) == 2)
        before = len(server.received)
        agent.let("go")
        run = running.wait()
        assert run.code == 0, run.text
        assert before == 1
        beats = len(server.received) - before
        assert 6 <= beats <= 9, "five turns of the agent, and four during waits of 5, 10 and 20 minutes"
    assert {(one.method, one.path, one.body) for one in server.received} == {("GET", "/ping/s3cr3t", b"")}
    assert "s3cr3t" not in run.text


# Notices.


def test_progress_is_told_after_the_first_and_every_nth_by_a_channel_of_the_home(
    project: Project, agent: Agent
) -> None:
    mailbox = Mailbox(project)
    script = project.env.pop("RALPH_CUSTOM_NOTIFY_SCRIPT")
    (project.home / ".ralph.env").write_text(f'export RALPH_CUSTOM_NOTIFY_SCRIPT="{script}"\n')
    project.has_tasks("one")
    agent.story(step(), repeat=True)
    project.build("6", "--notify-frequency", "3", "--max-stalls", "off")
    first, *middle, last = mailbox.notices
    assert "Ralph Started\nPlan: feature\nMode: build\nRepo: repo" in first
    assert [re.findall(r"#\d", text)[:1] for text in middle] == [["#1"], ["#3"], ["#6"]]
    assert "max-iterations is 6" in last
    project.build("1", "--notify-frequency", "off", "--max-stalls", "off")
    assert [title.partition("!")[0] for title in mailbox.titles[5:]] == ["Ralph Started", "Ralph Stopped"]


def test_a_run_in_which_no_agent_worked_tells_nobody(project: Project, agent: Agent) -> None:
    mailbox = Mailbox(project)
    project.has_tasks("x one", status="RALPH_BLOCKED: x")
    assert project.build().code == 4
    project.has_tasks("one")
    assert project.build("--agent", "./missing").code == 1
    project.has_tasks("x one", status="RALPH_DONE")
    assert project.build("--verify", "true").code == 0
    assert "\nVerified: " in project.progress_text, "otherwise it ended before it was a run"
    assert (agent.calls, mailbox.notices) == ([], [])


def test_the_mode_and_its_round_are_told(project: Project, agent: Agent) -> None:
    mailbox, done = Mailbox(project), step(ticks="all", writes_done=True)
    agent.story(step(adds="one"), done, step(adds="two"), done, step())
    run = project.ralph("feature.md", "all", "--notify-frequency", "1", "--delay", "0")
    assert run.code == 0, run.text
    first, planned, built, validated, _, last = mailbox.notices
    assert all("\nMode: plan\n" in one for one in (first, planned))
    assert "\nMode: build\n" in built
    assert "\nMode: validate 1/3\nIteration 3 completed\n" in validated
    assert "\nMode: validate" in last


@pytest.fixture
def silence() -> Iterator[str]:
    """The address of somebody who accepts, and never reads or says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def test_a_webhook_that_hangs_delays_no_iteration_and_the_end_by_a_moment(
    project: Project, agent: Agent, silence: str
) -> None:
    project.has_tasks(*"abcdefghij")
    agent.story(*[step(ticks="first")] * 9, step(ticks="first", writes_done=True))
    told = dict.fromkeys(("RALPH_WEBHOOK_URL", "RALPH_SLACK_WEBHOOK_URL", "RALPH_HEARTBEAT_URL"), silence)
    ended = project.build("--notify-frequency", "1", env=told, command=paced(send_s=1))
    assert (ended.code, len(agent.calls)) == (0, 10), ended.text
    assert "not sent" in ended.stderr
    assert "Traceback" not in ended.stderr
