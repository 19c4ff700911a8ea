"""The working tree around an iteration: what may change in it, what is put back, and what ralph commits."""

import binascii
import contextlib
import functools
import json
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import __version__, files
from ralph.agent.turn import Commits
from ralph.changes import touched_at
from ralph.errors import RalphError
from ralph.judge import Watched
from ralph.state import State
from ralph.strict import compared, jj
from ralph.strict.only import allowed
from ralph.strict.repository import Change, Place, Repository, Runner, seen
from ralph.strict.shadow import Shadow
from ralph.tries import Tries
from ralph.words import counted, named

if TYPE_CHECKING:
    from ralph.run import Run
    from ralph.start import Start

_NOTE, _UNCOMMITTED = "guard", "uncommitted"
_MOST = 1000
"""New files that are moved away at once; more may be somebody's, and a person decides."""


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """What the disk refuses ends the run in words; an agent may have removed ralph's copies."""
    try:
        yield
    except OSError as error:
        what = "what was done to the repository cannot be put right"
        raise RalphError(f"{what}: {error}", 1, fix="look at it before the next start") from error


class Guard:
    """Watches over the working tree around the current folder. `say` hears what was put back, and where it is kept."""

    def __init__(
        self, start: "Start", state: State, run_id: str, say: Callable[[str], None], tries: Tries | None = None
    ) -> None:
        top = Path.cwd()
        self._start, self._state, self._run_id, self._say, self._tries = start, state, run_id, say, tries
        self._repository, self._jj = Repository.around(top), jj.root_around(top)
        self._root = self._repository.root if self._repository else self._jj or top
        self._real = os.path.realpath(self._root)
        self._here = os.path.relpath(os.path.realpath(top), self._real)
        self._protected, self._outside = list[str](), list[Path]()
        for path in (start.plan, Path(".ralph.env"), Path(".ralph"), start.settings.prompts) if start.strict else ():
            self._shall_stay(path)
        self._tree = self._name = self._blocked = ""
        self._seen: Mapping[str, str] = {}
        """What is compared, as it was."""
        self._place: Place | None = None
        self._guarded: Mapping[str, tuple[int, ...]] = {}
        """The files that govern ralph, as they were."""
        self._uncommitted = self._noted_uncommitted()
        """By task what its tries changed and no commit has."""
        self._earlier: Collection[str] = ()
        """What the tries before this one changed of those; putting back ends where they left it."""
        self.committed = Commits()
        """What ralph committed last."""
        self._died_at: float | None = None
        """When the iteration was over that died; what was changed later is a person's."""

    def _shall_stay(self, path: Path | None) -> None:
        """Notes a file or folder that governs ralph, by each way that leads there: put back or compared."""
        if path is None:
            return
        by_name = os.path.join(os.path.realpath(path.absolute().parent), path.name)  # noqa: PTH118 - a string
        for way in {by_name, os.path.realpath(path)}:
            name = os.path.relpath(way, self._real)
            if name.startswith(".."):
                self._outside.append(Path(way))
            elif name != ".":
                self._protected.append(name)

    @functools.cached_property
    def _shadow(self) -> Shadow:
        """Opened when it is needed first: a look at all files takes its time."""
        repository = self._repository
        folder = files.state_home() / "shadow" / f"{binascii.crc32(os.fsencode(self._real)):08x}"
        kind = repository.object_format if repository else "sha1"
        shadow = Shadow(self._root, folder, [*self._start.own, files.state_home()], kind)
        if repository is None:
            shadow.open(b"/.jj/\n", (), None)
        else:
            rules = repository.rules() + b"/.jj/\n" * bool(self._jj)
            shadow.open(rules, repository.tracked_though_ignored(), repository.common / "objects")
        return shadow

    @functools.cached_property
    def _own(self) -> set[str]:
        """Ralph's own files, as far as they belong into a commit."""
        own = {os.path.relpath(os.path.realpath(path), self._real) for path in self._start.own}
        return self._repository.tracked(own) if self._repository else own

    @property
    def _copy(self) -> Path:
        """Of the project's index."""
        return self._shadow.folder / "index-of-project"

    @contextlib.contextmanager
    def watching(self, run: "Run") -> Iterator[Watched]:
        """Around a turn of the agent: when it is over, what it may not change is put back, and said."""
        watched = Watched()
        self.begin()
        yield watched
        watched.strayed = self.strayed()
        if not watched.strayed:
            run.remove_orphaned_locks("the agent")
        undone = run.strict.put_right("while an agent works") if run.strict else []
        found = self.settle(f"{run.id}-{run.number}", run.task)
        watched.tampered, watched.outside = (*undone, *found.tampered), found.outside
        watched.changed, watched.strayed = found.changed, self._blocked

    def begin(self) -> None:
        """An iteration begins: how everything is now is how it can be put back."""
        self._blocked, self.committed = "", Commits()
        with _told():
            self._tree = self._shadow.begin(self._unforced())
            self._guarded = self._governing_now()
            self._place = self._placed()
            self._seen = compared.look(self._repository, self._outside, self._start.plan)
        # what an agent makes of it may be believed, but is never run
        noted = (self._iteration(), self._tree, self._seen, self._place, self._protected)
        self._state.note(_NOTE, json.dumps([*noted, self._shadow.modes, sorted(self._shadow.known)]))

    def _placed(self) -> Place | None:
        return self._repository.place(int(time.time()), self._copy) if self._repository else None

    def strayed(self) -> str:
        """Why nothing more may be done here; to be asked before any git is run, empty when nothing is wrong."""
        if not self._blocked and self._seen:
            now = compared.look(self._repository, self._outside, self._start.plan)
            self._blocked, said = compared.changed(self._root, self._seen, now, self._state.keep)
            if said:
                self._say(f"{said}; it stays")
            self._seen = self._seen if self._blocked else now
        if not self._blocked and self._tries:
            self._blocked = self._tries.rewritten(self._state.keep)
        return self._blocked

    def settle(self, name: str, task: str = "") -> Watched:
        """The agent has ended; `name` is what this iteration's refs are called, by which is kept what does not stay."""
        self._name = name
        found = self._put_right()
        if not self._start.strict or found.changed is None:
            return Watched(tampered=found.tampered, outside=found.outside)
        self._earlier = set(self._uncommitted.get(task, ()))
        self._note_uncommitted(task, {*self._earlier, *found.changed})
        return found

    def settle_programs(self) -> None:
        """The same once programs have run that the agent may have written: its checks, git's hooks."""
        if not self.strayed():
            with _told():
                self._head_back()
                if self._start.settings.only or self._governing_now() != self._guarded:
                    self._files_back()

    def restore(self, task: str) -> None:
        """All files are as they were before the iteration; how they are now is kept."""
        if self.strayed():
            return
        with _told():
            changes = self._shadow.changes(self._tree)
            if self._are_too_many(changes):
                return
            if changes:
                kept = self._thrown_away(changes)
                self._shadow.put_back(self._tree, changes, lambda *_: True, self._state.aside)
                self._say(f"restored {counted(len(changes), 'file')}; what was thrown away is {kept}")
        self._note_uncommitted(task, self._earlier)

    def _thrown_away(self, changes: Mapping[str, Change]) -> str:
        """The ref of a commit that holds these files as they are now."""
        shadow, repository = self._shadow, self._repository
        if repository:
            pack, head = shadow.packed(changes), repository.head()[1]
            return repository.keep_changes(changes, head, pack, self._name, shadow.scratch)
        before = shadow.new_commit(self._tree, "", "ralph: before")
        return f"{shadow.keep_changes(changes, before, b'', self._name, shadow.scratch)} in {shadow.folder}"

    def commit(self, task: str, message: str, run: Runner | None = None) -> str:
        """Commits what the tries of this task changed; why it could not, or nothing. `run` runs git.

        A file that somebody else had changed before and the agent changed too goes in whole.
        """
        if not self._start.settings.auto_commit or not (self._repository or self._jj):
            return ""
        # no task is about another plan's progress file
        names = self._own | {one for one in self._uncommitted.get(task, ()) if not one.endswith("_PROGRESS.md")}
        if self._jj:
            head, failed = jj.commit(self._jj, sorted(names), message)
            self.committed = Commits(count=int(bool(head)), head=head)
        else:
            failed = self._commit(task, names, message, run)
        if not failed:
            self._note_uncommitted(task, ())
        return failed

    def _commit(self, task: str, names: set[str], message: str, run: Runner | None) -> str:
        repository, place = self._repository, self._place
        assert repository is not None
        assert place is not None
        commit, failed = repository.commit(names, message, run)
        if not commit:
            return failed
        parent, _, commits, changed = repository.told(commit)
        if parent != place.commit:
            failed = "a hook moved HEAD"
        elif more := changed - names:
            failed = f"a hook put more into the commit than the task changed: {named(sorted(more))}"
        if failed:
            repository.head_back(place, f"{self._run_id}-{task}", self._state.aside)
            repository.index_back(place, self._copy)
        else:
            self.committed, self._place = commits, self._placed()
        return failed

    def commit_left_over(self, done: Callable[[str], bool], run: Runner) -> None:
        """What a run that was killed had ticked and not committed yet; `done` says whether a task is."""
        for task in [task for task in self._uncommitted if done(task)]:
            if self._repository and self._start.settings.auto_commit:
                self._place = self._placed()
                self._repository.unstage(self._uncommitted[task])  # git may have died before its index knew the commit
            if failed := self.commit(task, f"{task}: done before ralph was killed\n\nRalph-Task: {task}\n", run):
                self._say(f"what {task} changed is not committed: {failed}")

    def recover(self, task: str, since: float, until: float, *, ticked: bool) -> str:
        """What an iteration left that died between these times is put right, and the rest of it is its task's.

        What was changed later is a person's and stays. Where ralph itself had `ticked` the task, all was right, and it
        died while it committed. In words what was put back of that which governs ralph.
        """
        if not self._remembers(since) or self.strayed() or ticked:
            return ""
        self._died_at = until
        found = self.settle(self._run_id, task)
        self._died_at = None
        return "; ".join(one for one in found.tampered if one.endswith("changed"))

    def close(self) -> None:
        """The run is over: nothing has to be put back any more."""
        self._state.note(_NOTE, "")

    def _put_right(self) -> Watched:
        """HEAD and files, in this order, since what was committed differs from HEAD only then."""
        with _told():
            strayed = self.strayed()
            rewritten = () if strayed or not self._start.strict else self._head_back()
            governing, outside, changed = self._files_back()
            if outside and not self._start.strict and not strayed:
                self._head_back()
        return Watched(
            tampered=(*(f"{name} was changed" for name in governing), *rewritten), outside=outside, changed=changed
        )

    def _head_back(self) -> tuple[str, ...]:
        """Puts HEAD and the index back; in words what of that is worth writing down."""
        repository, place = self._repository, self._place
        if repository is None or place is None or self._is_later(repository.git_dir / "logs" / "HEAD"):
            return ()
        moved = repository.head_back(place, self._name, self._state.aside)
        if moved or self._start.settings.auto_commit:  # else a person's file that it only staged would be committed
            repository.index_back(place, self._copy)
        if moved is None:
            return ()
        self._say(f"{moved.what}: HEAD put back" + f"; {moved.kept_ref} has what was there" * bool(moved.kept_ref))
        if moved.kept_ref and not self._start.strict:  # where the agent commits: what of it may stay, as one
            names = [name for name in repository.differing(moved.kept_ref) if self._allows(name)]
            _, failed = repository.commit(names, repository.told(moved.kept_ref)[1])
            if failed:
                self._say(f"what may stay of the agent's commits stays uncommitted: {failed}")
        return ("history was rewritten",) if moved.rewritten else ()

    def _files_back(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Puts back what governs ralph, and what --only does not allow; these, and what else has changed."""
        changes = self._shadow.changes(self._tree, self._unforced())
        wrong = [name for name, one in changes.items() if self._is_wrong(name, one)]
        if self._are_too_many({name: changes[name] for name in wrong}):
            return (), (), tuple(changes)
        governing = tuple(name for name in wrong if self._governs(name, changes[name]))
        outside = tuple(name for name in wrong if name not in governing)
        within = [name for name, one in changes.items() if one.is_repository and name not in wrong]
        kept: dict[str, Path] = {}

        def aside(name: str) -> Path:
            kept[name] = self._state.aside(name)
            return kept[name]

        changes = self._shadow.put_back(self._tree, changes, self._is_wrong, aside)
        for name in governing:
            left = f"; as it was left it is {kept[name]}" if name in kept else ""
            self._say(f"{name} was changed: put back{left}")
        if outside:
            where = f"; what was there is in {next(iter(kept.values())).parent}" if kept else ""
            self._say(f"{named(outside)} changed, which --only does not allow: put back{where}")
        if within:
            self._say(f"{named(within)} has a repository of its own: left alone, and not committed")
        return governing, outside, tuple(sorted(name for name in changes if not self._is_later(self._root / name)))

    def _are_too_many(self, wrong: Mapping[str, Change]) -> bool:
        new = sorted(name for name, one in wrong.items() if one.is_new)
        if len(new) > _MOST:
            what = f"{len(new)} new files, such as {named(new[:3])}, would be moved away"
            self._blocked = f"{what}; nothing was: remove them, or have git ignore what is not yours"
        return len(new) > _MOST

    def _is_wrong(self, name: str, change: Change) -> bool:
        if self._is_later(self._root / name):
            return False
        if self._governs(name, change):
            return True
        return bool(self._start.settings.only) and not self._allows(f"{name}/.git" if change.is_repository else name)

    def _governs(self, name: str, change: Change) -> bool:
        """Whether what changed governs ralph: of a plan in words only its settings do."""
        if not any(name == one or name.startswith(f"{one}/") for one in self._protected):
            return False
        path, plan = self._root / name, self._start.plan
        if os.path.realpath(path) != str(plan) or not (change.was[:3] == change.mode[:3] == "100"):
            return True
        before = compared.governs_by(self._shadow.held(self._tree, name), path)
        return before != compared.governs_by(path.read_bytes(), path)

    def _allows(self, name: str) -> bool:
        """Patterns are relative to the working directory, names to the top of the repository."""
        here = "" if self._here == "." else f"{self._here}/"
        return name.startswith(here) and allowed(name.removeprefix(here), self._start.settings.only)

    def _governing_now(self) -> dict[str, tuple[int, ...]]:
        """The files of the tree that govern ralph, with what tells one version of each from the next."""
        found: dict[str, tuple[int, ...]] = {}
        for name in self._protected:
            below = [name]
            if (at := seen(self._root, name)) and stat.S_ISDIR(at.st_mode):
                below = [str(path.relative_to(self._root)) for path in (self._root / name).rglob("*")]
            for one in below:
                if (at := seen(self._root, one)) and not stat.S_ISDIR(at.st_mode):
                    found[one] = (at.st_mode, at.st_ino, at.st_size, at.st_ctime_ns)
        return found

    def _unforced(self) -> Collection[str]:
        """Of these files the new ones, which git may ignore; the shadow goes on looking at those it knows."""
        return self._governing_now().keys() - self._guarded.keys()

    def _is_later(self, path: Path) -> bool:
        """Whether somebody changed it since ralph died; of what is gone nobody knows."""
        at = None if self._died_at is None else touched_at(path)
        return at is not None and self._died_at is not None and at > self._died_at

    def _iteration(self) -> str:
        """What tells the note of this iteration from one of an earlier one, or of another ralph's."""
        return f"{__version__} {self._state.noted('iteration')}"

    def _remembers(self, since: float) -> bool:
        """Takes up what was noted of the iteration that died."""
        with contextlib.suppress(ValueError, TypeError):
            iteration, tree, held, place, protected, modes, known = json.loads(self._state.noted(_NOTE))
            if iteration == self._iteration() and self._shadow.knows(tree):
                self._tree, self._seen, self._protected = tree, held, protected
                self._place = Place(*place) if place and self._repository else None
                self._shadow.resume(since, modes, known)
                return True
        return False

    def _noted_uncommitted(self) -> dict[str, list[str]]:
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            noted = json.loads(self._state.noted(_UNCOMMITTED) or "{}")
            return {str(task): [str(name) for name in names] for task, names in noted.items()}
        return {}

    def _note_uncommitted(self, task: str, names: Collection[str]) -> None:
        """These are what its tries changed and no commit has; noted for the next run, too.

        In one step: a death between two would lose the files of all tasks.
        """
        before = self._uncommitted.pop(task, [])
        self._uncommitted |= {task: sorted(names)} if names else {}
        if sorted(names) != before:
            text, new = json.dumps(self._uncommitted), f"{_UNCOMMITTED}.new"
            self._state.note(new, text)
            if self._state.noted(new) == text:  # on a full disk it may be half there
                with contextlib.suppress(OSError):
                    folder = self._state.folder / "running"
                    (folder / new).replace(folder / _UNCOMMITTED)
