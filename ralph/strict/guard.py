"""The working tree around an iteration: what may change in it, what is put back, and what ralph commits."""

import binascii
import contextlib
import functools
import json
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import files
from ralph.agent.turn import Commits
from ralph.changes import touched_at
from ralph.errors import RalphError
from ralph.judge import Watched
from ralph.strict import compared
from ralph.strict.only import allowed
from ralph.strict.repository import Place, Repository, Runner, jj_commit, jj_root, standing
from ralph.strict.shadow import Change, Shadow
from ralph.words import counted, named

if TYPE_CHECKING:
    from ralph.run import Run

_NOTE, _UNCOMMITTED = "guard", "uncommitted"
_MOST_NEW_FILES = 1000
"""That are moved away at once; more may be somebody's, and a person decides."""


@contextlib.contextmanager
def _disk_errors_end_the_run() -> Iterator[None]:
    try:
        yield
    except OSError as error:  # the disk is full, or an agent removed ralph's copies
        what = "what was done to the repository cannot be put right"
        raise RalphError(f"{what}: {error}", 1, fix="look at it before the next start") from error


class Guard:
    """Watches over the working tree around the current folder.

    Refs that keep something are called by `name`, by default the run's; `say` hears what was put back, and where it
    is kept. What may change is asked of the run when an iteration begins, since another mode has other settings.
    """

    def __init__(self, run: "Run", name: str = "", say: Callable[[str], None] | None = None) -> None:
        top = Path.cwd()
        self._run, self._state, self._plan = run, run.state, run.start.plan
        self._name, self._say = name or run.id, say or run.complain
        self._repository, self._jj = Repository.around(top), jj_root(top)
        self._root = self._repository.root if self._repository else self._jj or top
        self._real_root = os.path.realpath(self._root)
        here = os.path.relpath(top, self._real_root)
        self._here = "" if here == "." else f"{here}/"
        self._own = {os.path.relpath(path.resolve(), self._real_root) for path in run.start.own}
        never = [*self._own, os.path.relpath(files.state_home().resolve(), self._real_root)]
        folder = files.state_home() / "shadow" / f"{binascii.crc32(os.fsencode(self._real_root)):08x}"
        self._shadow = Shadow(self._root, folder, never, self._protected_files, self._repository)
        if self._repository:
            self._repository.index_copy = folder / "index-of-project"
        paths = [self._plan, Path(".ralph.env"), Path(".ralph"), run.settings.prompts or self._plan]
        places = {one for path in paths for one in (path.parent.resolve() / path.name, path.resolve())}
        self._outside = [one for one in places if not one.is_relative_to(self._real_root)]
        """What decides how ralph works and lies outside of the tree: compared under --strict."""
        inside = places.difference(self._outside, {Path(self._real_root)})
        self._protected = [os.path.relpath(one, self._real_root) for one in inside]
        """The names of what does in the tree: put back under --strict."""
        self._is_strict, self._only = False, run.settings.only
        """In the iteration that runs, or that died."""
        self.blocked = ""
        """Why the run has to end and nothing more may be done here, as far as that is known."""
        self._compared: Mapping[str, str] = {}
        """What is only compared, as it was."""
        self._place: Place | None = None
        """Where HEAD and the index were when the iteration began."""
        self._uncommitted: dict[str, list[str]] = {}
        """By task what its tries changed and no commit has."""
        self._earlier: Collection[str] = ()
        """What the tries before this one changed of those; putting back ends where they left it."""
        self.committed = Commits()
        """What ralph committed last."""
        self.run_git: Runner | None = None
        """Runs git with the project's hooks; without it they do not run."""
        self.put_right: Callable[[str], Sequence[str]] | None = None
        """Puts back what is ralph's in the progress file; what was done to it, in words."""
        self._died_at: float | None = None
        """When the iteration was over that died; what was changed later is a person's."""
        with contextlib.suppress(ValueError, TypeError):
            self._uncommitted = dict(json.loads(self._state.noted(_UNCOMMITTED) or "{}"))

    def check_can_commit(self) -> None:
        """RalphError where ralph could not commit here."""
        if self._repository and not self._jj:
            self._repository.check_can_commit()

    @contextlib.contextmanager
    def watching(self) -> Iterator[Watched]:
        """Around a turn of the agent: when it is over, what it may not change is put back, and said."""
        run, watched = self._run, Watched()
        self._begin()
        yield watched
        if not self.check():
            run.remove_orphaned_locks("the agent")
        undone = self.put_right("while an agent works") if self._is_strict and self.put_right else []
        self._name = f"{run.id}-{run.number}"
        self._settle(run.task, watched)
        watched.tampered, watched.blocked = (*undone, *watched.tampered), self.blocked

    def check(self) -> str:
        """Why the run has to end before any git is run here; empty where it need not."""
        if not self.blocked and self._compared:
            now = self._compared_now()
            self.blocked, remark = compared.changed(self._root, self._compared, now, self._state.keep)
            if remark:
                self._say(f"{remark}; it stays")
            self._compared = self._compared if self.blocked else now
        if not self.blocked and self._run.tries and self._is_strict:
            self.blocked = self._run.tries.rewritten(self._state.keep)
        return self.blocked

    @_disk_errors_end_the_run()
    def settle_programs(self) -> None:
        """Puts back what programs changed that the agent may have written: its checks, git's hooks."""
        if not self.check():
            self._head_back()
            if self._only or self._protected_files() != self._shadow.protected:
                self._files_back(Watched())

    @_disk_errors_end_the_run()
    def restore(self, task: str) -> None:
        """All files are as they were before the iteration; how they are now is kept."""
        changes = {} if self.blocked else self._shadow.changes()
        if self.blocked or self._are_too_many(changes):
            return
        if changes:
            kept = f"in {self._state.folder / 'kept'}"
            if self._repository:
                names = [name for name, change in changes.items() if change is not Change.REPOSITORY]
                kept = self._repository.keep_changes(names, self._name, self._shadow.folder / "scratch-index")
            self._shadow.put_back(changes, lambda *_: True, self._state.aside)
            self._say(f"restored {counted(len(changes), 'file')}; what was thrown away is {kept}")
        self._note_uncommitted(task, self._earlier)

    @_disk_errors_end_the_run()
    def commit(self, task: str, message: str) -> str:
        """Commits what the tries of this task changed; why it could not, or nothing.

        A file that somebody else had changed before and the agent changed too goes in whole.
        """
        if not self._run.settings.auto_commit:
            return ""
        # no task is about another plan's progress file
        changed = {name for name in self._uncommitted.get(task, ()) if not name.endswith("_PROGRESS.md")}
        names, failed = self._own_in_commits | changed, ""
        if self._jj:
            head, failed = jj_commit(self._jj, names, message)
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
        _, commits, changed = repository.describe(commit)
        if commits.base == place.commit and changed <= names:
            self.committed, self._place = commits, repository.place()
            return ""
        self._head_back()
        more = f"put more into the commit than the task changed: {named(sorted(changed - names))}"
        return "a hook " + (more if commits.base == place.commit else "moved HEAD")

    @functools.cached_property
    def _own_in_commits(self) -> set[str]:
        """Those of ralph's own files that git tracks."""
        return self._repository.tracked(self._own) if self._repository else self._own

    @_disk_errors_end_the_run()
    def commit_left_over(self, done: Collection[str]) -> None:
        """What a run that was killed had ticked and not committed yet; `done` are the tasks that are."""
        for task in [task for task, names in self._uncommitted.items() if names and task in done]:
            if self._repository and self._run.settings.auto_commit:
                self._shadow.make_folder()
                self._place = self._repository.place()
                self._repository.unstage(self._uncommitted[task])  # git may have died before its index knew the commit
            if failed := self.commit(task, f"{task}: done before ralph was killed\n\nRalph-Task: {task}\n"):
                self._say(f"what {task} changed is not committed: {failed}")

    def recover(self, task: str, since: float, until: float, *, ticked: bool) -> str:
        """What an iteration left that died between these times is put right, and the rest of it is its task's.

        What was changed later is a person's and stays. Where ralph itself had `ticked` the task, all was right, and it
        died while it committed. Returns in words what was put back of that which decides how ralph works.
        """
        if not self._remembers(since) or self.check() or ticked:
            return ""
        self._died_at, watched = until, Watched()
        self._settle(task, watched)
        self._died_at = None
        return "; ".join(watched.tampered)

    def close(self) -> None:
        """The run is over: nothing has to be put back any more."""
        self._state.note(_NOTE, "")

    @_disk_errors_end_the_run()
    def _begin(self) -> None:
        """How everything is now is how it can be put back, also by the next run where this one is killed."""
        settings = self._run.settings
        self._is_strict, self._only = settings.strict and not settings.once, settings.only
        self.blocked, self.committed = "", Commits()
        self._shadow.begin()
        if self._repository:
            self._place = self._repository.place()
        self._compared = self._compared_now()
        shadow, iteration = self._shadow, self._state.noted("iteration").partition("\n")[0]
        noted = [iteration, self._is_strict, self._only, self._compared, self._place, self._protected]
        # what an agent makes of it may be believed, but is never run
        self._state.note(_NOTE, json.dumps([*noted, shadow.checksum, shadow.modes, shadow.left_alone]))

    def _remembers(self, since: float) -> bool:
        """Takes up what was noted when the iteration began that died; whether there was such a note."""
        with contextlib.suppress(ValueError, TypeError, OSError):
            iteration, is_strict, only, then, place, protected, *shadow = json.loads(self._state.noted(_NOTE))
            if self._state.noted("iteration").startswith(f"{iteration}\n") and self._shadow.resume(since, *shadow):
                self._is_strict, self._only, self._compared, self._protected = is_strict, only, then, protected
                self._place = place and Place(*place)
                return True
        return False

    def _compared_now(self) -> dict[str, str]:
        return compared.look(self._repository, self._outside if self._is_strict else (), self._plan)

    @_disk_errors_end_the_run()
    def _settle(self, task: str, watched: Watched) -> None:
        """The agent has ended: what it may not change is put back, HEAD first; the rest of it is its task's.

        Without --strict commits are the agent's to make, and HEAD is put back only where a file was: what may stay of
        its commits is then committed as one.
        """
        repository = self._repository
        if self._is_strict and not self.blocked:
            self._head_back()
        changed = self._files_back(watched)
        if self._is_strict:
            watched.changed, self._earlier = changed, self._uncommitted.get(task, ())
            self._note_uncommitted(task, {*self._earlier, *changed})
        elif repository and watched.outside and not self.blocked and (moved := self._head_back()):
            _, failed = repository.commit(changed, repository.describe(moved)[0])
            if failed:
                self._say(f"what may stay of the agent's commits stays uncommitted: {failed}")

    def _head_back(self) -> str | None:
        """The ref that has what was there, where HEAD had moved; empty where that was nothing new."""
        repository, place = self._repository, self._place
        if repository is None or place is None or self._is_later(repository.git_dir / "logs" / "HEAD"):
            return None
        moved = repository.put_back(place, self._name, self._state.aside)
        if moved is not None:
            self._say("HEAD is put back where it was" + f"; {moved} has what was there" * bool(moved))
        return moved

    def _files_back(self, watched: Watched) -> tuple[str, ...]:
        """Puts back what decides how ralph works, and what --only does not allow; the files that are changed then."""
        changes = self._shadow.changes()
        wrong = {name: change for name, change in changes.items() if self._is_unwanted(name, change)}
        if self._are_too_many(wrong):
            return tuple(changes)
        protected = [name for name, change in wrong.items() if self._is_protected(name, change)]
        watched.tampered = tuple(f"{name} was changed" for name in protected)
        watched.outside = tuple(name for name in wrong if name not in protected)
        changes = self._shadow.put_back(changes, self._is_unwanted, self._state.aside)
        where = f"put back; what was there is in {self._state.folder / 'kept'}"
        if protected:
            self._say(f"{named(protected)} was changed: {where}")
        if watched.outside:
            self._say(f"{named(watched.outside)} changed, which --only does not allow: {where}")
        if within := [name for name, change in changes.items() if change is Change.REPOSITORY]:
            self._say(f"{named(within)} has a repository of its own: left alone, and not committed")
        return tuple(name for name in changes if name not in within and not self._is_later(self._root / name))

    def _are_too_many(self, wrong: Mapping[str, Change]) -> bool:
        """Whether a person has to decide: so many new files may be somebody's."""
        new = sorted(name for name, change in wrong.items() if change is Change.NEW)
        if len(new) > _MOST_NEW_FILES:
            what = f"{len(new)} new files, such as {named(new[:3])}, would be moved away"
            self.blocked = f"{what}; nothing was: remove them, or have git ignore what is not yours"
        return len(new) > _MOST_NEW_FILES

    def _is_unwanted(self, name: str, change: Change) -> bool:
        if self._is_later(self._root / name):
            return False
        if self._is_protected(name, change):
            return True
        within = f"{name}/.git" if change is Change.REPOSITORY else name  # a pattern for all in it covers it
        is_here = within.startswith(self._here)  # patterns are relative to the working directory
        may_change = is_here and allowed(within.removeprefix(self._here), self._only)
        return bool(self._only) and not may_change

    def _is_protected(self, name: str, change: Change) -> bool:
        """Whether that decides how ralph works, under --strict: of a plan in words only its settings do."""
        if not self._is_strict or not any(name == one or name.startswith(f"{one}/") for one in self._protected):
            return False
        path = self._root / name
        if os.path.realpath(path) != str(self._plan) or change is not Change.DIFFERENT or not path.is_file():
            return True
        return compared.settings_in(self._shadow.held(name), path) != compared.settings_in(path.read_bytes(), path)

    def _protected_files(self) -> dict[str, int]:
        """The protected files that are there, with when each was changed."""
        names = list[str]()
        for name, at in standing(self._root, self._protected if self._is_strict else ()).items():
            below = (self._root / name).rglob("*") if stat.S_ISDIR(at.st_mode) else [self._root / name]
            names += [str(path.relative_to(self._root)) for path in below]
        there = standing(self._root, names).items()
        return {name: at.st_ctime_ns for name, at in there if not stat.S_ISDIR(at.st_mode)}

    def _is_later(self, path: Path) -> bool:
        """Whether somebody changed it since ralph died; of what is gone nobody knows."""
        return self._died_at is not None and (touched_at(path) or 0.0) > self._died_at

    def _note_uncommitted(self, task: str, names: Collection[str]) -> None:
        """These are what its tries changed and no commit has; noted for the next run, too."""
        self._uncommitted = {**self._uncommitted, task: sorted(names)}
        self._state.note(_UNCOMMITTED, json.dumps({one: names for one, names in self._uncommitted.items() if names}))
