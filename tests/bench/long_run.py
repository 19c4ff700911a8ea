"""Whether a long run takes more memory than a short one."""

from bench_tools import Cost, Place, median

FEW, MANY = 100, 10_000


def compare(place: Place, runs: int) -> None:
    """Prints the peak of a run of each length, and what an iteration took."""
    print(f"\n## memory\n\nIn a repository; medians of {runs} runs of {FEW} iterations, one of {MANY}.\n")
    print("| iterations | peak | wall time per iteration | CPU time per iteration |")
    print("|---|---|---|---|")
    peaks = [_row(place, iterations, times) for iterations, times in ((FEW, runs), (MANY, 1))]
    print(f"\nThe longer one takes {1024 * (peaks[1] - peaks[0]):.0f} KiB more.")


def _row(place: Place, iterations: int, runs: int) -> float:
    """Prints it; the peak."""
    costs = [_run(place, iterations) for _ in range(runs)]
    peak = median(cost.peak_mib for cost in costs)
    wall_ms, cpu_ms = (
        1000 / iterations * median(times) for times in zip(*((cost.wall_s, cost.cpu_s) for cost in costs), strict=True)
    )
    print(f"| {iterations} | {peak:.2f} MiB | {wall_ms:.2f} ms | {cpu_ms:.2f} ms |")
    return peak


def _run(place: Place, iterations: int) -> Cost:
    place.fresh("repository")
    return place.measure([str(place.ralph), *place.looping(iterations)], folder="repository", code=3)
