"""What a run leaves behind and tells (design sections 9 and 10): journal, transcripts, the last notice, heartbeats."""

import json
import os
import re
from pathlib import Path

import pytest
from http_server import Answer, Server
from ralph_driver import Mailbox, Project, eventually, leaping, paced
from stories import Agent, at_limit, fails, init, raw, result, says, step, ticks, waits_for

from ralph.store.state import State

USED = {
    "claude-sonnet-5": {"inputTokens": 10, "outputTokens": 20, "cacheReadInputTokens": 30, "costUSD": 0.1},
    "claude-haiku-4-5": {"inputTokens": 1, "outputTokens": 2, "cacheCreationInputTokens": 3, "costUSD": 0.02},
}


def test_the_journal_has_a_line_for_all_that_happened(project: Project, agent: Agent) -> None:
    """A wait, an iteration that costs and commits, a failure, a refused claim and a verified one."""
    project.has_tasks("one", "two", "three")
    good = [ticks("one"), *step(file="made.txt", commits="made")["acts"][1:-1], says("One is ticked.")]
    agent.story(
        at_limit(),
        raw(init(key_source="API_KEY"), *good, result("One is ticked.", cost_usd=0.12, modelUsage=USED)),
        fails("The disk is on fire."),
        step(writes_done=True),
        step(ticks="all", writes_done=True),
    )
    mailbox = Mailbox(project)
    run = project.build("--verify", "true", "--no-auto-commit", command=leaping())
    assert run.code == 0, run.text
    first = "ralph: progress in feature_PROGRESS.md · commits are off (--no-auto-commit) · notices: custom\n"
    assert run.stdout.startswith(first)
    lines = project.journal()
    assert [line["event"] for line in lines] == ["verify", "iteration", "wait", *["iteration"] * 4, "verify", "run"]
    _, limit, wait, ticked, failed, refused, verified, check, end = lines
    names = ("iteration", "ended", "success", "counted", "refused", "transcript")
    rows = [" ".join(str(line[name]) for name in names) for line in lines if line["event"] == "iteration"]
    assert [row.replace(end["run"], "@") for row in rows] == [
        "1 limit False False False @.0001.jsonl",
        "1 ok True True False @.0001-2.jsonl",
        "2 failed False True False @.0002.jsonl",
        "3 ok False True True @.0003.jsonl",
        "4 ok True True False @.0004.jsonl",
    ]
    assert "The disk is on fire." in failed["message"]
    assert "2 tasks not ticked" in refused["message"]
    assert refused["summary"].endswith('done refused: 2 tasks not ticked: "two", "three"')
    assert ticked["summary"].startswith(f"#1 · 1/3 tasks (+1) · 1 commit +{ticked['added']} ")
    assert 3000 < ticked["waited_s"] < 3700
    assert {line["waited_s"] for line in (limit, failed, refused, verified)} == {0}
    assert [ticked[name] for name in ("input", "output", "cache_read", "cache_write")] == [11, 22, 30, 3]
    assert (ticked["cost_usd"], ticked["cost_at_least"], ticked["message"]) == (0.12, False, "One is ticked.")
    assert [ticked[name] for name in ("done", "total", "moved", "commits", "removed")] == [1, 3, True, 1, 0]
    assert [ticked["head"], ticked["base"]] == project.git("rev-parse", "HEAD", "HEAD~1").split()
    assert (wait["iteration"], wait["success"]) == (1, True)
    assert wait["until"] > 1_700_000_000
    assert 3000 < wait["planned_s"] < 3700
    assert (check["command"], check["success"], check["iteration"]) == ("true", True, 4)
    assert (end["ended"], end["success"]) == ("done", True)
    files = {Path(name).name: data for name, data in project.transcripts().items()}
    for name, words in (("0001", b"session limit"), ("0001-2", b"One is ticked.")):
        assert words in files[f"{end['run']}.{name}.jsonl"], "none is overwritten when an iteration is repeated"
        assert b"feature.md" in files[f"{end['run']}.{name}.prompt.md"]
    so_far = r"3/3 tasks · 4 iterations · 1 commit · (?:1h0|59m)\S* · \S+ of it waiting · \$0\.15"
    assert re.fullmatch(so_far, end["so_far"])
    title, plan, mode, sums, *last = mailbox.notices[-1].splitlines()
    assert ("Ralph Complete!" in title, plan, mode) == (True, "Plan: feature", "Mode: build")
    assert re.fullmatch(so_far, sums)
    assert [line.partition(" ")[0] for line in last if line.startswith("#")] == ["#1", "#2", "#3", "#4"]


def test_the_oldest_transcripts_go_first_and_a_journal_that_cannot_be_written_is_reported_once(
    project: Project, agent: Agent
) -> None:
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
    assert ((folder / "kept" / "mine").exists(), len(project.journal())) == (True, 5), "these are no transcripts"
    (folder / "journal.jsonl").unlink()
    (folder / "journal.jsonl").mkdir()
    run = project.build("2", "--max-stalls", "off")
    assert (run.code, len(agent.calls)) == (3, 5), run.text
    assert run.stderr.count("journal.jsonl: cannot be written") == 1


def test_old_transcripts_go_during_a_run_too_however_many_outputs_an_iteration_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    state = State("feature", tmp_path / "feature_PROGRESS.md")
    state.ensure_room_for_transcripts()
    old = state.new_log_path("run", 1)
    old.touch()
    os.truncate(old, 300_000_000)
    for iteration in range(1, 60):
        state.ensure_room_for_transcripts()
        for _ in range(2):
            state.new_log_path("run", iteration)
    assert not old.exists()


def test_a_monitor_hears_of_every_iteration_and_every_five_minutes_of_waiting(project: Project, agent: Agent) -> None:
    unknown = at_limit(resets_in_s=None, text="You've hit your limit")
    agent.story(step(), step(waits_for("go")), unknown, unknown, unknown, step(file="made.txt", writes_done=True))
    with Server() as server:
        project.env["RALPH_HEARTBEAT_URL"] = server.url("/ping/s3cr3t")
        running = project.start("feature.md", "--delay", "0", command=paced(speed=4000))
        eventually(lambda: server.received)
        agent.let("go")
        run = running.wait()
    assert (run.code, "s3cr3t" in run.text) == (0, False), run.text
    assert 7 <= len(server.received) <= 10, "six turns of the agent, and four during waits of 5, 10 and 20 minutes"
    assert {(one.command, one.path, one.body) for one in server.received} == {("GET", "/ping/s3cr3t", b"")}


def test_notices_arrive_in_order_as_often_as_wished_and_a_channel_that_hangs_delays_nobody(
    project: Project, agent: Agent
) -> None:
    """Two never say a word. The settings stand in the home."""
    agent.story(step(), repeat=True)
    settings = project.home / ".ralph.env"
    with Server(Answer(404), Answer(), Answer(410), Answer()) as server, Server() as silent:
        silent.go.clear()
        webhook = f"export RALPH_WEBHOOK_URL='{server.url()}'\n"
        settings.write_text(f"{webhook}RALPH_SLACK_WEBHOOK_URL={silent.url()}\nRALPH_HEARTBEAT_URL={silent.url()}\n")
        words = ("--max-stalls", "off", "--notify-frequency")
        run = project.build("6", *words, "3", command=paced(notices_wait_s=1))
        assert (run.code, len(agent.calls)) == (3, 6), run.text
        settings.write_text(webhook)
        project.build("1", *words, "off")
    first, *middle, last, _, _ = (json.loads(one.body)["message"] for one in server.received)
    assert "Ralph Started\nPlan: feature\nMode: build\nRepo: repo" in first
    assert [re.findall(r"#\d", text)[:1] for text in middle] == [["#1"], ["#3"], ["#6"]]
    assert "max-iterations is 6" in last
    refused = (("Started", 404), ("Progress", 410))
    told = [f"webhook: not sent: Ralph {title}: {server.host}: HTTP {code}" for title, code in refused]
    told.append("heartbeat: not sent: sign of life: no time left")
    told += [f"slack: not sent: Ralph {title}: no time left" for title in ("Started", "Progress", "Stopped")]
    assert [line.removeprefix("ralph: ") for line in run.stderr.splitlines()] == told
