"""What ralph costs beside a bare loop, and what its start costs: prints tables, asserts nothing.

`python tests/bench/loop.py` takes about eight minutes; README.md here says how to read it.
"""

import argparse
import os
import tempfile
from functools import partial
from pathlib import Path

import long_run
import look
import marker
import output
import silence
import start_up
import strict
from bench_tools import CHECKOUT, HERE, Cost, Place, interleaved, median

_BARE = 'n=0; while [ "$n" -lt "$1" ]; do cat "$2" | "$3"; n=$((n + 1)); done'
_FOLDERS = {"in a repository": "repository", "outside of one": "outside"}
_MEMORY = Path("/dev/shm")
_TABLES = ("start", "loop", "parts", "strict", "memory", "output", "marker", "look", "silence")


def _ralph(place: Place, folder: str, iterations: int) -> Cost:
    place.fresh(folder)
    return place.measure([str(place.ralph), *place.looping(iterations)], folder=folder, code=3)


def _bare(place: Place, folder: str, iterations: int) -> Cost:
    prompt = CHECKOUT / "prompts" / "PROMPT_build.md"
    return place.measure(["bash", "-c", _BARE, "bare", str(iterations), str(prompt), str(place.agent)], folder=folder)


def _compare(place: Place, where: str, rounds: dict[int, int]) -> None:
    """Prints a row for each number of iterations, and from the last two what each further iteration costs."""
    print(f"\n## {where}\n\nMedians of interleaved runs.\n")
    print("| iterations | runs | ralph wall | bash wall | ratio | ralph CPU | bash CPU | ralph peak | bash peak |")
    print("|---|---|---|---|---|---|---|---|---|")
    whole = {iterations: _row(place, _FOLDERS[where], iterations, runs) for iterations, runs in rounds.items()}
    few, many = sorted(whole)[-2:]
    print()
    for what in ("wall", "CPU"):
        ralph, bare = (
            1000 * (after[what] - before[what]) / (many - few)
            for before, after in zip(whole[few], whole[many], strict=True)
        )
        print(
            f"each further iteration, {what}: ralph {ralph:.2f} ms, bash {bare:.2f} ms, ratio {ralph / bare:.1f}, "
            f"ralph's own share {ralph - bare:.2f} ms  "
        )


def _row(place: Place, folder: str, iterations: int, runs: int) -> tuple[dict[str, float], dict[str, float]]:
    """Prints it; the seconds that ralph took, and those of bash."""
    subjects = {"ralph": partial(_ralph, place, folder, iterations), "bash": partial(_bare, place, folder, iterations)}
    costs = interleaved(subjects, runs).values()
    peaks = [median(cost.peak_mib for cost in of) for of in costs]
    ralph, bare = (
        {"wall": median(cost.wall_s for cost in of), "CPU": median(cost.cpu_s for cost in of)} for of in costs
    )
    print(
        f"| {iterations} | {runs} | {ralph['wall']:.3f} s | {bare['wall']:.3f} s | {ralph['wall'] / bare['wall']:.1f} "
        f"| {ralph['CPU']:.3f} s | {bare['CPU']:.3f} s | {peaks[0]:.1f} MiB | {peaks[1]:.1f} MiB |"
    )
    return ralph, bare


def _split(place: Place, where: str, iterations: int) -> None:
    """Prints what each part of an iteration took."""
    report = place.root / "parts.txt"
    place.fresh(_FOLDERS[where])
    command = [str(place.python), str(HERE / "parts.py"), str(report), str(iterations)]
    place.run(*command, *place.looping(iterations), folder=_FOLDERS[where])
    print(f"\n## each part of an iteration, {where}\n\nMean of {iterations}.\n\n{report.read_text()}", end="")


def main() -> None:
    """The whole bench, or one of its parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, help="of an environment that has ralph; default: a fresh one")
    parser.add_argument("--only", choices=_TABLES, help="one of the tables")
    parser.add_argument("--seconds", type=float, default=60, help="of silence (default %(default)s)")
    parser.add_argument("--runs", type=int, default=5, help="of 100 iterations (default %(default)s)")
    parser.add_argument(
        "--folder",
        type=Path,
        default=_MEMORY if _MEMORY.is_dir() else None,
        help="where to work (default %(default)s: a disk's slowness says nothing about ralph)",
    )
    asked = parser.parse_args()
    wanted = (asked.only,) if asked.only else _TABLES
    print(f"load average: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    with tempfile.TemporaryDirectory(prefix="ralph-bench-", dir=asked.folder) as root:
        place = Place(Path(root), asked.python)
        if "start" in wanted:
            start_up.compare(place, 4 * asked.runs + 1)
        for where in _FOLDERS if "loop" in wanted else ():
            _compare(place, where, {1: 2 * asked.runs + 1, 100: asked.runs, 1000: max(3, asked.runs // 2)})
        for where in _FOLDERS if "parts" in wanted else ():
            _split(place, where, 300)
        if "strict" in wanted:
            strict.compare(place, max(3, asked.runs))
            strict.split(place, 100)
        if "memory" in wanted:
            long_run.compare(place, 3)
        if "output" in wanted:
            output.compare(place, 3)
        if "marker" in wanted:
            marker.compare(place, 2 * asked.runs + 1)
        if "look" in wanted:
            look.compare(place, asked.runs)
        if "silence" in wanted:
            silence.measure(place, asked.seconds)


if __name__ == "__main__":
    main()
