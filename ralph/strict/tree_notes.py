"""Two notes for the run after a death: the state when the iteration began, and when its last process had ended.

The supervisor outlives ralph, ends the agent, and writes the second note. What changed between the two is the
iteration's; what changed after the second is the user's. No clock is involved.
"""

import contextlib
import os
import shutil
from pathlib import Path

from ralph.errors import RalphError
from ralph.git.repository import Repository, text_of
from ralph.store.notes import TreeAtEnd, TreeBefore
from ralph.store.state import State
from ralph.strict.shadow import Shadow

_AT_END = "index-at-end"
"""A file beside the shadow's index: all files at the end."""


def load_tree_notes(state: State) -> tuple[TreeBefore | None, TreeAtEnd | None]:
    """Loads both notes of the iteration in which ralph died.

    The first is None if it was unguarded, or the note incomplete; the second if the supervisor was killed as well.
    """
    death, before, end = state.unjudged_iteration(), state.load_note(TreeBefore), state.load_note(TreeAtEnd)
    if not death or not before or death.transcript.name != before.record:
        return None, None
    return before, end if end and end.record == before.record else None


def resume_shadow(before: TreeBefore, end: TreeAtEnd | None = None) -> Shadow | None:
    """Returns the shadow with the files as they were, or as they were at the end; None if it is no longer intact."""
    shadow = Shadow(Path(before.root), before.own, before.protected, _AT_END if end else "index")
    shadow.snapshot = (end or before).snapshot
    return shadow if shadow.checksum_now() == shadow.snapshot.checksum != "" else None


def record_tree_after_death(state: State) -> None:
    """Writes the note, with one rename, once the last process of a dead run has ended; puts back a plan that is gone.

    Only once: a run that dies while it recovers from an earlier death has changed nothing to judge. A full disk, or
    copies that an agent removed, leave it out; then the next run says that nobody knows.
    """
    before, end = load_tree_notes(state)
    with contextlib.suppress(OSError, RalphError):
        if before and not end and (shadow := resume_shadow(before)):
            changes = shadow.changes()
            gone = [name for name in changes.keys() & before.protected if not os.path.lexists(shadow.root / name)]
            shadow.put_back(gone, changes, state.free_kept_path)
            state.save_note(record_tree_now(before, shadow, state))


def record_tree_now(before: TreeBefore, shadow: Shadow, state: State) -> TreeAtEnd:
    """Returns the current state, as the note of the end of an iteration."""
    death = state.unjudged_iteration()
    changes = shadow.changes()
    shutil.copyfile(shadow.folder / "index", shadow.folder / _AT_END)
    later = Shadow(shadow.root, before.own, before.protected, _AT_END)
    later.snapshot = before.snapshot
    later.update_snapshot(changes)
    repository = Repository(before.repository_paths) if before.repository_paths else None
    return TreeAtEnd(
        record=before.record,
        changes=changes,
        head=repository.read_head() if repository else (),
        staged=repository.staged_checksum() if repository else 0,
        progress=text_of(death.progress_path) if death else "",
        snapshot=later.snapshot,
    )
