"""The tasks: whether ralph can work by them, and whether all of the plan's are among them."""

from ralph import progress, taskjson, tasklist, tasks
from ralph.checks.check import Check
from ralph.start import Start
from ralph.words import counted


def task_list(start: Start) -> list[Check]:
    """What a start would say of its task list, or of the one it would make of the plan. Raises what it would raise."""
    text = start.progress_path.read_bytes() if start.progress_path.is_file() else b""
    is_new = not progress.parse(text).tasks
    if start.imported and is_new:
        text = progress.with_tasks(text, taskjson.lines(start.imported.tasks))
    return [*_of_strict(start, text), *_left_out(start, text)]


def _of_strict(start: Start, text: bytes) -> list[Check]:
    """Whether ralph could pick one, where that is its job."""
    if not start.strict or progress.parse(text).done:
        return []
    text = tasklist.tidied(text)
    tasklist.check(text, start.progress_path.name, start.settings)
    listed = tasks.flat(tasks.read(text))
    if not listed:
        said = f"there is none yet in {start.progress_path}, and --strict works by them"
        return [Check(name="tasks", ok=False, said=said, remedy="write some, or let ralph PLAN plan --strict do it")]
    left = sum(not task.done for task in listed)
    return [Check(name="tasks", ok=True, said=f"{counted(left, 'open task')} that ralph can work by")]


def _left_out(start: Start, text: bytes) -> list[Check]:
    if not start.imported or not (names := taskjson.missing(start.imported, text)):
        return []
    said, remedy = taskjson.left_out(start.imported, names, start.progress_path)
    return [Check(name="tasks", ok=False, said=said, remedy=remedy, obstacle=False)]
