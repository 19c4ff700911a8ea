"""Plans that are task lists in JSON, or hold one: what they say, as lines for the Task List.

Only the name is asked of every plan; the rest is loaded for those that hold JSON.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ralph.imports.model import Imported

_BLOCK = re.compile(rb"(?:```|~~~)[ \t]*json", re.IGNORECASE)
_SUFFIXES = (".md", ".json")


def name_of(path: Path) -> str:
    """The plan's name, of which its progress file's is made: without .md or .json."""
    suffix = next((suffix for suffix in _SUFFIXES if path.name.endswith(suffix)), "")
    return path.name.removesuffix(suffix)


def of_plan(path: Path, text: bytes) -> "Imported | None":
    """The task list that the plan is or holds; None for an ordinary plan in markdown.

    Raises RalphError with everything that is wrong with it, each at its path.
    """
    if not _is_json(path) and not _BLOCK.search(text):
        return None
    from ralph.imports import finding  # noqa: PLC0415 - an ordinary plan need not pay for it

    return finding.of_json(path.name, text) if _is_json(path) else finding.of_markdown(path.name, text)


def lines(imported: "Imported") -> list[bytes]:
    """Its tasks as lines of the Task List, with ids for all."""
    from ralph.imports import listing  # noqa: PLC0415 - as above

    return listing.lines(imported.tasks)


def missing(imported: "Imported", text: bytes) -> tuple[str, ...]:
    """The ids of its open tasks that the progress file has not, whose bytes `text` is, in their order."""
    from ralph import tasks  # noqa: PLC0415 - as above
    from ralph.imports import matching, model  # noqa: PLC0415

    left = [one for one in model.flat(imported.tasks) if not one.done]
    ids = {task.id for task in tasks.flat(tasks.read(text))}
    if all(one.id in ids for one in left):  # as nearly always, and all else takes its time
        return ()
    known = matching.match(imported.tasks, tasks.read(tasks.with_ids(text))).today
    return tuple(one.id for one in left if one.path not in known)


def taken_over(imported: "Imported") -> str:
    """What a start says that has made a Task List of it."""
    from ralph.imports import saying  # noqa: PLC0415 - as above

    return saying.taken_over(imported)


def left_out(imported: "Imported", names: Sequence[str], progress_path: Path) -> tuple[str, str]:
    """What a start says of tasks that are `missing` in its progress file."""
    from ralph.imports import saying  # noqa: PLC0415 - as above

    return saying.left_out(imported, names, progress_path)


def _is_json(path: Path) -> bool:
    return path.name.endswith(".json")
