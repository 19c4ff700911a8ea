"""Env files are read as python-dotenv reads them, and edited line by line."""

import os
import shlex
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ralph import envfile
from ralph.envfile import Entry
from ralph.errors import RalphError

HOOK = "https://hooks.slack.com/services/T0/B0/x"
IN_ONE_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)

values_of_one_line = st.one_of(
    st.text(alphabet="ab \\'\"$`#!{}", max_size=12),  # what quoting is about, often
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n\r\0")),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".ralph.env"


def set_in(path: Path) -> dict[str, str]:
    entries, problems = envfile.read(path)
    assert problems == []
    return {entry.name: entry.value for entry in entries}


def sourced(path: Path, name: str) -> str:
    """What a POSIX shell has in the variable after it has read the file."""
    script = f'. {shlex.quote(str(path))}; printf %s "${name}"'
    done = subprocess.run(["sh", "-eu", "-c", script], env={}, capture_output=True, check=True)
    assert done.stderr == b""
    return done.stdout.decode()


def test_a_file_that_is_missing_sets_nothing_and_is_no_problem(path: Path) -> None:
    assert envfile.read(path) == ([], [])


@pytest.mark.parametrize(
    ("line", "value"),
    [
        pytest.param(b"RALPH_X=plain", "plain", id="bare, as in the original's example file"),
        pytest.param(b'export RALPH_X="a b"', "a b", id="exported and quoted, as the original's wizard wrote"),
        pytest.param(b"  export RALPH_X='a'  # why", "a", id="indented, with a remark"),
        pytest.param(b'RALPH_X="true"\r\n', "true", id="a line end of Windows is no part of the value"),
        pytest.param(b"\xef\xbb\xbfRALPH_X=1", "1", id="after a byte order mark"),
        pytest.param(b"RALPH_X=$HOME", "$HOME", id="a variable is not expanded"),
        pytest.param(b"RALPH_X=$(touch PWNED)", "$(touch PWNED)", id="a command is not executed"),
        pytest.param(b"RALPH_X=", "", id="an empty value"),
    ],
)
def test_a_line_is_read(path: Path, line: bytes, value: str) -> None:
    path.write_bytes(line)
    assert envfile.read(path) == ([Entry(name="RALPH_X", value=value, line=1)], [])


def test_entries_know_their_lines_and_repetitions_stay_in_order(path: Path) -> None:
    path.write_bytes(b'# a remark\r\n\r\nA=1\r\nB="two\r\nlines"\r\n\r\nA=3\r\n')
    entries, _ = envfile.read(path)
    assert [(entry.name, entry.line) for entry in entries] == [("A", 3), ("B", 4), ("A", 7)]


def test_a_broken_line_is_named_without_showing_it_and_the_rest_is_read(path: Path) -> None:
    path.write_text('A=1\nRALPH_TOKEN="s3cret\nB=2\n')
    entries, problems = envfile.read(path)
    assert [entry.name for entry in entries] == ["A", "B"]
    assert problems == [f'{path}:2: is no NAME="value" (a quote left open?)']


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    assert envfile.read(tmp_path) == ([], [f"{tmp_path}: cannot be read: Is a directory"])


def test_a_new_file_says_what_it_is_and_is_private(path: Path) -> None:
    envfile.update(path, {"RALPH_SLACK_WEBHOOK_URL": HOOK})
    assert path.read_text() == envfile.HEADER + f'export RALPH_SLACK_WEBHOOK_URL="{HOOK}"\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"A=1\nX=old\nB=2\n", b'A=1\nexport X="new"\nB=2\n', id="in place"),
        pytest.param(b"export X='old'\n", b'export X="new"\n', id="an exported one"),
        pytest.param(b"# hello\n\n  export X=old\n", b'# hello\n\n  export X="new"\n', id="an indented one"),
        pytest.param(b'X="two\nlines"\nA=1', b'export X="new"\nA=1', id="one of several lines"),
        pytest.param(b"X=1\nA=1\n X=2\nX=3\n", b'export X="new"\nA=1\n', id="repetitions go"),
        pytest.param(b"A=1", b'A=1\nexport X="new"\n', id="after a last line without its end"),
        pytest.param(b"X=old", b'export X="new"', id="a last line without its end keeps it so"),
        pytest.param(b"A=1\r\nX=old\r\n", b'A=1\r\nexport X="new"\r\n', id="Windows line ends stay"),
        pytest.param(b"A=1\r\n", b'A=1\r\nexport X="new"\r\n', id="a new line ends as the others do"),
        pytest.param(b"\xef\xbb\xbfX=old\n", b'\xef\xbb\xbfexport X="new"\n', id="a byte order mark stays"),
        pytest.param(b"# caf\xe9 \xff\nXX=1\n", b'# caf\xe9 \xff\nXX=1\nexport X="new"\n', id="foreign bytes stay"),
        pytest.param(b"#X=no\n", b'#X=no\nexport X="new"\n', id="a remark stays a remark"),
        pytest.param(b"", b'export X="new"\n', id="an empty file"),
    ],
)
def test_a_value_is_set(path: Path, before: bytes, after: bytes) -> None:
    path.write_bytes(before)
    envfile.update(path, {"X": "new"})
    assert path.read_bytes() == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"A=1\n\n  X=1\nB=2\n", b"A=1\n\nB=2\n", id="with its indentation, not with the line above"),
        pytest.param(b"\xef\xbb\xbfX=1\nB=2\n", b"\xef\xbb\xbfB=2\n", id="after a byte order mark"),
        pytest.param(b"A=1\nX=1", b"A=1\n", id="at the end"),
        pytest.param(b"A=1\n", b"A=1\n", id="that is not there"),
    ],
)
def test_a_value_is_removed(path: Path, before: bytes, after: bytes) -> None:
    path.write_bytes(before)
    envfile.update(path, {"X": None})
    assert path.read_bytes() == after


@IN_ONE_FILE
@given(value=values_of_one_line)
def test_any_value_is_read_back_by_ralph_and_by_a_shell_or_refused_for_what_no_quoting_can_say(
    path: Path, value: str
) -> None:
    path.unlink(missing_ok=True)
    try:
        envfile.update(path, {"RALPH_X": value})
    except RalphError:
        expands = "$" in value or "`" in value
        assert value.endswith("\\") or (expands and ("'" in value or "\\\\" in value))
        assert not path.exists()
    else:
        assert set_in(path) == {"RALPH_X": value}
        assert sourced(path, "RALPH_X") == value


lines_of_others = st.lists(
    st.sampled_from(
        [b"", b"   ", b"# remark", b"#X=1", b"OTHER=1", b'export Y="a b"', b"Z='two\nlines'", b"\xff=\xfe", b"XX=1 # x"]
    ),
    max_size=5,
).map(lambda lines: b"".join(line + b"\n" for line in lines))


@IN_ONE_FILE
@given(
    before=lines_of_others,
    after=lines_of_others,
    old=st.sampled_from([b"X=old\n", b"export X='o\nld'\n", b"X=\n"]),
    value=values_of_one_line.filter(lambda text: not set("$`") & set(text) and not text.endswith("\\")),
)
def test_setting_a_value_changes_no_other_byte(path: Path, before: bytes, after: bytes, old: bytes, value: str) -> None:
    path.write_bytes(before + old + after)
    envfile.update(path, {"X": value})
    assert path.read_bytes() == before + f"export X={envfile.quoted(value)}\n".encode() + after
    assert set_in(path)["X"] == value
    envfile.update(path, {"X": None})
    assert path.read_bytes() == before + after


@pytest.mark.parametrize("value", ["two\nlines", "two\rlines", "nul\0", "it's $5", "`a`\\\\", "C:\\"])
def test_a_value_that_cannot_be_written_exactly_is_refused_unseen_and_nothing_changes(path: Path, value: str) -> None:
    path.write_text("A=1\n")
    with pytest.raises(RalphError, match="a value") as refused:
        envfile.update(path, {"B": "2", "X": value})
    assert value not in refused.value.message
    assert path.read_text() == "A=1\n"


def test_a_file_with_an_open_quote_is_left_alone(path: Path) -> None:
    path.write_text('A=1\nB="open\n')
    with pytest.raises(RalphError, match=r"\.ralph\.env:2: .*\nMend that first") as refused:
        envfile.update(path, {"X": "1"})
    assert refused.value.exit_code == 1
    assert path.read_text() == 'A=1\nB="open\n'


def test_a_linked_file_stays_linked_and_becomes_private(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles"
    real.write_text("A=1\n")
    real.chmod(0o644)
    path.symlink_to(real)
    assert envfile.open_to_others(path)
    envfile.update(path, {"X": "1"})
    assert path.is_symlink()
    assert real.read_text() == 'A=1\nexport X="1"\n'
    assert not envfile.open_to_others(path)


def test_a_link_to_a_device_is_not_replaced(path: Path) -> None:
    path.symlink_to(os.devnull)
    with pytest.raises(RalphError, match="no regular file"):
        envfile.update(path, {"X": "1"})


def test_a_folder_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(RalphError, match="cannot be written: No such file or directory"):
        envfile.update(tmp_path / "gone" / ".ralph.env", {"X": "1"})
