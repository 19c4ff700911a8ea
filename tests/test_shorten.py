"""Transcripts of runs on a terminal hold each answer once when the iteration is over."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ralph_driver import Project
from stories import Agent, init, prints, raw, result, says, step, tool

from ralph.shorten import shorten


def line(event: dict[str, Any]) -> str:
    """As claude prints it, without blanks."""
    return json.dumps(event, separators=(",", ":")) + "\n"


def piece(text: str) -> dict[str, Any]:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return {"type": "stream_event", "event": delta, "parent_tool_use_id": None}


WHOLE = says("I begin to speak.")
PIECES = [piece("I begin "), piece("to speak.")]


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        pytest.param([init(), *PIECES, WHOLE, result()], [init(), WHOLE, result()], id="an answer stays once"),
        pytest.param([init(), *PIECES], [init(), *PIECES], id="one that broke off stays as far as it came"),
        pytest.param([WHOLE, *PIECES, result()], [WHOLE, *PIECES, result()], id="also after one that came whole"),
        pytest.param([init(), WHOLE, result()], [init(), WHOLE, result()], id="one without parts is left alone"),
    ],
)
def test_what_came_whole_stands_there_once(tmp_path: Path, events: list[Any], kept: list[Any]) -> None:
    path = tmp_path / "run.0001.jsonl"
    path.write_text("".join(map(line, events)) + "no event\n")
    os.utime(path, (1_000, 1_000))
    path.chmod(0o600)
    shorten(path)
    assert path.read_text() == "".join(map(line, kept)) + "no event\n"
    assert (path.stat().st_mtime, path.stat().st_mode & 0o777, len(list(tmp_path.iterdir()))) == (1_000, 0o600, 1)


def test_one_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    shorten(tmp_path / "gone.jsonl")
    assert not list(tmp_path.iterdir())


def test_after_a_run_on_a_terminal_no_part_is_left(project: Project, agent: Agent) -> None:
    project.has_tasks("one")
    pieces = [prints(line(part)) for part in PIECES]
    both = (*pieces, prints(line(WHOLE)), tool("Bash", command="true"))
    agent.story(step(*both, ticks="all"), raw(init(), *both, result()))
    assert project.ralph_tty("feature.md", "build", "--max-iterations", "2", "--delay", "0").code == 3
    records = [data for name, data in project.transcripts().items() if name.endswith(".jsonl")]
    assert len(records) == 2
    for data in records:
        assert b"stream_event" not in data
        assert data.count(b"I begin to speak.") == 1
        assert b'"result"' in data
