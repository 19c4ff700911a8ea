"""The tasks of strict mode: what the task list says, which is next, and the edits that are ralph's alone."""

from ralph.tasks.edits import (
    lines,
    new_ids,
    put_down,
    taken_up,
    unticked,
    with_block,
    with_done,
    with_failure,
    with_ids,
    with_role,
)
from ralph.tasks.order import chain, find, placed, problems, select, stuck, unknown
from ralph.tasks.reading import Note, Task, flat, read

__all__ = [
    "Note",
    "Task",
    "chain",
    "find",
    "flat",
    "lines",
    "new_ids",
    "placed",
    "problems",
    "put_down",
    "read",
    "select",
    "stuck",
    "taken_up",
    "unknown",
    "unticked",
    "with_block",
    "with_done",
    "with_failure",
    "with_ids",
    "with_role",
]
