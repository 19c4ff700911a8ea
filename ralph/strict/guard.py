"""The working tree around an iteration: what may change in it, what is put back, and what ralph commits."""

import binascii
import contextlib
import fnmatch
import json
import math
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import files, tasks
from ralph.agent.turn import Commits
from ralph.changes import NAMED, pathspecs, touched_at
from ralph.errors import RalphError
from ralph.judge import Watched
from ralph.process.keeper import Job
from ralph.state import Death
from ralph.strict import compared
from ralph.strict.repository import Place, Repository, jj_commit
from ralph.strict.shadow import Shadow
from ralph.tasks.mending import mend
from ralph.verify import run_program
from ralph.words import counted, named

if TYPE_CHECKING:
    from ralph.run import Run

_MOST_NEW_FILES = 1000
"""That are moved away at once; more may be somebody's, and a person decides."""
_HOOKS_S = 900.0
"""Seconds that a commit may take: some projects' hooks run all their tests."""
_LAST_WRITES_S = 15.0
"""Seconds that an agent may go on after the last word on its record, until the keeper has ended it."""
_GOVERNS = "which decides how ralph works"
_NOT_ALLOWED = "which --only does not allow"


@contextlib.contextmanager
def _disk_errors_end_the_run() -> Iterator[None]:
    try:
        yield
    except OSError as error:  # the disk is full, or an agent removed ralph's copies
        what = "what was done to the repository cannot be put right"
        raise RalphError(f"{what}: {error}", 1, fix="look at it before the next start") from error


class Guard:
    """Watches over the working tree around the current folder.

    What may change is asked of the run when an iteration begins, since another mode has other settings. The first four
    attributes are how it was when the iteration began that runs, or that died.
    """

    _place: Place | None = None
    """Where HEAD and the index were."""
    _is_strict = False
    _only: Sequence[Sequence[str]] = ()
    _compared: Mapping[str, str] = {}
    """What is only compared, as it was."""
    _died_at = math.inf
    """When the iteration was over that died; what was changed later is a person's."""
    _earlier: Collection[str] = ()
    """What the tries before this one changed of its task's files; putting back ends where they left it."""
    blocked = ""
    """Why the run has to end and nothing more may be done here, as far as that is known."""
    committed = Commits()
    """What ralph committed last."""
    text = b""
    """The progress file by ralph's own word; empty while the list of tasks is not ralph's."""

    def __init__(self, run: "Run") -> None:
        self._run, self._state, self._plan = run, run.state, run.start.plan
        self._repository = Repository.around(run.top)
        self._root = root = self._repository.root if self._repository else run.top
        self._has_jj = (root / ".jj").exists() and shutil.which("jj")
        self._protected = set[Path]()
        """The names of what decides how ralph works: put back under --strict."""
        self._outside = [run.history] if run.history else []
        """What else does, and is only compared; and a person's own history."""
        for path in (self._plan, Path(".ralph.env"), Path(".ralph"), run.settings.prompts or self._plan):
            for place in (path.parent.resolve() / path.name, path.resolve()):
                if not place.is_relative_to(root):
                    self._outside.append(place)
                elif place != root:
                    self._protected.add(place.relative_to(root))
        own = {os.path.relpath(path.resolve(), root) for path in run.start.own}
        state = files.state_home()
        folder = state / "shadow" / f"{binascii.crc32(os.fsencode(root)):08x}"
        never = [*own, os.path.relpath(state.resolve(), root)]
        self._shadow = Shadow(root, folder, never, self._protected, self._repository)
        self._own_in_commits = set[str]()
        """Those of ralph's own files that go into each commit, since git tracks them."""
        if self._repository:
            self._repository.index_copy = folder / "index-of-project"
            self._own_in_commits = own.intersection(self._repository.names("ls-files", "-z"))
        self._uncommitted: dict[str, list[str]] = {}
        """By task what its tries changed and no commit has."""
        with contextlib.suppress(ValueError, TypeError):
            self._uncommitted = dict(json.loads(self._state.noted("uncommitted")))

    def check_can_commit(self) -> None:
        """RalphError where ralph could not commit here."""
        if self._repository and not self._has_jj:
            self._repository.check_can_commit()

    @contextlib.contextmanager
    def watching(self) -> Iterator[Watched]:
        """Around a turn of the agent: when it is over, what it may not change is put back, and said."""
        watched = Watched()
        self._begin()
        yield watched
        if not self.check():
            self._run.remove_orphaned_locks("the agent")
        if self.text:
            watched.tampered = put_right(self._run, self.text, "while an agent works")
        self._settle(self._run.task, watched)
        watched.blocked = self.blocked

    def check(self) -> str:
        """Why the run has to end before any git is run here; empty where it need not."""
        if not self.blocked and self._compared:
            now = self._look()
            self.blocked, remark = compared.changed(self._root, self._compared, now, self._state.keep)
            self._compared = now
            if remark:
                self._run.complain(f"{remark}; it stays")
        return self.blocked

    @_disk_errors_end_the_run()
    def settle_programs(self, when: str) -> None:
        """Puts back what programs changed that the agent may have written: its checks, git's hooks."""
        put_right(self._run, self.text, when)
        if not self.check():
            self._head_back()
            if self._only or self._shadow.is_protected_touched():
                self._files_back()

    @_disk_errors_end_the_run()
    def restore(self, task: str) -> None:
        """All files are as they were before the iteration; how they are now is kept."""
        if self.blocked:
            return
        if self._repository and (names := [name for name in self._shadow.changes() if not name.endswith("/")]):
            self._repository.keep(names)
        _, undone = self._undo(lambda _: "thrown away")
        for names in undone.values():
            self._run.complain(f"restored {counted(len(names), 'file')}; what went is in {self._state.folder}/kept")
        if not self.blocked:
            self._note_uncommitted(task, self._earlier)

    @_disk_errors_end_the_run()
    def commit(self, task: str, message: str) -> str:
        """Commits what the tries of this task changed; why it could not, or nothing.

        A file that somebody else had changed before and the agent changed too goes in whole.
        """
        # no task is about another plan's progress file
        changed = {name for name in self._uncommitted.get(task, ()) if not name.endswith("_PROGRESS.md")}
        names, failed = self._own_in_commits | changed, ""
        if names and self._run.settings.auto_commit:
            if self._has_jj:
                failed = jj_commit(self._root, names, message)
                self.committed = Commits(count=int(not failed))
            elif self._repository:
                self.committed, failed = self._repository.commit(names, message, self._run_git)
        if failed:
            self._head_back()
            return failed
        if self._repository and self._place:
            self._place = self._repository.place()
        self._note_uncommitted(task, ())
        return ""

    def commit_left_over(self, done: Collection[str]) -> None:
        """What a run that was killed had ticked and not committed yet; `done` are the tasks that are."""
        for task, names in self._uncommitted.items():
            if not names or task not in done:
                continue
            self._place = None  # where HEAD is now is a person's business
            if self._repository:  # git may have died before its index knew the commit
                self._repository.run("reset", "--quiet", *NAMED, stdin=pathspecs(names))
            if failed := self.commit(task, f"{task}: done before ralph was killed\n\nRalph-Task: {task}\n"):
                self._run.complain(f"what {task} changed is not committed: {failed}")

    def recover(self, death: Death) -> str:
        """What an iteration left in which ralph died is put right, and the rest of it is its task's.

        What was changed later is a person's and stays. Where ralph itself had ticked the task, all was right, and it
        died while it committed. Returns in words what was put back of that which decides how ralph works.
        """
        heard_at = touched_at(death.record)
        self._died_at = heard_at + _LAST_WRITES_S
        try:
            record, task, *then = json.loads(self._state.noted("guard"))
            if Path(record).name != death.record.name or not heard_at:  # the note is older, or nobody knows when it was
                return ""
            self._place, self._is_strict, self._only, self._compared, *shadow = then
            is_known = self._shadow.resume(*shadow)
        except (ValueError, TypeError, OSError):  # an agent made something else of them
            return ""
        ticked = [one.id for one in tasks.read(death.before) if one.id and one.done]
        if not is_known or self.check() or task in ticked:
            return ""
        watched = Watched()
        self._settle(task, watched)
        return "; ".join(watched.tampered)

    @_disk_errors_end_the_run()
    def _begin(self) -> None:
        """How everything is now is how it can be put back, also by the next run where this one is killed."""
        settings, shadow = self._run.settings, self._shadow
        self.blocked, self.committed = "", Commits()
        shadow.begin()
        self._place = self._repository.place() if self._repository else None
        self._is_strict, self._only = settings.strict and not settings.once, settings.only
        self._compared = self._look()
        task, record = self._run.task, str(self._run.transcript)
        then = record, task, self._place, self._is_strict, self._only, self._compared
        # what an agent makes of it may be believed, but is never run
        self._state.note("guard", json.dumps([*then, shadow.began, shadow.checksum, shadow.left_alone, shadow.modes]))

    def _look(self) -> dict[str, str]:
        """How what is only compared is now: git's settings and hooks; under --strict also what lies outside."""
        outside = self._outside if self._is_strict else []
        return compared.look(self._repository, outside, self._plan)

    @_disk_errors_end_the_run()
    def _settle(self, task: str, watched: Watched) -> None:
        """The agent has ended: what it may not change is put back, HEAD first; the rest of it is its task's.

        Without --strict commits are the agent's to make, and HEAD is put back only where a file was: what may stay of
        its commits is then committed as one.
        """
        repository = self._repository
        if self._is_strict:
            self._head_back()
        changed, undone = self._files_back()
        watched.tampered += tuple(f"{name} was changed" for name in undone[_GOVERNS])
        watched.outside = tuple(undone[_NOT_ALLOWED])
        if self._is_strict:
            watched.changed = changed
            self._earlier = self._uncommitted.get(task, ())
            self._note_uncommitted(task, {*self._earlier, *changed})
        elif repository and watched.outside and (moved := self._head_back()):
            _, failed = repository.commit(changed, repository.ask("log", "-1", "--format=%B", moved), self._run_git)
            if failed:
                self._run.complain(f"what may stay of the agent's commits stays uncommitted: {failed}")

    def _head_back(self) -> str | None:
        """The ref that has what was there, where HEAD had moved; empty where that was nothing new."""
        repository, place = self._repository, self._place
        if not repository or not place or self.blocked or self._is_later(repository.git_dir / "logs" / "HEAD"):
            return None
        moved = repository.put_back(place, self._state.aside)
        if moved is not None:
            self._run.complain(f"HEAD is put back where it was; what was there is {moved or 'nothing new'}")
        return moved

    def _files_back(self) -> tuple[tuple[str, ...], dict[str, list[str]]]:
        """Puts back what may not change; the files that are changed then, and by the reason what was put back."""
        changes, undone = self._undo(self._why_not)
        for why, names in undone.items():
            where = f"put back; what was there is in {self._state.folder / 'kept'}"
            self._run.complain(f"{named(names)} was changed, {why}: {where}")
        if within := [name for name in changes if name.endswith("/")]:
            self._run.complain(
                f"{named(within)} has a repository of its own: left alone, and not committed", once=within[0]
            )
        return tuple(name for name in changes if name not in within), undone

    def _undo(self, why_not: Callable[[str], str]) -> tuple[dict[str, bool], dict[str, list[str]]]:
        """Undoes each change for which there is a reason; what is changed then, and by the reason what was undone."""
        undone = defaultdict[str, list[str]](list)
        for _ in range(9):
            found = self._shadow.changes().items()
            changes = {name: was_there for name, was_there in found if not self._is_later(self._root / name)}
            wrong = [name for name in changes if why_not(name)]
            new = [name for name in wrong if not changes[name]]
            if len(new) > _MOST_NEW_FILES:
                what = f"{len(new)} new files, such as {named(new[:3])}, would be moved away"
                self.blocked = f"{what}; nothing was: remove them, or have git ignore what is not yours"
                wrong = []
            if not wrong:
                return changes, undone
            for name in wrong:
                undone[why_not(name)].append(name)
            self._shadow.put_back(wrong, changes, self._state.aside)
        raise RalphError(f"{named(wrong)}: cannot be put back in {self._root}", 1)

    def _why_not(self, name: str) -> str:
        """Why this may not be changed; empty where it may. Of a plan in words its settings may not."""
        path, relative = self._root / name, Path(name)
        if self._is_strict and self._protected & {relative, *relative.parents}:
            if os.path.realpath(path) != str(self._plan) or not path.is_file():
                return _GOVERNS
            held = self._shadow.run("cat-file", "blob", f":{name}")
            if compared.settings_in(held, path) != compared.settings_in(path.read_bytes(), path):
                return _GOVERNS
        if not self._only:
            return ""
        within = os.path.relpath(path, self._run.top) + "/" * name.endswith("/")
        if not within.startswith("../") and allowed(within, self._only):
            return ""
        return _NOT_ALLOWED

    def _is_later(self, path: Path) -> bool:
        """Whether somebody changed it since ralph died; of what is gone nobody knows."""
        return touched_at(path) > self._died_at

    def _run_git(self, argv: Sequence[str], stdin: bytes) -> str:
        """Runs git as a check is run, so that nothing which a hook starts stays; why it failed, or nothing."""
        run = self._run
        output = run.state.record(run.id, run.number)
        names = output.with_suffix(".names")
        names.write_bytes(stdin)
        job = Job(["sh", "-c", 'exec "$@" 2>&1', "sh", *argv], run.env, output, prompt=names)
        run.does("committing")
        ended = run_program(run, "the commit", job, _HOOKS_S)
        for path in (names, output, job.errors):
            path.unlink(missing_ok=True)  # what it printed stands in the reason where it failed
        return ended._replace(what=f"git {ended.what}").why if ended else "git was interrupted"

    def _note_uncommitted(self, task: str, names: Collection[str]) -> None:
        """These are what its tries changed and no commit has; noted for the next run, too."""
        self._uncommitted[task] = sorted(names)
        self._state.note("uncommitted", json.dumps(self._uncommitted))


def put_right(run: "Run", before: bytes, when: str) -> tuple[str, ...]:
    """Puts back what is ralph's in the progress file, as it was `before`; what was done to it, in words."""
    run.read()
    left, name = run.file.text, run.file.path.name
    right, what = mend(before, left)
    if right == left:
        return ()
    run.file.edit(lambda text: mend(before, text).text)
    kept, said = run.state.keep(name, left), "the task list is in its order; new tasks are under ## Proposed"
    if what:
        undone = "; ".join(what)
        said = f"undone, since the tasks are ralph's {when}: {undone}"
        run.write_down("tamper", success=False, message=undone, kept=kept.name)
    run.complain(f"{said}; {name} as it was left is {kept}")
    return what


_WILD = re.compile(r"(\*\*/|\*\*|[*?]|\{[^{}]*\}|\[!?.[^]]*\])")
_MEANS = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def allowed(name: str, groups: Sequence[Sequence[str]]) -> bool:
    """Whether a pattern of each group covers this file; none does of a group that is empty.

    `*` and `?` stay within a folder, `**` goes through folders, `[abc]` and `{a,b}` are one of them; what ends in a
    plain name covers the folder of that name with all in it.
    """
    for group in groups:
        expressions = list[str]()
        for pattern in group:
            whole = pattern + "**" * pattern.endswith("/")
            is_plain = not _WILD.search(whole.rpartition("/")[2])
            expressions.append(_expression(whole) + "(/.*)?" * is_plain)
        if not re.fullmatch("|".join(expressions), name, re.DOTALL):
            return False
    return True


def _expression(pattern: str) -> str:
    """A pattern as a regular expression."""
    said = ""
    for part in _WILD.split(pattern):
        if part.startswith("{") and part.endswith("}"):
            said += f"({'|'.join(map(_expression, part[1:-1].split(',')))})"
        else:
            said += _MEANS.get(part) or fnmatch.translate(part)[4:-3]  # without what marks the end
    return said
