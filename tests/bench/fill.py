"""Fills a folder with plans that have been worked on: `fill.py PLANS ITERATIONS`, run with ralph's own interpreter."""

import json
import sys
import time
from pathlib import Path

from ralph import progress
from ralph.state import State

_TASKS = b"".join(
    b"- [%b] task %d: what shall be done, in a dozen words or so\n" % (b"x "[i % 2 :][:1], i) for i in range(40)
)


def _line(number: int, **more: object) -> str:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_790_000_000 + 400 * number))
    record = {
        "timestamp": stamp,
        "run": "20261120-221403-abcdef",
        "mode": "build",
        "iteration": number,
        "success": True,
    }
    return json.dumps(record | more) + "\n"


def _iteration(number: int) -> str:
    tasks = {"done": number * 40 // 10_000, "total": 40, "ticked": 0, "new": 0}
    commits = {"count": 1, "added": 212, "removed": 40, "head": "a" * 40, "base": "b" * 40}
    tokens = {"input": 1200, "output": 3400, "cache_read": 560_000 + number, "cache_write": 78_000}
    return _line(
        number,
        event="iteration",
        message="I took the next task, wrote its test, made it pass and committed both. " * 3,
        summary=f"#{number} · {tasks['done']}/40 tasks · 1 commit +212 -40 · 6m12s · $0.41",
        ended="ok",
        counted=True,
        refused=False,
        duration_s=372.0 + number % 60,
        waited_s=0.0,
        cost_usd=0.41,
        cost_at_least=False,
        tokens=tokens,
        context=0.37,
        model="claude-sonnet-5",
        pays="",
        tasks=tasks,
        commits=commits,
        changed=3,
        transcript=f"20261120-221403-abcdef.{number:04d}.jsonl",
    )


def main() -> None:
    """Writes progress files here, and journals where ralph has them."""
    plans, iterations = map(int, sys.argv[1:])
    lines = "".join(map(_iteration, range(1, iterations + 1)))
    lines += _line(iterations, event="run", message="max-time is 8h", ended="limit", iterations=iterations)
    for number in range(plans):
        name = f"plan{number:03}"
        path = Path(f"{name}_PROGRESS.md")
        path.write_bytes(
            progress.with_tasks(progress.fresh(name, f"{name}.md", "2026-11-20 22:14:03"), _TASKS.splitlines())
        )
        journal = State(name, path).journal
        journal.parent.mkdir(parents=True)
        journal.write_text(lines)


if __name__ == "__main__":
    main()
