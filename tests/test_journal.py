"""The journal: whatever dies while it is written, every whole line is read, and the next one is whole."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ralph_driver import CHECKOUT

from ralph import journal
from ralph.journal import append

FIRST = {"iteration": 1, "message": "fine"}
NEW = {"iteration": 3, "message": "after it"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.jsonl"


@pytest.fixture
def begun(path: Path) -> Path:
    """A journal with one record."""
    append(path, FIRST)
    return path


def python(code: str, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )


def read(path: Path) -> list[dict[str, Any]]:
    """Its whole lines, as any program reads them."""
    return journal.objects(path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param({"a": None, "b": True, "c": 0.41, "d": [{"e": "f"}]}, id="all that JSON has"),
        pytest.param({"message": "#7 · 9/15 tasks · naïve · 🚀"}, id="letters from everywhere"),
        pytest.param({"message": "a\nb\r\nc\u2028d\x85e\x00f"}, id="line ends and a NUL in a text"),
    ],
)
def test_a_record_is_one_line_and_comes_back(path: Path, record: dict[str, object]) -> None:
    for _ in range(2):
        append(path, record)
    assert read(path) == [record, record]
    assert path.read_bytes().count(b"\n") == 2


def test_half_a_character_spoils_neither_the_line_nor_who_prints_it(path: Path) -> None:
    append(path, {"file": "caf\udce9", "\ud83d": "x"})
    assert read(path) == [{"file": "caf?", "?": "x"}]


def test_only_the_owner_may_look_into_it(path: Path) -> None:
    old = os.umask(0)
    try:
        append(path, FIRST)
    finally:
        os.umask(old)
    assert (mode(path.parent), mode(path)) == (0o700, 0o600)


def test_a_power_loss_at_any_byte_costs_the_line_it_hit_and_no_other(begun: Path) -> None:
    torn = json.dumps({"iteration": 2, "message": 'é "} {'}, ensure_ascii=False).encode() + b"\n"
    before = begun.read_bytes()
    for cut in range(len(torn) + 1):
        begun.write_bytes(before + torn[:cut])
        whole = [FIRST, json.loads(torn)] if cut >= len(torn) - 1 else [FIRST]
        assert read(begun) == whole, f"torn after {cut} bytes"
        append(begun, NEW)
        assert read(begun) == [*whole, NEW], f"torn after {cut} bytes"


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(b"\0" * 5000 + b"\n", id="a run of NULs"),
        pytest.param(b"\0" * 5000, id="a run of NULs in front of the next record"),
        pytest.param(b'{"message": "caf\xe9"}\n', id="a line that is not UTF-8"),
        pytest.param(b'[1]\n"text"\n7\nnull\nNaN\n', id="JSON that is no object"),
        pytest.param(b'{"a": ' * 100_000 + b"\n", id="a line that is too deep"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}\n", id="a number that is too long"),
    ],
)
def test_what_is_no_record_is_skipped(begun: Path, noise: bytes) -> None:
    begun.write_bytes(begun.read_bytes() + noise + json.dumps(NEW).encode() + b"\r\n")
    assert read(begun) == [FIRST, NEW]


NEARLY_FULL = """
import resource, sys
from pathlib import Path
from ralph.journal import append
path, room, record = Path(sys.argv[1]), int(sys.argv[2]), eval(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, resource.RLIM_INFINITY))
try:
    append(path, record)
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("room", [0, 1, 20])
def test_a_line_that_fits_only_in_part_is_said_and_the_next_is_whole(begun: Path, room: int) -> None:
    said, _ = python(NEARLY_FULL, begun, room, {"iteration": 2, "message": "x" * 100}).communicate()
    assert said == "File too large\n"
    assert begun.stat().st_size > len(json.dumps(FIRST)) + room
    append(begun, NEW)
    assert read(begun) == [FIRST, NEW]


APPENDS = """
import sys, time
from pathlib import Path
from ralph.journal import append
path, who = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
while not path.exists():
    time.sleep(0.001)
for number in range(500):
    append(path, {"who": who, "number": number, "message": who * 300})
"""


def test_of_two_processes_that_write_at_once_no_line_is_lost(path: Path) -> None:
    both = [python(APPENDS, path, who) for who in "ab"]
    for process in both:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    path.parent.mkdir()
    path.touch()
    for process in both:
        process.communicate()
    records = read(path)
    assert len(records) == 1000
    for who in "ab":
        assert [record["number"] for record in records if record["who"] == who] == list(range(500))


records = st.dictionaries(st.text(max_size=4), st.text(max_size=8) | st.integers(), max_size=2)
lines = records.map(lambda record: json.dumps(record, ensure_ascii=False).encode())
long = st.builds(lambda size: b'{"x": "%s"}' % (b"y" * size), st.integers(60_000, 140_000))
noise = st.binary(max_size=6) | st.sampled_from([b"", b"{", b"[1]", b"\0\0", b'{"torn": "'])
files = st.lists(st.one_of(lines, lines, noise, long), max_size=8).map(b"\n".join)


@given(files, records)
def test_whatever_stands_there_the_new_record_is_the_last_and_all_others_stay(
    tmp_path: Path, file: bytes, record: dict[str, object]
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(file)
    before = read(path)
    append(path, record)
    assert path.read_bytes().startswith(file)
    assert read(path) == [*before, record]


# What is read of it: the same numbers by whatever way, and an answer for whatever stands there.

STAMP = "2026-11-20T22:14:03Z"
TIMES = st.sampled_from([STAMP, "2026-11-21T07:00:00Z"])
COSTS = st.one_of(st.none(), st.floats(0, 100).map(lambda usd: round(usd, 4)))
ITERATIONS = st.fixed_dictionaries(
    {
        "event": st.just("iteration"),
        "run": st.just("r"),
        "timestamp": TIMES,
        "counted": st.booleans(),
        "cost_usd": COSTS,
        "cost_at_least": st.booleans(),
        "ended": st.sampled_from(["ok", "failed", "died"]),
    }
)
OTHERS = st.fixed_dictionaries(
    {"event": st.sampled_from(["wait", "verify", "run"]), "run": st.just("r"), "timestamp": TIMES}
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = tuple(
    "event run mode iteration success message summary ended counted refused duration_s waited_s cost_usd tokens "  # noqa: SIM905 - a list of words
    "cost_at_least context model tasks commits transcript timestamp sums until changed agent".split()
)


def line(event: str = "iteration", run: str = "r", **more: Any) -> dict[str, Any]:
    return {"event": event, "run": run, "timestamp": STAMP, "counted": True, **more}


def numbers(*lines: dict[str, Any]) -> list[int]:
    return [row.number for row in journal.rows(journal.records(lines))]


@given(st.lists(ITERATIONS | OTHERS))
def test_the_sums_are_those_of_the_lines(lines: list[dict[str, Any]]) -> None:
    its = [one for one in lines if one["event"] == "iteration"]
    costs = [one["cost_usd"] for one in its if one["cost_usd"] is not None]
    found = journal.sums(journal.records(lines))
    assert found.iterations == sum(one["counted"] for one in its)
    assert found.cost_usd == (pytest.approx(sum(costs), abs=1e-4) if costs else None)
    assert found.cost_at_least == any(one["cost_at_least"] or one["ended"] == "died" for one in its)


@given(ITERATIONS | OTHERS, st.sampled_from(NAMES), JSON)
def test_a_line_with_nonsense_in_it_counts_whole_or_not_at_all(base: dict[str, Any], name: str, odd: object) -> None:
    found = journal.records([{**base, name: odd}])
    journal.sums(found)
    assert len(found) <= 1
    assert all(record.at > 0 and record.run for record in found)


def test_iterations_are_numbered_through_all_runs() -> None:
    """As an older ralph wrote them down, each run for itself."""
    old = [line(run="a", iteration=1), line(run="a", iteration=2), line(run="b", iteration=1)]
    assert numbers(*old) == [1, 2, 3]
    assert numbers(*old, line(run="c", iteration=4)) == [1, 2, 3, 4]


def test_one_that_is_due_again_keeps_its_number() -> None:
    assert numbers(line(iteration=1), line(iteration=2, counted=False), line(iteration=2), line(iteration=3)) == [
        1,
        2,
        2,
        3,
    ]


def test_a_summary_says_the_number_that_counts() -> None:
    old = [line(run="a", iteration=1, summary="#1 · 1/2 tasks"), line(run="b", iteration=1, summary="#1 · 2/2 tasks")]
    assert [row.summary for row in journal.records(old)] == ["#1 · 1/2 tasks", "#2 · 2/2 tasks"]


def test_each_verification_belongs_to_the_iteration_that_it_was_made_for() -> None:
    lines = [
        line(iteration=1),
        line("verify", iteration=1, duration_s=1),
        line("verify", iteration=1, duration_s=2),
        line(iteration=2),
        line("verify", "b", iteration=0, duration_s=4),
        line(run="b", iteration=1),
    ]
    found = journal.rows(journal.records(lines))
    assert [row.verified_s for row in found] == [3, 0, 0]


def test_an_old_line_without_a_summary_has_words_all_the_same() -> None:
    (row,) = journal.records([line(iteration=7, message="ralph was killed", ended="died", counted=False)])
    assert row.summary == "#7 · ralph was killed"
    assert (row.done, row.cost_usd, row.context, row.at_least) == (None, None, None, True)


def test_who_reads_on_gets_whole_lines_only(begun: Path) -> None:
    with begun.open("ab") as file:
        file.write(json.dumps(line(iteration=2)).encode() + b'\n{"torn')
    found, end = journal.since(begun, 0)
    assert [record.number for record in found] == [2]
    with begun.open("ab") as file:
        file.write(b'"}\n' + json.dumps(line(iteration=3)).encode() + b"\n")
    found, end = journal.since(begun, end)
    assert [record.number for record in found] == [3]
    assert journal.since(begun, end) == ([], begun.stat().st_size)
