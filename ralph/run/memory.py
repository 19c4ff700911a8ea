"""MEMORY: what ralph recorded of the last iterations, for the next one, which remembers nothing, and for the user."""

import os
import re
from itertools import islice

from ralph import files
from ralph.plan import progress
from ralph.store import journal
from ralph.store.notes import ModeChange
from ralph.store.state import State
from ralph.words import REASON_LENGTH, join_names, one_line, shorten, without_control_codes

_ITERATIONS = 3
_MOST = 8_000
"""The most characters of it, since each iteration pays for reading them."""
_WORDS = 600
_DECISIONS = 8
_TAIL_BYTES = 64_000
"""Bytes at the end of the journal in which it looks for these iterations."""
HANDOVER = "RALPH_HANDOVER"
"""A variable of an attempt's environment: the handover of the attempt before it at the same task."""
_DECIDED = re.compile(r"\bdeci(?:de|sion)", re.IGNORECASE)


def prompt_memory(state: State, *, task: str = "", so_far: str = "") -> str:
    """Returns the last iterations, the handover of one cut short, the last change of mode, and sums; empty at first.

    `so_far` are the figures of this run; failures of `task` are left out, since the prompt has them elsewhere.
    """
    newest = journal.newest_iterations(files.read_or_empty(state.journal, _TAIL_BYTES))
    rows = [*islice(newest, _ITERATIONS)][::-1]
    cut = last_handover(state, task)
    if not (rows or cut):
        return ""
    lines = ["The last iterations, the newest last:"]
    for row in rows:
        wrong = re.escape(one_line(row.message, REASON_LENGTH)) or "$"
        summary = row.summary if row.success else re.split(f" · (?:[a-z ]+: )?{wrong}", row.summary)[0]
        lines.append(f"- {row.mode_and_round} · {summary}" + " · it did not succeed" * (not row.success))
        is_told = bool(task) and row.message.startswith(f"{task}, ")
        words = dict.fromkeys(filter(None, ("" if is_told else row.message, row.said)))
        lines += [f"  {one_line(message, _WORDS)}" for message in words]
    left = state.load_note(ModeChange)
    lines += [f"One was cut short before it was ready: {cut}"] if cut else []
    lines += [*(left.lines if left else ()), *([f"This run so far: {so_far}"] if so_far else [])]
    return shorten(without_control_codes("\n".join(lines)), _MOST)


def last_handover(state: State, task: str) -> str:
    """Returns the handover of the last iteration, or of the last one at this task; empty if it was not cut short."""
    for row in journal.newest_iterations(files.read_or_empty(state.journal, _TAIL_BYTES)):
        if (row.requirement_id or task) in (task, "") and (row.handover or row.ended == "ok"):  # else it did nothing
            return row.handover
    return os.environ.get(HANDOVER, "")


def record_mode_results(state: State, before: str, now: str, text: bytes) -> None:
    """Records what the mode `before` left: the files that it changed, and the decisions under Notes."""
    found = journal.read(state.journal)
    began = max((at for at, one in enumerate(found) if one.event == "mode"), default=0)
    rows = journal.iterations_in(found[began:])
    changed = dict.fromkeys(name for row in rows for name in row.files.split("\n") if name)
    start, end = progress.section_range(text, "Notes")
    notes = text[start:end].decode(errors="replace").splitlines()
    decided = [shorten(line.strip(" -*"), 300) for line in notes if _DECIDED.search(line)]
    left = [f"changed by then: {join_names([*changed], 40) or 'nothing'}", *decided[-_DECISIONS:]]
    lines = [f"The last change of mode: {before} -> {now}", *(f"  {line}" for line in left)]
    state.save_note(ModeChange(lines=lines))
