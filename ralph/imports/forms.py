"""The forms of task lists in JSON: which of them one has, and what they call things."""

import re

from ralph.imports.jsontext import Array, Node, Number, Object, Text, is_null
from ralph.imports.model import Kind

LISTS = {
    "userStories": Kind.STORIES,
    "stories": Kind.STORIES,
    "user_stories": Kind.STORIES,
    "tasks": Kind.PLAN,
    "requirements": Kind.REQUIREMENTS,
}
"""What the list of the tasks is called, and whose form that is; the first that is there counts."""
TITLE = ("title", "name")
DESCRIPTION = ("requirement", "description")
AFTER = ("dependencies", "dependsOn", "depends_on")
CRITERIA = ("verification_criteria", "acceptanceCriteria", "acceptance_criteria")
STEPS = "steps"
"""How to see that a story holds, in lists that know no criteria."""
_TELLING = {
    "requirements": ("requirement",),
    "tasks": (*CRITERIA, *AFTER, "passes"),
    "": ("passes",),
}
_OF_STORIES = (*CRITERIA, "passes")
_TELLING_TEXT = re.compile(rf'"(?:requirement|passes|{"|".join(CRITERIA)})"\s*:')
_LIST_TEXT = re.compile(rf'\s*\{{.*"(?:{"|".join(LISTS)})"\s*:\s*\[', re.DOTALL)

_MARKS = {
    "pending": " ",
    "todo": " ",
    "open": " ",
    "not_started": " ",
    "in_progress": " ",
    "done": "x",
    "complete": "x",
    "completed": "x",
    "blocked": "!",
}
STATUS_WORDS = "pending, in_progress, done, complete or blocked"
_PRIORITIES = {"critical": 1, "high": 2, "medium": 3, "low": 4}


def by_passes(kind: Kind) -> bool:
    """Whether `passes` is how this form says that a task is done; the others have a `status`."""
    return kind in {Kind.PRD, Kind.STORIES}


def criteria_names(kind: Kind) -> tuple[str, ...]:
    """What this form calls the criteria."""
    return (*CRITERIA, STEPS) if kind is Kind.STORIES else CRITERIA


def mark_of(word: str) -> str | None:
    """The mark that a status word means; None when it is none."""
    return _MARKS.get(_plain(word))


def _plain(word: str) -> str:
    return re.sub(r"[\s-]+", "_", word.strip().casefold())


def says_status(node: Node) -> bool:
    """Whether this value of `status` is one, or nothing yet, and not a word of somebody else."""
    return is_null(node) or (isinstance(node, Text) and mark_of(node.value) is not None)


def is_in_progress(node: Object) -> bool:
    """Whether its status says that somebody works on it."""
    status = node.get("status")
    return status is not None and isinstance(status.value, Text) and _plain(status.value.value) == "in_progress"


def priority_of(node: Text | Number) -> int | None:
    """The priority, 1 being the first; None when it says none."""
    if isinstance(node, Number):
        whole = re.fullmatch(r"(-?\d{1,9})(?:\.0+)?", node.spelled, re.ASCII)
        return int(whole[1]) if whole else None
    said = node.value.strip().casefold()
    number = re.fullmatch(r"p?(\d{1,9})", said, re.ASCII)
    return int(number[1]) if number else _PRIORITIES.get(said)


def kind_of(name: str, items: Array) -> Kind:
    """Whose form a list of this name has; the name of a list that stands alone is empty."""
    if name != "tasks":
        return LISTS.get(name, Kind.STORIES)
    if _any_has(items, "verification_criteria") or (_any_has(items, "status") and not _any_has(items, "passes")):
        return Kind.PLAN
    return Kind.PRD if _any_has(items, "passes", "acceptanceCriteria") else Kind.PLAN


def tells(name: str, items: Array) -> bool:
    """Whether the list can be no other than one of these, also where nobody said so."""
    return _any_has(items, *_TELLING.get(name, _OF_STORIES))


def nearly_tells(text: str) -> bool:
    """The same of a text that is no JSON."""
    return bool(_TELLING_TEXT.search(text)) and (text.lstrip().startswith("[") or bool(_LIST_TEXT.match(text)))


def _any_has(items: Array, *names: str) -> bool:
    found = (item.get(*names) for item in items.items if isinstance(item, Object))
    return any(member is not None and not is_null(member.value) for member in found)
