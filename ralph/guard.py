"""The working tree around an iteration: what may change in it, what is put back, and what ralph commits."""

import contextlib
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import __version__, files, git, pickles, worktree
from ralph.errors import RalphError
from ralph.judge import Watched
from ralph.lock import working_tree
from ralph.state import State
from ralph.uncommitted import Uncommitted
from ralph.verdict import Reason
from ralph.words import counted, named

if TYPE_CHECKING:
    from ralph.run import Run

_SNAPSHOT = "snapshot"
_MOVES = Path("logs") / "HEAD"
"""To which git appends whenever HEAD or its branch moves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds for a run."""

    only: Sequence[str]
    """Patterns of what may change; without one everything may."""
    strict: bool
    """Commits are ralph's."""
    commits: bool
    """Whether anybody commits."""
    run: str
    """Its id."""


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """What the disk refuses ends the run in words; an agent may have removed ralph's copies."""
    try:
        yield
    except OSError as error:
        what = "what was done to the repository cannot be put right"
        raise RalphError(f"{what}: {error}; look at it before the next start", 1) from error


class Guard:
    """Watches over the working tree at `top`, where that is a repository; `own` are ralph's files, not to be touched.

    `say` hears what was put back, and where it is kept.
    """

    def __init__(self, top: Path, state: State, own: Sequence[Path], rules: Rules, say: Callable[[str], None]) -> None:
        self._top, self._state, self._own, self._rules, self._say = top, state, own, rules, say
        self._watches = worktree.is_repository(top)
        self._before: worktree.Snapshot | None = None
        self._changed: tuple[str, ...] = ()
        """By the agent; what its checks leave in the tree is not meant to be committed."""
        self._name = ""
        self._uncommitted = Uncommitted(state)
        self._earlier: frozenset[str] = frozenset()
        """What the tries before this one changed of those; putting back ends where they left it."""
        self._of_death: tuple[float, float] | None = None
        """When an iteration began that died, and when it was over."""

    @contextlib.contextmanager
    def watching(self, run: "Run") -> Iterator[Watched]:
        """Around a turn of the agent: when it is over, what it may not change is put back, and said."""
        watched = Watched()
        if run.strict:
            run.strict.begin()
        self.begin()
        yield watched
        watched.strayed = self.strayed()
        if not watched.strayed:
            run.remove_orphaned_locks("the agent")
        tampered = run.strict.put_right("while an agent works") if run.strict else []
        if not watched.strayed:
            found = self.settle(f"{run.id}-{run.number}", run.task)
            tampered, watched.outside = [*tampered, *found.tampered], found.outside
        watched.tampered = tuple(tampered)

    def begin(self) -> None:
        """An iteration begins: how everything is now is how it can be put back."""
        if self._watches:
            store = self._look()
            files.overwrite(store / _SNAPSHOT, pickle.dumps((self._iteration(), self._before)))

    def _look(self) -> Path:
        store = self._state.store(self._rules.run)
        self._before = worktree.take(self._top, store, self._own, self._before)
        return store

    def _iteration(self) -> str:
        """What tells a snapshot of this iteration from one of an earlier one, or of another ralph's."""
        return f"{__version__} {self._state.noted('iteration')}"

    def strayed(self) -> str:
        """What leads git out of the repository now; to be asked before any git is run, empty when nothing does."""
        known = getattr(self._before, "ways_out", None)  # an older ralph that died noted none
        return worktree.strayed(self._before.repository, known) if self._before and known is not None else ""

    def settle(self, name: str, task: str = "") -> Watched:
        """The agent has ended; `name` is what this iteration's refs are called, by which is kept what does not stay."""
        if self._before is None:
            return Watched()
        self._name = name
        found = self._put_right(name)
        if self._rules.strict:
            with _told():
                self._changed = worktree.changed(self._before)
            if within := [name for name in self._changed if self._is_repository_within(name)]:
                self._say(f"{named(within)} has a repository of its own: left alone, and not committed")
            self._earlier = self._uncommitted.of(task)
            self._uncommitted.add(task, self._changed)
        return found

    def settle_checks(self) -> None:
        """The same once its checks have run, which are programs that the agent may have written."""
        if self._before is not None and not self.strayed():
            self._put_right(self._name)

    def settle_hooks(self) -> None:
        """The same once ralph has committed, which moved HEAD; hooks are programs, too."""
        if self._before is not None and not self.strayed():
            worktree.settings_back(self._before, self._state.keep)
            if outside := self._outside():
                self._say(f"{named(outside)} changed by a hook: put back{self._put_back(outside)}")

    def restore(self, task: str) -> None:
        """All files are as they were before the iteration; how they are now is kept."""
        self._uncommitted.put(task, self._earlier)
        if self._before is None or not (names := worktree.changed(self._before)):
            return
        kept = worktree.keep(self._before, self._name, f"ralph: thrown away by --on-failure restore, {self._name}")
        worktree.put_back(self._before, names, self._state.keep)
        self._say(f"restored {counted(len(names), 'file')}; what was thrown away is {kept}")

    def commit(self, task: str, message: str, run: worktree.Runner | None = None) -> str:
        """Commits what the tries of this task changed; why it could not, or nothing. `run` runs git.

        A file that somebody else had changed before and the agent changed too goes in whole.
        """
        if self._before is None or not self._rules.commits:
            return ""
        names = {name for name in self._uncommitted.of(task) if not self._is_state_of_another(name)}
        tree = os.path.realpath(working_tree(self._top))
        own = {os.path.relpath(os.path.realpath(one), tree) for one in self._own if one.is_file() and git.tracks(one)}
        done = worktree.commit(self._top, sorted(names | own), message, run)
        if done.failed:
            return done.failed
        if wrong := self._wrong_with(done.head, names | own):
            worktree.head_back(self._before, f"{self._rules.run}-{task}")
            return wrong
        self._uncommitted.forget(task)
        return ""

    def _wrong_with(self, commit: str, names: set[str]) -> str:
        """What hooks made of the commit that nobody asked for."""
        assert self._before is not None
        if not commit or self._before.jj is not None:
            return ""
        if git.parent(commit, self._top) != self._before.head.commit:
            return "a hook moved HEAD"
        more = git.committed(commit, self._top) - names
        return f"a hook put more into the commit than the task changed: {named(sorted(more))}" if more else ""

    def commit_left_over(self, done: Callable[[str], bool], run: worktree.Runner) -> None:
        """What a run that was killed had ticked and not committed yet; `done` says whether a task is."""
        for task in self._uncommitted.tasks():
            if done(task):
                self._look()
                if self._agrees_with_commit(task):
                    continue
                if failed := self.commit(task, f"{task}: done before ralph was killed\n\nRalph-Task: {task}\n", run):
                    self._say(f"what {task} changed is not committed: {failed}")

    def _agrees_with_commit(self, task: str) -> bool:
        """Whether the last commit is this task's; git may have died before its index said so."""
        assert self._before is not None
        names = self._uncommitted.of(task)
        of_task = f"Ralph-Task: {task}" in git.message("HEAD", self._top).splitlines()
        if not of_task or not names & git.committed("HEAD", self._top):
            return False
        worktree.as_committed(self._before, names)
        self._uncommitted.forget(task)
        return True

    def recover(self, task: str, since: float, until: float, *, ticked: bool) -> None:
        """What an iteration left that died between these times is put right, and the rest of it is its task's.

        What was changed later is a person's and stays. Where ralph itself had `ticked` the task, all was right, and it
        died while it committed.
        """
        store = self._state.store(self._rules.run)
        with contextlib.suppress(OSError, *pickles.UNREADABLE):
            iteration, before = pickles.loads((store / _SNAPSHOT).read_bytes())
            self._before = before if iteration == self._iteration() else None
        if self._before is None:
            return
        if strayed := self.strayed():
            raise RalphError(f"{strayed}, then start again", Reason.TAMPERED.code)
        self._of_death = (since, until)
        if not ticked:
            self._put_right_once(store)
            if self._rules.strict:
                self._uncommitted.add(task, [n for n in worktree.changed(self._before) if self._is_of_the_dead(n)])
        elif self._before.repository.ask("rev-parse", "--verify", "--quiet", "HEAD") == self._before.head.commit:
            worktree.staged_back(self._before)
        else:
            self._agrees_with_commit(task)
        shutil.rmtree(store, ignore_errors=True)

    def _put_right_once(self, store: Path) -> None:
        """What cannot be put right ends this start, and the next one begins with it as it is."""
        assert self._before is not None
        try:
            worktree.scratch_away(self._before)
            self._put_right(self._rules.run)
        except RalphError as error:
            if not isinstance(error.__cause__, OSError):  # a full disk may be another time
                (store / _SNAPSHOT).unlink(missing_ok=True)
            raise

    def _is_of_the_dead(self, name: str) -> bool:
        """Whether it was changed while the iteration ran; of one that is gone nobody knows."""
        assert self._before is not None
        return self._was_touched(self._before.root / name)

    def _was_touched(self, path: Path) -> bool:
        if self._of_death is None:
            return True
        at = git.touched_at(path)
        return at is None or self._of_death[0] <= at <= self._of_death[1]

    def close(self) -> None:
        """The run is over: nothing has to be put back any more."""
        self._uncommitted.write()
        if self._before is not None:
            if not self.strayed():
                worktree.forget(self._before)
            shutil.rmtree(self._state.store(self._rules.run), ignore_errors=True)
            self._before = None

    def _put_right(self, name: str) -> Watched:
        """Settings, HEAD and files, in this order, since each needs the one before to be seen."""
        with _told():
            return self._all_put_right(name)

    def _all_put_right(self, name: str) -> Watched:
        assert self._before is not None
        self._state.store(self._rules.run)  # a real folder again, should somebody have made a link of it
        index = self._before.repository.index
        tampered = [f"{what} was changed" for what in worktree.settings_back(self._before, self._state.keep)]
        for what in tampered:
            self._say(f"{what}: put back; where it is meant, do it yourself")
        moved = self._head_back(name) if self._rules.strict and self._may_have_moved() else None
        if self._rules.strict and self._rules.commits and self._is_older_than_the_dead(index):
            # else a person's file that it only staged would be committed
            worktree.staged_back(self._before)
        outside = self._outside()
        if outside and not self._rules.strict and self._may_have_moved():
            moved = self._head_back(name)
            outside = self._outside()
        if outside:
            self._say(f"{named(outside)} changed, which --only does not allow: put back{self._put_back(outside)}")
        if moved and moved.rewritten:
            tampered.append("history was rewritten")
        if moved and moved.kept_ref and not self._rules.strict:
            self._commit_again(moved)
        return Watched(outside=outside, tampered=tuple(tampered))

    def _may_have_moved(self) -> bool:
        """Whether it is not a person who moved HEAD last."""
        assert self._before is not None
        return self._is_older_than_the_dead(self._before.repository.git_dir / _MOVES)

    def _is_older_than_the_dead(self, path: Path) -> bool:
        """Whether nobody has changed it since the iteration was over."""
        at = git.touched_at(path)
        return self._of_death is None or at is None or at <= self._of_death[1]

    def _outside(self) -> tuple[str, ...]:
        if self._before is None or not self._rules.only:
            return ()
        changed = (name for name in worktree.changed(self._before) if self._is_of_the_dead(name))
        return tuple(name for name in changed if not self._allows(name))

    def _allows(self, name: str) -> bool:
        """Patterns are relative to the working directory, names to the top of the repository."""
        assert self._before is not None
        here = os.path.relpath(os.path.realpath(self._top), os.path.realpath(self._before.root))
        if self._is_repository_within(name) and not name.endswith(".git"):
            return self._allows(f"{name}/.git")  # what is allowed in it is allowed to be one
        if here == ".":
            return worktree.allowed(name, self._rules.only)
        return name.startswith(f"{here}/") and worktree.allowed(name.removeprefix(f"{here}/"), self._rules.only)

    def _is_repository_within(self, name: str) -> bool:
        assert self._before is not None
        return worktree.is_repository_within(self._before.root / name)

    def _is_state_of_another(self, name: str) -> bool:
        """Whether it is another plan's progress file that git does not track, which no task is about."""
        path = Path(working_tree(self._top)) / name
        return name.endswith("_PROGRESS.md") and not git.tracks(path)

    def _put_back(self, names: Sequence[str]) -> str:
        assert self._before is not None
        kept = worktree.put_back(self._before, names, self._state.keep)
        return f"; what was there is in {kept[0].parent}" if kept else ""

    def _head_back(self, name: str) -> worktree.Moved | None:
        assert self._before is not None
        moved = worktree.head_back(self._before, name)
        if moved:
            commits = [f"{counted(moved.commits, 'commit')} by the agent"] if moved.commits else []
            rewritten = ["history was rewritten"] if moved.rewritten else []
            what = ", ".join([*rewritten, *commits, *(f"{one} begun" for one in moved.ended)]) or "HEAD was moved"
            self._say(f"{what}: HEAD put back" + (f"; {moved.kept_ref} has what was there" if moved.kept_ref else ""))
        return moved

    def _commit_again(self, moved: worktree.Moved) -> None:
        """Where the agent commits: what of its commits may stay, as one."""
        names = [name for name in git.differing(moved.kept_ref, self._top) if self._allows(name)]
        done = worktree.commit(self._top, names, git.message(moved.kept_ref, self._top))
        if done.failed:
            self._say(f"what may stay of the agent's commits stays uncommitted: {done.failed}")
