"""What ralph and its keeper cost while the agent is silent."""

import contextlib
import os
import time
from pathlib import Path

from bench_tools import PLAN, Place

_SETTLE_S = 10.0
"""After some seconds of silence ralph looks less often."""
_AGENT = '#!/bin/sh\necho \'{"type":"system","subtype":"init","model":"claude-sonnet-5"}\'\nexec sleep 1000000\n'


def measure(place: Place, seconds: float) -> None:
    """Prints their shares of a processor."""
    print(f"\n## silence\n\nAn agent that prints nothing for {seconds:g} s, after {_SETTLE_S:g} s of settling.\n")
    if not Path("/proc/self/schedstat").exists():
        print("Not measured: there is no /proc/PID/schedstat.")
        return
    place.fresh("repository")
    agent = place.root / "silent"
    agent.write_text(_AGENT)
    agent.chmod(0o700)
    with place.start([str(place.ralph), PLAN, "build", "--agent", str(agent)], folder="repository") as ralph:
        time.sleep(_SETTLE_S)
        keepers = [pid for pid in _same_command(ralph.pid) if pid != ralph.pid]
        subjects = {"ralph": [ralph.pid], "its keeper": keepers, "both": [ralph.pid, *keepers]}
        before = {name: _cpu_s(pids) for name, pids in subjects.items()}
        time.sleep(seconds)
        spent = {name: _cpu_s(pids) - before[name] for name, pids in subjects.items()}
        ralph.terminate()
    print("| what | CPU | share of a processor |")
    print("|---|---|---|")
    for name, cpu_s in spent.items():
        print(f"| {name} | {1000 * cpu_s:.0f} ms | {100 * cpu_s / seconds:.3f} % |")
    if len(keepers) != 1:
        print(f"\nThere were {len(keepers)} keepers, so the figures are wrong.")


def _same_command(pid: int) -> list[int]:
    """Processes with the same command line: the keeper is a fork."""
    wanted = Path(f"/proc/{pid}/cmdline").read_bytes()
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208 - numbers are what is wanted
        with contextlib.suppress(OSError):
            if entry.isdigit() and Path(f"/proc/{entry}/cmdline").read_bytes() == wanted:
                found.append(int(entry))
    return found


def _cpu_s(pids: list[int]) -> float:
    """What all their threads have used; in nanoseconds, where getrusage and /proc/PID/stat know hundredths."""
    files = [file for pid in pids for file in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9
