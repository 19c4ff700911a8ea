"""Journals that no run wrote, and the report of one."""

import time
from pathlib import Path
from typing import Any

from ralph import journal, progress
from ralph.look import report
from ralph.look.plans import Plan, Seen, Standing

BEGAN = 1_795_215_600
HOSTILE = "</script></style></title><img src=x onerror=alert(1)>\"'&amp;\x1b[31m\x00\x9b\u202eevil\ud800"
KINDS = ("input", "output", "cache_read", "cache_write")
EVENTFUL: list[dict[str, Any]] = [
    {"cost_usd": 0.4, "duration_s": 300, "tasks": (1, 5, True), "tokens": (100, 2000, 900_000, 40_000)},
    {"cost_usd": 1.25, "duration_s": 752, "tasks": (2, 5, True), "tokens": (50, 9000, 2_500_000, 80_000)},
    {"cost_usd": 0.02, "duration_s": 20, "tasks": (2, 5, False), "success": False, "counted": False, "ended": "limit"},
    {"cost_usd": 0.6, "duration_s": 420, "waited_s": 4000, "tasks": (1, 5, True), "success": False, "ended": "failed"},
    {"cost_usd": None, "duration_s": 60, "tasks": None, "success": False, "counted": False, "ended": "died"},
    {"cost_usd": 0.33, "duration_s": 200, "tasks": (5, 5, True), "tokens": (7, 700, 70_000, 7_000)},
]


def records(iterations: list[dict[str, Any]], *, run: str = "r", **end: Any) -> list[dict[str, Any]]:
    """A journal of these iterations, each ten minutes after the one before; the good ones are verified in 30 s."""
    lines = []
    for number, given_ in enumerate(iterations, 1):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BEGAN + 600 * number))
        common = {"timestamp": stamp, "run": run, "mode": "build", "iteration": number}
        summary = f"#{number} · 2/5 tasks (+1) · 1 commit +3 −0 · 5m00s · $0.40"  # noqa: RUF001 - a minus
        line: dict[str, Any] = {"success": True, "counted": True, "ended": "ok", "message": f"Did {number}."}
        line |= {"summary": summary, **given_}
        if (tasks := line.pop("tasks", None)) is not None:
            line |= dict(zip(("done", "total", "moved"), tasks, strict=True))
        line |= dict(zip(KINDS, line.pop("tokens", (0, 0, 0, 0)), strict=True))
        lines.append({**common, "event": "iteration", **line})
        if line["success"]:
            lines.append({**common, "event": "verify", "success": True, "duration_s": 30})
    return [*lines, *([{**common, "event": "run", "success": False, "summary": end["ended"], **end}] if end else [])]


def made(lines: list[dict[str, Any]], text: str | None = None, *, name: str = "feature", why: str = "") -> str:
    """The report of such a journal and of such a progress file."""
    seen = Seen(
        plan=Plan(name=name, path=Path("feature.md"), progress_path=Path("feature_PROGRESS.md")),
        standing=Standing("stopped", why),
        progress=None if text is None else progress.parse(text.encode(errors="surrogatepass")),
        records=journal.records(lines),
    )
    return report.page(seen, BEGAN + 9999.0).decode()
