"""The working tree around an iteration: what may change in it, what is put back, and what ralph commits."""

import binascii
import contextlib
import json
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import files
from ralph.agent.turn import Commits
from ralph.changes import touched_at
from ralph.errors import RalphError
from ralph.journal import Tries
from ralph.judge import Watched
from ralph.state import State
from ralph.strict import compared, jj
from ralph.strict.only import allowed
from ralph.strict.repository import Change, Place, Repository, Runner, seen
from ralph.strict.shadow import Shadow
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
        self._start, self._state, self._say, self._tries = start, state, say, tries
        self._settings, self._strict = start.settings, start.strict
        self._repository, self._jj = Repository.around(top), jj.root_around(top)
        self._root = self._repository.root if self._repository else self._jj or top
        self._real = os.path.realpath(self._root)
        self._here = os.path.relpath(top, self._real)
        folder = files.state_home() / "shadow" / f"{binascii.crc32(os.fsencode(self._real)):08x}"
        own = [os.path.relpath(path.resolve(), self._real) for path in start.own]
        self._own = self._repository.tracked(own) if self._repository else {*own}
        """Ralph's own files, as far as they belong into a commit."""
        own.append(os.path.relpath(files.state_home().resolve(), self._real))
        self._shadow = Shadow(self._root, folder, own, self._governing_now, self._repository)
        self._copy = folder / "index-of-project"
        self._protected, self._outside = list[str](), list[Path]()
        self._shall_stay(start.plan, Path(".ralph.env"), Path(".ralph"), start.settings.prompts)
        self._name = run_id
        self.blocked = ""
        """Why nothing more may be done here, as far as it is known."""
        self._seen: Mapping[str, str] = {}
        """What is compared, as it was."""
        self._place: Place | None = None
        self._uncommitted: dict[str, list[str]] = {}
        """By task what its tries changed and no commit has."""
        self._earlier: Collection[str] = ()
        """What the tries before this one changed of those; putting back ends where they left it."""
        self.committed = Commits()
        """What ralph committed last."""
        self.run_git: Runner | None = None
        """Runs git with the project's hooks; without it they do not run."""
        self._died_at: float | None = None
        """When the iteration was over that died; what was changed later is a person's."""
        with contextlib.suppress(ValueError, TypeError):
            self._uncommitted = dict(json.loads(state.noted(_UNCOMMITTED) or "{}"))

    def _shall_stay(self, *governing: Path | None) -> None:
        """Notes what governs ralph under --strict, by each way that leads there: put back or compared."""
        for path in governing if self._strict else ():
            for way in {path.parent.resolve() / path.name, path.resolve()} if path else ():
                name = os.path.relpath(way, self._real)
                if name.startswith(".."):
                    self._outside.append(way)
                elif name != ".":
                    self._protected.append(name)

    @contextlib.contextmanager
    def watching(self, run: "Run") -> Iterator[Watched]:
        """Around a turn of the agent: when it is over, what it may not change is put back, and said."""
        watched = Watched()
        self._settings = run.settings
        self.begin()
        yield watched
        watched.strayed = self.strayed()
        if not watched.strayed:
            run.remove_orphaned_locks("the agent")
        undone = run.strict.put_right("while an agent works") if run.strict else []
        found = self.settle(f"{run.id}-{run.number}", run.task)
        watched.tampered, watched.outside = (*undone, *found.tampered), found.outside
        watched.changed, watched.strayed = found.changed, self.blocked

    def begin(self) -> None:
        """An iteration begins: how everything is now is how it can be put back."""
        self.blocked, self.committed = "", Commits()
        with _told():
            self._shadow.begin()
            if self._repository:
                self._place = self._repository.place()
                files.overwrite(self._copy, self._place.staged)
            self._seen = compared.look(self._repository, self._outside, self._start.plan)
        place = self._place and self._place[:-1]
        noted = [self._state.noted("iteration"), self._seen, place, self._protected]
        # what an agent makes of it may be believed, but is never run
        self._state.note(_NOTE, json.dumps([*noted, self._shadow.tree, self._shadow.modes, [*self._shadow.known]]))

    def strayed(self) -> str:
        """Looks whether anything may still be done here; to be asked before any git is run. Why not, else empty."""
        if not self.blocked and self._seen:
            now = compared.look(self._repository, self._outside, self._start.plan)
            self.blocked, said = compared.changed(self._root, self._seen, now, self._state.keep)
            if said:
                self._say(f"{said}; it stays")
            self._seen = self._seen if self.blocked else now
        if not self.blocked and self._tries:
            self.blocked = self._tries.rewritten(self._state.keep)
        return self.blocked

    def settle(self, name: str, task: str = "") -> Watched:
        """The agent has ended; `name` is what this iteration's refs are called, by which is kept what does not stay.

        HEAD comes first, and without --strict only where a file was put back.
        """
        self._name = name
        with _told():
            if self._strict and not self.blocked:
                self._head_back()
            found = self._files_back()
            if (
                found.outside
                and not self._strict
                and not self.blocked
                and (moved := self._head_back())
                and self._repository
            ):
                # where the agent commits: what of it may stay, as one
                _, failed = self._repository.commit(found.changed or (), self._repository.told(moved)[1])
                if failed:
                    self._say(f"what may stay of the agent's commits stays uncommitted: {failed}")
        if self._strict and found.changed is not None:
            self._earlier = set(self._uncommitted.get(task, ()))
            self._note_uncommitted(task, {*self._earlier, *found.changed})
        return found if self._strict else replace(found, changed=None)

    def settle_programs(self) -> None:
        """The same once programs have run that the agent may have written: its checks, git's hooks."""
        if not self.strayed():
            with _told():
                self._head_back()
                if self._settings.only or self._governing_now() != self._shadow.forced:
                    self._files_back()

    def restore(self, task: str) -> None:
        """All files are as they were before the iteration; how they are now is kept."""
        if self.blocked:
            return
        with _told():
            changes = self._shadow.changes()
            if self._are_too_many(changes):
                return
            if changes:
                kept = f"in {self._state.folder / 'kept'}"
                if self._repository:
                    pack, scratch = self._shadow.packed(changes), self._shadow.scratch
                    kept = self._repository.keep_changes(changes, pack, self._name, scratch)
                self._shadow.put_back(changes, lambda *_: True, self._state.aside)
                self._say(f"restored {counted(len(changes), 'file')}; what was thrown away is {kept}")
        self._note_uncommitted(task, self._earlier)

    def commit(self, task: str, message: str) -> str:
        """Commits what the tries of this task changed; why it could not, or nothing.

        A file that somebody else had changed before and the agent changed too goes in whole.
        """
        if not self._settings.auto_commit:
            return ""
        # no task is about another plan's progress file
        names = self._own | {one for one in self._uncommitted.get(task, ()) if not one.endswith("_PROGRESS.md")}
        failed = ""
        if self._jj:
            head, failed = jj.commit(self._jj, sorted(names), message)
            self.committed = Commits(count=int(bool(head)), head=head)
        elif self._repository and self._place:
            failed = self._commit(self._repository, self._place, names, message)
        if not failed:
            self._note_uncommitted(task, ())
        return failed

    def _commit(self, repository: Repository, place: Place, names: set[str], message: str) -> str:
        commit, failed = repository.commit(names, message, self.run_git)
        if not commit:
            return failed
        parent, _, commits, changed = repository.told(commit)
        if parent == place.commit and changed <= names:
            self.committed, self._place = commits, repository.place()
            return ""
        self._head_back()
        more = f"put more into the commit than the task changed: {named(sorted(changed - names))}"
        return "a hook " + (more if parent == place.commit else "moved HEAD")

    def commit_left_over(self, done: Collection[str]) -> None:
        """What a run that was killed had ticked and not committed yet; `done` are the tasks that are."""
        for task in [task for task, names in self._uncommitted.items() if names and task in done]:
            if self._repository and self._settings.auto_commit:
                self._place = self._repository.place()
                self._repository.unstage(self._uncommitted[task])  # git may have died before its index knew the commit
            if failed := self.commit(task, f"{task}: done before ralph was killed\n\nRalph-Task: {task}\n"):
                self._say(f"what {task} changed is not committed: {failed}")

    def recover(self, task: str, since: float, until: float, *, ticked: bool) -> str:
        """What an iteration left that died between these times is put right, and the rest of it is its task's.

        What was changed later is a person's and stays. Where ralph itself had `ticked` the task, all was right, and it
        died while it committed. In words what was put back of that which governs ralph.
        """
        if not self._remembers(since) or self.strayed() or ticked:
            return ""
        self._died_at = until
        found = self.settle(self._name, task)
        self._died_at = None
        return "; ".join(found.tampered)

    def close(self) -> None:
        """The run is over: nothing has to be put back any more."""
        self._state.note(_NOTE, "")

    def _head_back(self) -> str | None:
        """The ref that has what was there, where HEAD had moved; empty where that was nothing new."""
        repository, place = self._repository, self._place
        if repository is None or place is None or self._is_later(repository.git_dir / "logs" / "HEAD"):
            return None
        moved = repository.head_back(place, self._name, self._state.aside)
        if moved is not None or self._settings.auto_commit:  # else a file that a person only staged would go in
            repository.index_back(place)
        if moved is not None:
            self._say("HEAD is put back where it was" + f"; {moved} has what was there" * bool(moved))
        return moved

    def _files_back(self) -> Watched:
        """Puts back what governs ralph, and what --only does not allow."""
        changes = self._shadow.changes()
        wrong = {name: one for name, one in changes.items() if self._is_wrong(name, one)}
        if self._are_too_many(wrong):
            return Watched(changed=tuple(changes))
        governing = tuple(name for name, one in wrong.items() if self._governs(name, one))
        outside = tuple(name for name in wrong if name not in governing)
        within = [name for name, one in changes.items() if one.is_repository and name not in wrong]
        changes = self._shadow.put_back(changes, self._is_wrong, self._state.aside)
        where = f"put back; what was there is in {self._state.folder / 'kept'}"
        if governing:
            self._say(f"{named(governing)} was changed: {where}")
        if outside:
            self._say(f"{named(outside)} changed, which --only does not allow: {where}")
        if within:
            self._say(f"{named(within)} has a repository of its own: left alone, and not committed")
        changed = tuple(n for n, one in changes.items() if not one.is_repository and not self._is_later(self._root / n))
        return Watched(tampered=tuple(f"{name} was changed" for name in governing), outside=outside, changed=changed)

    def _are_too_many(self, wrong: Mapping[str, Change]) -> bool:
        new = sorted(name for name, one in wrong.items() if one.is_new)
        if len(new) > _MOST:
            what = f"{len(new)} new files, such as {named(new[:3])}, would be moved away"
            self.blocked = f"{what}; nothing was: remove them, or have git ignore what is not yours"
        return len(new) > _MOST

    def _is_wrong(self, name: str, change: Change) -> bool:
        if self._is_later(self._root / name):
            return False
        if self._governs(name, change):
            return True
        return bool(self._settings.only) and not self._allows(f"{name}/.git" if change.is_repository else name)

    def _governs(self, name: str, change: Change) -> bool:
        """Whether what changed governs ralph: of a plan in words only its settings do."""
        if not any(name == one or name.startswith(f"{one}/") for one in self._protected):
            return False
        path = self._root / name
        if os.path.realpath(path) != str(self._start.plan) or not (change.was[:3] == change.mode[:3] == "100"):
            return True
        return compared.governs_by(self._shadow.held(name), path) != compared.governs_by(path.read_bytes(), path)

    def _allows(self, name: str) -> bool:
        """Patterns are relative to the working directory, names to the top of the repository."""
        here = "" if self._here == "." else f"{self._here}/"
        return name.startswith(here) and all(
            allowed(name.removeprefix(here), patterns) for patterns in self._settings.only
        )

    def _governing_now(self) -> dict[str, int]:
        """The files of the tree that govern ralph, with when each was changed."""
        found = {}
        for name in self._protected:
            below = [name]
            if (at := seen(self._root, name)) and stat.S_ISDIR(at.st_mode):
                below = [str(path.relative_to(self._root)) for path in (self._root / name).rglob("*")]
            for one in below:
                if (at := seen(self._root, one)) and not stat.S_ISDIR(at.st_mode):
                    found[one] = at.st_ctime_ns
        return found

    def _is_later(self, path: Path) -> bool:
        """Whether somebody changed it since ralph died; of what is gone nobody knows."""
        return self._died_at is not None and (touched_at(path) or 0.0) > self._died_at

    def _remembers(self, since: float) -> bool:
        """Takes up what was noted of the iteration that died, and not of an earlier one."""
        with contextlib.suppress(ValueError, TypeError, OSError):
            iteration, seen_then, place, protected, *shadow = json.loads(self._state.noted(_NOTE))
            if iteration == self._state.noted("iteration") and self._shadow.resume(since, *shadow):
                self._seen, self._protected = seen_then, protected
                self._place = Place._make([*place, self._copy.read_bytes()]) if place and self._repository else None
                return True
        return False

    def _note_uncommitted(self, task: str, names: Collection[str]) -> None:
        """These are what its tries changed and no commit has; noted for the next run, too."""
        self._uncommitted = {**self._uncommitted, task: sorted(names)}
        self._state.note(_UNCOMMITTED, json.dumps({one: names for one, names in self._uncommitted.items() if names}))
