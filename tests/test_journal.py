"""The journal: whatever dies while it is written, every whole line is read, and the next one is whole."""

import json
import os
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from ralph_driver import CHECKOUT

from ralph import journal
from ralph.journal import Journal

FIRST = {"iteration": 1, "message": "fine"}
NEW = {"iteration": 3, "message": "after it"}
IN_ONE_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.jsonl"


@pytest.fixture
def begun(path: Path) -> Path:
    """A journal with one record."""
    Journal(path).append(FIRST)
    return path


def python(code: str, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )


def read(path: Path) -> list[dict[str, Any]]:
    return list(journal.read(path))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param({}, id="an empty one"),
        pytest.param({"a": None, "b": True, "c": 0.41, "d": [{"e": "f"}]}, id="all that JSON has"),
        pytest.param({"message": "#7 · 9/15 tasks · naïve · 🚀"}, id="letters from everywhere"),
        pytest.param({"message": "a\nb\r\nc\u2028d\x85e\x00f"}, id="line ends and a NUL in a text"),
        pytest.param({"message": "x" * 3_000_000}, id="a very long one"),
    ],
)
def test_a_record_is_one_line_and_comes_back(path: Path, record: dict[str, object]) -> None:
    for _ in range(2):
        Journal(path).append(record)
    assert read(path) == [record, record]
    assert path.read_bytes().count(b"\n") == 2


def test_letters_are_written_as_they_are(path: Path) -> None:
    Journal(path).append({"message": "naïve · 🚀"})
    assert path.read_text("utf-8") == '{"message": "naïve · 🚀"}\n'


def test_half_a_character_spoils_neither_the_line_nor_who_prints_it(path: Path) -> None:
    Journal(path).append({"file": "caf\udce9", "\ud83d": "x"})
    assert read(path) == [{"file": "caf?", "?": "x"}]


def test_only_the_owner_may_look_into_it(path: Path) -> None:
    old = os.umask(0)
    try:
        Journal(path).append(FIRST)
    finally:
        os.umask(old)
    assert (mode(path.parent), mode(path)) == (0o700, 0o600)


def test_a_journal_that_is_not_there_has_no_records(path: Path) -> None:
    assert read(path) == journal.last(path, 5) == []


def test_a_power_loss_at_any_byte_costs_the_line_it_hit_and_no_other(begun: Path) -> None:
    torn = json.dumps({"iteration": 2, "message": 'é "} {'}, ensure_ascii=False).encode() + b"\n"
    before = begun.read_bytes()
    for cut in range(len(torn) + 1):
        begun.write_bytes(before + torn[:cut])
        whole = [FIRST, json.loads(torn)] if cut >= len(torn) - 1 else [FIRST]
        assert read(begun) == journal.last(begun, 9) == whole, f"torn after {cut} bytes"
        Journal(begun).append(NEW)
        assert read(begun) == journal.last(begun, 9) == [*whole, NEW], f"torn after {cut} bytes"


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(b"\n\n", id="blank lines"),
        pytest.param(b"\0" * 5000 + b"\n", id="a run of NULs"),
        pytest.param(b"\0" * 5000, id="a run of NULs in front of the next record"),
        pytest.param(b'{"message": "caf\xe9"}\n', id="a line that is not UTF-8"),
        pytest.param(b'\xff\xfe{\x00"\x00}\x00\n', id="a line in UTF-16"),
        pytest.param(b'[1]\n"text"\n7\nnull\nNaN\n', id="JSON that is no object"),
        pytest.param(b"# a remark\n", id="a person's remark"),
        pytest.param(b'{"a": 1}{"b": 2}\n', id="two objects on a line"),
        pytest.param(b'{"a": 1,}\n{"a": 1\n}\n', id="nearly an object"),
        pytest.param(b'{"a": ' * 100_000 + b"\n", id="a line that is too deep"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}\n", id="a number that is too long"),
    ],
)
def test_what_is_no_record_is_skipped(begun: Path, noise: bytes) -> None:
    begun.write_bytes(begun.read_bytes() + noise + json.dumps(NEW).encode() + b"\r\n")
    assert read(begun) == journal.last(begun, 9) == [FIRST, NEW]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_a_full_disk_is_said() -> None:
    with pytest.raises(OSError, match="No space left"):
        Journal(Path("/dev/full")).append(FIRST)


NEARLY_FULL = """
import resource, sys
from pathlib import Path
from ralph.journal import Journal
path, room, record = Path(sys.argv[1]), int(sys.argv[2]), eval(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, resource.RLIM_INFINITY))
try:
    Journal(path).append(record)
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("room", [0, 1, 20])
def test_a_line_that_fits_only_in_part_is_said_and_the_next_is_whole(begun: Path, room: int) -> None:
    said, _ = python(NEARLY_FULL, begun, room, {"iteration": 2, "message": "x" * 100}).communicate()
    assert said == "File too large\n"
    assert begun.stat().st_size > len(json.dumps(FIRST)) + room
    Journal(begun).append(NEW)
    assert read(begun) == [FIRST, NEW]


@pytest.mark.parametrize("part", [1, 20, -1])
def test_a_line_that_goes_in_by_parts_is_whole_in_the_end(
    begun: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """Also when another process writes in between: what the system did is faked, since no disk does so on demand."""
    write, parts = os.write, iter([part])

    def partly(fd: int, line: bytes) -> int:
        part = next(parts, None)
        written = write(fd, line[:part])
        if part:
            Journal(begun).append({"another": "process"})
        return written

    monkeypatch.setattr(os, "write", partly)
    Journal(begun).append(NEW)
    assert sorted(read(begun), key=len) == [{"another": "process"}, FIRST, NEW]


APPENDS = """
import sys, time
from pathlib import Path
from ralph.journal import Journal
path, who = Path(sys.argv[1]), sys.argv[2]
print("ready", flush=True)
while not path.exists():
    time.sleep(0.001)
for number in range(500):
    Journal(path).append({"who": who, "number": number, "message": who * 300})
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


def test_neither_end_of_a_large_journal_needs_the_whole_of_it_in_memory(begun: Path) -> None:
    with begun.open("r+b") as file:
        file.truncate(1 << 28)  # a hole, read as NULs
        file.seek(1 << 28)
        file.write(b"\n" + (json.dumps(NEW).encode() + b"\n") * 30_000)
    tracemalloc.start()
    try:
        assert next(journal.read(begun)) == FIRST
        assert journal.last(begun, 3) == [NEW] * 3
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_reading_goes_line_by_line(begun: Path) -> None:
    line = json.dumps({"message": "x" * 100_000}).encode() + b"\n"
    begun.write_bytes(line * 50)
    tracemalloc.start()
    try:
        assert sum(1 for _ in journal.read(begun)) == 50
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


records = st.dictionaries(st.text(max_size=4), st.text(max_size=8) | st.integers(), max_size=2)
lines = records.map(lambda record: json.dumps(record, ensure_ascii=False).encode())
long = st.builds(lambda size: b'{"x": "%s"}' % (b"y" * size), st.integers(60_000, 140_000))
noise = st.binary(max_size=6) | st.sampled_from([b"", b"{", b"[1]", b"\0\0", b'{"torn": "'])
files = st.lists(st.one_of(lines, lines, noise, long), max_size=8).map(b"\n".join)


@IN_ONE_FILE
@given(files, st.booleans(), st.integers(0, 10))
@example(b"{}\n" * 60_000, False, 59_999)
def test_the_last_ones_are_the_end_of_all(tmp_path: Path, file: bytes, ended: bool, count: int) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(file + b"\n" * ended)
    assert journal.last(path, count) == (read(path)[-count:] if count else [])


@IN_ONE_FILE
@given(files, records)
def test_whatever_stands_there_the_new_record_is_the_last_and_all_others_stay(
    tmp_path: Path, file: bytes, record: dict[str, object]
) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(file)
    before = read(path)
    Journal(path).append(record)
    assert path.read_bytes().startswith(file)
    assert read(path) == [*before, record]
