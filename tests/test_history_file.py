"""What cannot be the history of the tries is told before a line goes into it."""

import json
from pathlib import Path

import pytest

from ralph import tries
from ralph.errors import RalphError

RECORD = '{"timestamp": "2026-11-21T03:12:05", "requirement_id": "1", "success": true, "message": "x"}\n'
TASKS = {"requirements": [{"id": 1, "requirement": "x"}]}


def refused(folder: Path, name: str) -> str:
    try:
        where = {"plan": folder / "r.json", "progress_path": folder / "r_PROGRESS.md"}
        tries.check(folder / name, "--history", **where)
    except RalphError as error:
        return error.message
    return ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "r.json").write_text(json.dumps(TASKS))
    (tmp_path / "r_PROGRESS.md").write_text("# Progress\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("r.json", "is the plan"),
        ("link.json", "is the plan"),
        ("r_PROGRESS.md", "is the progress file"),
        ("s_PROGRESS.md", "is a progress file by its name"),
        (".", "is a folder"),
        ("notes.md", "holds something else than a line of JSON a try"),
        ("pretty.json", "holds something else than a line of JSON a try"),
        ("other.json", "holds something else than a line of JSON a try"),
    ],
)
def test_something_else_is_refused(folder: Path, name: str, what: str) -> None:
    (folder / "link.json").hardlink_to(folder / "r.json")
    (folder / "notes.md").write_text("# Notes\n\nA lot.\n")
    (folder / "pretty.json").write_text(json.dumps(TASKS, indent=2))
    (folder / "other.json").write_text(json.dumps(TASKS))
    assert refused(folder, name) == f"--history: {folder / name}: {what}; name a file of its own, such as tries.jsonl"


def test_the_progress_file_is_refused_before_there_is_one(folder: Path) -> None:
    (folder / "r_PROGRESS.md").unlink()
    assert "is the progress file" in refused(folder, "r_PROGRESS.md")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="none yet"),
        pytest.param("", id="an empty one"),
        pytest.param(RECORD * 3, id="one with lines"),
        pytest.param('{"other": 1}\n', id="one with lines of another program"),
        pytest.param(RECORD + RECORD[:30], id="one whose last line is torn"),
        pytest.param(RECORD[:30], id="one whose only line is torn"),
        pytest.param("# tries\n" + RECORD, id="one with a line of somebody's own"),
    ],
)
def test_a_history_is_not(folder: Path, text: str | None) -> None:
    if text is not None:
        (folder / "h.jsonl").write_text(text)
    assert refused(folder, "h.jsonl") == ""
