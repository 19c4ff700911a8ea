"""What is wrong with a task list in JSON."""

from typing import NamedTuple


class Problem(NamedTuple):
    """One thing that is wrong."""

    at: int
    """The offset in the JSON text."""
    path: str
    what: str
