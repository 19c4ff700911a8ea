"""The working tree around an iteration: what may change in it, what is put back, and what ralph commits."""

import binascii
import contextlib
import json
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
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
from ralph.strict.repository import Moved, Place, Repository, Runner
from ralph.strict.shadow import Change, Shadow
from ralph.tries import Tries
from ralph.words import counted, named

if TYPE_CHECKING:
    from ralph.run import Run
    from ralph.start import Start

_NOTE, _UNCOMMITTED = "guard", "uncommitted"
_CHANGED = " was changed"
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
        settings, top = start.settings, Path.cwd()
        self._state, self._run_id, self._say, self._tries = state, run_id, say, tries
        self._strict, self._only, self._commits = start.strict, settings.only, settings.auto_commit
        self._repository, self._jj = Repository.around(top), jj.root_around(top)
        self._root = self._repository.root if self._repository else self._jj or top
        real = os.path.realpath(self._root)
        self._here = os.path.relpath(os.path.realpath(top), real)
        self._shadow: Shadow | None = None
        if self._repository or self._jj or self._only or settings.on_failure == "restore" or state.noted(_NOTE):
            folder = files.state_home() / "shadow" / f"{binascii.crc32(os.fsencode(real)):08x}"
            kind = self._repository.object_format if self._repository else "sha1"
            self._shadow = Shadow(self._root, folder, [*start.own, files.state_home()], kind)
        self._plan, self._protected, self._outside = start.plan, list[str](), list[Path]()
        for path in (start.plan, Path(".ralph.env"), Path(".ralph"), settings.prompts) if self._strict else ():
            self._shall_stay(path, real)
        self._is_open = False
        self._own = {os.path.relpath(os.path.realpath(path), real) for path in start.own}
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
        self._of_death: tuple[float, float] | None = None
        """When an iteration began that died, and when it was over."""

    def _shall_stay(self, path: Path | None, real: str) -> None:
        """Notes a file or folder that governs ralph, by each way that leads there: put back or compared."""
        if path is None:
            return
        by_name = os.path.join(os.path.realpath(path.absolute().parent), path.name)  # noqa: PTH118 - a string
        for way in {by_name, os.path.realpath(path)}:
            name = os.path.relpath(way, real)
            if self._shadow and not name.startswith("..") and name != ".":
                self._protected.append(name)
            elif name != ".":
                self._outside.append(Path(way))

    @property
    def looks(self) -> bool:
        """Whether it knows itself what an iteration has changed."""
        return self._shadow is not None

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
            if self._shadow:
                self._open(self._shadow)
                guarded = self._governing_now()
                self._tree = self._shadow.begin(guarded if guarded != self._guarded else ())
                self._guarded = guarded
                if self._repository:
                    self._place = self._repository.place(int(time.time()), self._copy)
            self._seen = compared.look(self._repository, self._outside, self._plan)
        self._note()

    def _open(self, shadow: Shadow) -> None:
        if self._is_open:
            return
        repository, self._is_open = self._repository, True
        rules = repository.rules() if repository else b""
        known = repository.tracked_though_ignored() if repository else []
        shadow.open(rules + b"/.jj/\n" * bool(self._jj), known, repository.common / "objects" if repository else None)
        self._own = repository.tracked(self._own) if repository else set()

    @property
    def _copy(self) -> Path:
        """Of the project's index."""
        assert self._shadow is not None
        return self._shadow.folder / "index-of-project"

    def strayed(self) -> str:
        """Why nothing more may be done here; to be asked before any git is run, empty when nothing is wrong."""
        if not self._blocked and self._seen:
            self._blocked = self._compared()
        if not self._blocked and self._tries and (rewritten := self._tries.rewritten(self._state.keep)):
            self._blocked = rewritten
        return self._blocked

    def _compared(self) -> str:
        before, now = self._seen, compared.look(self._repository, self._outside, self._plan)
        if now == before:
            return ""
        if leads := compared.strayed(self._root, before, now):
            return f"{leads}, and git would write there; none was run: make it what it was"
        serious, said = compared.changed(self._root, before, now)
        if serious:
            differing = [name for name in {**before, **now} if before.get(name) != now.get(name)]
            held = [(name, one[name]) for name in differing for one in (before, now) if name in one]
            kept = [self._kept(name, text[1:]) for name, text in held if text[0] == compared.HOLDS]
            where = f"before and after are {', '.join(map(str, kept))}"
            return f"{serious}; {where}; HEAD and the index are as they were left: take back what is not meant"
        if said:
            self._say(f"{said}; it stays")
        self._seen = now
        return ""

    def _kept(self, name: str, held: str) -> Path:
        return self._state.keep(Path(name).name, held.encode(errors="surrogateescape"))

    def settle(self, name: str, task: str = "") -> Watched:
        """The agent has ended; `name` is what this iteration's refs are called, by which is kept what does not stay."""
        self._name = name
        found = self._put_right(always=True)
        if not self._strict or found.changed is None:
            return Watched(tampered=found.tampered, outside=found.outside)
        if within := [one for one in self._within(found.changed) if one]:
            self._say(f"{named(within)} has a repository of its own: left alone, and not committed")
        self._earlier = set(self._uncommitted.get(task, ()))
        self._note_uncommitted(task, {*self._earlier, *found.changed})
        return found

    def _within(self, changed: Collection[str]) -> list[str]:
        """The folders that have a repository of their own, of those in which something changed."""
        folders = {str(folder) for name in changed for folder in (Path(name), *Path(name).parents)} - {"."}
        return sorted(one for one in folders if os.path.lexists(self._root / one / ".git"))

    def settle_checks(self) -> None:
        """The same once its checks have run, which are programs that the agent may have written."""
        if not self.strayed():
            self._put_right(always=bool(self._only))

    def settle_hooks(self) -> None:
        """The same once ralph has committed, which moved HEAD; hooks are programs, too."""
        if self._shadow and not self.strayed() and (self._only or self._governing_now() != self._guarded):
            with _told():
                self._files_back(self._shadow)

    def restore(self, task: str) -> None:
        """All files are as they were before the iteration; how they are now is kept."""
        if not self._shadow or self.strayed():
            return
        with _told():
            changes = self._shadow.changes(self._tree)
            if self._are_too_many(changes):
                return
            if changes:
                kept = self._thrown_away(self._shadow, changes)
                self._shadow.put_back(self._tree, changes, lambda *_: True, self._state.aside)
                self._say(f"restored {counted(len(changes), 'file')}; what was thrown away is {kept}")
        self._note_uncommitted(task, self._earlier)

    def _thrown_away(self, shadow: Shadow, changes: Mapping[str, Change]) -> str:
        """The ref of a commit that holds everything as it is now, ignored files not."""
        private = set(self._guarded) - (self._repository.tracked(self._guarded) if self._repository else set())
        tree = shadow.tree_of(self._tree, {n: one for n, one in changes.items() if not one.is_repository}, private)
        message = f"ralph: thrown away by --on-failure restore, {self._name}"
        if self._repository:
            pack = shadow.packed(self._repository.lacks(shadow.objects(tree)))
            return self._repository.take(pack, tree, self._name, message)
        ref = f"refs/ralph/kept/{self._name}"
        shadow.keep(tree, ref, message)
        return f"{ref} in {shadow.folder}"

    def commit(self, task: str, message: str, run: Runner | None = None) -> str:
        """Commits what the tries of this task changed; why it could not, or nothing. `run` runs git.

        A file that somebody else had changed before and the agent changed too goes in whole.
        """
        repository, names = self._repository, set(self._uncommitted.get(task, ()))
        if not self._commits or not (repository or self._jj):
            return ""
        states = {name for name in names if name.endswith("_PROGRESS.md")}  # of other plans, no task is about them
        names -= states - (repository.tracked(states) if repository else set())
        if self._jj:
            head, failed = jj.commit(self._jj, sorted(names | self._own), message)
            self.committed = Commits(count=int(bool(head)), head=head)
        else:
            assert repository is not None
            failed = self._commit(repository, task, names | self._own, message, run)
        if not failed:
            self._note_uncommitted(task, ())
        return failed

    def _commit(self, repository: Repository, task: str, names: set[str], message: str, run: Runner | None) -> str:
        commit, failed = repository.commit(names, message, run)
        if not commit:
            return failed
        parent, _, commits, changed = repository.told(commit)
        assert self._place is not None
        if parent != self._place.commit:
            failed = "a hook moved HEAD"
        elif more := changed - names:
            failed = f"a hook put more into the commit than the task changed: {named(sorted(more))}"
        if failed:
            repository.head_back(self._place, f"{self._run_id}-{task}", self._state.aside)
            repository.index_back(self._place, self._copy)
        else:
            self.committed = commits
        return failed

    def commit_left_over(self, done: Callable[[str], bool], run: Runner) -> None:
        """What a run that was killed had ticked and not committed yet; `done` says whether a task is."""
        for task in [task for task, names in self._uncommitted.items() if names and done(task)]:
            if self._shadow:
                self._open(self._shadow)
                self._place = self._repository.place(int(time.time()), self._copy) if self._repository else None
            if self._agrees_with_commit(task):
                continue
            if failed := self.commit(task, f"{task}: done before ralph was killed\n\nRalph-Task: {task}\n", run):
                self._say(f"what {task} changed is not committed: {failed}")

    def _agrees_with_commit(self, task: str) -> bool:
        """Whether the last commit is this task's; git may have died before its index said so."""
        repository = self._repository
        if repository is None or not (head := repository.head()[1]):
            return False
        _, said, _, changed = repository.told(head)
        names = set(self._uncommitted.get(task, ()))
        if f"Ralph-Task: {task}" not in said.splitlines() or not names & changed:
            return False
        repository.unstage(repository.tracked(names) | (names & changed))
        self._note_uncommitted(task, ())
        return True

    def recover(self, task: str, since: float, until: float, *, ticked: bool) -> str:
        """What an iteration left that died between these times is put right, and the rest of it is its task's.

        What was changed later is a person's and stays. Where ralph itself had `ticked` the task, all was right, and it
        died while it committed. In words what was put back of that which governs ralph.
        """
        if not self._remembers(since) or self.strayed():
            return ""
        self._of_death, self._name, tampered = (since, until), self._run_id, list[str]()
        if not ticked:
            found = self._put_right(always=True)
            tampered = [one for one in found.tampered if one.endswith(_CHANGED)]
            if self._strict and found.changed:
                self._note_uncommitted(task, {*self._uncommitted.get(task, ()), *found.changed})
        elif self._repository and self._place and self._repository.head()[1] == self._place.commit:
            self._repository.index_back(self._place, self._copy)
        else:
            self._agrees_with_commit(task)
        self._of_death = None
        return "; ".join(tampered)

    def close(self) -> None:
        """The run is over: nothing has to be put back any more."""
        self._write_uncommitted()
        self._state.note(_NOTE, "")

    def _put_right(self, *, always: bool) -> Watched:
        """HEAD and files, in this order; `always`, or only where HEAD or what governs ralph is not as it was."""
        shadow, repository = self._shadow, self._repository
        if shadow is None or not self._tree or not shadow.is_there:
            return Watched()
        with _told():
            strayed = self.strayed()
            moved = self._head_back() if self._strict and not strayed else None
            if not always and self._governing_now() == self._guarded:
                return Watched()
            governing, outside, changed = self._files_back(shadow)
            if outside and not self._strict and not strayed:
                moved = self._head_back()
            if moved and moved.kept_ref and repository and not self._strict:
                self._commit_again(repository, moved)
        rewritten = ("history was rewritten",) if moved and moved.rewritten else ()
        return Watched(
            tampered=(*(f"{name}{_CHANGED}" for name in governing), *rewritten), outside=outside, changed=changed
        )

    def _head_back(self) -> Moved | None:
        repository, place = self._repository, self._place
        if (
            repository is None
            or place is None
            or not self._is_older_than_the_dead(repository.git_dir / "logs" / "HEAD")
        ):
            return None
        moved = repository.head_back(place, self._name, self._state.aside)
        if moved or self._commits:  # else a person's file that it only staged would be committed
            repository.index_back(place, self._copy)
        if moved:
            commits = [f"{counted(moved.commits, 'commit')} by the agent"] if moved.commits else []
            rewritten = ["history was rewritten"] if moved.rewritten else []
            what = ", ".join([*rewritten, *commits, *(f"{one} begun" for one in moved.ended)]) or "HEAD was moved"
            self._say(f"{what}: HEAD put back" + (f"; {moved.kept_ref} has what was there" if moved.kept_ref else ""))
        return moved

    def _commit_again(self, repository: Repository, moved: Moved) -> None:
        """Where the agent commits: what of its commits may stay, as one."""
        names = [name for name in repository.differing(moved.kept_ref) if self._allows(name)]
        _, failed = repository.commit(names, repository.told(moved.kept_ref)[1])
        if failed:
            self._say(f"what may stay of the agent's commits stays uncommitted: {failed}")

    def _files_back(self, shadow: Shadow) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Puts back what governs ralph, and what --only does not allow; these, and what else has changed."""
        guarded = self._governing_now()
        changes = shadow.changes(self._tree, guarded if guarded != self._guarded else ())
        wrong = {name: one for name, one in changes.items() if self._is_wrong(name, one)}
        if wrong and self._are_too_many(wrong):
            return (), (), tuple(changes)
        kept: dict[str, Path] = {}

        def aside(name: str) -> Path:
            kept[name] = self._state.aside(name)
            return kept[name]

        governing = tuple(name for name, one in wrong.items() if self._governs(name, one))
        shadow.put_back(self._tree, wrong, self._is_wrong, aside)
        outside = tuple(name for name in wrong if name not in governing)
        for name in governing:
            self._say(
                f"{name} was changed: put back" + (f"; as it was left it is {kept[name]}" if name in kept else "")
            )
        if outside:
            where = f"; what was there is in {next(iter(kept.values())).parent}" if kept else ""
            self._say(f"{named(outside)} changed, which --only does not allow: put back{where}")
        if any(name.endswith(".gitignore") for name in wrong):
            changes = shadow.changes(self._tree)
        of_dead = (name for name in changes if name not in wrong and self._is_of_the_dead(name))
        return governing, outside, tuple(sorted(of_dead))

    def _are_too_many(self, wrong: Mapping[str, Change]) -> bool:
        new = [name for name, one in wrong.items() if one.is_new]
        if len(new) > _MOST:
            what = f"{len(new)} new files, such as {named(sorted(new)[:3])}, would be moved away"
            self._blocked = f"{what}; nothing was: remove them, or have git ignore what is not yours"
        return len(new) > _MOST

    def _is_wrong(self, name: str, change: Change) -> bool:
        if not self._is_of_the_dead(name):
            return False
        if self._governs(name, change):
            return True
        return bool(self._only) and not self._allows(f"{name}/.git" if change.is_repository else name)

    def _governs(self, name: str, change: Change) -> bool:
        """Whether what changed governs ralph: of a plan in words only its settings do."""
        path = self._root / name
        if not any(name == one or name.startswith(f"{one}/") for one in self._protected):
            return False
        if os.path.realpath(path) != str(self._plan) or not (
            change.was.startswith("100") and change.mode.startswith("100")
        ):
            return True
        assert self._shadow is not None
        before = compared.governs_by(self._shadow.held(self._tree, name), path)
        return before != compared.governs_by(path.read_bytes(), path)

    def _allows(self, name: str) -> bool:
        """Patterns are relative to the working directory, names to the top of the repository."""
        if self._here == ".":
            return allowed(name, self._only)
        return name.startswith(f"{self._here}/") and allowed(name.removeprefix(f"{self._here}/"), self._only)

    def _governing_now(self) -> dict[str, tuple[int, ...]]:
        """The files of the tree that govern ralph, with what tells one version of each from the next."""
        found: dict[str, tuple[int, ...]] = {}
        real = os.path.realpath(self._root)
        for name in self._protected:
            path = os.path.join(real, name)  # noqa: PTH118 - a string
            if os.path.realpath(os.path.dirname(path)) != os.path.dirname(path):  # noqa: PTH120 - same
                continue
            within = [path] if os.path.islink(path) or not os.path.isdir(path) else _files_in(path)  # noqa: PTH112, PTH114
            for one in within:
                with contextlib.suppress(OSError):
                    seen = os.lstat(one)
                    if stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode):
                        found[os.path.relpath(one, real)] = (seen.st_mode, seen.st_ino, seen.st_size, seen.st_ctime_ns)
        return found

    def _is_older_than_the_dead(self, path: Path) -> bool:
        """Whether nobody has changed it since the iteration was over."""
        at = touched_at(path)
        return self._of_death is None or at is None or at <= self._of_death[1]

    def _is_of_the_dead(self, name: str) -> bool:
        """Whether it was changed while the iteration ran; of one that is gone nobody knows."""
        at = None if self._of_death is None else touched_at(self._root / name)
        return self._of_death is None or at is None or self._of_death[0] <= at <= self._of_death[1]

    def _note(self) -> None:
        """What has to be known after a death. What an agent makes of it may be believed, but is never run."""
        noted = {
            "iteration": self._iteration(),
            "tree": self._tree,
            "seen": self._seen,
            "place": asdict(self._place) if self._place else None,
            "protected": self._protected,
            "modes": self._shadow.modes if self._shadow else {},
            "within": sorted(self._shadow.within) if self._shadow else [],
        }
        self._state.note(_NOTE, json.dumps(noted))

    def _iteration(self) -> str:
        """What tells the note of this iteration from one of an earlier one, or of another ralph's."""
        return f"{__version__} {self._state.noted('iteration')}"

    def _remembers(self, since: float) -> bool:
        """Takes up what was noted of the iteration that died."""
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            noted = json.loads(self._state.noted(_NOTE))
            shadow, repository = self._shadow, self._repository
            if noted["iteration"] != self._iteration() or (
                noted["tree"] and not (shadow and shadow.knows(noted["tree"]))
            ):
                return False
            if (place := noted["place"]) and repository:
                self._place = Place(**{**place, "begun": tuple(place["begun"]), "index": tuple(place["index"])})
            if shadow:
                rules = repository.rules() if repository else b""
                shadow.resume(rules, noted["modes"], noted["within"], since)
            self._protected = [str(name) for name in noted["protected"]]
            self._tree, self._seen = str(noted["tree"]), dict(noted["seen"])
            return True
        return False

    def _noted_uncommitted(self) -> dict[str, list[str]]:
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            noted = json.loads(self._state.noted(_UNCOMMITTED) or "{}")
            return {str(task): [str(name) for name in names] for task, names in noted.items()}
        return {}

    def _note_uncommitted(self, task: str, names: Collection[str]) -> None:
        """These are what its tries changed and no commit has; noted for the next run, too."""
        before = self._uncommitted.pop(task, [])
        self._uncommitted |= {task: sorted(names)} if names else {}
        if sorted(names) != before:
            self._write_uncommitted()

    def _write_uncommitted(self) -> None:
        """In one step: a death between two would lose the files of all tasks."""
        text, new = json.dumps(self._uncommitted), f"{_UNCOMMITTED}.new"
        self._state.note(new, text)
        if self._state.noted(new) == text:  # on a full disk it may be half there
            with contextlib.suppress(OSError):
                folder = self._state.folder / "running"
                (folder / new).replace(folder / _UNCOMMITTED)


def _files_in(folder: str) -> Iterator[str]:
    """All in it, and links to folders; through none."""
    for top, inside, names in os.walk(folder):
        for name in (*names, *inside):
            path = os.path.join(top, name)  # noqa: PTH118 - a string
            if name in names or os.path.islink(path):  # noqa: PTH114 - same
                yield path
