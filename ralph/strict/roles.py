"""Roles: the modes that each task passes in turn under --strict, each an iteration with its own prompt and tools."""

from typing import NamedTuple

from ralph.errors import RalphError
from ralph.plan.tasks import Task
from ralph.run.prepared import PreparedStart
from ralph.strict.final_words import Finding
from ralph.words import join_names

_FIX = "fix"
"""A role outside the order, which follows a failed check."""


class Roles(NamedTuple):
    """The order of roles, and which one a task needs next."""

    order: tuple[str, ...]
    last_writer: str
    """The last role that may change files; the checks run after it."""
    fix: str
    """The role that follows a failed check; empty for none."""

    def role_of_task(self, task: Task) -> str:
        """Returns the role that the task needs now."""
        message = "".join(task.note_values("role")[-1:]).partition(":")[0]
        return message if message and message in (*self.order, self.fix) else self.order[0]

    def next_role(self, role: str) -> str:
        """Returns the next role in the order; empty after the last."""
        place = self.order.index(self.last_writer if role == _FIX else role) + 1
        return "".join(self.order[place : place + 1])

    def is_to_blame(self, role: str, found: Finding) -> bool:
        """Whether the role failed, and not the work: that does not count as an attempt at the task."""
        return role not in (self.last_writer, self.fix) and not (found.rejected or found.red)

    def role_after_failure(self, role: str, found: Finding) -> str:
        """Returns the role that works on the failed task next."""
        if found.rejected or (found.red and not self.fix):
            return self.last_writer
        return self.fix if found.red else role


def roles_of(start: PreparedStart) -> Roles | None:
    """Returns the roles of a build run, or None. Raises RalphError if one is unknown, or none may write."""
    names = start.settings.roles
    order = tuple(name for name in names if name != _FIX)
    if not order or start.mode != "build" or start.rehearsal:  # a fake agent knows no roles
        return None
    writers = [name for name in order if () not in start.in_mode(name).settings.only]
    if not writers:
        what = f"{start.settings.given['roles'].where}: none of the roles {join_names(names)} may change files"
        raise RalphError(what, fix="have build among them")
    mends = _FIX in names and start.settings.on_failure == "keep"
    return Roles(order, last_writer=writers[-1], fix=_FIX if mends else "")
