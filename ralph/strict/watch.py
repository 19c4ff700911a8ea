"""What a watched iteration leaves for the run after a death: how all was when it began, and when all had ended.

The supervisor outlives ralph, ends the agent, and takes the second look. What changed between the two is the
iteration's; what changed after the second is a person's. No clock decides that.
"""

import contextlib
import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ralph.errors import RalphError
from ralph.git.repository import Place, Repository, text_of
from ralph.store.state import State
from ralph.strict.shadow import Shadow, Snapshot

_WATCH, _LAST_LOOK = "guard", "last-look"
INDEX_COPY, INDEX_AT_LOOK, _AT_DEATH = "index-of-project", "index-at-look", "index-at-death"
"""Beside the shadow's index: the project's when the iteration began and when all had ended, and all files then."""


@dataclass(kw_only=True)
class TreeBefore:
    """How all was when an iteration began. A forged note may be believed, but nothing in it is ever run."""

    record: str = ""
    """The name of the iteration's transcript."""
    task: str = ""
    is_strict: bool = False
    only: Sequence[Sequence[str]] = ()
    places: Sequence[str] = ()
    """Where the parts of the repository lie; empty without one."""
    place: Place | None = None
    """Where HEAD was."""
    compared: Mapping[str, str] = field(default_factory=dict)
    """What is only compared, as it was."""
    root: str = ""
    folder: str = ""
    """The shadow's."""
    own: Sequence[str] = ()
    protected: Collection[str] = ()
    snapshot: Snapshot = field(default_factory=Snapshot)
    is_settled: bool = False
    """The agent has ended, and what it did was put right."""

    def save(self, state: State) -> None:
        """Keeps it for the next run."""
        state.write_note(_WATCH, json.dumps(asdict(self)))

    @classmethod
    def load(cls, state: State) -> "TreeBefore | None":
        """That of the iteration in which ralph died; None where nobody watched it, or the note is not whole."""
        death = state.unjudged_iteration()
        with contextlib.suppress(ValueError, TypeError):
            watch = cls(**json.loads(state.read_note(_WATCH)))
            watch.snapshot = Snapshot(*watch.snapshot)
            return watch if death and death.transcript.name == watch.record else None
        return None

    def shadow(self) -> Shadow | None:
        """The shadow that knows how all files were; None where it does not any more."""
        shadow = Shadow(Path(self.root), Path(self.folder), self.own, self.protected)
        with contextlib.suppress(OSError):
            return shadow if shadow.resume(self.snapshot) else None
        return None

    def repository(self) -> Repository | None:
        """The project's, where it lay then."""
        if not self.places:
            return None
        repository = Repository(self.places)
        repository.index_copy = Path(self.folder) / INDEX_COPY
        return repository


@dataclass(kw_only=True)
class TreeAtEnd:
    """How all was when the last process of a dead run had ended."""

    record: str
    """The name of the iteration's transcript."""
    changes: Mapping[str, bool]
    """What the iteration had changed, each with whether it was there before."""
    head: Sequence[str]
    """The branch and the commit."""
    progress: str
    """What the progress file said."""
    snapshot: Snapshot

    @classmethod
    def load(cls, state: State, watch: TreeBefore) -> "TreeAtEnd | None":
        """That of this iteration; None where nobody took it, since the supervisor was killed as well."""
        with contextlib.suppress(ValueError, TypeError):
            look = cls(**json.loads(state.read_note(_LAST_LOOK)))
            look.snapshot = Snapshot(*look.snapshot)
            return look if look.record == watch.record else None
        return None

    def changed_since(self, shadow: Shadow) -> set[str]:
        """What somebody has changed after it."""
        later = shadow.second(_AT_DEATH)
        return {*later.changes()} if later.resume(self.snapshot) else set()


@contextlib.contextmanager
def _nothing_to_see() -> Iterator[None]:
    """The disk may be full, or an agent removed ralph's copies: then nobody knows, and the next run says so."""
    with contextlib.suppress(OSError, RalphError):
        yield


@_nothing_to_see()
def take_last_look(state: State) -> None:
    """Writes down, with one rename, how all is now that the last process of a dead run has ended.

    Once: a run that dies while it recovers from another one's death has changed nothing that is to be judged.
    """
    watch = TreeBefore.load(state)
    shadow = watch.shadow() if watch else None
    if not watch or not shadow or TreeAtEnd.load(state, watch):
        return
    state.write_note(_LAST_LOOK, json.dumps(asdict(look_now(watch, shadow, state))))


def look_now(watch: TreeBefore, shadow: Shadow, state: State) -> TreeAtEnd:
    """How all is now."""
    death = state.unjudged_iteration()
    repository = watch.repository()
    changes = shadow.changes() | dict.fromkeys(shadow.newly_hidden() if watch.only else (), False)
    shutil.copyfile(f"{watch.folder}/index", f"{watch.folder}/{_AT_DEATH}")
    later = shadow.second(_AT_DEATH)
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
