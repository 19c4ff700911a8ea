"""Strict work: one task per iteration, which ralph picks, checks, ticks and commits; the agent only proposes."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ralph.agent.turn import Outcome, without_signals
from ralph.errors import RalphError
from ralph.loop.iteration import run_agent_once
from ralph.plan import progress, tasks
from ralph.plan.tasks import Note, Task, edits
from ralph.plan.tasks.mending import restore_own_sections
from ralph.run import acceptance, evidence
from ralph.run.acceptance import Check, CheckResult
from ralph.run.context import Run
from ralph.run.evidence import check_done, run_verify
from ralph.run.judge import Controller, Iteration
from ralph.run.stop_rules import Reason, Stop
from ralph.strict.final_words import Finding, commit_message, read_final_words, requested_mode
from ralph.strict.guard import Guard
from ralph.strict.review_diff import diff_since_review, save_reviewed_files
from ralph.strict.roles import roles_of
from ralph.words import join_names, plural, timestamp

_REJECTIONS = 3


class StrictController(Controller):
    """Picks, checks, ticks and commits tasks; wherever ralph can check, the agent's word does not count."""

    picks_tasks = True
    _task: Task
    """The task of the current attempt."""

    def __init__(self, run: Run, guard: Guard) -> None:
        self._run = run
        self._guard, self.around_turn = guard, guard.around_turn
        self._file = run.file
        self._roles = roles_of(run.start)
        self._role = ""
        """The role that works on the task, if there are roles."""
        self._token = acceptance.new_session_token()
        self._without_proof = ""
        """Why nothing proves the task done, if it is ticked because two agents said so."""

    def tidy_task_list(self) -> None:
        """Gives each task an id, ticks those whose subtasks are all done, and leaves none in progress."""
        if self._role:
            self._run.use_mode("build")
            self._role = ""
        self._file.edit(edits.with_tidy_list)

    def run_iteration(self) -> Iteration:
        """Runs the next iteration and returns what is known of it once its agent has ended."""
        return run_agent_once(self._run)

    def choose_next(self) -> Stop | None:
        """Chooses and marks the next task. Returns a Stop if none can begin."""
        run = self._run
        alone = run.settings.task
        listed = run.start.read_valid_tasks(self._file.text)
        if (task := tasks.select_next(listed, alone, run.tally.crashes)) is None:
            return Stop(Reason.ONCE) if self._is_task_ticked(alone) else acceptance.nothing_to_begin(listed, alone)
        self._task = task
        self._without_proof = ""
        run.update_iteration(task=task.id)
        if self._roles:
            self._role = self._roles.role_of_task(task)
            run.use_mode(self._role, as_role=True)
        notes = self._run_checks_before(task) if self._demands_proof and not task.note_values("begun") else []
        self._edit_list(lambda text: edits.with_evidence(edits.with_mark(text, "~", task.id), task.id, notes))
        values = acceptance.prompt_values(self._current_task, self._token, run.state)
        if self._roles:
            values["TEST_CHANGES"] = diff_since_review(run, task.id)
        run.update_iteration(values=values)
        return None

    @property
    def _demands_proof(self) -> bool:
        return self._run.settings.evidence and not self._run.start.rehearsal  # no fake agent can meet a check

    @property
    def _current_task(self) -> Task:
        """The task as it is in the progress file now."""
        return tasks.find_task(tasks.read_tasks(self._file.text), self._task.id) or self._task

    def _run_checks_before(self, task: Task) -> list[Note]:
        """Runs the checks of a task before its first attempt. Returns notes: those that pass already prove nothing."""
        run, checks = self._run, acceptance.checks_of_tasks(task.chain)
        runs_programs = any("command" in one.fields for one in checks)
        if runs_programs:  # an agent may have written them
            self._edit_list(lambda text: text)
            self._guard.remember_tree()
        found = evidence.run_checks(run, checks, self._lacked_by_commit)
        if runs_programs:
            self._guard.undo_changes_by_checks("before a task is begun")
        if found is None:
            return []
        notes = evidence.evidence_notes(found, self._guard.head_id())
        held_before = [one.value for one in notes if one.name == "held"]
        if held_before:
            count = f"{len(held_before)} of {plural(len(found), 'check')}"
            message = f"{task.id}: {count} hold before it is begun: {join_names(held_before)}"
            run.screen.say(f"ralph: {message}")
            run.write_journal("checks", success=False, message=message, requirement_id=task.id)
        return notes

    def _is_task_ticked(self, task: str | None) -> bool:
        there = tasks.find_task(tasks.read_tasks(self._file.text), task)
        return there is not None and there.done

    def conclude(self, iteration: Iteration) -> Iteration:
        """Checks what the agent proposes, then ticks and commits the task, or records why not."""
        run = self._run
        outcome = iteration.turn.outcome
        goes_on = outcome is Outcome.CONTEXT_FULL and not iteration.failed and run.settings.on_failure == "keep"
        if iteration.is_repeated or iteration.ended or outcome is Outcome.FAILED or goes_on:
            iteration = self._put_task_down(iteration)
        else:
            iteration = self._judge_attempt(iteration)
        if (mode := requested_mode(iteration.turn.final_words, self._token)) in run.settings.then:
            self._edit_list(lambda text: progress.with_mode(text, mode))
        elif mode:
            why = f"{run.start.template} does not name it in RALPH_THEN"
            run.console.complain(f"the request for the mode {mode} is ignored: {why}")
        if iteration.ended is None and (why := self._guard.blocked):
            iteration = replace(iteration, ended=Stop(Reason.TAMPERED, why))
        run.changes.disturbed = False  # the guard compares by itself, and faster
        if iteration.passed and not run.is_attempt and not run.read_progress().open:
            iteration = replace(iteration, refused=tuple(check_done(run, is_verified=True)))
        elif iteration.ended is None and self._is_task_ticked(run.settings.task):
            iteration = replace(iteration, ended=Stop(Reason.ONCE))  # even if a limit is reached with it
        return replace(iteration, after=run.read_progress(), commits=self._guard.committed)

    def _judge_attempt(self, iteration: Iteration) -> Iteration:
        """Checks the attempt, then ticks and commits the task, hands it to the next role, or records why not."""
        run = self._run
        task = self._task
        roles = self._roles
        found = self._run_gates(iteration)
        self._guard.undo_changes_by_checks("while a task is checked")
        if found.is_pass and not self._guard.blocked and (locked := self._guard.wait_for_index()):
            return self._put_task_down(replace(iteration, failed=locked))
        if found.is_pass and not self._guard.blocked:
            if roles and (role := roles.next_role(self._role)):
                if role == roles.last_writer:
                    save_reviewed_files(run, task.id, acceptance.touched_files(run.state, task.id))
                self._mark_task(" ", "role", role)
            elif why := self._tick_and_commit(iteration):
                found = Finding(failed=why, red=True)
        stop = run.stop_if_interrupted()
        if self._guard.blocked or (found.failed and stop):
            return self._put_task_down(replace(iteration, ended=stop))
        if found.is_pass:
            return replace(iteration, moved=True, passed=True)
        if found.unproved and not self._current_task.note_values("claimed"):
            return self._record_unproved(iteration, found.unproved)
        self._restore_if_asked()
        return self._record_failure(iteration, found)

    def _record_failure(self, iteration: Iteration, found: Finding) -> Iteration:
        """Records why the attempt failed, as a failure of the task or of the role that is to blame."""
        run, task, roles = self._run, self._task, self._roles
        if found.blocked:
            self._mark_task("!", "blocked", edits.BY_AGENT + found.blocked)
            return replace(iteration, failed=f"{task.id} is blocked: {found.blocked}", may_retry=True)
        most = run.settings.max_tries
        why = found.failed or found.unproved
        if found.rejected and sum(": rejected: " in one for one in task.note_values("failed")) >= _REJECTIONS - 1:
            most = task.tries + 1  # builder and reviewer do not agree, so the user decides
        if roles and roles.is_to_blame(self._role, found):
            self._mark_task(" ", "role", f"{self._role}: {why}")
            return replace(iteration, failed=f"{task.id}, {self._role}: {why}")
        if roles:
            self._mark_task(" ", "role", roles.role_after_failure(self._role, found))
        self._edit_list(lambda text: edits.with_failure(text, task.id, why, most, is_claimed=bool(found.unproved)))
        message = f"{task.id}, attempt {task.tries + 1}: {why}"
        return replace(iteration, failed=message, may_retry=task.has_attempts_left(most))

    def _run_gates(self, iteration: Iteration) -> Finding:
        """Judges the attempt: what the agent did and said, then the task's checks and verify, then the proof."""
        task = self._task
        roles = self._roles
        turn = iteration.turn
        if iteration.failed:
            return Finding(failed=iteration.failed)
        if outside := iteration.findings.outside:
            return Finding(failed=f"{join_names(outside)} changed, which is not allowed here: put back")
        if turn.outcome is not Outcome.OK:
            return Finding(failed=turn.why)
        claim = read_final_words(turn.final_words, turn.proposal or {}, token=self._token, task_id=task.id)
        claim = Finding() if claim.rejected and self._is_dismissed(claim.failed) else claim
        if not claim.is_pass or (roles and self._role not in (roles.last_writer, roles.fix)):
            return claim
        checks = acceptance.checks_of_tasks(task.chain)
        for ended in self._run_checks(checks):
            if ended is None:
                return Finding(failed="a signal came while it was checked")
            if ended.failed:
                return Finding(failed=ended.why, red=True)
        return self._require_proof(iteration, checks)

    def _is_dismissed(self, rejection: str) -> bool:
        """Whether the user dismissed all that a reviewer names, with a reason for each below the task."""
        named = re.findall(rf"\b{re.escape(self._role)}:[^\s:]+:[\w-]+", rejection)
        notes = self._current_task.note_values("dismissed")
        if settled := bool(named) and all(any(one.startswith(f"{name}: ") for one in notes) for name in named):
            self._run.console.complain(f"{self._task.id}: ignored, since it was dismissed: {join_names(named)}")
        return settled

    def _require_proof(self, iteration: Iteration, checks: Sequence[Check]) -> Finding:
        """Requires evidence that the attempt made the checks green, or two agents' word if nothing can prove it."""
        now = self._current_task
        has_changes = bool(self._guard.uncommitted_files(now.id)) or iteration.before.size != iteration.after.size
        has_checks = any(one.fields for one in checks)
        if evidence.is_proved(now, checks, has_changes=has_changes) or (has_checks and not self._demands_proof):
            return Finding()
        if not has_checks:
            return Finding(unproved="it changed nothing, and nothing checks it: give it a `verify:` line")
        why = "its checks held before it was begun"
        if now.note_values("claimed"):
            self._without_proof = why
            return Finding()
        return Finding(unproved=f"{why}, so they prove nothing")

    def _lacked_by_commit(self, path: Path, holds: bytes) -> str:
        return self._guard.lacked_by_commit(self._task.id, path, holds)

    def _run_checks(self, wanted: Sequence[Check]) -> Iterator[CheckResult | None]:
        """Runs these checks and then verify; yields each result, or None if a signal came."""
        run = self._run
        if run.start.rehearsal:  # no fake agent can meet them
            wanted = ()
        for one in acceptance.join_browser_actions(wanted):
            ended = evidence.run_check(run, one, self._lacked_by_commit)
            if ended and (ended.failed or not one.fields):
                run.screen.remark(f"ralph: {ended.why or ended.what}")
            yield ended
        if run.settings.verify:
            yield run_verify(run)

    def _tick_and_commit(self, iteration: Iteration) -> str:
        """Ticks the task, then commits it, so that the commit has the tick. Returns why it could not, or nothing."""
        task = self._task
        before = self._file.text
        ids, proof = [one.id for one in task.chain], self._without_proof
        self._edit_list(lambda text: edits.with_task_done(text, *ids, note="note" if proof else "", why=proof))
        self._guard.write_statuses_to_plan()
        message = commit_message(task.id, task.text, iteration.turn.final_words, self._role)
        failed = self._guard.commit_task(task.id, message)
        self._guard.undo_changes_by_checks("while a task is committed")
        if failed:
            self._edit_list(lambda text: restore_own_sections(before, text).text)
        else:
            save_reviewed_files(self._run, task.id, ())
        return failed

    def _record_unproved(self, iteration: Iteration, why: str) -> Iteration:
        """Records a first claim that nothing proves. It does not fail the attempt: another agent has to confirm it."""
        run, task = self._run, self._task
        changed = join_names(self._guard.uncommitted_files(task.id), 10) or "nothing"
        first = without_signals(iteration.turn.final_words).partition("\n")[0]
        message = f"{timestamp()} changed {changed}; said: {first}"
        self._mark_task(" ", "claimed", message)
        run.screen.say(f"ralph: {task.id}: {why}; another agent looks at it")
        return iteration

    def close(self) -> None:
        """Leaves no task in progress."""
        with contextlib.suppress(RalphError):
            self._file.edit(edits.with_tidy_list)

    def recheck(self) -> Mapping[str, str] | None:
        """Unticks tasks that a later change broke. Returns why, by id; None if that could not be found out."""
        if not self._demands_proof:
            return {}
        self._edit_list(edits.with_tidy_list)
        self._guard.remember_tree()
        broken = evidence.recheck(self._run, self._file.text, partial(self._guard.lacked_by_commit, ""))
        self._guard.undo_changes_by_checks("while all is checked again")
        self._edit_list(lambda text: edits.with_tasks_reopened(text, broken or {}))
        return broken

    def _put_task_down(self, iteration: Iteration) -> Iteration:
        if iteration.ended is None:
            self._restore_if_asked()
        self._edit_list(edits.with_tidy_list)
        return iteration

    def _restore_if_asked(self) -> None:
        """Discards the changes of the attempt if --on-failure says restore."""
        if self._run.settings.on_failure == "restore":
            self._guard.discard_attempt(self._task.id)

    def _mark_task(self, mark: str, note: str = "", why: str = "") -> None:
        self._edit_list(lambda text: edits.with_mark(text, mark, self._task.id, note=note, why=why))

    def _edit_list(self, change: Callable[[bytes], bytes]) -> None:
        """Edits the list, and records that first: recovery takes unrecorded edits for the agent's."""
        self._run.state.save_progress_copy(change(self._file.text))
        self._file.edit(change)
        self._guard.own_progress = self._file.text
