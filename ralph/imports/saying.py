"""What a start says about a plan in JSON and its Task List."""

from collections.abc import Sequence
from pathlib import Path

from ralph.imports.cleaning import cut
from ralph.imports.listing import text_of
from ralph.imports.model import Imported, flat
from ralph.words import counted

_SHOWN = 5
_LONGEST = 60


def taken_over(imported: Imported) -> str:
    """That its tasks became the Task List; of a block in markdown, also how it would be no more than an example."""
    said = f"{counted(len(list(flat(imported.tasks))), 'task')} taken from {imported.place}"
    is_block = imported.start > 0
    return f"{said} into the Task List" + ("; were it only an example, ```text would begin it" if is_block else "")


def left_out(imported: Imported, names: Sequence[str], progress_path: Path) -> tuple[str, str]:
    """Which of its open tasks are not built; and how they would be."""
    first = next(one for one in flat(imported.tasks) if one.id == names[0])
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    item = f"- [ ] {first.id}: {cut(text_of(first), _LONGEST)}"
    return (
        f"{counted(len(names), 'task')} of {imported.place} {verb} not in the Task List, and not built: {shown}",
        f"to have {them} built, write {them} there, in {progress_path}, such as `{item}`",
    )
