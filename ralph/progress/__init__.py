"""The progress file's text: what it says, and edits that change the lines they mean to change and no other byte."""

from ralph.progress.edits import (
    blocked,
    fresh,
    harmless_output,
    section,
    with_lines,
    with_mode,
    with_refusal,
    with_spent,
    with_status,
    with_tasks,
    with_verified,
    without_own_block,
    without_refusal,
    without_verified,
)
from ralph.progress.reading import LARGE_BYTES, Progress, Task, parse, vanished

__all__ = [
    "LARGE_BYTES",
    "Progress",
    "Task",
    "blocked",
    "fresh",
    "harmless_output",
    "parse",
    "section",
    "vanished",
    "with_lines",
    "with_mode",
    "with_refusal",
    "with_spent",
    "with_status",
    "with_tasks",
    "with_verified",
    "without_own_block",
    "without_refusal",
    "without_verified",
]
