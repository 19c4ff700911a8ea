"""A task of the Task List as an object of one of the forms."""

from collections.abc import Iterator
from dataclasses import dataclass

from ralph.imports import forms
from ralph.imports.cleaning import cut
from ralph.imports.jsontext import Member, Number
from ralph.imports.listing import text_of
from ralph.imports.model import ImportedTask, Kind
from ralph.imports.rendering import Fields, Raw, Value
from ralph.tasks import Task

Named = tuple[str, Value]
_LONGEST_TITLE = 100
_STATUS = {
    Kind.REQUIREMENTS: {" ": "pending", "~": "pending", "x": "done", "!": "blocked"},
    Kind.PLAN: {" ": "pending", "~": "in_progress", "x": "complete", "!": "blocked"},
}


def state_of(task: Task) -> str:
    """Its mark; a task is also done when all its subtasks are."""
    return "x" if task.done else task.mark


def status_word(kind: Kind, state: str) -> str:
    """What this form calls it."""
    return _STATUS.get(kind, _STATUS[Kind.REQUIREMENTS])[state]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the fields are called that the forms call differently."""

    title: str
    """Empty where there is only a description."""
    description: str
    after: str
    criteria: str


def names_of(kind: Kind) -> Names:
    """What this form calls them."""
    if kind is Kind.REQUIREMENTS:
        return Names(title="", description="requirement", after="dependencies", criteria="verification_criteria")
    if kind is Kind.PLAN:
        return Names(title="", description="description", after="dependencies", criteria="verification_criteria")
    return Names(title="title", description="description", after="dependencies", criteria="acceptanceCriteria")


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Makes objects of one form, to which everything goes along that the original knows besides."""

    kind: Kind
    text: str
    """The JSON that the originals stand in."""
    original: dict[str, ImportedTask]
    """By today's ids."""
    last: int | None
    """The priority of those at the top that have none: after all others. None leaves it out."""
    names: Names

    def task(self, task: Task, *, top: bool = True) -> Fields:
        """The object. What a form wants of every task it wants of those at the top, not of subtasks."""
        original = self.original.get(task.id)
        members: list[Named] = [("id", self._id(task.id)), *self._words(task, original, top=top)]
        members += [*self._status(task), *self._order(task, top=top), *self._criteria(task, original)]
        members += self._troubles(task, original)
        for name, value in self._rest(original):
            members.append((free(name, [known for known, _ in members]), value))
        if task.subtasks:
            members.append(("subtasks", [self.task(part, top=False) for part in task.subtasks]))
        return Fields(members)

    def _id(self, name: str) -> Value:
        member = self.original[name].node.get("id") if name in self.original else None
        return self._raw(member) if member and isinstance(member.value, Number) else name

    def _words(self, task: Task, original: ImportedTask | None, *, top: bool) -> Iterator[Named]:
        """Title and description as they stand; what somebody wrote into the list since then is newer."""
        title, description = self._texts(original) if original else (None, None)
        edited = original is not None and task.text != text_of(original)
        yield from self._named_words(task, *((None, None) if edited else (title, description)), top=top)
        if edited:
            yield from (
                (f"{name}_before", raw) for name, raw in (("title", title), ("description", description)) if raw
            )

    def _named_words(self, task: Task, title: Raw | None, description: Raw | None, *, top: bool) -> Iterator[Named]:
        names = self.names
        if not names.title:
            yield names.description, description or title or task.text
            if title and description:
                yield "title", title
            return
        yield names.title, title or cut(task.text, _LONGEST_TITLE)
        if description or top:
            yield names.description, description or title or task.text

    def _texts(self, original: ImportedTask) -> tuple[Raw | None, Raw | None]:
        title, description = (original.node.get(*names) for names in (forms.TITLE, forms.DESCRIPTION))
        return (
            self._raw(title) if title and original.title else None,
            self._raw(description) if description and original.description else None,
        )

    def _status(self, task: Task) -> Iterator[Named]:
        state = state_of(task)
        if not forms.by_passes(self.kind):
            yield "status", status_word(self.kind, state)
            return
        yield "passes", state == "x"
        if state == "!":
            yield "status", "blocked"

    def _order(self, task: Task, *, top: bool) -> Iterator[Named]:
        priority = self.last if task.priority is None and top else task.priority
        if priority is not None:
            yield "priority", priority
        if task.after or self.kind is Kind.PLAN:
            yield self.names.after, [self._id(name) for name in task.after]

    def _criteria(self, task: Task, original: ImportedTask | None) -> Iterator[Named]:
        if original and original.criteria and original.criteria == task.criteria:
            member = original.node.get(*forms.CRITERIA, forms.STEPS)
            assert member is not None
            yield self.names.criteria, self._raw(member)
        elif task.criteria or self.kind is not Kind.REQUIREMENTS:
            yield self.names.criteria, list(task.criteria)

    def _troubles(self, task: Task, original: ImportedTask | None) -> Iterator[Named]:
        known = original.node if original else None
        if (task.mark == "!" and task.blocked) or (known and known.get("blockers")):
            yield "blockers", blockers(task)
        tries = known.get("retry_count") if known else None
        if task.tries or tries:
            yield "retry_count", self._raw(tries) if tries and not task.tries else task.tries

    def _rest(self, original: ImportedTask | None) -> Iterator[Named]:
        """What no field of the form says."""
        if original is None:
            return
        node = original.node
        said = ("id", "passes", "priority", "subtasks", "blockers", "retry_count")
        used = [node.get(name) for name in said]
        used += [node.get(*names) for names in (forms.TITLE, forms.DESCRIPTION, forms.AFTER, forms.CRITERIA)]
        if original.criteria and not node.get(*forms.CRITERIA):
            used.append(node.get(forms.STEPS))
        for member in node.members:
            if member not in used and not (member.key.value == "status" and forms.says_status(member.value)):
                yield member.key.value, self._raw(member)

    def _raw(self, member: Member) -> Raw:
        return Raw(member.value, self.text)


def blockers(task: Task) -> Value:
    """Why it is blocked, as a list."""
    return [task.blocked] if task.mark == "!" and task.blocked else []


def free(name: str, known: list[str]) -> str:
    """The name, or one like it that nothing else has."""
    while name in known:
        name += "_"
    return name
