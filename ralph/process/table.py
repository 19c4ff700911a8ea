"""The process table: who is alive, who descends from whom, who carries a mark."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

MARK = "RALPH_RUN_ID"
"""In the environment of all that runs below a keeper; an inner run's mark follows its outer one's, after a colon."""
LINUX = sys.platform == "linux"


class Process(NamedTuple):
    """One that is alive."""

    parent: int
    started: str
    """Tells it from a later one of the same pid."""


def alive() -> dict[int, Process]:
    """Every process of this machine that may be seen, by its pid; no zombies."""
    return dict(_proc() if LINUX else _ps())


def below(roots: Collection[int], processes: dict[int, Process]) -> dict[int, Process]:
    """All that descends from these."""
    found: dict[int, Process] = {}
    while roots:
        born = {pid: one for pid, one in processes.items() if one.parent in roots and pid not in found}
        found |= born
        roots = born.keys()
    return found


def marked(mark: str, processes: Collection[int]) -> set[int]:
    """Those of them that were started by the run of that name; none where environments are hidden."""
    return {pid for pid in processes if mark in _mark(pid).split(":")}


def _mark(pid: int) -> str:
    with contextlib.suppress(OSError):
        for pair in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if pair.startswith(f"{MARK}=".encode()):
                return os.fsdecode(pair.partition(b"=")[2])
    return ""


def command(pid: int) -> str:
    """Its command line as a person would recognise it, in one line."""
    with contextlib.suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        return " ".join(line.decode(errors="replace").split())[:80] or f"process {pid}"
    return f"process {pid}"


def somebody_runs(program: str, inside: Path) -> bool:
    """Whether a process of that name works in or below the folder; yes, to be careful, where that cannot be seen."""
    for pid in alive() if LINUX else ():
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            if name.startswith(program) and Path(f"/proc/{pid}/cwd").readlink().is_relative_to(inside):
                return True
    return not LINUX


def _proc() -> Iterator[tuple[int, Process]]:
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - a Path for each of some hundred is what costs
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - same
            row = file.read()
            state, parent, *rest = row[row.rindex(b")") + 2 :].split()  # proc(5): a name may hold any byte
            if state not in b"ZX":
                yield int(pid), Process(int(parent), rest[17].decode())


def _ps() -> Iterator[tuple[int, Process]]:
    argv = ["ps", "-A", "-o", "pid=,ppid=,stat=,lstart="]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, errors="replace") as ps:
        for line in ps.communicate()[0].splitlines():
            pid, parent, state, started = line.split(maxsplit=3)
            if int(pid) != ps.pid and not state.startswith("Z"):
                yield int(pid), Process(int(parent), started)
