"""How long it takes to see how it stands, beside a shell that counts ticks and shows the last lines of journals."""

from functools import partial

from bench_tools import HERE, Place, interleaved, median

PLANS, ITERATIONS, LONG = 200, 1000, 10_000
_SHELL = (
    "for f in *_PROGRESS.md; do "
    "grep -c '^- .x.' $f; tail -n 1 $XDG_STATE_HOME/ralph/${f%_PROGRESS.md}-*/journal.jsonl; done"
)


def compare(place: Place, runs: int) -> None:
    """Prints a row for each way to look."""
    for folder, sizes in (("many", (PLANS, ITERATIONS)), ("long", (1, LONG))):
        (place.root / folder).mkdir()
        place.env["XDG_STATE_HOME"] = str(place.root / "states")
        place.run(str(place.python), str(HERE / "fill.py"), *map(str, sizes), folder=folder)
    ralph = str(place.ralph)
    many, long = partial(place.measure, folder="many"), partial(place.measure, folder="long")
    subjects = {
        'python -c "import click"': partial(many, [str(place.python), "-c", "import click"]),
        f"shell, {PLANS} plans": partial(many, ["bash", "-c", _SHELL]),
        f"ralph status, {PLANS} plans of {ITERATIONS} iterations": partial(many, [ralph, "status"], code=3),
        f"ralph status plan000, {ITERATIONS} iterations": partial(many, [ralph, "status", "plan000"], code=3),
        f"ralph log plan000, {LONG} iterations": partial(long, [ralph, "log", "plan000"]),
        f"ralph report plan000, {LONG} iterations": partial(long, [ralph, "report", "plan000"]),
    }
    interleaved(subjects, 1)  # so that files are in memory
    costs = interleaved(subjects, runs)
    print(f"\n## looking\n\nMedians of {runs} interleaved runs.\n")
    print("| what | wall | CPU | peak |")
    print("|---|---|---|---|")
    for name, found in costs.items():
        wall, cpu, peak = (median(getattr(one, field) for one in found) for field in ("wall_s", "cpu_s", "peak_mib"))
        print(f"| {name} | {1000 * wall:.0f} ms | {1000 * cpu:.0f} ms | {peak:.1f} MiB |")
    place.fresh("outside")
