"""What two ralphs showed of one story, start by start: the same, a decision, or a difference."""

import difflib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from decisions import ENDINGS, REWRITINGS, Seen
from playing import Played, clear, play
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
            would_be, sentences = _as_decided(seen, fact, text, now[fact])
            decisions += sentences
            if would_be != now[fact]:
                parts.append(_of_fact(fact, would_be, now[fact]))
        if parts:
            screens = f"--- the older one's screen\n{old.screens[number]}\n--- the newer one's\n{new.screens[number]}"
            said = f"start {number + 1}: ralph {' '.join(story.starts[number].words)}"
            return Compared(story=story, difference="\n".join([said, *parts, screens]), decisions=tuple(decisions))
    return Compared(story=story, decisions=tuple(decisions))


def _as_decided(seen: Seen, fact: str, text: str, new: str) -> tuple[str, list[str]]:
    """The older one's text as it would be now, by those decisions that bring it nearer to the newer one's."""
    sentences = []
    for one in REWRITINGS:
        if one.fact == fact and text != new:
            said = one.rewrite(seen, text, new)
            better, before = _alike(said, new), _alike(text, new)
            # in the journal two decisions may touch one line, and only both together make it the same
            if said == new or better > before or (fact == "journal" and said != text and better == before):
                text = said
                sentences.append(one.sentence)
    return text, sentences


def _alike(one: str, other: str) -> int:
    """How many lines they have in common, in the same order."""
    matcher = difflib.SequenceMatcher(a=one.splitlines(), b=other.splitlines(), autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks())


def _of_fact(fact: str, old: str, new: str) -> str:
    lines = [*difflib.unified_diff(old.splitlines(), new.splitlines(), "older", "newer", lineterm="", n=2)][2:]
    more = [f"… and {len(lines) - _SHOWN_LINES} lines more"] if len(lines) > _SHOWN_LINES else []
    return "\n".join([f"  {fact}:", *(f"    {line}" for line in [*lines[:_SHOWN_LINES], *more])])
