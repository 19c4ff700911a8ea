"""Reads the tasks of a list in JSON, and says everything that is wrong with them."""

from collections.abc import Iterator
from itertools import chain

from ralph.imports import forms, naming, order
from ralph.imports.cleaning import ONE_WORD, is_id, one_line, same_line
from ralph.imports.jsontext import Array, Member, Node, Number, Object, Text, Word, is_null, kind
from ralph.imports.model import ImportedTask, Kind
from ralph.imports.problems import Problem


def check(form: Kind, name: str, items: Array, root: Node) -> tuple[tuple[ImportedTask, ...], list[Problem]]:
    """The tasks, and the problems in the order of the file; where there are any, the tasks may be half read."""
    reading = _Reading(form)
    reading.twice(root, "")
    if not items.items:
        reading.odd(items, name or "the list", "is empty; write what shall be built")
    tasks = naming.with_names(reading.tasks(items, name))
    return tasks, sorted(chain(reading.problems, order.problems(tasks)))


class _Reading:
    """A list while it is read, with the problems found so far."""

    def __init__(self, form: Kind) -> None:
        self.form = form
        self.problems: list[Problem] = []

    def odd(self, node: Node, path: str, what: str) -> None:
        """Takes down what is wrong with a value."""
        self.problems.append(Problem(node.start, path, what))

    def twice(self, node: Node, path: str) -> None:
        """Takes down the names that an object has twice: who reads it next may take the other."""
        if isinstance(node, Array):
            for place, item in enumerate(node.items):
                self.twice(item, f"{path}[{place}]")
        if isinstance(node, Object):
            seen: set[str] = set()
            for member in node.members:
                where = f"{path}.{member.key.value}".removeprefix(".")
                if member.key.value in seen:
                    self.odd(member.key, where, "stands there twice")
                seen.add(member.key.value)
                self.twice(member.value, where)

    def tasks(self, items: Array, name: str) -> tuple[ImportedTask, ...]:
        """The tasks of this list; ids may be left out where all of them are."""
        objects = [(place, item) for place, item in enumerate(items.items) if isinstance(item, Object)]
        with_ids = any(self.given(item, "id") for _, item in objects)
        for place, item in enumerate(items.items):
            if not isinstance(item, Object):
                self.odd(item, f"{name}[{place}]", f"must be an object, not {kind(item)}")
        return tuple(self.task(item, f"{name}[{place}]", with_ids) for place, item in objects)

    def task(self, node: Object, path: str, with_id: bool) -> ImportedTask:
        """One of them."""
        title = self.text(node, path, *forms.TITLE)
        description = self.text(node, path, *forms.DESCRIPTION)
        if not title and not description and not self.given(node, *forms.TITLE, *forms.DESCRIPTION):
            name = {Kind.REQUIREMENTS: "requirement", Kind.STORIES: "title"}.get(self.form, "description")
            self.odd(node, f"{path}.{name}", "is missing; say what shall be built")
        return ImportedTask(
            id=self.id(node, path) if with_id else "",
            title=title,
            description=description,
            mark=self.mark(node, path),
            after=self.after(node, path),
            priority=self.priority(node, path),
            criteria=self.criteria(node, path),
            blocked=self.reason(node),
            subtasks=self.subtasks(node, path),
            node=node,
            path=path,
        )

    def given(self, node: Object, *names: str) -> Member | None:
        """The member of one of these names that says something."""
        member = node.get(*names)
        return None if member is None or is_null(member.value) else member

    def text(self, node: Object, path: str, *names: str) -> str:
        """The words of the member of one of these names."""
        member = self.given(node, *names)
        if member is None:
            return ""
        where = f"{path}.{member.key.value}"
        if not isinstance(member.value, Text):
            self.odd(member.value, where, f"must be a string, not {kind(member.value)}")
            return ""
        said = one_line(member.value.value)
        if not said and not self.given(node, *(set(forms.TITLE + forms.DESCRIPTION) - set(names))):
            self.odd(member.value, where, "is empty; say what shall be built")
        return said

    def id(self, node: Object, path: str) -> str:
        """Its id, which is a word or a whole number."""
        member = self.given(node, "id")
        if member is None:
            self.odd(node, f"{path}.id", "is missing, though others have one")
            return ""
        return self.one_id(member.value, f"{path}.id")

    def one_id(self, node: Node, path: str) -> str:
        """An id, its own or that of another."""
        if not isinstance(node, Text | Number):
            self.odd(node, path, f"must be a string or a whole number, not {kind(node)}")
            return ""
        name = node.value if isinstance(node, Text) else node.spelled
        if not is_id(name):
            self.odd(node, path, f'"{one_line(name)}" is no id: {ONE_WORD}')
        return name

    def mark(self, node: Object, path: str) -> str:
        """What stands between the brackets: done, blocked, or to do."""
        passes, status = self.passes(node, path), self.status(node, path)
        self.other_words(node, path)
        if forms.by_passes(self.form):
            return "x" if passes else "!" if status == "!" else status if passes is None and status else " "
        return status or ("x" if passes else " ")

    def other_words(self, node: Object, path: str) -> None:
        """Takes down what looks as if the task was done, in a word that no form has."""
        member = self.given(node, "done", "completed", "complete")
        if (
            member
            and isinstance(member.value, Word)
            and member.value.value
            and not self.given(node, "status", "passes")
        ):
            word = '"passes": true' if forms.by_passes(self.form) else '"status": "done"'
            self.odd(member.value, f"{path}.{member.key.value}", f"does not say that it is done; write {word}")

    def passes(self, node: Object, path: str) -> bool | None:
        """Whether it says that the task holds; None when it says nothing."""
        member = self.given(node, "passes")
        if member is None:
            return None
        if not isinstance(member.value, Word):
            self.odd(member.value, f"{path}.passes", f"must be true or false, not {kind(member.value)}")
            return None
        return member.value.value

    def status(self, node: Object, path: str) -> str | None:
        """The mark that its status means; beside `passes` any other word may stand there."""
        member = self.given(node, "status")
        if member is None:
            return None
        mark = forms.mark_of(member.value.value) if isinstance(member.value, Text) else None
        if mark is None and not (forms.by_passes(self.form) and self.given(node, "passes")):
            said = f'"{one_line(member.value.value)}"' if isinstance(member.value, Text) else kind(member.value)
            self.odd(member.value, f"{path}.status", f"{said} is no status; write {forms.STATUS_WORDS}")
        return mark

    def priority(self, node: Object, path: str) -> int | None:
        """Its priority; 1 is the first."""
        member = self.given(node, "priority")
        if member is None:
            return None
        number = forms.priority_of(member.value) if isinstance(member.value, Text | Number) else None
        if number is None:
            what = f'"{one_line(member.value.value)}"' if isinstance(member.value, Text) else kind(member.value)
            what = member.value.spelled if isinstance(member.value, Number) else what
            self.odd(member.value, f"{path}.priority", f"{what} is no priority; write a whole number, 1 for the first")
        return number

    def listed(self, node: Object, path: str, *names: str) -> Iterator[tuple[Node, str]]:
        """The items of the list of one of these names, each with its path."""
        member = self.given(node, *names)
        if member is None:
            return
        where = f"{path}.{member.key.value}"
        if not isinstance(member.value, Array):
            self.odd(member.value, where, f"must be a list, not {kind(member.value)}")
            return
        for place, item in enumerate(member.value.items):
            yield item, f"{where}[{place}]"

    def after(self, node: Object, path: str) -> tuple[str, ...]:
        """The ids of those it waits for."""
        names = (self.one_id(item, where) for item, where in self.listed(node, path, *forms.AFTER))
        return tuple(dict.fromkeys(filter(None, names)))

    def criteria(self, node: Object, path: str) -> tuple[str, ...]:
        """What must hold for it to be done."""
        names = forms.criteria_names(self.form)
        return tuple(self.criterion(item, where) for item, where in self.listed(node, path, *names))

    def criterion(self, node: Node, path: str) -> str:
        """One of them: a text, or an object that has one."""
        if isinstance(node, Object) and (member := self.given(node, "description", "text", "criterion")):
            node, path = member.value, f"{path}.{member.key.value}"
        if not isinstance(node, Text):
            self.odd(node, path, f"must be a string, not {kind(node)}")
            return ""
        if not (said := same_line(node.value)):
            self.odd(node, path, "is empty; say what must hold")
        return said

    def reason(self, node: Object) -> str:
        """Why it is blocked, where it says so."""
        member = self.given(node, "blockers")
        items = member.value.items if member is not None and isinstance(member.value, Array) else ()
        return "; ".join(one_line(item.value) for item in items if isinstance(item, Text))

    def subtasks(self, node: Object, path: str) -> tuple[ImportedTask, ...]:
        """What it consists of."""
        member = self.given(node, "subtasks")
        if member is None:
            return ()
        if not isinstance(member.value, Array):
            self.odd(member.value, f"{path}.subtasks", f"must be a list, not {kind(member.value)}")
            return ()
        return self.tasks(member.value, f"{path}.subtasks")
