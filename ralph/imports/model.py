"""What an imported plan says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from ralph.imports.jsontext import Array, Node, Object


class Kind(Enum):
    """Which form it has; the values are those of `ralph export --format`, where there is one."""

    REQUIREMENTS = "requirements"
    PLAN = "plan"
    PRD = "prd"
    STORIES = "stories"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTask:
    """A task of it, and where in the file it stands."""

    id: str
    title: str
    """One line, perhaps empty."""
    description: str
    """One line, perhaps empty; one of the two is not."""
    mark: str
    after: tuple[str, ...]
    priority: int | None
    criteria: tuple[str, ...]
    blocked: str
    subtasks: "tuple[ImportedTask, ...]"
    node: Object
    path: str

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.mark == "x" or (bool(self.subtasks) and all(task.done for task in self.subtasks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A task list in JSON, untouched, with what it says."""

    kind: Kind
    tasks: tuple[ImportedTask, ...]
    text: str
    """The JSON as it stands."""
    root: Node
    items: Array
    """The list of the tasks."""
    start: int
    end: int
    """Where in the plan's bytes it stands."""
    place: str
    """The same for people: `feature.md:12`, or the name of a plan that is nothing else."""


def flat(tasks: Sequence[ImportedTask]) -> Iterator[ImportedTask]:
    """All of them, subtasks after their task."""
    for task in tasks:
        yield task
        yield from flat(task.subtasks)
