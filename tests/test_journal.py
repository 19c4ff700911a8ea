"""The journal: whatever dies while it is written, every whole line is read, and the next one is whole."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph import journal
from ralph.journal import append

STAMP = "2026-11-20T22:14:03Z"


def line(event: str = "iteration", run: str = "r", **more: Any) -> dict[str, Any]:
    return {"event": event, "run": run, "timestamp": STAMP, "counted": True, **more}


FIRST, NEW = line(iteration=1, message="fine"), line(iteration=3, message="after it")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.jsonl"


@pytest.fixture
def begun(path: Path) -> Path:
    """A journal with one record."""
    append(path, FIRST)
    return path


def numbers(path: Path) -> list[int]:
    """The iterations of its whole lines."""
    return [record.iteration for record in journal.read(path)]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        pytest.param("#7 · 9/15 tasks · naïve · 🚀", "#7 · 9/15 tasks · naïve · 🚀", id="letters from everywhere"),
        pytest.param("a\nb\r\nc\u2028d\x85e\x00f", "a\nb\r\nc\u2028d\x85e\x00f", id="line ends and a NUL in a text"),
        pytest.param("caf\udce9", "caf?", id="half a character, which spoils neither the line nor who prints it"),
    ],
)
def test_a_record_is_one_line_and_comes_back(path: Path, text: str, read: str) -> None:
    for _ in range(2):
        append(path, line(message=text))
    assert [record.message for record in journal.read(path)] == [read, read]
    assert path.read_bytes().count(b"\n") == 2


def test_a_power_loss_at_any_byte_costs_the_line_it_hit_and_no_other(begun: Path) -> None:
    torn = json.dumps(line(iteration=2, message='é "} {'), ensure_ascii=False).encode() + b"\n"
    before = begun.read_bytes()
    for cut in range(len(torn) + 1):
        begun.write_bytes(before + torn[:cut])
        assert numbers(begun) == [1, 2][: 1 + (cut == len(torn))], f"torn after {cut} bytes"
        append(begun, NEW)
        assert numbers(begun) == [1, *([2] if cut >= len(torn) - 1 else []), 3], f"torn after {cut} bytes"


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(b"\0" * 5000, id="a run of NULs in front of the next record"),
        pytest.param(b'{"message": "caf\xe9"}\n', id="a line that is not UTF-8"),
        pytest.param(b'[1]\n"text"\n7\nnull\nNaN\n{}\n', id="JSON that is no record"),
        pytest.param(b'{"a": ' * 100_000 + b"\n", id="a line that is too deep"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}\n", id="a number that is too long"),
    ],
)
def test_what_is_no_record_is_skipped(begun: Path, noise: bytes) -> None:
    begun.write_bytes(begun.read_bytes() + noise + json.dumps(NEW).encode() + b"\r\n")
    assert numbers(begun) == [1, 3]


# What is read of it: an answer for whatever stands there.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = sorted(journal.Record.__annotations__)


@given(st.sampled_from(NAMES), JSON)
def test_nonsense_in_a_line_is_left_out_or_costs_the_line(name: str, odd: object) -> None:
    found = journal.records([line() | {name: odd}])
    assert len(found) <= 1
    for record in found:
        assert record.run
        assert record.at
        assert abs(record.cost_usd or 0.0) + record.input + record.duration_s < 1e17


def test_a_large_journal_keeps_its_newer_half_and_the_sums_of_all(path: Path) -> None:
    journal.rotate(path)
    append(path, line(iteration=1, message="small"))
    journal.rotate(path)
    assert numbers(path) == [1]
    path.write_bytes(b"x" * 5_000_000)
    journal.rotate(path)
    assert path.stat().st_size == 5_000_000, "what is no journal is left alone"
    costs: dict[str, Any] = {"cost_usd": 0.5, "input": 7, "commits": 2, "duration_s": 1.5}
    lines = [json.dumps(line(iteration=number, message="x" * 400, **costs)) for number in range(1, 9_001)]
    path.write_text("\n".join(lines) + "\n")
    for _ in range(2):
        before = journal.sums(journal.read(path))
        read_to = path.stat().st_size
        journal.rotate(path)
        found = journal.read(path)
        sums = journal.sums(found)
        names = ("iterations", "cost_usd", "input", "commits", "duration_s")
        assert [getattr(sums, name) for name in names] == [getattr(before, name) for name in names]
        assert (found[0].event, found[-1].iteration, len(found) < 6_000) == ("sums", 9_000, True)
        assert journal.since(path, read_to)[0] == [], "who follows it sees nothing twice"
        with path.open("a") as file:
            file.writelines(f"{one}\n" for one in lines[-1:] * 6_000)
