"""What somebody changed in a task list that is not theirs to change, for people."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from ralph.progress.output import harmless_output
from ralph.tasks.pieces import Survey, head_lines, protected, signed_lines, state_lines
from ralph.tasks.reading import Item, named

_MOST = 40
_LONGEST = 80
_MOST_COMPARED = 400
_LONGEST_LINE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The tasks of a list beside those of the same list later."""

    same: Sequence[tuple[Item, Item]]
    gone: Sequence[Item]
    copies: Sequence[Item]
    new: Sequence[Item]


def match(before: Sequence[Item], after: Sequence[Item]) -> Matched:
    """Who is who: the same id, else the same words."""
    same: dict[int, Item] = {}
    taken: set[int] = set()
    keys: tuple[Callable[[Item], Hashable], ...] = (_by_id, _by_words)
    for key in keys:
        free: dict[Hashable, list[int]] = defaultdict(list)
        for place in reversed(range(len(after))):
            if place not in taken:
                free[key(after[place])].append(place)
        for place, item in enumerate(before):
            if place not in same and key(item) and (found := free[key(item)]):
                taken.add(found[-1])
                same[place] = after[found.pop()]
    known = {_by_id(item) for item in before} | {_by_words(item) for item in before}
    rest = [item for place, item in enumerate(after) if place not in taken]
    return Matched(
        same=[(before[place], item) for place, item in sorted(same.items())],
        gone=[item for place, item in enumerate(before) if place not in same],
        copies=[item for item in rest if _is_known(item, known)],
        new=[item for item in rest if not _is_known(item, known)],
    )


def _is_known(item: Item, known: set[Hashable]) -> bool:
    return _by_words(item) in known or bool(item.id and _by_id(item) in known)


def _by_id(item: Item) -> Hashable:
    return item.id and ("id", item.id)


def _by_words(item: Item) -> Hashable:
    return "words", named(item.text)[1]


def findings(before: Survey, after: Survey, matched: Matched) -> tuple[str, ...]:
    """One line for each thing that was changed."""
    found = [*_of_head(before, after), *_of_state(before, after), *_of_tasks(before, after, matched)]
    if signed_lines(before) != signed_lines(after):
        found.append("ralph's Verification section was changed")
    return (*found[:_MOST], f"and {len(found) - _MOST} more") if len(found) > _MOST else tuple(found)


def _of_head(before: Survey, after: Survey) -> Iterator[str]:
    was, now = head_lines(before), head_lines(after)
    for name in ("Plan:", "Started:", "Spent:"):
        yield from _of_named(name, was, now)
    if sorted(was) == sorted(now) and was != now:
        yield "the head was put in another order"


def _of_named(name: str, before: Sequence[bytes], after: Sequence[bytes]) -> Iterator[str]:
    was, now = ([line for line in lines if line.startswith(name.encode())] for lines in (before, after))
    if was != now:
        yield f"{name} {_how(len(was), len(now))}"


def _how(before: int, after: int) -> str:
    return "added" if after > before else "removed" if after < before else "changed"


def _of_state(before: Survey, after: Survey) -> Iterator[str]:
    was, now = state_lines(before), state_lines(after)
    for word in ("RALPH_DONE", "IN_PROGRESS"):
        if (word.encode() in now) != (word.encode() in was) and not (word == "IN_PROGRESS" and b"RALPH_DONE" in now):
            yield word if word.encode() in now else f"{word} removed"
    yield from _of_named("Verified:", was, now)


def _of_tasks(before: Survey, after: Survey, matched: Matched) -> Iterator[str]:
    if before.items and not after.items:
        yield "the task list is gone"
        return
    for was, now in matched.same:
        yield from _of_task(was, now)
    for item in matched.gone:
        yield f'task "{item.id or _short(item.text)}" removed'
    for item in matched.copies:
        yield f"{_name(item)} stands there a second time"
    for item in matched.new:
        if item.mark == "x":
            yield f"{_name(item)} is new and was ticked already"


def _of_task(was: Item, now: Item) -> Iterator[str]:
    name = _name(was)
    if was.id != now.id:
        yield f"{name}: its id became {now.id}" if now.id else f"{name}: its id was removed"
    if named(was.text)[1] != named(now.text)[1]:
        yield f"{name}: its text was changed"
    if was.mark != now.mark:
        yield f"{name}: [{was.mark}] became [{now.mark}]"
    for note in ("after", "priority", "verify", "failed", "blocked"):
        said = [[one.value for one in item.notes if one.name == note] for item in (was, now)]
        if said[0] != said[1]:
            yield f"{name}: {note}: line {_how(len(said[0]), len(said[1]))}"


def _name(item: Item) -> str:
    return item.id or f'"{_short(item.text)}"'


def _short(text: str) -> str:
    plain = " ".join(harmless_output(text).split())
    return plain if len(plain) <= _LONGEST else plain[:_LONGEST] + "…"


def difference(before: Survey, after: Survey) -> str:
    """The lines that are ralph's alone, as they were and as they were left: a unified diff, of what is long a part."""
    was, now = ([_readable(line) for line in protected(one)] for one in (before, after))
    same = 0
    while same < min(len(was), len(now)) and was[same] == now[same]:
        same += 1
    start = max(0, same - 3)
    was, now = was[start:], now[start:]
    tail = 0
    while tail < min(len(was), len(now)) and was[-1 - tail] == now[-1 - tail]:
        tail += 1
    cut = max(0, tail - 3)
    was, now = was[: len(was) - cut], now[: len(now) - cut]
    if max(len(was), len(now)) > _MOST_COMPARED:  # comparing takes the square of that, or worse
        return "\n".join([*_some("-", was), *_some("+", now)])
    import difflib  # noqa: PLC0415 - only where somebody tampered

    return "\n".join(difflib.unified_diff(was, now, "as it was", "as it was left", lineterm=""))


def _readable(line: bytes) -> str:
    said = line[: _LONGEST_LINE + 1].decode(errors="replace")
    return said if len(line) <= _LONGEST_LINE else said[:_LONGEST_LINE] + "…"


def _some(sign: str, lines: Sequence[str]) -> list[str]:
    half = _MOST_COMPARED // 2
    more = [f"{sign} … and {len(lines) - half} more lines"] if len(lines) > half else []
    return [sign + line for line in lines[:half]] + more
