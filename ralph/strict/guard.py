"""The guard: what may change in the working tree during an iteration, what is put back, and what ralph commits."""

import binascii
import contextlib
import fnmatch
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from ralph import files
from ralph.agent.turn import Commits
from ralph.errors import RalphError
from ralph.git.repository import Repository, jj_commit
from ralph.git.settings import tampering_reason
from ralph.plan.tasks.mending import restore_own_sections
from ralph.process import signals
from ralph.process.supervisor import Command
from ralph.run.context import Run
from ralph.run.judge import TurnFindings
from ralph.store.notes import TreeAtEnd, TreeBefore, UncommittedFiles
from ralph.strict import compared
from ralph.strict.shadow import Shadow
from ralph.strict.tree_notes import (
    INDEX_AT_LOOK,
    INDEX_COPY,
    changed_since_end,
    load_repository_before,
    record_tree_now,
    resume_shadow,
)
from ralph.words import join_names, plural

_MOST_NEW_FILES = 1000
"""New files moved away at once; more may be the user's, who then decides."""
_HOOKS_S = 900.0
"""Seconds that a commit may take, since some projects' hooks run all their tests."""
_LOCKED_S, _POLL_S = 60.0, 0.2
"""Seconds to wait for another git that holds the index, and between two checks of that."""
_MOST_NAMED = 10
_GOVERNS = "which decides how ralph works"
_NOT_ALLOWED = "which is not allowed here"
_HIDDEN = "which new rules hide from git, and is not allowed here"


@contextlib.contextmanager
def _disk_errors_end_the_run() -> Iterator[None]:
    try:
        yield
    except OSError as error:  # the disk is full, or an agent removed ralph's copies
        what = "what was done to the repository cannot be put right"
        raise RalphError(f"{what}: {error}", 1, fix="look at it before the next run") from error


class Guard:
    """Guards the working tree around the current folder.

    It asks the run what may change when an iteration begins, since each mode has its own settings.
    """

    _changed_by_user: Collection[str] = ()
    """What the user changed after the end of an iteration in which ralph died; it stays."""
    _changed_earlier: Collection[str] = ()
    """What earlier attempts at the task changed; discarding an attempt keeps that."""
    blocked = ""
    """Why the run has to end without another change here; empty if it need not, as far as is known."""
    committed = Commits()
    """What ralph committed last."""
    own_progress = b""
    """The text of the progress file that ralph vouches for; empty while the task list is not ralph's own."""

    def __init__(self, run: Run, before: TreeBefore | None = None) -> None:
        self._run, self._state, self._plan = run, run.state, run.start.plan
        self._complain = run.console.complain
        self._before = before or TreeBefore()
        """The state at the beginning of the running iteration, or of the one in which ralph died."""
        self._repository = load_repository_before(before) if before else Repository.find_around(run.top)
        self._root = root = self._repository.root if self._repository else run.top
        self._has_jj = (root / ".jj").exists() and shutil.which("jj")
        protected = set[str]()  # files that decide how ralph works: put back under --strict
        self._outside = [run.history] if run.history else []
        """Files outside the tree that decide it, too, and the user's history: they are only compared."""
        for path in (self._plan, Path(".ralph.env"), Path(".ralph"), run.settings.prompts or self._plan):
            for place in (path.parent.resolve() / path.name, path.resolve()):
                if not place.is_relative_to(root):
                    self._outside.append(place)
                elif place != root:
                    protected.add(str(place.relative_to(root)))
        own = {os.path.relpath(path.resolve(), root) for path in run.start.own_files}
        state = files.state_home()
        folder = state / "shadow" / f"{binascii.crc32(os.fsencode(root)):08x}"
        never = [*own, os.path.relpath(state.resolve(), root)]
        self._shadow = Shadow(root, folder, never, sorted(protected), repository=self._repository)
        self._own = own
        if self._repository:
            self._repository.index_copy = folder / INDEX_COPY
        self._submodules: Mapping[str, str] = {}
        """The commit of each submodule when the iteration began."""
        self._uncommitted = (self._state.load_note(UncommittedFiles) or UncommittedFiles()).names
        """By task, the files that its attempts changed and that are in no commit."""

    def check_can_commit(self) -> None:
        """Raises RalphError if ralph could not commit here."""
        if self._repository and not self._has_jj:
            self._repository.check_can_commit()

    @contextlib.contextmanager
    def around_turn(self) -> Iterator[TurnFindings]:
        """Surrounds a turn of the agent; afterwards puts back, and reports, what the agent may not change."""
        findings = TurnFindings()
        self.remember_tree()
        self.committed = Commits()
        yield findings
        if not self.why_no_git_may_run():
            self._run.remove_orphaned_locks("the agent")
        if self.own_progress:
            findings.tampered = put_progress_back(self._run, self.own_progress, "while an agent works")
        self._settle_turn(findings)
        findings.blocked = self.blocked

    def why_no_git_may_run(self) -> str:
        """Returns why the run has to end before git runs here again; empty if it need not."""
        settings = self._run.git_settings
        if not self.blocked and (self._before.compared or settings.serious):
            now = self._snapshot_outside()
            was = self._before.compared or now
            serious, remark = compared.compare_snapshots(self._root, was, now, self._state.keep_copy)
            self.blocked = tampering_reason([*settings.serious, *serious])
            self._before.compared = now
            for one in filter(None, (settings.harmless, remark)):
                self._complain(f"{one}; it stays", once=one)
        return self.blocked

    @_disk_errors_end_the_run()
    def undo_changes_by_checks(self, when: str) -> None:
        """Puts back what checks and hooks changed, since the agent may have written them."""
        put_progress_back(self._run, self.own_progress, when)
        if not self.why_no_git_may_run():
            self._put_head_back()
            if self._before.only or self._shadow.is_protected_touched():
                self._put_files_back()

    @_disk_errors_end_the_run()
    def discard_attempt(self, task: str) -> None:
        """Puts all files back as they were before the iteration, and keeps a copy of how they are now."""
        if self.blocked:
            return
        if self._repository and (names := [name for name in self._shadow.changes() if not name.endswith("/")]):
            self._repository.keep_files(names)
        _, undone = self._undo_changes(lambda _: "thrown away")
        for names in undone.values():
            self._complain(f"restored {plural(len(names), 'file')}; what went is in {self._state.folder}/kept")
        if not self.blocked:
            self._note_uncommitted(task, self._changed_earlier)

    def wait_for_index(self) -> str:
        """Waits while another git holds the index, such as a `git commit` in an editor. Returns why in vain."""
        run, repository = self._run, self._repository
        if not repository or not repository.is_locked():
            return ""
        run.screen.say(f"ralph: waiting for the git that holds {repository.git_dir}/index.lock")
        run.console.set_activity("waiting for another git", _LOCKED_S)
        deadline = time.monotonic() + _LOCKED_S
        while repository.is_locked() and time.monotonic() < deadline and not signals.interrupted():
            signals.wait(_POLL_S)
        return f"{repository.git_dir}/index.lock: another git still holds the index" if repository.is_locked() else ""

    @_disk_errors_end_the_run()
    def commit_task(self, task: str, message: str) -> str:
        """Commits what the attempts at this task changed. Returns why it could not, or nothing.

        A file that the user had changed before, and the agent changed too, is committed as a whole.
        """
        # another plan's progress file belongs to no task
        changed = {name for name in self._uncommitted.get(task, ()) if not name.endswith("_PROGRESS.md")}
        names, failed = self._own_tracked_files | changed, ""
        if names and self.may_commit:
            if self._has_jj:
                failed = jj_commit(names, message)
                self.committed = Commits(count=int(not failed))
            elif self._repository:
                done = self._repository.commit_files(names, message, self._run_git_with_hooks)
                self.committed, failed, left_out = done
                if left_out and not failed:
                    self._complain(f"{join_names(left_out)} changed, and no commit has that: git ignores it")
        if failed:
            self._put_head_back()
            return failed
        if self._repository and self._before.head:
            self._before.head = self._repository.save_head_and_index()
        self._note_uncommitted(task, ())
        return ""

    def write_statuses_to_plan(self) -> None:
        """Writes the statuses into a list of requirements, and makes that the version to put back."""
        run, before, shadow = self._run, self._before, self._shadow
        if run.start.asked.in_place:
            run.write_statuses_to_plan()
            if self._plan.is_relative_to(self._root):
                shadow.update_snapshot([str(self._plan.relative_to(self._root))])
            before.compared, before.snapshot = self._snapshot_outside(), shadow.snapshot
            self._state.save_note(before)

    @cached_property
    def _own_tracked_files(self) -> set[str]:
        """The files that are ralph's own and in HEAD, and so go into each commit."""
        own = self._own | ({os.path.relpath(self._plan, self._root)} if self._run.start.asked.in_place else set())
        return own.intersection(self._repository.committed_files() if self._repository else ())

    @property
    def may_commit(self) -> bool:
        """Whether ralph commits finished tasks."""
        return self._run.settings.auto_commit and bool(self._repository or self._has_jj)

    def lacked_by_commit(self, task: str, path: Path, holds: bytes) -> str:
        """Returns why a commit of this task would lack what a check found at `path`; empty if it would not.

        What git ignores is in no commit, and need not be.
        """
        repository = self._repository
        name = os.path.relpath(path, self._root)
        changed = self._uncommitted.get(task, ())
        if not repository or not self.may_commit or self._has_jj or name == ".":
            return ""
        if any(one == name or one.startswith(f"{name}/") for one in changed):
            return ""
        if any(one == name or one.startswith(f"{name}/") for one in repository.committed_files()):
            lacks = holds and os.fsdecode(holds) not in repository.output_of("cat-file", "--filters", f"HEAD:{name}")
            return "does so only in changes that are not this task's: commit those" if lacks else ""
        is_ignored = repository.output_of("check-ignore", "--", name)
        return "" if is_ignored else "is there, but in no commit, and not this task's: commit it"

    def resume_snapshot(self) -> bool:
        """Loads the snapshot of an iteration in which ralph died. Returns whether it is still intact."""
        shadow = resume_shadow(self._before)
        self._shadow = shadow or self._shadow
        return shadow is not None

    @_disk_errors_end_the_run()
    def undo_after_death(self, look: TreeAtEnd | None) -> Sequence[str]:
        """Puts back what an iteration in which ralph died may not have changed; assigns its other changes to its task.

        What changed after the supervisor's note stays as the user's. Without that note everything counts as the
        iteration's, and a copy is kept. Returns in words what was put back of what decides how ralph works.
        """
        findings = TurnFindings()
        if not look and self._before.is_settled:
            return ()
        if not look:
            look = record_tree_now(self._before, self._shadow, self._state)
            if names := [name for name in look.changes if not name.endswith("/")]:
                kept = self._repository.keep_files(names) if self._repository else ""
                what = "nobody saw how the iteration ended in which ralph died, so all that changed counts as its own"
                self._complain(f"{what}: {join_names(names)}{kept and f'; as it is now it is kept in {kept}'}")
            if self._repository and (staged := self._repository.index_now()):
                where = self._state.keep_copy("index", staged)
                self._complain(f"so does what is staged: git's index as it is now is kept in {where}")
        self._changed_by_user = changed_since_end(look, self._shadow)
        self._settle_turn(findings, look)
        self._changed_by_user = ()
        return findings.tampered

    def uncommitted_files(self, task: str) -> Sequence[str]:
        """Returns the files that attempts at this task changed and that are in no commit."""
        return self._uncommitted.get(task, ())

    def head_id(self) -> str:
        """The commit of HEAD, shortened; empty if there is none."""
        return self._repository.read_head()[1][:10] if self._repository else ""

    def commit_ticked_leftovers(self, done: Collection[str]) -> dict[str, str]:
        """Commits what a killed run had ticked and not committed. Returns why it could not, by task."""
        failed = dict[str, str]()
        self._before.head = None  # the user decides where HEAD is now
        for task in [task for task, names in self._uncommitted.items() if names and task in done]:
            if why := self.commit_task(task, f"{task}: done before ralph was killed\n\nRalph-Task: {task}\n"):
                failed[task] = why
        return failed

    @_disk_errors_end_the_run()
    def remember_tree(self) -> None:
        """Records the current state, so that this run, or the next one if this one is killed, can put it back."""
        run, settings, shadow = self._run, self._run.settings, self._shadow
        repository = self._repository
        self.blocked = ""
        shadow.begin()
        self._submodules = repository.checked_out_submodules() if repository else {}
        self._before = TreeBefore(
            record=run.current.transcript.name,
            task=run.current.task,
            is_strict=settings.strict and not settings.once,
            only=settings.only,
            repository_paths=repository.paths if repository else (),
            head=repository.save_head_and_index() if repository else None,
            compared={},
            root=str(self._root),
            folder=str(shadow.folder),
            own=shadow.own,
            protected=shadow.protected,
            snapshot=shadow.snapshot,
        )
        self._before.compared = self._snapshot_outside()
        self._state.save_note(self._before)

    def _snapshot_outside(self) -> dict[str, str]:
        """The state of what is only compared: git's hooks and links; under --strict also files outside the tree."""
        outside = self._outside if self._before.is_strict else []
        return compared.snapshot_outside(self._repository, outside, self._plan)

    @_disk_errors_end_the_run()
    def _settle_turn(self, findings: TurnFindings, look: TreeAtEnd | None = None) -> None:
        """Puts back what the agent may not change, HEAD first; assigns its other changes to its task.

        Without --strict the agent may commit, and HEAD is put back only if a commit has a forbidden file: the allowed
        rest of those commits becomes a single one.
        """
        repository, before = self._repository, self._before
        if before.is_strict:
            self._put_head_back(look)
        changed, undone = self._put_files_back()
        changed += tuple(name for name in self._moved_submodules() if name not in changed)
        findings.tampered += tuple(f"{name} was changed" for name in undone[_GOVERNS])
        findings.outside = tuple(undone[_NOT_ALLOWED])
        if before.is_strict:
            findings.changed = changed
            if look:  # also what the user changed since, and did not remove
                both = self._shadow.changes().keys() & self._changed_by_user & look.changes.keys()
                changed += tuple(name for name in both if os.path.lexists(self._root / name))
            self._changed_earlier = self._uncommitted.get(before.task, ())
            self._note_uncommitted(before.task, {*self._changed_earlier, *changed})
        elif repository and (findings.outside or self._has_forbidden_commits()) and (ref := self._put_head_back(look)):
            message = repository.output_of("log", "-1", "--format=%B", ref)
            _, failed, _ = repository.commit_files(changed, message, self._run_git_with_hooks)
            if failed:
                self._complain(f"what may stay of the agent's commits stays uncommitted: {failed}")
        before.is_settled = True
        self._state.save_note(before)

    def _has_forbidden_commits(self) -> bool:
        """Whether a commit of this iteration holds a file that --only does not allow."""
        repository, head = self._repository, self._before.head
        if self.blocked or not repository or not head or repository.read_head()[1] == head[1]:
            return False
        since = [f"^{head[1]}"] if head[1] else []
        names = repository.list_names("log", "-z", "-m", "--format=", "--name-only", "--no-renames", "HEAD", *since)
        return any(self._why_not(name.lstrip("\n")) for name in names if name.strip("\n"))

    def _moved_submodules(self) -> list[str]:
        """The submodules in which another commit is checked out than when the iteration began."""
        if self.blocked or not self._repository or not self._submodules:
            return []
        now = self._repository.checked_out_submodules()
        return [name for name, commit in self._submodules.items() if now.get(name, commit) != commit]

    def _put_head_back(self, look: TreeAtEnd | None = None) -> str | None:
        """Puts HEAD and the index back. Returns a ref to what HEAD was; empty if nothing new, None if unmoved.

        What the user moved or staged after an iteration in which ralph died stays.
        """
        repository, head = self._repository, self._before.head
        if not repository or not head or self.blocked:
            return None
        moved = None
        try:
            if not look or [*look.head] == [*repository.read_head()]:
                moved = repository.put_head_back(head, self._state.free_kept_path)
            elif [*look.head] != [*head[:2]]:
                what = "HEAD was moved in the iteration in which ralph died, and by somebody since: it stays"
                self._complain(what)
        except RalphError as error:
            if error.exit_code != 4:
                raise
            self.blocked = error.message
            return None
        if look:
            repository.put_index_back_keeping_later_changes(self._shadow.folder / INDEX_AT_LOOK)
        else:
            repository.put_index_back()
        if moved is None:
            return None
        kept, count = moved
        self._run.put_back.update({"commit": count} if count else {})
        self._complain(f"HEAD is put back where it was; what was there is {kept or 'nothing new'}")
        return kept

    def _put_files_back(self) -> tuple[tuple[str, ...], dict[str, list[str]]]:
        """Puts back what may not change. Returns the files that remain changed, and by reason what was put back."""
        changes, undone = self._undo_changes(self._why_not)
        for why, names in undone.items():
            where = f"put back; what was there is in {self._state.folder / 'kept'}"
            self._run.put_back.update(dict.fromkeys(names[:_MOST_NAMED], 0))
            self._complain(f"{join_names(names)} was changed, {why}: {where}")
        if within := [name for name in changes if name.endswith("/")]:
            what = f"{join_names(within)} has a repository of its own: left alone, and not committed"
            self._complain(what, once=within[0])
        return tuple(name for name in changes if name not in within), undone

    def _undo_changes(self, why_not: Callable[[str], str]) -> tuple[dict[str, bool], dict[str, list[str]]]:
        """Undoes each change that has a reason to be. Returns what remains changed, and by reason what was undone."""
        undone, shadow = defaultdict[str, list[str]](list), self._shadow
        hidden = dict[str, bool]()
        for _ in range(9):
            hidden |= dict.fromkeys(shadow.newly_ignored_files() if self._before.only else (), False)
            rights = dict.fromkeys(shadow.files_with_changed_modes() if self._before.only else (), True)
            there = {name: False for name in hidden if os.path.lexists(self._root / name)}
            found = (shadow.changes() | there | rights).items()
            changes = {name: was_there for name, was_there in found if name not in self._changed_by_user}
            wrong = [name for name in changes if why_not(name)]
            new = [name for name in wrong if not changes[name]]
            if len(new) > _MOST_NEW_FILES:
                what = f"{len(new)} new files, such as {join_names(new[:3])}, would be moved away"
                self.blocked = f"{what}; nothing was: remove them, or have git ignore what is not yours"
                wrong = []
            if not wrong:
                return {name: was_there for name, was_there in changes.items() if name not in hidden}, undone
            reasons = {name: _HIDDEN if name in hidden else why_not(name) for name in wrong}
            for name in shadow.put_back(wrong, changes, self._state.free_kept_path):
                undone[reasons[name]].append(name)
        raise RalphError(f"{join_names(wrong)}: cannot be put back in {self._root}", 1)

    def _why_not(self, name: str) -> str:
        """Returns why this file may not change; empty if it may. In a plan in words only the settings may not."""
        path, before = self._root / name, self._before
        if before.is_strict and {name, *map(str, Path(name).parents)}.intersection(before.protected):
            if os.path.realpath(path) != str(self._plan) or not path.is_file():
                return _GOVERNS
            content = self._shadow.run("cat-file", "blob", f":{name}")
            if compared.plan_settings_text(content, path) != compared.plan_settings_text(path.read_bytes(), path):
                return _GOVERNS
        if not before.only:
            return ""
        within = os.path.relpath(path, self._run.top) + "/" * name.endswith("/")
        if not within.startswith("../") and matches_patterns(within, before.only):
            return ""
        return _NOT_ALLOWED

    def _run_git_with_hooks(self, argv: Sequence[str], stdin: bytes) -> str:
        """Runs git like a check, so that nothing that a hook starts outlives it. Returns why it failed, or nothing."""
        run = self._run
        output = run.state.new_record(run.id, run.current.number)
        names = output.with_suffix(".names")
        names.write_bytes(stdin)
        job = Command(["sh", "-c", 'exec "$@" 2>&1', "sh", *argv], run.env, output, prompt=names)
        run.console.set_activity("committing")
        ended = run.command_runner.run_program("the commit", job, _HOOKS_S)
        for path in (names, output, job.errors):
            path.unlink(missing_ok=True)  # the reason for a failure has its output
        return ended._replace(what=f"git {ended.what}").why if ended else "git was interrupted"

    def _note_uncommitted(self, task: str, names: Collection[str]) -> None:
        """Records, for the next run too, the files that attempts at this task changed and that are in no commit."""
        self._uncommitted[task] = sorted(names)
        self._state.save_note(UncommittedFiles(names=self._uncommitted))


def put_progress_back(run: Run, before: bytes, when: str) -> tuple[str, ...]:
    """Puts ralph's own parts of the progress file back to `before`. Returns in words what had been changed."""
    run.read_progress()
    left, name = run.file.text, run.file.path.name
    right, what, kinds = restore_own_sections(before, left)
    if right == left:
        return ()
    run.file.edit(lambda text: restore_own_sections(before, text).text)
    kept, message = run.state.keep_copy(name, left), "the task list is in its order; new tasks are under ## Proposed"
    if what:
        undone = "; ".join(what)
        message = f"undone, since the tasks are ralph's {when}: {undone}"
        run.put_back.update(kinds)
    run.console.complain(f"{message}; {name} as it was left is {kept}")
    return what


_WILD = re.compile(r"(\*\*/|\*\*|[*?]|\{[^{}]*\}|\[!?.[^]]*\])")
_MEANS = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def matches_patterns(name: str, groups: Sequence[Sequence[str]]) -> bool:
    """Whether a pattern of each group matches this file; an empty group matches none.

    `*` and `?` stay within a folder, `**` crosses folders, `[abc]` and `{a,b}` are alternatives; a pattern that ends in
    a plain name also matches everything in a folder of that name.
    """
    for group in groups:
        expressions = list[str]()
        for pattern in group:
            whole = pattern + "**" * pattern.endswith("/")
            is_plain = not _WILD.search(whole.rpartition("/")[2])
            expressions.append(_pattern_regex(whole) + "(/.*)?" * is_plain)
        if not re.fullmatch("|".join(expressions), name, re.DOTALL):
            return False
    return True


def _pattern_regex(pattern: str) -> str:
    """The pattern as a regular expression."""
    message = ""
    for part in _WILD.split(pattern):
        if part.startswith("{") and part.endswith("}"):
            message += f"({'|'.join(map(_pattern_regex, part[1:-1].split(',')))})"
        else:
            message += _MEANS.get(part) or fnmatch.translate(part)[4:-3]  # without its anchors
    return message
