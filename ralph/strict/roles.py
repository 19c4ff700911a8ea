"""Roles: the modes that each task passes in turn under --strict, each an iteration with its own prompt and tools."""

import difflib
import os
from typing import NamedTuple

from ralph import files
from ralph.errors import RalphError
from ralph.plan.tasks import Task
from ralph.run.context import Run
from ralph.run.prepared import PreparedStart
from ralph.store.state import FilesBeforeBuild
from ralph.words import join_names, shorten

# A role outside the order, which follows a failed check.
_FIX = "fix"
_FILE_BYTES = 50_000
# The most characters of a diff.
_MOST = 8_000


class Roles(NamedTuple):
    """The order of roles, and which one a task needs next; without roles there is one, and it has no name."""

    order: tuple[str, ...] = ("",)
    last_writer: str = ""
    """The last role that may change files; the checks run after it."""
    fix: str = ""
    """The role that follows a failed check; empty for none."""

    def role_of_task(self, task: Task) -> str:
        """Returns the role that the task needs now."""
        name = "".join(task.note_values("role")[-1:]).partition(":")[0]
        return name if name and name in (*self.order, self.fix) else self.order[0]

    def next_role_or_empty(self, role: str) -> str:
        """Returns the next role in the order; empty after the last."""
        place = self.order.index(self.last_writer if role == _FIX else role) + 1
        return "".join(self.order[place : place + 1])


def role_order_of(start: PreparedStart) -> Roles:
    """Returns the roles of a build run. Raises RalphError if one is unknown, or none may write."""
    names = start.settings.roles
    order = tuple(name for name in names if name != _FIX)
    if not order or start.mode != "build" or start.rehearsal:  # a fake agent knows no roles
        return Roles()
    writers = [name for name in order if () not in start.in_mode(name).settings.only]
    if not writers:
        what = f"{start.settings.given['roles'].where}: none of the roles {join_names(names)} may change files"
        raise RalphError(what, fix="have build among them")
    mends = _FIX in names and start.settings.on_failure == "keep"
    return Roles(order, last_writer=writers[-1], fix=_FIX if mends else "")


def update_diff_base(run: Run, task_id: str) -> None:
    """Saves the files that attempts at the task changed and no commit has, for the diff that its reviewer gets."""
    reviewed = run.state.load_note(FilesBeforeBuild) or FilesBeforeBuild()
    reviewed.texts[task_id] = {name: _read_tree_file(run, name) for name in run.state.uncommitted_files(task_id)}
    run.state.save_note(reviewed)


def diff_made_by_build(run: Run, task_id: str) -> str:
    """Returns what build changed in these files since, as a diff; empty if it changed nothing."""
    found = list[str]()
    reviewed = run.state.load_note(FilesBeforeBuild) or FilesBeforeBuild()
    for name, text in reviewed.texts.get(task_id, {}).items():
        both = text.splitlines(), _read_tree_file(run, name).splitlines()
        found += difflib.unified_diff(*both, f"{name} (as it was left)", f"{name} (now)", lineterm="")
    return shorten("\n".join(f"    {line}" for line in found), _MOST)


def _read_tree_file(run: Run, name: str) -> str:
    """The content of a file in the tree; empty if it is gone, or a link leads elsewhere."""
    path = f"{os.path.realpath(run.changes.tree)}/{name}"
    data = files.read_or_empty(path)[:_FILE_BYTES] if os.path.realpath(path) == path else b""
    return data.decode(errors="replace")
