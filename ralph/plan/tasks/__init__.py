"""The tasks of a progress file, for --strict."""

from ralph.plan.progress.task import (
    STATUSES,
    WHOLE_NUMBER,
    Note,
    Task,
)
from ralph.plan.tasks.reading import (
    count_startable_tasks,
    find_problems,
    find_task,
    new_id,
    read_tasks,
    select_next,
    task_lines,
    why_stuck,
)
