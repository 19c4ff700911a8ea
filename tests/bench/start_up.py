"""What it costs to start ralph when there is nothing to do, beside what its command-line library alone costs."""

import fcntl
import os
from collections.abc import Callable
from functools import partial

from bench_tools import FINISHED, PLAN, Cost, Place, interleaved, median

_CLICK = 'python -c "import click"'


def compare(place: Place, runs: int) -> None:
    """Prints the start-up table."""
    place.fresh("repository", FINISHED)
    place.fresh("outside")
    held = os.open(place.root / "outside", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    subjects = _subjects(place)
    interleaved(subjects, 1)  # so that bytecode and files are where they are the second time
    costs = interleaved(subjects, runs)
    os.close(held)
    print(
        f"\n## start-up\n\n{runs} interleaved runs; the ratios are medians, each run beside its own `import click`.\n"
    )
    print("| what | median | fastest | ratio of wall times | of CPU times |")
    print("|---|---|---|---|---|")
    for name, found in costs.items():
        pairs = list(zip(found, costs[_CLICK], strict=True))
        wall, cpu = median(a.wall_s / b.wall_s for a, b in pairs), median(a.cpu_s / b.cpu_s for a, b in pairs)
        times = [1000 * cost.wall_s for cost in found]
        print(f"| {name} | {median(times):.1f} ms | {min(times):.1f} ms | {wall:.2f} | {cpu:.2f} |")


def _subjects(place: Place) -> dict[str, Callable[[], Cost]]:
    python, ralph = str(place.python), str(place.ralph)
    with_settings = place.root / "home-with-settings"
    with_settings.mkdir()
    (with_settings / ".ralph.env").write_text('export RALPH_NOTIFY_FREQUENCY="10"\n')
    (with_settings / ".ralph.env").chmod(0o600)
    in_it = ["env", f"HOME={with_settings}"]
    finished, locked = partial(place.measure, folder="repository"), partial(place.measure, folder="outside", code=75)
    return {
        _CLICK: lambda: finished([python, "-c", "import click"]),
        "python -c pass": lambda: finished([python, "-c", "pass"]),
        "ralph --help": lambda: finished([ralph, "--help"]),
        "ralph feature.md build, finished": lambda: finished([ralph, PLAN, "build"]),
        "the same with a ~/.ralph.env": lambda: finished([*in_it, ralph, PLAN, "build"]),
        "ralph feature.md build, locked": lambda: locked([ralph, PLAN, "build"]),
    }
