"""For the reviewer: what build changed in files that an earlier role wrote."""

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

from ralph import files
from ralph.process.lock import working_tree
from ralph.run.context import Run
from ralph.store.notes import ReviewedFiles
from ralph.words import shorten

_FILE_BYTES = 50_000
_MOST = 8_000
"""The most characters of the diff."""


def save_reviewed_files(run: Run, task_id: str, names: Sequence[str]) -> None:
    """Saves the contents of these files, in place of those saved before."""
    texts = {name: _read_tree_file(run, name) for name in names}
    reviewed = run.state.load_note(ReviewedFiles) or ReviewedFiles()
    reviewed.texts[task_id] = texts
    run.state.save_note(reviewed)


def diff_since_review(run: Run, task_id: str) -> str:
    """Returns what changed in these files since, as a diff; empty if nothing did."""
    found = list[str]()
    reviewed = run.state.load_note(ReviewedFiles) or ReviewedFiles()
    for name, text in reviewed.texts.get(task_id, {}).items():
        both = text.splitlines(), _read_tree_file(run, name).splitlines()
        found += difflib.unified_diff(*both, f"{name} (as it was left)", f"{name} (now)", lineterm="")
    return shorten("\n".join(f"    {line}" for line in found), _MOST)


def _read_tree_file(run: Run, name: str) -> str:
    """The content of a file in the tree; empty if it is gone, or a link leads elsewhere."""
    path = os.path.join(os.path.realpath(working_tree(run.top)), name)  # noqa: PTH118 - compared with a string
    data = files.read_or_empty(Path(path))[:_FILE_BYTES] if os.path.realpath(path) == path else b""
    return data.decode(errors="replace")
