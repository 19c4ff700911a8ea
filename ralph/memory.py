"""What the last iterations came to, as ralph recorded it: for the next one, which remembers nothing, and for people."""

import functools
import re

from ralph import files, journal, progress
from ralph.state import State
from ralph.words import plain, shortened

_ITERATIONS = 3
_MOST = 8_000
"""Characters: each iteration pays for reading them."""
_WORDS = 600
_DECISIONS = 8
_TAIL_BYTES = 16_000
"""So far back in a journal these iterations are looked for."""
_DECIDED = re.compile(r"\bdeci(?:de|sion)", re.IGNORECASE)


def memory(state: State) -> str:
    """The last iterations, the last change of mode with what it left, and the sums; empty before the first one."""
    written = files.held(state.journal, _TAIL_BYTES)
    iterations = [line for line in written.split(b"\n") if b'"event": "iteration"' in line]
    rows = [row for line in iterations[-_ITERATIONS:] for row in _parsed(line)]
    if not rows:
        return ""
    lines = ["The last iterations, the newest last:"]
    for row in rows:
        lines.append(f"- {row.kind} · {row.summary}" + " · it did not succeed" * (not row.success))
        words = dict.fromkeys(filter(None, (row.message, row.said)))
        lines += [f"  {shortened(' '.join(said.split()), _WORDS)}" for said in words]
    lines += [*state.noted("left").splitlines(), f"This run so far: {rows[-1].so_far}"]
    return shortened(plain("\n".join(lines)), _MOST)


@functools.lru_cache(maxsize=_ITERATIONS)
def _parsed(line: bytes) -> list[journal.Record]:
    """The record in a line of the journal, if it is whole; all but the newest were read an iteration ago."""
    return journal.parsed(line + b"\n")


def keep_left(state: State, before: str, now: str, text: bytes) -> None:
    """Notes what the mode `before` left: the files of the last iterations, and what the Notes say was decided."""
    rows = journal.rows(journal.read(state.journal))[-_ITERATIONS:]
    changed = "; ".join(dict.fromkeys(row.files for row in rows if row.files)) or "nothing"
    start, end = progress.section(text, "Notes")
    notes = text[start:end].decode(errors="replace").splitlines()
    decided = [shortened(line.strip(" -*"), 300) for line in notes if _DECIDED.search(line)]
    left = [f"changed by then: {changed}", *decided[-_DECISIONS:]]
    state.note("left", "\n  ".join([f"The last change of mode: {before} -> {now}", *left]))
