"""Comparing two states of a task list."""

import re
from collections import Counter

from ralph.progress.reading import Progress, Task


def vanished(before: Progress, after: Progress) -> tuple[Task, ...]:
    """The tasks that were open and are now neither open nor ticked anywhere.

    A longer text or other markup is the same task. Who still has a namesake is settled first, then the longest names.
    """
    if not before.open or Counter(task.text for task in before.tasks) <= Counter(task.text for task in after.tasks):
        return ()
    left = Counter(_gist(task.text) for task in (*after.tasks, *(task for task in after.elsewhere if task.done)))
    renamed = [task for task in before.tasks if not _take(left, _gist(task.text)) and not task.done]
    missing = set()
    for place, task in sorted(enumerate(renamed), key=lambda item: -len(_gist(item[1].text))):
        gist = _gist(task.text) + " "
        if not _take(left, next((longer for longer in +left if longer.startswith(gist)), "")):
            missing.add(place)
    return tuple(task for place, task in enumerate(renamed) if place in missing)


def _take(left: Counter[str], gist: str) -> bool:
    if not left[gist]:
        return False
    left[gist] -= 1
    return True


def _gist(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text).casefold().strip() or text
