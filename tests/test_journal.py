"""The journal: whatever dies while it is written, every whole line is read, and the next one is whole."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph import journal
from ralph.journal import append


def line(**more: Any) -> dict[str, Any]:
    return {"event": "iteration", "run": "r", "timestamp": "2026-11-20T22:14:03Z", "counted": True, **more}


NEW = line(iteration=3, message="after it")


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A journal with one record."""
    append(tmp_path / "state" / "journal.jsonl", line(iteration=1, message="fine"))
    return tmp_path / "state" / "journal.jsonl"


def numbers(path: Path) -> list[int]:
    """The iterations of its whole lines."""
    return [record.iteration for record in journal.read(path)]


def test_a_record_is_one_line_and_comes_back(begun: Path) -> None:
    """Half a character spoils neither the line nor who prints it."""
    texts = ["#7 · 9/15 · naïve · 🚀", "a\nb\r\nc\u2028d\x85e\x00f", "caf\udce9"]
    for text in texts:
        append(begun, line(message=text))
    assert [record.message for record in journal.read(begun)] == ["fine", *texts[:2], "caf?"]
    assert begun.read_bytes().count(b"\n") == 4


def test_a_power_loss_at_any_byte_costs_the_line_it_hit_and_no_other(begun: Path) -> None:
    torn = json.dumps(line(iteration=2, message='é "} {'), ensure_ascii=False).encode() + b"\n"
    before = begun.read_bytes()
    for cut in range(len(torn) + 1):
        begun.write_bytes(before + torn[:cut])
        assert numbers(begun) == [1, 2][: 1 + (cut == len(torn))], f"torn after {cut} bytes"
        append(begun, NEW)
        assert numbers(begun) == [1, *([2] if cut >= len(torn) - 1 else []), 3], f"torn after {cut} bytes"


def test_what_is_no_record_is_skipped(begun: Path) -> None:
    """NULs in front of a record, what is not UTF-8, JSON of something else, too deep or with too long a number."""
    noise = [b"\0" * 5000 + json.dumps(NEW).encode() + b"\r\n", b'{"message": "caf\xe9"}\n']
    noise += [b'[1]\n"text"\n7\nnull\nNaN\n{}\n', b'{"a": ' * 100_000 + b"\n", b'{"a": ' + b"9" * 5000 + b"}\n"]
    with begun.open("ab") as file:
        file.writelines(noise)
    append(begun, NEW)
    assert numbers(begun) == [1, 3, 3]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(journal.Record.__annotations__)), JSON)
def test_nonsense_in_a_line_is_left_out_or_costs_the_line(name: str, odd: object) -> None:
    found = journal.records([line() | {name: odd}])
    assert len(found) <= 1
    for record in found:
        assert record.run
        assert record.at
        assert abs(record.cost_usd or 0.0) + record.input + record.duration_s < 1e17


def test_a_large_journal_keeps_its_newer_half_and_the_sums_of_all(begun: Path) -> None:
    journal.rotate(begun)
    assert numbers(begun) == [1]
    begun.write_bytes(b"x" * 5_000_000)
    journal.rotate(begun)
    assert begun.stat().st_size == 5_000_000, "what is no journal is left alone"
    costs: dict[str, Any] = {"cost_usd": 0.5, "input": 7, "commits": 2, "duration_s": 1.5}
    lines = [json.dumps(line(iteration=number, message="x" * 2_400, **costs)) for number in range(1, 1_801)]
    begun.write_text("\n".join(lines) + "\n")
    for _ in range(2):
        before, read_to = journal.sums(journal.read(begun)), begun.stat().st_size
        journal.rotate(begun)
        found = journal.read(begun)
        sums = journal.sums(found)
        names = ("iterations", "cost_usd", "input", "commits", "duration_s")
        assert [getattr(sums, name) for name in names] == [getattr(before, name) for name in names]
        assert (found[0].event, found[-1].iteration, len(found) < 1_200) == ("sums", 1_800, True)
        assert journal.since(begun, read_to)[0] == [], "who follows it sees nothing twice"
        with begun.open("a") as file:
            file.writelines(f"{one}\n" for one in lines[-1:] * 1_200)
