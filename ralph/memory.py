"""What the last iterations came to, as ralph recorded it: for the next one, which remembers nothing, and for people."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from ralph import journal
from ralph.journal import Record
from ralph.words import plain, shortened

_ITERATIONS = 3
_MOST = 8_000
"""Characters: each iteration pays for reading them."""
_WORDS = 600
_DECISIONS = 8
_TAIL_BYTES, _FAR_BYTES = 16_000, 300_000
"""So far back in a journal these iterations are looked for, and a change of mode: each iteration waits for it."""
_ITERATION, _CHANGE_OF_MODE = b'"event": "iteration"', b'"event": "mode"'
_NOTES = re.compile(r"^#+ Notes\s*\n(.*?)(?=^#|\Z)", re.DOTALL | re.MULTILINE | re.IGNORECASE)
_DECIDED = re.compile(r"\bdeci(?:de|sion)", re.IGNORECASE)


def memory(path: Path, progress: bytes) -> str:
    """The last iterations, the last change of mode with what it left, and the sums; empty before the first iteration.

    `path` is the journal, `progress` what the progress file says.
    """
    written = b""
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _FAR_BYTES))
        written = file.read()
    rows = journal.rows(_newest(written))
    if not rows:
        return ""
    lines = ["The last iterations, the newest last:", *(line for row in rows for line in _told(row))]
    if (at := written.rfind(_CHANGE_OF_MODE)) >= 0:
        lines += _left(_newest(written[: written.index(b"\n", at) + 1]), progress)
    lines.append(f"This run so far: {rows[-1].so_far}")
    return shortened(plain("\n".join(lines)), _MOST)


def _newest(written: bytes) -> list[Record]:
    """The records from the third-last iteration on; no more of them are read."""
    lines = written[-_TAIL_BYTES:].split(b"\n")
    iterations = [number for number, line in enumerate(lines) if _ITERATION in line][-_ITERATIONS:]
    return journal.parsed(b"\n".join(lines[iterations[0] if iterations else 0 :]))


def _told(row: Record) -> Iterator[str]:
    tokens = sum((row.tokens or {}).values())
    parts = [row.kind, row.summary, f"{tokens:,} tokens" if tokens else "", "" if row.success else "it did not succeed"]
    yield f"- {' · '.join(filter(None, parts))}"
    for said in dict.fromkeys(filter(None, (row.message, row.said))):
        yield f"  {shortened(' '.join(said.split()), _WORDS)}"


def _left(found: list[Record], progress: bytes) -> Iterator[str]:
    """The change of mode with which these records end, the files that were changed before it, and what was decided."""
    change = found[-1]
    before = change.message.partition(" -> ")[0]
    changed = dict.fromkeys(row.files for row in journal.rows(found) if row.files and row.mode == before)
    yield f"The last change of mode, before #{change.iteration + 1}: {change.message}"
    if changed:
        yield f"  changed by then: {'; '.join(changed)}"
    notes = _NOTES.search(progress.decode(errors="replace"))
    decided = [line.strip(" -*") for line in (notes[1] if notes else "").splitlines() if _DECIDED.search(line)]
    yield from (f"  {shortened(line, 300)}" for line in decided[-_DECISIONS:])
