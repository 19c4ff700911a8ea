"""What it costs to follow an agent that prints very much, beside writing the same into a file."""

from collections.abc import Callable
from functools import partial

from bench_tools import PLAN, Cost, Place, interleaved, median

BYTES = 1_000_000_000
_INTO_FILE = '"$1" "$2" > "$3"'
_BY_CAT = '"$1" "$2" | cat > "$3"'
_CAT = "agent &#124; cat > file"


def compare(place: Place, runs: int) -> None:
    """Prints how fast it goes, and what it takes."""
    chatter = place.compile("chatter.c")
    if chatter is None:
        print("\n## output\n\nNot measured: there is no C compiler.")
        return
    subjects: dict[str, Callable[[], Cost]] = {
        "agent > file": partial(_bare, place, _INTO_FILE, str(chatter)),
        _CAT: partial(_bare, place, _BY_CAT, str(chatter)),
        "ralph": partial(_ralph, place, str(chatter)),
    }
    costs = interleaved(subjects, runs)
    print(
        f"\n## output\n\nMedians of {runs} interleaved runs of an agent that prints {BYTES / 1e9:g} GB as JSON lines.\n"
    )
    print("| what | wall | CPU | MB/s | MB per CPU second | CPU ratio | peak |")
    print("|---|---|---|---|---|---|---|")
    for name, found in costs.items():
        wall_s, cpu_s, peak = (
            median(getattr(one, field) for one in found) for field in ("wall_s", "cpu_s", "peak_mib")
        )
        ratio = median(one.cpu_s / cat.cpu_s for one, cat in zip(found, costs[_CAT], strict=True))
        speed = f"{BYTES / 1e6 / wall_s:.0f} | {BYTES / 1e6 / cpu_s:.0f}"
        print(f"| {name} | {wall_s:.2f} s | {cpu_s:.2f} s | {speed} | {ratio:.1f} | {peak:.1f} MiB |")


def _bare(place: Place, script: str, chatter: str) -> Cost:
    file = place.root / "output"
    cost = place.measure(["sh", "-c", script, "bare", chatter, str(BYTES), str(file)], folder="outside")
    file.unlink()
    return cost


def _ralph(place: Place, chatter: str) -> Cost:
    place.fresh("outside")
    agent = ["--agent", f"{chatter} {BYTES}", "--max-iterations", "1"]
    cost = place.measure([str(place.ralph), PLAN, "build", *agent], folder="outside", code=3)
    place.forget()
    return cost
