"""The guard: what may change in the working tree during an iteration, what is put back, and what ralph commits."""

import contextlib
import fnmatch
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph import files
from ralph.agent.turn import Commits
from ralph.errors import RalphError
from ralph.git.repository import Repository, try_jj_commit
from ralph.git.settings import snapshot_hooks_rules_and_links
from ralph.plan.tasks.edits import restore_ralphs_sections
from ralph.process import signals
from ralph.process.supervisor import Command
from ralph.run.context import Run
from ralph.run.judge import TurnFindings
from ralph.settings import sources
from ralph.store.state import TreeAfterDeath, TreeBefore, UncommittedFiles
from ralph.strict.shadow import HIDDEN, NEW, TreeShadow, is_gitignore_file, resume_shadow
from ralph.words import join_names, plural

# New files moved away at once; more may be the user's, who then decides.
_MOST_NEW_FILES = 1000
# Seconds that a commit may take, since some projects' hooks run all their tests.
_HOOKS_S = 900.0
# Seconds to wait for another git that holds the index, and between two checks of that.
_LOCKED_S, _POLL_S = 60.0, 0.2
_GOVERNS = "which decides how ralph works"
_NOT_ALLOWED = "which is not allowed here"
_HIDDEN = "which new rules hide from git, and is not allowed here"


# The disk may be full, or an agent may have removed ralph's copies.
_disk_errors_end_the_run = files.os_errors_as_ralph_errors(
    "what was done to the repository", "put right", fix="look at it before the next run"
)


class StillChangedAndUndone(NamedTuple):
    """What became of the changes of an iteration."""

    still_changed: set[str]
    """The visible files that remain changed, allowed or not."""
    undone: dict[str, list[str]]
    """The files that were put back, by reason."""


class TreeGuard:
    """Guards the working tree around the current folder.

    It asks the run what may change when an iteration begins, since each mode has its own settings.
    """

    # What the user changed after the end of an iteration in which ralph died; it stays.
    _changed_by_user: Collection[str] = ()
    # What earlier attempts at the task changed; discarding an attempt keeps that.
    _changed_earlier: Collection[str] = ()
    # The submodules that were not at the staged commit when the iteration began.
    _moved_before: Collection[str] = ()
    blocked = ""
    """Why the run has to end without another change here; empty if it need not, as far as is known."""
    committed = Commits()
    """What ralph committed last."""
    own_progress = b""
    """The text of the progress file that ralph vouches for; empty while the task list is not ralph's own."""

    def __init__(self, run: Run, before: TreeBefore | None = None):
        self._run, self._state, self._plan = run, run.state, run.prepared_mode.plan
        self._complain = run.console.complain
        # The state at the beginning of the running iteration, or of the one in which ralph died.
        self._before = before or TreeBefore()
        if before:
            self._repository = Repository(before.repository_paths) if before.repository_paths else None
        else:
            self._repository = Repository.find_around(run.top)
        self._root = root = self._repository.root if self._repository else run.top
        self._has_jj = (root / ".jj").exists() and shutil.which("jj")
        govern = (self._plan, Path(".ralph.env"), Path(".ralph"), run.settings.prompts or self._plan)
        places = {place for path in govern for place in (path.parent.resolve() / path.name, path.resolve())} - {root}
        protected = {place for place in places if place.is_relative_to(root)}  # put back under --strict
        # What decides how ralph works and lies outside the tree, and the user's history: they are only compared.
        self._outside = [*(places - protected), *filter(None, [run.history])]
        own = [
            os.path.relpath(path.resolve(), root)
            for path in (*run.prepared_mode.files_ralph_writes, files.state_home())
        ]
        self._shadow = TreeShadow(root, own, sorted(os.path.relpath(place, root) for place in protected))

    def check_can_commit(self) -> None:
        """Raises RalphError if ralph could not commit here."""
        if self._repository and not self._has_jj:
            self._repository.check_can_commit()

    @contextlib.contextmanager
    def guard_turn(self) -> Iterator[TurnFindings]:
        """Surrounds a turn of the agent; afterwards puts back, and reports, what the agent may not change."""
        findings = TurnFindings()
        self.remember_tree()
        self.committed = Commits()
        yield findings
        if not self.why_no_git_may_run():
            self._run.remove_orphaned_locks("the agent")
        if self.own_progress:
            findings.tampering = put_back_ralphs_sections(self._run, self.own_progress)
        self._put_back_and_record_findings(findings)
        findings.why_run_ends = self.blocked

    def why_no_git_may_run(self) -> str:
        """Returns why the run has to end before git runs here again; empty if it need not."""
        settings = self._run.git_settings
        if not self.blocked:
            now = self._snapshot_hooks_and_outside_files()
            settings.collect_file_changes(self._before.compared, now)
            self._before.compared = now
            self.blocked = settings.why_settings_block_git
            for one in settings.harmless:
                self._complain(f"{one}; it stays", once=one)
        return self.blocked

    @_disk_errors_end_the_run
    def undo_forbidden_after_checks(self) -> None:
        """Puts back what checks and hooks changed, since the agent may have written them."""
        put_back_ralphs_sections(self._run, self.own_progress)
        if not self.why_no_git_may_run():
            self._put_head_and_index_back()
            if self._before.only or self._shadow.is_protected_touched():  # a look at all files takes long
                self._put_back_forbidden()

    @_disk_errors_end_the_run
    def put_whole_tree_back(self) -> None:
        """Puts all files back as they were before the iteration, and keeps a copy of how they are now."""
        if self.blocked:
            return
        if self._repository and (names := [name for name in self._shadow.changes() if not name.endswith("/")]):
            self._repository.keep_files_under_ref(names)
        _, undone = self._undo_changes_with_reason(lambda _: "thrown away")
        if count := sum(map(len, undone.values())):
            self._complain(f"restored {plural(count, 'file')}; what went is in {self._state.folder}/kept")
        if not self.blocked:
            self._assign_uncommitted_to_task(self._before.task, self._changed_earlier)

    def wait_for_index(self) -> str:
        """Waits while another git holds the index, such as a `git commit` in an editor. Returns why in vain."""
        lock, deadline = self._repository and Path(f"{self._repository.index}.lock"), time.monotonic() + _LOCKED_S
        while lock and lock.exists():
            if time.monotonic() > deadline or signals.interrupted():
                return f"{lock}: another git still holds the index"
            self._complain(f"waiting for the git that holds {lock}", once="index")
            signals.sleep_until_signal(_POLL_S)
        return ""

    @_disk_errors_end_the_run
    def try_to_commit_task(self, task: str, message: str) -> str:
        """Commits what the attempts at this task changed. Returns why it could not, or nothing.

        A file that the user had changed before, and the agent changed too, is committed as a whole.
        """
        # another plan's progress file belongs to no task
        changed = {name for name in self._state.uncommitted_files(task) if not name.endswith("_PROGRESS.md")}
        own, failed = [*self._shadow.own], ""
        if self._run.prepared_mode.asked.in_place:
            own.append(os.path.relpath(self._plan, self._root))
        if self._run.settings.auto_commit:
            if self._has_jj and changed:
                failed = try_jj_commit(changed, message)
                self.committed = Commits(count=int(not failed))
            elif self._repository and not self._has_jj:
                run_git = self._failure_of_git_with_hooks
                self.committed, failed, left_out = self._repository.commit_and_list_left_out(
                    changed, own, message, run_git
                )
                if left_out and not failed:
                    self._complain(f"{join_names(left_out)} changed, and no commit has that: git ignores it")
        if failed:
            self._put_head_and_index_back()
            return failed
        if self._repository and self._before.head:
            self._before.head = self._repository.save_head_and_index()
        self._assign_uncommitted_to_task(task, ())
        return ""

    def why_commit_would_lack(self, path: Path, wanted: bytes) -> str:
        """Returns why a commit of the current task would lack what a check found at `path`; empty if it would not.

        What git ignores is in no commit, and need not be.
        """
        repository, name = self._repository, os.path.relpath(path, self._root)
        changed = self._state.uncommitted_files(self._run.iteration.task)
        if (
            not repository
            or not self._run.settings.auto_commit
            or self._has_jj
            or name == "."
            or any(f"{one}/".startswith(f"{name}/") for one in changed)
        ):
            return ""
        if wanted:
            found = os.fsdecode(wanted) in repository.output_or_empty("cat-file", "--filters", f"HEAD:{name}")
        else:
            found = path.name in repository.names_in_folder(repository.head_commit(), name.rpartition("/")[0])
        if found or repository.output_or_empty("check-ignore", "--", name):
            return ""
        return "is so here, but in no commit, and not by this task: commit it"

    @_disk_errors_end_the_run
    def undo_forbidden_of_dead_run(self, end: TreeAfterDeath | None) -> Sequence[str]:
        """Puts back what an iteration in which ralph died may not have changed; assigns its other changes to its task.

        What changed after the supervisor's note stays as the user's. Without that note everything counts as the
        iteration's, and a copy is kept. Returns in words what was put back of what decides how ralph works.
        """
        findings, before, repository = TurnFindings(), self._before, self._repository
        shadow = resume_shadow(before)
        if not shadow or (before.is_settled and not end):
            return ()
        self._shadow = shadow
        if not end:
            if names := [name for name in shadow.changes() if not name.endswith("/")]:
                kept = repository.keep_files_under_ref(names) if repository else ""
                what = "nobody saw how the iteration ended in which ralph died, so all that changed counts as its own"
                self._complain(f"{what}: {join_names(names)}{kept and f'; as it is now it is kept in {kept}'}")
            staged = files.read_or_empty(repository.index) if repository else b""
            if repository and staged != files.read_or_empty(repository.index_copy):
                where = self._state.keep_copy("index", staged)
                self._complain(f"so does what is staged: git's index as it is now is kept in {where}")
        elif later := resume_shadow(before, end):
            self._changed_by_user = later.changes().keys()
        self._put_back_and_record_findings(findings, end)
        return findings.tampering

    def short_head(self) -> str:
        """The commit of HEAD, shortened; empty if there is none."""
        return self._repository.head_commit()[:10] if self._repository else ""

    @_disk_errors_end_the_run
    def remember_tree(self) -> None:
        """Records the current state, so that this run, or the next one if this one is killed, can put it back."""
        run, shadow, repository = self._run, self._shadow, self._repository
        self.blocked = ""
        shadow.take_snapshot(repository)
        self._moved_before = repository.moved_submodules() if repository else ()
        self._before = TreeBefore(
            transcript_name=run.iteration.transcript.name,
            task=run.iteration.task,
            is_strict=run.prepared_mode.is_strict_loop,
            only=run.settings.only,
            repository_paths=repository.part_paths if repository else (),
            head=repository.save_head_and_index() if repository else None,
            root=str(self._root),
            own=shadow.own,
            protected=shadow.protected,
            snapshot=shadow.snapshot,
        )
        self._before.compared = self._snapshot_hooks_and_outside_files()
        self._state.save_note(self._before)

    def _snapshot_hooks_and_outside_files(self) -> dict[str, str]:
        """The state of what is only compared: git's hooks and links; under --strict also files outside the tree."""
        found = snapshot_hooks_rules_and_links(*self._repository.part_paths[:3]) if self._repository else {}
        outside = self._outside if self._before.is_strict else []
        for path in [path for place in outside for path in (place, *place.glob("*")) if path.is_file()]:
            text = files.read_text_or_empty(path)
            found[str(path)] = _settings_in_plan(text, path) if path == self._plan else text
        return found

    @_disk_errors_end_the_run
    def _put_back_and_record_findings(self, findings: TurnFindings, end: TreeAfterDeath | None = None) -> None:
        """Puts back what the agent may not change, HEAD first; assigns its other changes to its task.

        Without --strict the agent may commit, and HEAD is put back only if a commit has a forbidden file: the allowed
        rest of those commits becomes a single one.
        """
        repository, before = self._repository, self._before
        if before.is_strict:
            self._put_head_and_index_back(end)
        changed, undone = self._put_back_forbidden()
        if end:  # what both changed, and is still there, is the task's
            changed -= {*self._changed_by_user} - {name for name in end.changes if os.path.lexists(self._root / name)}
        if repository and not self.blocked:
            changed |= repository.moved_submodules().symmetric_difference(self._moved_before)
        findings.tampering += tuple(f"{name} was changed" for name in undone[_GOVERNS])
        findings.outside = undone[_NOT_ALLOWED]
        if before.is_strict:
            findings.changed = sorted(changed)
            self._changed_earlier = self._state.uncommitted_files(before.task)
            self._assign_uncommitted_to_task(before.task, changed.union(self._changed_earlier))
        else:
            self._recommit_allowed_rest(changed, end, has_forbidden=bool(findings.outside))
        before.is_settled = True
        self._state.save_note(before)

    def _recommit_allowed_rest(
        self, changed: Collection[str], end: TreeAfterDeath | None, *, has_forbidden: bool
    ) -> None:
        """Makes one commit of the allowed rest of the agent's, if anything is forbidden there or in the tree."""
        repository, head = self._repository, self._before.head
        if self.blocked or not repository or not head:
            return
        has_forbidden |= any(map(self._why_forbidden, repository.names_committed_since(head[1])))
        if has_forbidden and (ref := self._put_head_and_index_back(end)):
            message = repository.output_or_empty("log", "-1", "--format=%B", ref)
            _, failed, _ = repository.commit_and_list_left_out(changed, (), message, self._failure_of_git_with_hooks)
            if failed:
                self._complain(f"what may stay of the agent's commits stays uncommitted: {failed}")

    def _put_head_and_index_back(self, end: TreeAfterDeath | None = None) -> str:
        """Puts HEAD and the index back. Returns a ref to what HEAD was; empty if it was not moved to a new commit.

        What the user moved or staged after an iteration in which ralph died stays.
        """
        repository, head, kept = self._repository, self._before.head, ""
        if not repository or not head or self.blocked:
            return kept
        now, (branch, commit, were_begun) = repository.read_branch_and_commit(), head
        begun = [one for one in repository.operation_files() if one not in were_begun]
        is_moved = end and [*end.head] != [*now]
        if end and is_moved:
            if [*end.head] != [branch, commit]:
                self._complain("HEAD was moved in the iteration in which ralph died, and by somebody since: it stays")
        elif begun or now != (branch, commit):
            if not any(now):  # HEAD has nonsense in it, so that git sees no repository
                head_file = repository.git_dir / "HEAD"
                files.write_own_file_directly(head_file, os.fsencode(f"ref: {branch}\n" if branch else f"{commit}\n"))
            if commit and not repository.output_or_empty("cat-file", "-t", commit):
                what = f"{repository.git_dir} lacks the commit {commit[:10]}, at which HEAD was: somebody made it again"
                self.blocked = f"{what}; bring the old one back, or keep this one"
                return kept
            for one in begun:
                shutil.move(repository.git_dir / one, self._state.free_kept_path(one))
            kept = repository.put_head_back_and_keep_commits(branch, commit)
            went = f"{commit}..{kept}" if commit else kept
            count = int(repository.output_or_empty("rev-list", "--count", went) or 0)
            self._run.put_back.update({"commit": count} if count else {})
            self._complain(f"HEAD is put back where it was; what was there is {kept or 'nothing new'}")
        if end and (is_moved or end.index_lines != repository.index_lines()):
            repository.put_saved_entries_back(end.index_lines, commit)
        else:
            repository.put_index_back()
        return kept

    def _put_back_forbidden(self) -> StillChangedAndUndone:
        """Puts back what may not change. Returns what became of all changes."""
        left, undone = self._undo_changes_with_reason(self._why_forbidden)
        for why, names in undone.items():
            where = f"put back; what was there is in {self._state.folder / 'kept'}"
            self._run.put_back.update(dict.fromkeys(names[:10], 0))
            self._complain(f"{join_names(names)} was changed, {why}: {where}")
        if within := [name for name in left if name.endswith("/")]:
            what = f"{join_names(within)} has a repository of its own: left alone, and not committed"
            self._complain(what, once=within[0])
        return StillChangedAndUndone(left.difference(within), undone)

    def _undo_changes_with_reason(self, why_undo: Callable[[str], str]) -> StillChangedAndUndone:
        """Undoes each change that has a reason to be, except the user's. Returns what became of all of them.

        Ignore rules are undone first, and alone, since they may hide other changes.
        """
        undone, visible_at_first, shadow = defaultdict[str, list[str]](list), set[str](), self._shadow
        for number in range(9):
            changes = shadow.changes(with_modes=bool(self._before.only))
            visible = {name for name, how in changes.items() if how != HIDDEN}
            if number == 0:
                visible_at_first = visible
            reasons = {name: why for name in sorted(changes.keys() - self._changed_by_user) if (why := why_undo(name))}
            rules = [*filter(is_gitignore_file, reasons)]
            wrong = rules or [*reasons]
            new = [name for name in wrong if changes[name] in (NEW, HIDDEN)]
            if len(new) > _MOST_NEW_FILES:
                what = f"{len(new)} new files, such as {join_names(new[:3])}, would be moved away"
                self.blocked = f"{what}; nothing was: remove them, or have git ignore what is not yours"
                wrong = []
            shadow.put_back(wrong, changes, self._state.free_kept_path)
            for name in wrong:
                undone[reasons[name] if name in visible_at_first else _HIDDEN].append(name)
            if self.blocked or not rules:
                return StillChangedAndUndone(visible.difference(wrong), undone)
        raise RalphError(f"{join_names(wrong)}: cannot be put back in {self._root}", 1)

    def _why_forbidden(self, name: str) -> str:
        """Returns why this file may not change; empty if it may. In a plan in words only the settings may not."""
        path, before = self._root / name, self._before
        if before.is_strict and {name, *map(str, Path(name).parents)}.intersection(before.protected):
            if os.path.realpath(path) != str(self._plan) or not path.is_file():
                return _GOVERNS
            was = os.fsdecode(self._shadow.run("cat-file", "blob", f":{name}"))
            if _settings_in_plan(was, path) != _settings_in_plan(files.read_text_or_empty(path), path):
                return _GOVERNS
        within = os.path.relpath(path, self._run.top) + "/" * name.endswith("/")
        is_below = not within.startswith("../")
        return "" if not before.only or (is_below and matches_every_group(within, before.only)) else _NOT_ALLOWED

    def _failure_of_git_with_hooks(self, argv: Sequence[str], stdin: bytes) -> str:
        """Runs git like a check, so that nothing that a hook starts outlives it. Returns why it failed, or nothing."""
        run = self._run
        output = run.command_runner.new_log_path()
        names = output.with_suffix(".names")
        names.write_bytes(stdin)
        job = Command(["sh", "-c", 'exec "$@" 2>&1', "sh", *argv], run.env, output, stdin_path=names)
        run.console.set_activity("committing")
        done = run.command_runner.run_program("the commit", job, _HOOKS_S)
        return done._replace(how_ended=f"git {done.how_ended}").failure_with_output if done else "git was interrupted"

    def _assign_uncommitted_to_task(self, task: str, names: Collection[str]) -> None:
        """Records, for the next run too, the files that attempts at this task changed and that are in no commit."""
        noted = self._state.load_note(UncommittedFiles) or UncommittedFiles()
        noted.by_task[task] = sorted(names)
        self._state.save_note(noted)


def _settings_in_plan(plan_text: str, plan: Path) -> str:
    """Returns the settings in a plan, or all of a plan in JSON; the user may edit the words of a plan."""
    if plan.suffix == ".json" or "json" in plan_text:
        return plan_text
    return repr([(one.variable, one.text) for one in sources.read_directives(os.fsencode(plan_text), plan.name)])


def put_back_ralphs_sections(run: Run, before: bytes) -> tuple[str, ...]:
    """Puts ralph's own parts of the progress file back to `before`. Returns in words what had been changed."""
    run.read_progress()
    left, name = run.file.text, run.file.path.name
    if left == before:
        return ()
    right, what, kinds = restore_ralphs_sections(before, left)
    if right == left:
        return ()
    kept = run.state.keep_copy(name, left)
    run.file.edit(lambda text: restore_ralphs_sections(before, text).text)
    run.put_back.update(kinds)
    undone = "; ".join(what) or "their order; new ones are under ## Proposed"
    run.console.complain(
        f"undone, since the tasks are ralph's while an iteration runs: {undone}; {name} as it was left is {kept}"
    )
    return what


_WILD = re.compile(r"(\*\*/|\*\*|[*?]|\{[^{}]*\}|\[!?.[^]]*\])")
_MEANS = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def matches_every_group(name: str, groups: Sequence[Sequence[str]]) -> bool:
    """Whether a pattern of each group matches this file; an empty group matches none.

    `*` and `?` stay within a folder, `**` crosses folders, `[abc]` and `{a,b}` are alternatives; a pattern that ends in
    a plain name also matches everything in a folder of that name.
    """
    return all(any(_matches(name, pattern) for pattern in group) for group in groups)


def _matches(name: str, pattern: str) -> bool:
    whole = pattern + "**" * pattern.endswith("/")
    below = "" if _WILD.search(whole.rpartition("/")[2]) else "(/.*)?"
    return re.fullmatch(_pattern_regex(whole) + below, name, re.DOTALL) is not None


def _pattern_regex(pattern: str) -> str:
    """The pattern as a regular expression."""
    regex = ""
    for part in _WILD.split(pattern):
        if part.startswith("{") and part.endswith("}"):
            regex += f"({'|'.join(map(_pattern_regex, part[1:-1].split(',')))})"
        else:
            regex += _MEANS.get(part) or fnmatch.translate(part)[4:-3]  # without its anchors
    return regex
