"""Two notes for the run after a death: the state when the iteration began, and when its last process had ended.

The supervisor outlives ralph, ends the agent, and writes the second note. What changed between the two is the
iteration's; what changed after the second is the user's. No clock is involved.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from ralph.errors import RalphError
from ralph.git.repository import Repository, text_of
from ralph.store.notes import TreeAtEnd, TreeBefore
from ralph.store.state import State
from ralph.strict.shadow import Shadow

INDEX_COPY, INDEX_AT_LOOK, _AT_DEATH = "index-of-project", "index-at-look", "index-at-death"
"""Files beside the shadow's index: the project's index at the beginning and at the end, and all files at the end."""


def load_tree_before(state: State) -> TreeBefore | None:
    """Loads the state before the iteration in which ralph died; None if it was unguarded, or the note incomplete."""
    death, before = state.unjudged_iteration(), state.load_note(TreeBefore)
    return before if death and before and death.transcript.name == before.record else None


def load_tree_at_end(state: State, before: TreeBefore) -> TreeAtEnd | None:
    """Loads the state at the end of that iteration; None if the supervisor was killed as well."""
    look = state.load_note(TreeAtEnd)
    return look if look and look.record == before.record else None


def resume_shadow(before: TreeBefore) -> Shadow | None:
    """Returns the shadow with the files as they were; None if it is no longer intact."""
    shadow = Shadow(Path(before.root), Path(before.folder), before.own, before.protected)
    with contextlib.suppress(OSError):
        return shadow if shadow.resume(before.snapshot) else None
    return None


def load_repository_before(before: TreeBefore) -> Repository | None:
    """Returns the project's repository where it was then, or None."""
    if not before.repository_paths:
        return None
    repository = Repository(before.repository_paths)
    repository.index_copy = Path(before.folder) / INDEX_COPY
    return repository


def changed_since_end(look: TreeAtEnd, shadow: Shadow) -> set[str]:
    """Returns the files that the user changed after the end of the iteration."""
    later = shadow.compare_with_index(_AT_DEATH)
    return {*later.changes()} if later.resume(look.snapshot) else set()


@contextlib.contextmanager
def _errors_mean_unknown() -> Iterator[None]:
    """Ignores a full disk, or copies that an agent removed: without the note the next run says that nobody knows."""
    with contextlib.suppress(OSError, RalphError):
        yield


@_errors_mean_unknown()
def record_tree_after_death(state: State) -> None:
    """Writes the note, with one rename, once the last process of a dead run has ended.

    Only once: a run that dies while it recovers from an earlier death has changed nothing to judge.
    """
    before = load_tree_before(state)
    shadow = resume_shadow(before) if before else None
    if before and shadow and not load_tree_at_end(state, before):
        state.save_note(record_tree_now(before, shadow, state))


def record_tree_now(before: TreeBefore, shadow: Shadow, state: State) -> TreeAtEnd:
    """Returns the current state, as the note of the end of an iteration."""
    death = state.unjudged_iteration()
    repository = load_repository_before(before)
    changes = shadow.changes() | dict.fromkeys(shadow.newly_ignored_files() if before.only else (), False)
    shutil.copyfile(f"{before.folder}/index", f"{before.folder}/{_AT_DEATH}")
    later = shadow.compare_with_index(_AT_DEATH)
    later.snapshot = shadow.snapshot
    if repository:
        repository.copy_index(Path(before.folder) / INDEX_AT_LOOK)
    later.update_snapshot(changes)
    return TreeAtEnd(
        record=before.record,
        changes=changes,
        head=repository.read_head() if repository else (),
        progress=text_of(Path(death.progress_path)) if death else "",
        snapshot=later.snapshot,
    )
