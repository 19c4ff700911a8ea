"""Env files are read and written as python-dotenv does it; what it cannot write exactly is refused."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph import config, sources
from ralph.errors import RalphError
from ralph.settings import Source

HOOK = "https://hooks.slack.com/services/T0/B0/x"
of_one_line = st.one_of(
    st.text(alphabet="ab '\"$`#!{}", max_size=12),  # what quoting is about, often
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n\r\0\\")),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".ralph.env"


def read(path: Path) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Names, values and places, the last first; and what is wrong."""
    given, problems = sources.in_file(path, Source.HOME_FILE)
    return [(one.variable, one.text, one.where) for one in given], [one.message for one in problems]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        pytest.param(b"RALPH_X=plain", "plain", id="bare, as in the original's example file"),
        pytest.param(b'export RALPH_X="a b"', "a b", id="exported and quoted, as the original's wizard wrote"),
        pytest.param(b"  export RALPH_X='a'  # why", "a", id="indented, with a remark"),
        pytest.param(b'\xef\xbb\xbfRALPH_X="true"\r\n', "true", id="as Windows writes it"),
        pytest.param(b"RALPH_X=$HOME$(touch PWNED)", "$HOME$(touch PWNED)", id="neither expanded nor executed"),
        pytest.param(b"RALPH_X=", "", id="an empty value"),
    ],
)
def test_a_line_is_read(path: Path, line: bytes, value: str) -> None:
    path.write_bytes(line)
    assert read(path) == ([("RALPH_X", value, f"{path}:1")], [])


def test_each_knows_its_line_and_the_last_of_a_name_comes_first(path: Path) -> None:
    path.write_bytes(b'# a remark\r\n\r\nRALPH_A=1\r\nRALPH_B="two\r\nlines"\r\nOTHER=x\r\n\r\nRALPH_A=3\r\n')
    places = [(name, where.rpartition(":")[2]) for name, _, where in read(path)[0]]
    assert places == [("RALPH_A", "8"), ("RALPH_B", "4"), ("RALPH_A", "3")]


def test_a_broken_line_is_named_without_showing_it_and_the_rest_is_read(path: Path) -> None:
    path.write_text('RALPH_A=1\nRALPH_TOKEN="s3cret\nRALPH_B=2\n')
    given, problems = read(path)
    assert [name for name, *_ in given] == ["RALPH_B", "RALPH_A"]
    assert problems == [f'{path}:2: is no NAME="value" (a quote left open?)']


def test_a_file_that_cannot_be_read_is_a_problem_but_not_one_that_is_missing(tmp_path: Path) -> None:
    assert read(tmp_path) == ([], [f"{tmp_path}: cannot be read: Is a directory"])
    assert read(tmp_path / "gone") == ([], [])


def test_a_new_file_says_what_it_is_and_is_private(path: Path) -> None:
    config.keep(path, {"RALPH_SLACK_WEBHOOK_URL": HOOK})
    assert path.read_text() == f"{config.HEADER}export RALPH_SLACK_WEBHOOK_URL='{HOOK}'\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_setting_and_removing_leave_every_other_line_as_it_is(path: Path) -> None:
    path.write_text("# mine\n\nA=1 # why\nRALPH_X=old\n  export B='two\nlines'\nRALPH_Y=2")
    config.keep(path, {"RALPH_X": "new", "RALPH_Y": None, "RALPH_Z": "z", "RALPH_NOT_THERE": None})
    kept = "# mine\n\nA=1 # why\nexport RALPH_X='new'\n  export B='two\nlines'\nexport RALPH_Z='z'\n"
    assert path.read_text() == kept


@given(value=of_one_line)
def test_any_line_is_read_back_as_it_was(path: Path, value: str) -> None:
    config.keep(path, {"RALPH_X": value})
    assert [text for name, text, _ in read(path)[0] if name == "RALPH_X"] == [value]


@pytest.mark.parametrize("value", ["two\nlines", "two\rlines", "nul\0", "C:\\"])
def test_a_value_that_cannot_be_written_exactly_is_refused_unseen_and_nothing_changes(path: Path, value: str) -> None:
    path.write_text("A=1\n")
    with pytest.raises(RalphError, match="a value") as refused:
        config.keep(path, {"B": "2", "X": value})
    assert value not in refused.value.message
    assert path.read_text() == "A=1\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b'A=1\nB="open\n', r"\.ralph\.env:2: .*\nMend that first", id="an open quote"),
        pytest.param(b"# caf\xe9\n", "cannot be written: .*utf-8", id="another encoding"),
    ],
)
def test_a_file_that_dotenv_cannot_write_is_left_alone(path: Path, data: bytes, said: str) -> None:
    path.write_bytes(data)
    with pytest.raises(RalphError, match=said) as refused:
        config.keep(path, {"X": "1"})
    assert refused.value.exit_code == 1
    assert path.read_bytes() == data


def test_a_linked_file_stays_linked_and_becomes_private(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles"
    real.write_text("A=1\n")
    real.chmod(0o644)
    path.symlink_to(real)
    config.keep(path, {"X": "1"})
    assert path.is_symlink()
    assert real.read_text() == "A=1\nexport X='1'\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_what_cannot_be_written_is_said(path: Path, tmp_path: Path) -> None:
    path.symlink_to(os.devnull)
    with pytest.raises(RalphError, match="no regular file"):
        config.keep(path, {"X": "1"})
    with pytest.raises(RalphError, match=r"cannot be written: .*No such file or directory"):
        config.keep(tmp_path / "gone" / ".ralph.env", {"X": "1"})
