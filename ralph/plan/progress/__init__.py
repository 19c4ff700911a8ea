"""The progress file: parsing its text, and editing it."""

from ralph.plan.progress.edits import (
    PROVES_NOTHING,
    encode_text,
    escape_output,
    insert_lines,
    new_progress_text,
    replace_ranges,
    section_lines,
    section_range,
    with_blocked_line,
    with_mode,
    with_rejection,
    with_section_lines,
    with_spent,
    with_status,
    with_status_line,
    with_tasks_added,
    with_verified,
    without_blocked_line,
    without_control_characters,
    without_lines,
    without_rejection,
)
from ralph.plan.progress.reading import (
    BOM,
    CHECKS_ALONE,
    LARGE_BYTES,
    Progress,
    parse,
    read_lines_and_fences,
    vanished_tasks,
)
from ralph.plan.progress.task import (
    Task,
)
