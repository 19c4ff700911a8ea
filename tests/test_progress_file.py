"""The progress file on disk: what others do to it while ralph edits, and what a disk can do to both."""

import contextlib
import os
import resource
import shutil
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ralph.errors import RalphError
from ralph.progress.file import ProgressFile
from ralph.state import State

TEXT = b"# Progress: feature\n\n## Status\n\nIN_PROGRESS\n\n## Notes\nEND\n"


class Watched:
    """A progress file in a folder of its own, and what ralph said about it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.path = folder / "feature_PROGRESS.md"
        self.path.write_bytes(TEXT)
        self.said: list[str] = []
        self.state = State("feature", self.path)
        self.file = self.opened(self.path)

    def opened(self, path: Path) -> ProgressFile:
        file = ProgressFile(path, self.state)
        file.say = self.said.append
        return file

    @property
    def litter(self) -> list[str]:
        return [found.name for found in self.path.parent.iterdir() if found != self.path]

    @property
    def kept(self) -> list[Path]:
        return sorted((self.state.folder / "kept").glob("*"))


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Watched(tmp_path / "project")


def with_line(line: bytes) -> Callable[[bytes], bytes]:
    """An edit near the beginning, which half a file has too."""
    return lambda text: text.replace(b"## Status\n", b"## Status\n" + line + b"\n")


class TestAnEdit:
    def test_keeps_the_mode(self, watched: Watched) -> None:
        watched.path.chmod(0o640)
        watched.file.edit(with_line(b"x"))
        assert stat.S_IMODE(watched.path.stat().st_mode) == 0o640

    def test_keeps_the_owner(self, watched: Watched) -> None:
        if os.geteuid():
            pytest.skip("only root can give a file to somebody else")
        os.chown(watched.path, 1234, 2345)
        watched.file.edit(with_line(b"x"))
        assert (watched.path.stat().st_uid, watched.path.stat().st_gid) == (1234, 2345)

    def test_follows_a_link_and_keeps_it(self, watched: Watched, tmp_path: Path) -> None:
        (tmp_path / "link.md").symlink_to("project/feature_PROGRESS.md")
        watched.opened(tmp_path / "link.md").edit(with_line(b"x"))
        assert (tmp_path / "link.md").readlink() == Path("project/feature_PROGRESS.md")
        assert watched.path.read_bytes() == with_line(b"x")(TEXT)
        assert not watched.litter

    def test_that_changes_nothing_touches_nothing(self, watched: Watched) -> None:
        before = watched.path.stat()
        watched.file.edit(lambda text: text)
        assert watched.path.stat() == before

    def test_is_seen_at_once_by_the_one_who_made_it(self, watched: Watched) -> None:
        now = watched.file.edit(lambda text: text + b"RALPH_STOP\n")
        assert now.stop
        assert watched.file.last == now
        assert watched.file.text == watched.path.read_bytes()

    @pytest.mark.parametrize(
        "text", [b"", b"\n", b"\r\n\r\n", b"\xef\xbb\xbf", b" \0"], ids=["empty", "LF", "CRLF", "bom", "blank"]
    )
    def test_of_a_file_without_content_is_made_too(self, watched: Watched, text: bytes) -> None:
        watched.path.write_bytes(text)
        watched.file.read()
        watched.file.edit(lambda seen: seen + b"RALPH_BLOCKED: ralph: x\n")
        assert watched.path.read_bytes() == text + b"RALPH_BLOCKED: ralph: x\n"

    @pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["deleted", "emptied"])
    def test_of_a_file_that_is_lost_brings_it_back_first(
        self, watched: Watched, lose: Callable[[Path], object]
    ) -> None:
        watched.file.read()
        lose(watched.path)
        watched.file.edit(with_line(b"x"))
        assert watched.path.read_bytes() == with_line(b"x")(TEXT)


Step = Callable[[str], None]
_WATCHING: list[Step] = []


def _before_a_step(event: str, args: tuple[object, ...]) -> None:
    here = threading.current_thread() is threading.main_thread()
    if here and _WATCHING and any("feature_PROGRESS.md" in str(arg) for arg in args):
        watching = _WATCHING.pop()  # what it does itself is no step
        try:
            watching(f"{event} {args}")
        finally:
            _WATCHING.append(watching)


sys.addaudithook(_before_a_step)


@contextlib.contextmanager
def before_each_step(do: Step) -> Iterator[None]:
    """Python tells before the file or one beside it is opened, linked, renamed or removed, and before each wait."""

    def called(_: object, event: str, what: object) -> None:
        if event == "c_call" and what is time.sleep:
            _before_a_step("sleep", ("feature_PROGRESS.md",))

    _WATCHING.append(do)
    sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(None)
        _WATCHING.pop()


Save = Iterator[None]


def in_place(path: Path, text: bytes) -> Save:
    yield
    path.write_bytes(text)


def in_place_in_pieces(path: Path, text: bytes) -> Save:
    """As an editor does that had it open before: one piece at each step."""
    with path.open("r+b", buffering=0) as file:
        yield
        file.truncate()
        for at in range(0, len(text), len(text) // 3):
            file.write(text[at : at + len(text) // 3])
            yield


def by_rename(path: Path, text: bytes) -> Save:
    yield
    new = path.with_suffix(".swp")
    new.write_bytes(text)
    new.rename(path)


def by_a_backup(path: Path, text: bytes) -> Save:
    yield
    path.rename(path.with_suffix(".bak"))
    path.write_bytes(text)


def an_edit(watched: Watched, save: Save, at: int) -> list[str]:
    """Steps that an edit took; the save begins before the step of that number."""
    steps: list[str] = []

    def step(what: str) -> None:
        steps.append(what)
        if len(steps) > at:
            next(save, None)

    watched.path.write_bytes(TEXT)
    os.utime(watched.path, (1, 1))
    watched.file.read()
    next(save)
    with before_each_step(step):
        watched.file.edit(with_line(b"ralph"))
    for _ in save:
        pass
    return steps


@pytest.mark.parametrize("how", [in_place, in_place_in_pieces, by_rename, by_a_backup])
def test_no_save_of_an_editor_is_lost(watched: Watched, how: Callable[[Path, bytes], Save]) -> None:
    """Whenever during an edit it comes, and the edit ends without an error.

    Not at two steps (docs/limits.md): a save by rename between ralph's last look and its own rename, and what an
    editor that had the file open writes after ralph's last look at what it displaced.
    """
    theirs = with_line(b"editor")(TEXT)
    plain = an_edit(watched, iter([None]), 1000)
    renames = next(at for at, step in enumerate(plain) if step.startswith("os.rename"))
    looks = max(at for at, step in enumerate(plain) if step.startswith("open") and ".old.ralph" in step)
    assert 3 < renames < looks
    for at in range(len(plain)):
        if (at == renames and how in (by_rename, by_a_backup)) or (at > looks and how is in_place_in_pieces):
            continue
        an_edit(watched, how(watched.path, theirs), at)
        assert b"editor\n" in watched.path.read_bytes(), plain[at]
        assert watched.path.read_bytes().endswith(b"END\n")
        assert watched.said == [], "nothing was lost, so nothing was brought back"
        assert set(watched.litter) <= {"feature_PROGRESS.bak"}


def test_nobody_ever_sees_half_a_file(watched: Watched) -> None:
    seen: list[bytes] = []
    with before_each_step(lambda _: seen.append(watched.path.read_bytes())):
        watched.file.edit(with_line(b"a line of some length " * 50))
    whole = with_line(b"a line of some length " * 50)(TEXT)
    assert set(seen) == {TEXT, whole}


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["deleted", "emptied"])
class TestAFileThatIsGone:
    def test_for_a_moment_is_waited_for(self, watched: Watched, lose: Callable[[Path], object]) -> None:
        watched.file.read()
        lose(watched.path)

        def step(what: str) -> None:
            if what.startswith("sleep"):
                watched.path.write_bytes(with_line(b"mine")(TEXT))

        with before_each_step(step):
            watched.file.read()
        assert watched.file.text == watched.path.read_bytes() == with_line(b"mine")(TEXT)
        assert watched.said == []

    def test_for_longer_is_brought_back_and_that_is_said(
        self, watched: Watched, lose: Callable[[Path], object]
    ) -> None:
        watched.path.write_bytes(with_line(b"newest")(TEXT))
        before = watched.file.read()
        lose(watched.path)
        began = time.monotonic()
        assert watched.file.read() == before
        assert time.monotonic() - began > 0.9
        assert watched.path.read_bytes() == with_line(b"newest")(TEXT)
        (line,) = watched.said
        assert "feature_PROGRESS.md" in line

    def test_before_anything_was_read_is_not_waited_for(self, watched: Watched, lose: Callable[[Path], object]) -> None:
        lose(watched.path)
        steps: list[str] = []
        with before_each_step(steps.append):
            assert watched.file.read().size == 0
        assert not [step for step in steps if step.startswith("sleep")]
        assert watched.said == []


def make_folder(path: Path) -> None:
    path.mkdir()
    (path / "x").write_text("precious")


def make_link_to_folder(path: Path) -> None:
    make_folder(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("become", [make_folder, os.mkfifo, make_link_to_folder], ids=["folder", "fifo", "link"])
def test_what_takes_the_files_place_is_moved_aside_and_kept(watched: Watched, become: Callable[[Path], None]) -> None:
    before = watched.file.read()
    watched.path.unlink()
    become(watched.path)
    assert watched.file.read() == before
    assert watched.path.read_bytes() == TEXT
    assert not watched.path.is_symlink()
    (kept,) = watched.kept
    if become is make_folder:
        assert (kept / "x").read_text() == "precious"
    assert len(watched.said) == 1
    assert set(watched.litter) <= {"elsewhere"}


def test_a_link_of_the_persons_stays_one_when_the_file_behind_it_is_lost(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "link.md").symlink_to("project/feature_PROGRESS.md")
    linked = watched.opened(tmp_path / "link.md")
    linked.read()
    watched.path.unlink()
    linked.read()
    assert (tmp_path / "link.md").readlink() == Path("project/feature_PROGRESS.md")
    assert watched.path.read_bytes() == TEXT


def test_a_link_to_another_file_is_not_written_through(watched: Watched, tmp_path: Path) -> None:
    watched.file.read()
    (tmp_path / "mine.md").write_text("mine\n")
    watched.path.unlink()
    watched.path.symlink_to(tmp_path / "mine.md")
    watched.file.edit(with_line(b"x"))
    assert watched.path.read_bytes() == with_line(b"x")(TEXT)
    assert (tmp_path / "mine.md").read_text() == "mine\n"
    assert [path.readlink() for path in watched.kept] == [tmp_path / "mine.md"]


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for 64 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() or not shutil.which("mount") or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root, and not in every container, can mount a small disk")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.fixture
def small(small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Watched(small_disk / "project")


def fill(disk: Path) -> None:
    """Leaves not one block free."""
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"\0" * 4096)


class TestWithoutRoom:
    """An edit that cannot be written is an error, exit 1; the file stays as it was, and nothing is left beside it."""

    def refused(self, watched: Watched, *words: str, check: bool = True) -> None:
        before = watched.path.read_bytes()
        with pytest.raises(RalphError) as caught:
            watched.file.edit(with_line(b"x" * 200_000))
        assert caught.value.exit_code == 1
        assert all(word in caught.value.message for word in ("feature_PROGRESS.md", *words))
        assert watched.path.read_bytes() == before
        assert watched.litter == []
        if check:
            with pytest.raises(RalphError, match=r"feature_PROGRESS\.md"):
                watched.file.check_writable()
            assert watched.litter == []

    def test_files_may_not_be_that_large(self, watched: Watched) -> None:
        watched.file.read()
        with largest_file(3000):
            self.refused(watched, "File too large")

    def test_the_disk_is_full(self, small: Watched, small_disk: Path) -> None:
        fill(small_disk)
        self.refused(small, "No space left")

    def test_the_disk_is_read_only(self, small: Watched, small_disk: Path) -> None:
        subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
        self.refused(small, "Read-only file system")

    def test_the_disk_behind_a_link_is_full_which_is_known_before_money_is_spent(
        self, small: Watched, small_disk: Path, tmp_path: Path
    ) -> None:
        fill(small_disk)
        (tmp_path / "link.md").symlink_to(small.path)
        linked = small.opened(tmp_path / "link.md")
        linked.read()
        with pytest.raises(RalphError, match="No space left"):
            linked.check_writable()

    def test_a_first_version_is_not_half_written(self, small: Watched, small_disk: Path) -> None:
        small.path.unlink()
        fill(small_disk)
        with pytest.raises(RalphError, match="No space left"):
            small.file.create(TEXT * 5000)
        assert (small.path.exists(), small.litter) == (False, [])

    def test_a_lost_file_that_cannot_be_brought_back_is_an_error(self, small: Watched, small_disk: Path) -> None:
        small.path.write_bytes(TEXT * 200)
        small.file.read()
        small.path.unlink()
        fill(small_disk)
        with pytest.raises(RalphError, match="No space left"):
            small.file.read()
        assert (small.path.exists(), small.litter) == (False, [])


def test_the_folder_is_read_only(watched: Watched, no_override: list[str]) -> None:
    """In a process of its own, since root may write everywhere until that right is given away."""
    script = f"""
        from pathlib import Path
        from ralph.errors import RalphError
        from ralph.progress.file import ProgressFile
        from ralph.state import State
        path = Path({str(watched.path)!r})
        file = ProgressFile(path, State("feature", path))
        for attempt in (lambda: file.edit(lambda text: text + b"x"), file.check_writable):
            try:
                attempt()
            except RalphError as error:
                print(error.exit_code, error.message)
        """
    watched.path.parent.chmod(0o555)
    command = [*no_override, sys.executable, "-P", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    watched.path.parent.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [f"1 {watched.path}"] * 2
    assert watched.path.read_bytes() == TEXT
    assert not watched.litter
