"""What a watched iteration leaves for the run after a death: how all was when it began, and when all had ended.

The supervisor outlives ralph, ends the agent, and takes the second look. What changed between the two is the
iteration's; what changed after the second is the user's. No clock decides that.
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
"""Beside the shadow's index: the project's when the iteration began and when all had ended, and all files then."""


def load_tree_before(state: State) -> TreeBefore | None:
    """How all was before the iteration in which ralph died; None where nobody watched it, or the note is not whole."""
    death, before = state.unjudged_iteration(), state.load_note(TreeBefore)
    return before if death and before and death.transcript.name == before.record else None


def load_tree_at_end(state: State, before: TreeBefore) -> TreeAtEnd | None:
    """How all was at its end; None where nobody took that look, since the supervisor was killed as well."""
    look = state.load_note(TreeAtEnd)
    return look if look and look.record == before.record else None


def resume_shadow(before: TreeBefore) -> Shadow | None:
    """The shadow that knows how all files were; None where it does not any more."""
    shadow = Shadow(Path(before.root), Path(before.folder), before.own, before.protected)
    with contextlib.suppress(OSError):
        return shadow if shadow.resume(before.snapshot) else None
    return None


def load_repository_before(before: TreeBefore) -> Repository | None:
    """The project's repository, where it lay then."""
    if not before.places:
        return None
    repository = Repository(before.places)
    repository.index_copy = Path(before.folder) / INDEX_COPY
    return repository


def changed_since_end(look: TreeAtEnd, shadow: Shadow) -> set[str]:
    """What somebody has changed after that look."""
    later = shadow.compare_with_index(_AT_DEATH)
    return {*later.changes()} if later.resume(look.snapshot) else set()


@contextlib.contextmanager
def _errors_mean_unknown() -> Iterator[None]:
    """The disk may be full, or an agent removed ralph's copies: then nobody knows, and the next run says so."""
    with contextlib.suppress(OSError, RalphError):
        yield


@_errors_mean_unknown()
def record_tree_after_death(state: State) -> None:
    """Writes down, with one rename, how all is now that the last process of a dead run has ended.

    Once: a run that dies while it recovers from another one's death has changed nothing that is to be judged.
    """
    watch = load_tree_before(state)
    shadow = resume_shadow(watch) if watch else None
    if watch and shadow and not load_tree_at_end(state, watch):
        state.save_note(record_tree_now(watch, shadow, state))


def record_tree_now(watch: TreeBefore, shadow: Shadow, state: State) -> TreeAtEnd:
    """How all is now."""
    death = state.unjudged_iteration()
    repository = load_repository_before(watch)
    changes = shadow.changes() | dict.fromkeys(shadow.newly_ignored_files() if watch.only else (), False)
    shutil.copyfile(f"{watch.folder}/index", f"{watch.folder}/{_AT_DEATH}")
    later = shadow.compare_with_index(_AT_DEATH)
    later.snapshot = watch.snapshot
    if repository:
        repository.copy_index(Path(watch.folder) / INDEX_AT_LOOK)
    later.update_snapshot(changes)
    return TreeAtEnd(
        record=watch.record,
        changes=changes,
        head=repository.read_head() if repository else (),
        progress=text_of(Path(death.progress_path)) if death else "",
        snapshot=later.snapshot,
    )
