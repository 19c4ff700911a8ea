"""The journal: whatever dies while it is written, every whole line is read, and the next one is whole."""

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


def test_a_power_loss_at_any_byte_costs_the_line_it_hit_and_no_other(begun: Path) -> None:
    torn = json.dumps(line(iteration=2, message='é "} {'), ensure_ascii=False).encode() + b"\n"
    before = begun.read_bytes()
    for cut in range(len(torn) + 1):
        begun.write_bytes(before + torn[:cut])
        assert numbers(begun) == [1, 2][: 1 + (cut == len(torn))], f"torn after {cut} bytes"
        append_line(begun, NEW)
        assert numbers(begun) == [1, *([2] if cut >= len(torn) - 1 else []), 3], f"torn after {cut} bytes"


def test_what_is_not_a_record_is_skipped_and_nonsense_in_one_left_out(begun: Path) -> None:
    """NULs in front of a record, what is not UTF-8, JSON of something else, too deep or with too long a number.

    Half a character spoils neither the line nor who prints it.
    """
    noise = [b"\0" * 5000 + json.dumps(NEW).encode() + b"\r\n", b'{"message": "caf\xe9"}\n']
    noise += [b'[1]\n"text"\n7\nnull\nNaN\n{}\n', b'{"a": ' * 100_000 + b"\n", b'{"a": ' + b"9" * 5000 + b"}\n"]
    odd = [line(timestamp="soon"), line(run=7), line(iteration=4, cost_usd="x", input=10**16, message=["x"])]
    with begun.open("ab") as file:
        file.writelines([*noise, *(json.dumps(one).encode() + b"\n" for one in odd)])
    append_line(begun, line(iteration=5, message="a\nb\u2028c\x85 🚀 caf\udce9"))
    assert numbers(begun) == [1, 3, 4, 5]
    assert [one.message for one in journal.read(begun)[2:]] == ["", "a\nb\u2028c\x85 🚀 caf?"]
    sums = journal.sum_up(journal.read(begun))
    assert (sums.cost_usd, sums.input) == (None, 0)


def test_a_large_journal_keeps_its_newer_half_and_the_sums_of_all(begun: Path) -> None:
    journal.rotate_journal(begun)
    assert numbers(begun) == [1]
    begun.write_bytes(b"x" * 5_000_000)
    journal.rotate_journal(begun)
    assert begun.stat().st_size == 5_000_000, "what is no journal is left alone"
    costs: dict[str, Any] = {"cost_usd": 0.5, "input": 7, "commits": 2, "duration_s": 1.5}
    lines = [json.dumps(line(iteration=number, message="x" * 2_400, **costs)) for number in range(1, 1_801)]
    begun.write_text("\n".join(lines) + "\n")
    for _ in range(2):
        before, read_to = journal.sum_up(journal.read(begun)), begun.stat().st_size
        journal.rotate_journal(begun)
        found = journal.read(begun)
        sums = journal.sum_up(found)
        names = ("iterations", "cost_usd", "input", "commits", "duration_s")
        assert [getattr(sums, name) for name in names] == [getattr(before, name) for name in names]
        assert (found[0].event, found[-1].iteration, len(found) < 1_200) == ("sums", 1_800, True)
        assert journal.read_since(begun, read_to)[0] == [], "who follows it sees nothing twice"
        with begun.open("a") as file:
            file.writelines(f"{one}\n" for one in lines[-1:] * 1_200)
