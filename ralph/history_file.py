"""Whether the file that somebody named for the history of the tries can be one."""

import json
import os
from pathlib import Path

from ralph.errors import RalphError

_PROGRESS = "_PROGRESS.md"
_LISTS = {"requirements", "tasks", "userStories"}


def check(history: Path, where: str, *, plan: Path, progress_path: Path) -> None:
    """Raises RalphError where lines of it would go into something else. `where` is who named it, for the message."""
    if what := _what_else(history, plan, progress_path):
        raise RalphError(f"{where}: {history}: {what}", fix="name a file of its own, such as tries.jsonl")


def _what_else(history: Path, plan: Path, progress_path: Path) -> str:
    if _is_same(history, plan):
        return "is the plan"
    if _is_same(history, progress_path):
        return "is the progress file"
    if history.is_dir():
        return "is a folder"
    if history.name.endswith(_PROGRESS):
        return "is a progress file by its name"
    return "" if not history.is_file() or _has_records(history) else "holds something else than a line of JSON a try"


def _is_same(one: Path, other: Path) -> bool:
    """Whether both lead to one file; also before there is one."""
    return os.path.realpath(one) == os.path.realpath(other) or (one.exists() and other.exists() and one.samefile(other))


def _has_records(history: Path) -> bool:
    """Whether its first line or its last one is a record, as far as it has any: either may be torn."""
    try:
        lines = history.read_bytes().strip().split(b"\n")
    except OSError as error:
        raise RalphError(f"{history}: cannot be read: {error.strerror}") from error
    return lines == [b""] or _is_record(lines[0]) or _is_record(lines[-1])


def _is_record(line: bytes) -> bool:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line.startswith(b'{"timestamp"')  # torn, when the power failed
    return isinstance(found, dict) and not _LISTS & found.keys()
