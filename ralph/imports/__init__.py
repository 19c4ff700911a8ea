"""Plans that are task lists in JSON, or hold one: what they say, as lines for the Task List.

Only the name is asked of every plan; the rest is loaded for those that hold JSON.
"""

import re
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


def _is_json(path: Path) -> bool:
    return path.name.endswith(".json")
