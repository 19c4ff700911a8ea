"""The tasks of strict mode: what the task list says, which is next, and the edits that are ralph's alone."""

from ralph.tasks.edits import put_down, taken_up, with_block, with_done, with_failure, with_ids, with_mark
from ralph.tasks.order import chain, find, flat, select, stuck
from ralph.tasks.problems import problems
from ralph.tasks.reading import Task, read

__all__ = [
    "Task",
    "chain",
    "find",
    "flat",
    "problems",
    "put_down",
    "read",
    "select",
    "stuck",
    "taken_up",
    "with_block",
    "with_done",
    "with_failure",
    "with_ids",
    "with_mark",
]
