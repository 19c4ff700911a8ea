"""The tasks of a progress file, for --strict."""

from ralph.plan.tasks.reading import STATUSES, WHOLE, Note, Task, find, lines, new_id, problems, read, select, stuck

__all__ = ["STATUSES", "WHOLE", "Note", "Task", "find", "lines", "new_id", "problems", "read", "select", "stuck"]
