"""The page: what is known of a plan, as HTML that needs nothing else. Pure, but for its own template."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import __version__, words
from ralph.journal import Record, Sums
from ralph.progress import Progress, Task
from ralph.report.figures import Run, colour, groups, runs, totals, verdict
from ralph.report.pictures import pictures
from ralph.screen.text import plain
from ralph.standing import Standing

if TYPE_CHECKING:
    import jinja2

_MOST_ROWS = 10_000
_MOST_TASKS = 1_000
_ROWS_BYTES, _TASKS_BYTES = 1_250_000, 100_000
"""What the rows and the task list may take together, so that the page stays below two megabytes."""
_ROW_BYTES, _TASK_BYTES = 95, 35
"""What each takes without its text."""
_TEXT_BYTES = (24, 2_000)
"""The least and the most that is shown of a text."""
_LONG = 180
"""Characters that are shown at once; the rest is folded away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a page is made from."""

    name: str
    standing: Standing
    progress: Progress | None
    records: Sequence[Record]
    rows: Sequence[Record]
    sums: Sums
    now: float
    """Since 1970, in seconds."""


def page(known: Known) -> bytes:
    """The page, in UTF-8."""
    rows = known.rows
    parts, all_, of = groups(rows), totals(rows, known.records), runs(known.records, rows)
    shown = _newest(of)
    tasks = known.progress.tasks if known.progress else ()
    text = _template().render(
        known=known,
        phrase=known.standing.phrase(known.now),
        version=__version__,
        zone=time.strftime("%Z", time.localtime(known.now)),
        totals=all_,
        each=len(parts[0].rows) if parts else 1,
        pictures=pictures(rows, parts, of, known.sums, all_) if parts else None,
        runs=shown,
        hidden=max(0, len(rows) - _MOST_ROWS),
        count=_count(known),
        tasks=(listed := _shown_tasks(tasks)),
        row_bytes=_room(_ROWS_BYTES, _ROW_BYTES, len(shown) + min(len(rows), _MOST_ROWS)),
        task_bytes=_room(_TASKS_BYTES, _TASK_BYTES, len(listed)),
    )
    return text.encode(errors="replace")


def _newest(of: Sequence[Run]) -> list[tuple[Run, list[Record]]]:
    """The runs and their iterations, the newest first, as many as a page can bear."""
    room, shown = _MOST_ROWS, []
    for run in reversed(of):
        if room > 0:
            shown.append((run, list(run.rows[-room:][::-1])))
            room -= len(run.rows)
    return shown


def _count(known: Known) -> tuple[int, int] | None:
    """The tasks that are done, and all: by the progress file, else by the last iteration that looked."""
    if known.progress and known.progress.tasks:
        return known.progress.ticked, len(known.progress.tasks)
    looked = next((row for row in reversed(known.rows) if row.total), None)
    return (looked.done or 0, looked.total or 0) if looked else None


def _shown_tasks(tasks: Sequence[Task]) -> Sequence[Task]:
    """All of them, or as many as a page can bear, those first that are not done."""
    if len(tasks) <= _MOST_TASKS:
        return tasks
    return sorted(tasks, key=lambda task: task.done)[:_MOST_TASKS]


def _room(all_bytes: int, each_bytes: int, count: int) -> int:
    """What there is for the text of each of so many."""
    least, most = _TEXT_BYTES
    return min(most, max(least, all_bytes // max(1, count) - each_bytes))


def _template() -> "jinja2.Template":
    """Whatever is put into it is escaped, and cannot steer a terminal or turn the direction of writing."""
    import jinja2  # noqa: PLC0415 - 33 ms that whoever cannot be reported on need not pay

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: plain(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
    )
    environment.filters |= {
        "clipped": clipped,
        "colour": colour,
        "day": _day,
        "duration": words.duration,
        "long": lambda text: len(text) > _LONG or text.count("\n") > 1,
        "mark": _mark,
        "moment": _moment,
        "tasks": _tasks,
        "usd": words.usd,
        "verdict": verdict,
    }
    return environment.get_template("page.html")


def clipped(text: str, most_bytes: int) -> str:
    """The text, or so much of its beginning as has room."""
    data = text.strip().encode(errors="replace")
    return data.decode() if len(data) <= most_bytes else data[:most_bytes].decode(errors="ignore").rstrip() + "…"


def _mark(task: Task) -> str:
    return "done" if task.done else {"~": "begun", "!": "blocked"}.get(task.mark, "open")


def _tasks(row: Record) -> str:
    return "" if row.done is None else f"{row.done}/{row.total}" + (f" {row.ticked:+d}" if row.ticked else "")


def _day(at: float) -> str:
    return time.strftime("%m-%d %H:%M", time.localtime(at)) if at else ""


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else ""
