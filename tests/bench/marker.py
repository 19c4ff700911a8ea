"""How long RALPH_DONE is looked for in a progress file far larger than any should be, beside `grep`."""

from functools import partial

from bench_tools import FINISHED, PLAN, PROGRESS, Place, interleaved, median

BYTES = 100_000_000
_LINE = "The parser of settings now understands durations; see its tests for the cases.\n"
_HUGE, _SMALL, _GREP = "ralph, finished, 100 MB", "ralph, finished, small", "grep -qx RALPH_DONE, 100 MB"


def compare(place: Place, runs: int) -> None:
    """Prints the times and peaks; the word stands on the last line, so that nobody is done early."""
    place.fresh("repository", FINISHED)
    text = FINISHED.replace("RALPH_DONE", "IN_PROGRESS")
    place.fresh("outside", text + _LINE * (BYTES // len(_LINE)) + "RALPH_DONE\n")
    start = [str(place.ralph), PLAN, "build"]
    subjects = {
        _GREP: partial(place.measure, ["grep", "-qx", "RALPH_DONE", PROGRESS], folder="outside"),
        _SMALL: partial(place.measure, start, folder="repository"),
        _HUGE: partial(place.measure, start, folder="outside"),
    }
    costs = interleaved(subjects, runs)
    print(f"\n## a progress file of 100 MB\n\nMedians of {runs} interleaved runs.\n")
    print("| what | wall | CPU | peak |")
    print("|---|---|---|---|")
    middle = {
        name: {field: median(getattr(one, field) for one in found) for field in ("wall_s", "cpu_s", "peak_mib")}
        for name, found in costs.items()
    }
    for name, cost in middle.items():
        print(
            f"| {name} | {1000 * cost['wall_s']:.0f} ms | {1000 * cost['cpu_s']:.0f} ms | {cost['peak_mib']:.1f} MiB |"
        )
    wall, cpu = ((middle[_HUGE][field] - middle[_SMALL][field]) / middle[_GREP][field] for field in ("wall_s", "cpu_s"))
    print(f"\nBeyond its start ralph takes {wall:.1f} times as long as grep, {cpu:.1f} times its CPU time.")
    place.fresh("outside")
