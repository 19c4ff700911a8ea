"""Two ralphs, the same stories: what a person sees must be the same, or a decision that has a name.

    python tests/differential --stories 500 --seed 1 -j 2

The older one is a wheel of the revision in wheels.py, the newer one a wheel of the working tree. Stories of `--strict`,
`--only` and restore are played only in a mount namespace where the machine is read-only; elsewhere they are left out,
and that is said. Exit code 1 when a difference is neither gone at the second try nor a decision of decisions.py.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import wheels
from comparing import Compared, compared
from drawing import draw
from playing import contained
from story import Story


def main() -> int:
    """Plays and compares; 1 when something differs and nobody has decided so."""
    asked = _asked(sys.argv[1:])
    if asked.show is not None:
        print(draw(asked.show))
        return 0
    old, new = wheels.installed(asked.old), wheels.installed(asked.new)
    stories = [draw(seed) for seed in range(asked.seed, asked.seed + asked.stories)]
    played = [story for story in stories if (contained() or not story.contained) and not story.takeover]
    if len(played) < len(stories):
        print(f"left out: {len(stories) - len(played)} stories that put files back; the machine is not read-only here")
    began, unsteady, faults = time.monotonic(), 0, 0
    decided, endings = Counter[str](), Counter[str]()

    with tempfile.TemporaryDirectory(prefix="rd") as temporary, ThreadPoolExecutor(asked.jobs) as pool:

        def twice(story: Story) -> tuple[Compared, Compared]:
            """Once more where it differs: a loaded machine is late now and then."""
            first = compared(story, old, new, Path(temporary) / str(story.seed))
            return first, compared(story, old, new, Path(temporary) / f"{story.seed}-") if first.difference else first

        for number, (first, last) in enumerate(pool.map(twice, played), 1):
            decided.update(set(last.decisions))
            endings.update(last.endings)
            if first.difference:
                faults += bool(last.difference)
                unsteady += not last.difference
                what = "DIFFERS" if last.difference else "unsteady (not at the second try)"
                print(f"\n{what}: seed {first.story.seed}, {first.story.kind}{', taken over' * first.story.takeover}")
                print(last.difference or first.difference, flush=True)
            if faults and asked.first:
                pool.shutdown(wait=False, cancel_futures=True)
                break
            if sys.stderr.isatty() or number % 50 == 0:
                print(f"{number} of {len(played)} stories", file=sys.stderr)
    for sentence, count in decided.most_common():
        print(f"decided, in {count} stories: {sentence}")
    print("starts ended with " + ", ".join(f"{ending} {count} times" for ending, count in endings.most_common()))
    took_s = time.monotonic() - began
    print(f"{len(played)} stories, {faults} differ, {unsteady} unsteady, {took_s:.0f} s")
    return 1 if faults else 0


def _asked(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="differential", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stories", type=int, default=500, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others count on (%(default)s)")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="stories at once (%(default)s)")
    parser.add_argument("-x", "--first", action="store_true", help="stop at the first that differs")
    parser.add_argument("--old", default=wheels.YESTERDAY, help="a revision (%(default).8s)")
    parser.add_argument("--new", default=wheels.WORKING_TREE, help="a revision, or a tree (the working tree)")
    parser.add_argument("--show", type=int, metavar="SEED", help="print the story of this seed, and play none")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
