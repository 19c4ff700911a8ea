"""Two ralphs, the same stories: what a person sees must be the same, or a decision that has a name.

    python tests/differential --stories 500 --seed 1 -j 2

The older one is a wheel of the revision in wheels.py, the newer one a wheel of the working tree. Stories of `--strict`,
`--only` and restore are played only in a mount namespace where the machine is read-only; elsewhere they are left out,
and that is said. Exit code 1 when a difference is neither gone at the second try nor a decision of decisions.py.
"""

import argparse
import difflib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import wheels
from decisions import ENDINGS, REWRITINGS, Seen
from drawing import draw
from playing import Played, clear, contained, play
from story import Story

_SHOWN_LINES = 40
"""Of the difference of one fact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What came of one story."""

    story: Story
    difference: str = ""
    """For people; empty where there is none."""
    decisions: tuple[str, ...] = ()
    """Those that explain what differs."""
    endings: tuple[str, ...] = ()
    """How the older one's starts ended, to see what the stories reach."""


def compared(story: Story, old: Path, new: Path, folder: Path) -> Compared:
    """Plays it with both at once. A takeover is the old one's first start, and all others by the new one."""
    newer = (old, new) if story.takeover else (new,)
    places = (folder / "a", folder / "b")
    with ThreadPoolExecutor(2) as both:
        one, other = both.map(lambda place, ralphs: play(story, place, ralphs), places, ((old,), newer))
    clear(folder)
    return compare(story, one, other)


def compare(story: Story, old: Played, new: Played) -> Compared:
    """Looks at both start by start, until one differs."""
    endings = tuple(f"{facts['exit code']} {facts['closing'][:24]}".strip() for facts in old.starts)
    return replace(_difference(story, old, new), endings=endings)


def _difference(story: Story, old: Played, new: Played) -> Compared:
    decisions: list[str] = []
    for number, (was, now) in enumerate(zip(old.starts, new.starts, strict=True)):
        seen = Seen(story=story, old=old.starts, screens=old.screens, number=number)
        meant = [ending.sentence for ending in ENDINGS if was != now and ending.holds(seen, now)]
        if meant:
            return Compared(story=story, decisions=(*decisions, *meant))
        parts = []
        for fact, text in was.items():
            would_be = text
            for one in REWRITINGS:
                if (
                    one.fact == fact
                    and would_be != now[fact]
                    and (said := one.rewrite(seen, would_be, now[fact])) != would_be
                ):
                    would_be = said
                    decisions.append(one.sentence)
            if would_be != now[fact]:
                parts.append(_of_fact(fact, would_be, now[fact]))
        if parts:
            screens = f"--- the older one's screen\n{old.screens[number]}\n--- the newer one's\n{new.screens[number]}"
            said = f"start {number + 1}: ralph {' '.join(story.starts[number].words)}"
            return Compared(story=story, difference="\n".join([said, *parts, screens]), decisions=tuple(decisions))
    return Compared(story=story, decisions=tuple(decisions))


def _of_fact(fact: str, old: str, new: str) -> str:
    lines = [*difflib.unified_diff(old.splitlines(), new.splitlines(), "older", "newer", lineterm="", n=2)][2:]
    more = [f"… and {len(lines) - _SHOWN_LINES} lines more"] if len(lines) > _SHOWN_LINES else []
    return "\n".join([f"  {fact}:", *(f"    {line}" for line in [*lines[:_SHOWN_LINES], *more])])


def main() -> int:
    """Plays and compares; 1 when something differs and nobody has decided so."""
    asked = _asked(sys.argv[1:])
    if asked.show is not None:
        print(draw(asked.show))
        return 0
    old, new = wheels.installed(asked.old), wheels.installed(asked.new)
    stories = [draw(seed) for seed in range(asked.seed, asked.seed + asked.stories)]
    played = [story for story in stories if contained() or not story.contained]
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
