"""The progress file on disk: what others do to it while ralph edits, and see of it."""

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ralph_driver import eventually

from ralph.plan.progress.file import ProgressFile
from ralph.store.state import State

TEXT = b"# Progress: feature\n\n## Status\n\nIN_PROGRESS\n\n## Notes\nEND\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProgressFile:
    """In a folder of its own; what it says fails the test, as nothing is lost that is to be brought back."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "project" / "feature_PROGRESS.md"
    path.parent.mkdir()
    path.write_bytes(TEXT)
    file = ProgressFile(path, State("feature", path))
    file.say = pytest.fail
    return file


def with_line(line: bytes) -> Callable[[bytes], bytes]:
    """An edit near the beginning, which half a file has too."""
    return lambda text: text.replace(b"## Status\n", b"## Status\n" + line + b"\n")


STEPS = ("open", "link", "rename", "unlink", "sleep")


@contextlib.contextmanager
def before_each_step(do: Callable[[str], None]) -> Iterator[None]:
    """Python tells before each call of what opens, links, renames or removes a file, and before each wait."""

    def called(_: object, event: str, what: Any) -> None:
        if event == "c_call" and what.__name__ in STEPS:
            do(what.__name__)  # what it does itself is no step

    sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(None)


Save = Iterator[None]


def in_place(path: Path, text: bytes) -> Save:
    yield
    path.write_bytes(text)


def in_place_in_pieces(path: Path, text: bytes) -> Save:
    """As an editor does that had it open before: one piece at each step."""
    with path.open("r+b", buffering=0) as file:
        yield
        file.truncate()
        yield
        for at in range(0, len(text), len(text) // 3):
            file.write(text[at : at + len(text) // 3])
            yield


def by_rename(path: Path, text: bytes) -> Save:
    yield
    new = path.with_suffix(".swp")
    new.write_bytes(text)
    new.rename(path)


def by_removal(path: Path, text: bytes) -> Save:
    yield
    path.unlink()
    yield
    path.write_bytes(text)


def an_edit(file: ProgressFile, save: Save, at: int) -> list[str]:
    """Steps that an edit took; the save begins before the step of that number."""
    steps: list[str] = []

    def step(what: str) -> None:
        steps.append(what)
        if len(steps) > at:
            next(save, None)

    file.path.write_bytes(TEXT)
    os.utime(file.path, (1, 1))
    file.read_or_restore()
    next(save)
    with before_each_step(step):
        file.edit(with_line(b"ralph"))
    for _ in save:
        pass
    return steps


@pytest.mark.parametrize("how", [in_place, in_place_in_pieces, by_rename, by_removal])
def test_no_save_of_an_editor_is_lost(file: ProgressFile, how: Callable[[Path, bytes], Save]) -> None:
    """Whenever during an edit it comes, and the edit ends without an error.

    Not at two steps (docs/internals/known-races.md): a save by rename between ralph's last look and its own rename,
    and what an editor that had the file open writes after ralph's last look at what it displaced.
    """
    theirs = with_line(b"editor")(TEXT)
    plain = an_edit(file, iter([None]), 1000)
    renames = plain.index("rename")
    looks = plain.index("open", renames)
    for at in range(len(plain)):
        if (at == renames and how is by_rename) or (at > looks and how is in_place_in_pieces):
            continue
        an_edit(file, how(file.path, theirs), at)
        assert b"editor\n" in file.path.read_bytes(), plain[at]
        assert file.path.read_bytes().endswith(b"END\n")
        assert list(file.path.parent.iterdir()) == [file.path]


def test_an_edit_waits_until_the_file_has_been_quiet_for_a_moment(file: ProgressFile) -> None:
    """What an editor has saved by half would be taken for the whole; on a busy machine the moment may be over."""

    def waits() -> bool:
        steps: list[str] = []
        file.path.write_bytes(TEXT)
        with before_each_step(steps.append):
            file.edit(with_line(b"ralph"))
        return "sleep" in steps[: steps.index("rename")]

    eventually(waits)


def test_an_edit_keeps_mode_and_owner_and_nobody_ever_sees_half_a_file(file: ProgressFile) -> None:
    file.path.chmod(0o640)
    if not os.geteuid():
        os.chown(file.path, 1234, 2345)
    before = file.path.stat()
    seen: list[bytes] = []
    file.edit(lambda text: text)
    assert file.path.stat() == before, "one that changes nothing touches nothing"
    with before_each_step(lambda _: seen.append(file.path.read_bytes())):
        now = file.edit(with_line(b"RALPH_STOP" + b" \n" * 5000))
    assert (now.stop, file.last) == (True, now)
    assert set(seen) == {TEXT, file.path.read_bytes()}
    after = file.path.stat()
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (0o640, before.st_uid, before.st_gid)
    assert list(file.path.parent.iterdir()) == [file.path]


def test_of_what_several_ralphs_write_at_the_same_time_nothing_is_lost(file: ProgressFile) -> None:
    """Attempts and servers of task tools edit one file."""
    notes = f"""
import pathlib, sys
from ralph.plan import progress
from ralph.plan.progress.file import ProgressFile
from ralph.store.state import State
path = pathlib.Path({str(file.path)!r})
file = ProgressFile(path, State("feature", path))
for number in range(100):
    file.edit(progress.with_lines_added, "Notes", [f"- {{sys.argv[1]}} {{number}}".encode()])
"""
    writers = [subprocess.Popen([sys.executable, "-c", notes, str(writer)]) for writer in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    assert file.path.read_bytes().count(b"\n- ") == 400
