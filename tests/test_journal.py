"""The journal: what is no whole line costs no other."""

import json
from pathlib import Path
from typing import Any

import pytest

from ralph.store import journal
from ralph.store.journal import append_line


def line(**more: Any) -> dict[str, Any]:
    return {"event": "iteration", "run": "r", "timestamp": "2026-11-20T22:14:03Z", "counted": True, **more}


NEW = line(iteration=3, message="after it")


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A journal with one record."""
    append_line(tmp_path / "state" / "journal.jsonl", line(iteration=1, message="fine"))
    return tmp_path / "state" / "journal.jsonl"


def numbers(path: Path) -> list[int]:
    """The iterations of its whole lines."""
    return [record.iteration for record in journal.read(path)]


def test_a_line_that_is_cut_off_costs_the_next_one_and_no_other(begun: Path) -> None:
    torn = json.dumps(line(iteration=2, message='é "} {'), ensure_ascii=False).encode()
    before = begun.read_bytes()
    for cut in range(1, len(torn)):
        begun.write_bytes(before + torn[:cut])
        assert numbers(begun) == [1], f"cut off after {cut} bytes"
        append_line(begun, NEW)
        append_line(begun, line(iteration=4))
        assert numbers(begun) == [1, 4], f"cut off after {cut} bytes"


def test_what_is_not_a_record_is_skipped(begun: Path) -> None:
    """What is not UTF-8, JSON of something else, or with too long a number.

    Half a character spoils neither the line nor who prints it.
    """
    noise = [json.dumps(NEW).encode() + b"\r\n", b'{"message": "caf\xe9"}\n', b"\0" * 5000 + b"\n"]
    noise += [b'[1]\n"text"\n7\nnull\nNaN\n{}\n', b'{"a": ' + b"9" * 5000 + b"}\n"]
    odd = [line(timestamp="soon"), line(timestamp=7), line(iteration=4, cost_usd=None, message=None, unknown=1)]
    with begun.open("ab") as file:
        file.writelines([*noise, *(json.dumps(one).encode() + b"\n" for one in odd)])
    append_line(begun, line(iteration=5, message="a\nb\u2028c\x85 🚀 caf\udce9"))
    assert numbers(begun) == [1, 3, 4, 5]
    assert [one.message for one in journal.read(begun)[2:]] == ["", "a\nb\u2028c\x85 🚀 caf?"]
    assert journal.sum_up(journal.read(begun)).cost_usd is None


def test_who_follows_a_journal_sees_each_line_once(begun: Path) -> None:
    found, read_to = journal.read_since(begun, 0)
    half = json.dumps(NEW).encode()
    with begun.open("ab") as file:
        file.write(half)
        file.flush()
        assert journal.read_since(begun, read_to) == ([], read_to), "the line is still being written"
        file.write(b"\n")
    append_line(begun, line(iteration=4))
    more, read_to = journal.read_since(begun, read_to)
    assert [one.iteration for one in (*found, *more)] == [1, 3, 4]
    assert journal.read_since(begun, read_to) == ([], read_to)
