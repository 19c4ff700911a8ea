"""Roles: the modes that each task passes in turn under --strict, each an iteration with its own prompt and tools."""

from typing import NamedTuple

from ralph.errors import RalphError
from ralph.run import Run
from ralph.strict.signal import Finding
from ralph.tasks import Task

_FIX = "fix"
"""Is no part of the order: it follows what a check has found."""


class Roles(NamedTuple):
    """Which role a task needs when."""

    order: tuple[str, ...]
    checked: str
    """The last of them that may change files: the gates come after it."""
    fix: str
    """What follows where they find something."""

    def of(self, task: Task) -> str:
        """The one that the task needs now."""
        return task.role if task.role in {*self.order, self.fix} - {""} else self.order[0]

    def after(self, role: str) -> str:
        """The one that comes next; empty after the last."""
        place = self.order.index(self.checked if role == _FIX else role) + 1
        return "".join(self.order[place : place + 1])

    def after_failure(self, role: str, found: Finding) -> str:
        """The one that tries again what failed."""
        if found.rejected or (found.red and not self.fix):
            return self.checked
        return self.fix if found.red else role


def roles_of(run: Run) -> Roles | None:
    """The roles of a run that builds; None without any. Raises RalphError where one is no mode, or none may write."""
    order = tuple(name for name in run.settings.roles if name != _FIX)
    if not order or run.start.mode != "build":
        return None
    writers = [name for name in order if () not in run.start.entered(name).settings.only]
    if not writers:
        said = run.settings.said["roles"]
        raise RalphError(f"{said.where}: none of the roles {said.text} may change files", fix="have build among them")
    mends = _FIX in run.settings.roles and run.settings.on_failure == "keep"
    return Roles(order, checked=writers[-1], fix=_FIX if mends else "")
