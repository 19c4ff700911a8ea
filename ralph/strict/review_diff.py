"""What the role before the one that builds has left, and what became of it since: for whoever reviews."""

import contextlib
import difflib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from ralph import files
from ralph.process.lock import working_tree
from ralph.run.context import Run
from ralph.words import shorten

_NOTE = "left-{}"
_FILE_BYTES = 50_000
_MOST = 8_000
"""Characters of all that changed."""


def note_left(run: Run, task_id: str, names: Sequence[str]) -> None:
    """Keeps what is in these files, or nothing any more where there are none."""
    texts = {name: _text(run, name) for name in names}
    run.state.write_note(_NOTE.format(task_id), json.dumps(texts) if texts else "")


def changed_since(run: Run, task_id: str) -> str:
    """What is different in these files now, as a diff; empty where nothing is."""
    found = list[str]()
    with contextlib.suppress(ValueError, TypeError, AttributeError):  # nobody left any, or an agent changed the note
        for name, text in json.loads(run.state.read_note(_NOTE.format(task_id))).items():
            both = text.splitlines(), _text(run, name).splitlines()
            found += difflib.unified_diff(*both, f"{name} (as it was left)", f"{name} (now)", lineterm="")
    return shorten("\n".join(f"    {line}" for line in found), _MOST)


def _text(run: Run, name: str) -> str:
    """What is in a file of the tree; nothing where it is gone, or a link leads elsewhere."""
    path = os.path.join(os.path.realpath(working_tree(run.top)), name)  # noqa: PTH118 - compared with a string
    return (
        files.read_or_empty(Path(path))[:_FILE_BYTES].decode(errors="replace") if os.path.realpath(path) == path else ""
    )
