"""Today's statuses laid over the untouched original: of its text only the values change that say how it stands."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ralph.imports import forms
from ralph.imports.jsontext import Array, Text
from ralph.imports.making import Maker, Names, blockers, names_of, state_of, status_word
from ralph.imports.matching import Match, match
from ralph.imports.model import Imported, ImportedTask, Kind, flat
from ralph.imports.rendering import Fields, style_of
from ralph.imports.surgery import Surgery
from ralph.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlaid:
    """The original with today's statuses."""

    text: str
    unsaid: tuple[str, ...]
    """The ids of blocked tasks for which the file has no word; they stand there as not done."""
    new_word: tuple[str, ...]
    """The ids of blocked tasks that are said with a word which the form does not know."""


def overlay(imported: Imported, today: Sequence[Task]) -> Overlaid:
    """The text with today's statuses; tasks that are only in the Task List come last in their list."""
    matched = match(imported.tasks, today)
    surgery = Surgery(imported.text)
    words = _words(imported)
    both = [(one, matched.today[one.path]) for one in flat(imported.tasks) if one.path in matched.today]
    unsaid = [now.id for one, now in both if not _lay(surgery, imported.kind, one, now, words)]
    _append(surgery, imported, matched)
    return Overlaid(text=surgery.made(), unsaid=tuple(unsaid), new_word=tuple(_in_a_new_word(imported, both, words)))


def _in_a_new_word(
    imported: Imported, both: Sequence[tuple[ImportedTask, Task]], words: Mapping[str, str]
) -> Iterator[str]:
    if imported.kind is Kind.REQUIREMENTS and "!" not in words:
        yield from (now.id for _, now in both if state_of(now) == "!")


def _words(imported: Imported) -> dict[str, str]:
    """The words that the file itself has for the marks."""
    found: dict[str, str] = {}
    for one in flat(imported.tasks):
        status = one.node.get("status")
        if status and isinstance(status.value, Text) and not forms.is_in_progress(one.node):
            found.setdefault(forms.mark_of(status.value.value) or "", status.value.value)
    return found


def _lay(surgery: Surgery, kind: Kind, one: ImportedTask, now: Task, words: Mapping[str, str]) -> bool:
    """Changes what says how this task stands; whether the file can say it."""
    state = state_of(now)
    passes, status = one.node.get("passes"), one.node.get("status")
    by_status = forms.says_status(status.value) if status else not (passes or forms.by_passes(kind))
    if _has_changed(kind, one, state):
        if passes or not by_status:
            surgery.put(one.node, "passes", state == "x")
        if by_status:
            surgery.put(one.node, "status", words.get(state) or status_word(kind, state))
    was, why = (each.blocked if each.mark == "!" else "" for each in (one, now))
    if one.node.get("blockers") and was != why:
        surgery.put(one.node, "blockers", blockers(now))
    if now.tries and one.node.get("retry_count"):
        surgery.put(one.node, "retry_count", now.tries)
    return state != "!" or by_status


def _has_changed(kind: Kind, one: ImportedTask, state: str) -> bool:
    """Whether it stands otherwise than the file says; only a plan has a word for what is in progress."""
    says_itself = one.node.get("passes", "status") is not None  # else it stands as its subtasks do
    was = "x" if one.done and not says_itself else one.mark
    if state == "~" and was == " ":
        return kind is Kind.PLAN and not forms.is_in_progress(one.node)
    return was != state


def _append(surgery: Surgery, imported: Imported, matched: Match) -> None:
    """Tasks that the file does not have, each in the list of the task it is part of."""
    below: defaultdict[str, list[Task]] = defaultdict(list)
    for parent, task in _new(matched.listed, matched, ""):
        below[parent].append(task)
    if not below:
        return
    maker = _maker(imported, matched)
    _append_to(surgery, imported.items, imported.tasks, [maker.task(_grown(task, below)) for task in below[""]])
    for one in flat(imported.tasks):
        made = [maker.task(_grown(task, below), top=False) for task in below[one.path]]
        member = one.node.get("subtasks")
        if made and one.subtasks and member and isinstance(member.value, Array):
            _append_to(surgery, member.value, one.subtasks, made)
        elif made:
            surgery.put(one.node, "subtasks", list(made))


def _append_to(surgery: Surgery, array: Array, siblings: Sequence[ImportedTask], made: Sequence[Fields]) -> None:
    """Where the others have no ids they get theirs: what is new has one, and it may wait for them."""
    for one in siblings if made else ():
        if one.node.get("id") is None:
            surgery.put(one.node, "id", one.id)
    surgery.extend(array, made, style_of(siblings[-1].node, surgery.text))


def _maker(imported: Imported, matched: Match) -> Maker:
    """Makes tasks as those of the file are."""
    usual = names_of(imported.kind)
    priorities = [one.priority for one in imported.tasks]
    known = [priority for priority in priorities if priority is not None]
    return Maker(
        kind=imported.kind,
        text=imported.text,
        original=matched.original,
        last=max(known) + 1 if len(known) == len(priorities) else None,
        names=Names(
            title=_used(imported, forms.TITLE),
            description=_used(imported, forms.DESCRIPTION) or usual.description,
            after=_used(imported, forms.AFTER) or usual.after,
            criteria=_used(imported, forms.criteria_names(imported.kind)) or usual.criteria,
        ),
    )


def _used(imported: Imported, names: Sequence[str]) -> str:
    """Which of these names the file has; empty when it has none."""
    there = (one.node.get(*names) for one in flat(imported.tasks))
    return next((member.key.value for member in there if member), "")


def _new(listed: Sequence[Task], matched: Match, parent: str) -> Iterator[tuple[str, Task]]:
    for task in listed:
        one = matched.original.get(task.id)
        if one is None:
            yield parent, replace(task, mark=state_of(task), subtasks=())
        yield from _new(task.subtasks, matched, one.path if one else task.id)


def _grown(task: Task, below: Mapping[str, list[Task]]) -> Task:
    return replace(task, subtasks=tuple(_grown(part, below) for part in below.get(task.id, [])))
