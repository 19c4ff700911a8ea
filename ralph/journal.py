"""The append-only record of what happened: one JSON object a line. For people and reports; the loop never reads it."""

import contextlib
import errno
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_BLOCK_BYTES = 1 << 16
_decode = json.JSONDecoder().raw_decode  # a quarter faster than json.loads


class Journal:
    """A journal, to which several processes may add at once."""

    def __init__(self, path: Path, *, mode: int = 0o600) -> None:
        self._path, self._mode = path, mode

    def append(self, record: Mapping[str, object]) -> None:
        """Returns when the record is on disk, as one line. Raises OSError when it cannot be; what was there stays."""
        text = json.dumps(dict(record), ensure_ascii=False)
        line = text.encode(errors="replace") + b"\n"  # a Python string can hold halves of characters, UTF-8 cannot
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, self._mode)
        try:
            _write(fd, b"\n" + line if _is_torn(fd) else line)
            os.fsync(fd)
        finally:
            os.close(fd)


def _is_torn(fd: int) -> bool:
    """Whether the last line has no end. One that is just being written seems so too; a blank line does no harm."""
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"


def _write(fd: int, line: bytes) -> None:
    """Writes the line at once. Where only a part went in, it comes again, since somebody else's may stand behind it."""
    written = os.write(fd, line)
    if written < len(line):
        again = b"\n" if written == len(line) - 1 else b"\n" + line
        if os.write(fd, again) < len(again):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Each whole record, the oldest first. Skipped: lines that are torn or no object. A missing file has none."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if (record := _record(line)) is not None:
                yield record


def read_from(path: Path, start: int) -> Iterator[tuple[dict[str, Any], int]]:
    """What is whole from that byte on, each record with where the next line begins."""
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        file.seek(start)
        for line in file:
            start += len(line)
            if line.endswith(b"\n") and (record := _record(line)) is not None:
                yield record, start


def last(path: Path, count: int) -> list[dict[str, Any]]:
    """The newest so many of them, in the same order, whatever the size of the file."""
    return list(itertools.islice(backwards(path), count))[::-1]


def backwards(path: Path) -> Iterator[dict[str, Any]]:
    """What `read` yields, the newest first; reads no more of the file than is asked for."""
    for line in _lines_backwards(path):
        if (record := _record(line)) is not None:
            yield record


def _record(line: bytes) -> dict[str, Any] | None:
    line = line.strip(b"\0 \t\r\n")  # a power loss can leave NULs, also in front of the next record
    if not line.startswith(b"{"):
        return None
    try:
        text = line.decode()
        record, end = _decode(text)  # of what begins with a brace nothing but an object can come
    except (ValueError, RecursionError):
        return None
    return record if end == len(text) else None


def _lines_backwards(path: Path) -> Iterator[bytes]:
    """The lines of a file without their ends, the last first."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        at, size, rest = file.seek(0, os.SEEK_END), _BLOCK_BYTES, b""
        while at:
            start = max(0, at - size)
            file.seek(start)
            rest, *lines = (file.read(at - start) + rest).split(b"\n")
            yield from reversed(lines)
            at, size = start, size * 2  # doubled, so that no line is copied more often than a few times
        yield rest
