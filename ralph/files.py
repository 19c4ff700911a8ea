"""Files: replaces them without losing content, and knows where ralph's own files are."""

import glob
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ralph.errors import RalphError

# Seconds between the pieces that an editor writes when it saves in place; file timestamps have ticks of 4 ms.
_QUIET_S = 0.01
_PATIENCE_S = 1.0
# Seconds that a program may take between opening a file and emptying it, to save in place.
_LINGER_S = 0.002
_FREE_BYTES = 1_000_000


@contextmanager
def os_errors_as_ralph_errors(path: str | Path, done: str, *, fix: str = "") -> Iterator[None]:
    """Turns an OSError within this context into a RalphError: the path cannot be `done`, such as "written"."""
    try:
        yield
    except OSError as error:
        raise RalphError(f"{path}: cannot be {done}: {error.strerror or error}", 1, fix=fix) from error


def replace_file(path: Path, data: bytes) -> None:
    """Atomically replaces the file that `path` leads to: a reader sees the old bytes or the new, never half.

    Keeps the mode and owner of an existing file. If it raises OSError, the file is unchanged.
    """
    target = Path(os.path.realpath(path))
    with _temporary_copy(target, data) as new:
        new.rename(target)


def write_own_file_directly(path: str | Path, data: bytes) -> None:
    """Writes one of ralph's own files in place; removes a link at that path, since ralph makes none."""
    if os.path.islink(path):  # noqa: PTH114 - twice an iteration, and Path takes thrice as long
        os.unlink(path)  # noqa: PTH108 - same
    with open(path, "wb") as file:  # noqa: PTH123 - same
        file.write(data)


def replace_unchanged(path: Path, seen: bytes, data: bytes) -> bool:
    """Replaces the file if it still contains `seen`; returns False and changes nothing if someone else was faster.

    A second name keeps the displaced file: if an editor saves into it just then, its version comes back. An editor that
    saves by rename in the microseconds between comparison and rename loses; no file system can prevent that.
    """
    target = Path(os.path.realpath(path))
    with suppress(FileNotFoundError), _temporary_copy(target, data) as new:
        deadline = time.monotonic() + _PATIENCE_S
        while abs(time.time() - target.stat().st_mtime) < _QUIET_S and time.monotonic() < deadline:
            time.sleep(_QUIET_S / 5)  # a half-saved file would be taken for the whole
        displaced = new.with_suffix(".old.ralph")
        displaced.unlink(missing_ok=True)
        with suppress(OSError):  # without hard links only the comparison protects
            displaced.hardlink_to(target)
        try:
            if target.read_bytes() != seen:
                return False
            new.rename(target)
            time.sleep(_LINGER_S)
            if displaced.exists() and displaced.read_bytes() != seen:
                displaced.rename(target)
                return False
            return True
        finally:
            displaced.unlink(missing_ok=True)
    return False


def remove_folder(folder: Path) -> None:
    """Removes a folder with its contents, including read-only folders, such as a cache of Go modules."""
    for place, _, _ in os.walk(folder):
        with suppress(OSError):
            os.chmod(place, 0o700)  # noqa: PTH101 - a string
    shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers(path: Path) -> None:
    """Removes temporary files that a killed ralph left beside the file."""
    target = Path(os.path.realpath(path))
    with suppress(OSError):
        for left in target.parent.glob(f"{glob.escape(_temporary_prefix(target))}*.ralph"):
            left.unlink()


def _temporary_prefix(target: Path) -> str:
    """How the names of temporary files beside it begin."""
    return f".{target.name[:80]}."


@contextmanager
def _temporary_copy(target: Path, data: bytes) -> Iterator[Path]:
    """Writes `data` to a file beside `target`, as private as that from its first byte; removes it unless it is renamed.

    The name contains the pid, since other processes, such as `ralph mcp`, write beside the same file.
    """
    new = target.with_name(f"{_temporary_prefix(target)}{os.getpid()}.ralph")
    new.unlink(missing_ok=True)
    old = target.stat() if target.exists() else None
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if old else 0o666)
    try:
        with os.fdopen(fd, "wb") as file:
            if old:
                with suppress(PermissionError):  # only root may give a file away; else it is ours
                    os.fchown(fd, old.st_uid, old.st_gid)
                os.fchmod(fd, old.st_mode & 0o7777)
            file.write(data)
            file.flush()
            os.fsync(fd)
        yield new
    finally:
        new.unlink(missing_ok=True)


def read_or_empty(path: Path | str, last_bytes: int = 0) -> bytes:
    """Returns the content of a file, or only its last bytes; empty if it is missing or cannot be read."""
    if is_file(path):
        with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123 - Path takes thrice as long
            if last_bytes:
                file.seek(max(0, os.path.getsize(path) - last_bytes))  # noqa: PTH202 - it may be a string
            return file.read()
    return b""


def read_text_or_empty(path: Path | str) -> str:
    """The content of a file as text that can hold any bytes; empty if it cannot be read."""
    return os.fsdecode(read_or_empty(path))


def is_file(path: Path | str) -> bool:
    """Whether the path is a file; False if it is too long or strange to be a path, or not accessible."""
    return os.path.isfile(path)  # noqa: PTH113 - Path raises what this takes for a No


def check_folder_writable(folder: Path) -> None:
    """Raises RalphError if the folder cannot be written to, or the disk is nearly full."""
    has_room = shutil.disk_usage(folder).free >= _FREE_BYTES
    if not has_room or not os.access(folder, os.W_OK):
        why = "Permission denied" if has_room else "No space left on device"
        raise RalphError(f"{folder}: cannot be written to: {why}", 1)


def plan_name(plan: Path) -> str:
    """The name of a plan, from which that of its progress file is made: without .md or .json."""
    return plan.stem if plan.suffix in (".md", ".json") else plan.name


def state_home() -> Path:
    """`$XDG_STATE_HOME/ralph`, by default `~/.local/state/ralph`."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return Path.home() / (base if base.startswith("/") else ".local/state") / "ralph"


def builtin_folder(folder: str) -> Path:
    """The built-in `prompts` or `notify` folder: inside the package in a wheel, at the top level in a checkout."""
    here = Path(__file__).parent
    packaged = here / "data" / folder
    return packaged if packaged.is_dir() else here.parent / folder
