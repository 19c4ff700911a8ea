"""Strict work: one task per iteration, which ralph picks, checks, ticks and commits; the agent only proposes."""

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ralph.agent.turn import Outcome, without_signals
from ralph.errors import RalphError
from ralph.loop.iteration import PlainController
from ralph.plan import progress, tasks
from ralph.plan.tasks import Note, Task, edits
from ralph.run import acceptance, evidence
from ralph.run.acceptance import Check
from ralph.run.context import Run
from ralph.run.evidence import accept_or_refuse_plan_done, run_verify_command
from ralph.run.judge import Iteration
from ralph.run.stop_rules import Reason, Stop
from ralph.strict.final_words import JudgedAttempt, commit_message, read_agents_claim, requested_mode
from ralph.strict.guard import TreeGuard
from ralph.strict.roles import diff_made_by_build, role_order_of, update_diff_base
from ralph.words import join_names, plural, timestamp

_REJECTIONS = 3
_HELD = "its checks held before it was begun"


class StrictController(PlainController):
    """Picks, checks, ticks and commits tasks; wherever ralph can check, the agent's word does not count."""

    picks_tasks = True
    # The task of the current attempt.
    _task: Task
    # The role that works on it, if there are roles.
    _role = ""

    def __init__(self, run: Run, guard: TreeGuard):
        super().__init__(run, guard.guard_turn)
        self._file, self._guard, self.why_commit_would_lack = run.file, guard, guard.why_commit_would_lack
        self._roles = role_order_of(run.prepared_mode)
        self._token = acceptance.new_run_token()

    def add_ids_and_tidy_marks(self) -> None:
        """Gives each task an id, ticks those whose subtasks are all done, and leaves none in progress."""
        if self._role:
            self._run.use_settings_of_mode("build")
            self._role = ""
        self._file.edit(edits.with_ids_and_tidy_marks)

    def begin_next_tasks(self) -> Stop | None:
        """Chooses and marks the next task. Returns a Stop if none can begin."""
        run, alone = self._run, self._run.settings.task
        listed = run.prepared_mode.read_valid_tasks(self._file.text)
        if (task := tasks.select_next(listed, alone, run.tally.crashes)) is None:
            return acceptance.nothing_to_begin(listed, alone)
        self._task = task
        run.replace_iteration_values(task=task.id)
        if role := self._roles.role_of_task(task):
            run.use_settings_of_mode(role, as_role=True)
        self._role = role
        notes = self._run_checks_before(task) if self._demands_proof and not task.note_values("begun") else []
        self._edit_and_vouch(
            lambda text: edits.with_evidence_replaced(edits.with_mark(text, "~", task.id), task.id, notes)
        )
        values = acceptance.task_prompt_values(self._task_last_read, self._token, run.state)
        run.replace_iteration_values(prompt_values={**values, "TEST_CHANGES": diff_made_by_build(run, task.id)})
        return None

    @property
    def _demands_proof(self) -> bool:
        return self._run.settings.evidence and not self._run.prepared_mode.rehearsal  # no fake agent can meet a check

    @property
    def _task_last_read(self) -> Task:
        """The task as it is in the progress file now."""
        return tasks.find_task(self._file.last.tasks, self._task.id) or self._task

    def _run_checks_before(self, task: Task) -> list[Note]:
        """Runs the checks of a task before its first attempt. Returns notes: those that pass already prove nothing."""
        run, checks = self._run, acceptance.parse_checks_of_tasks(task.self_and_completed_parents)
        runs_programs = any("command" in one.fields for one in checks)
        if runs_programs:  # an agent may have written them
            self._edit_and_vouch(bytes)
            self._guard.remember_tree()
        found = evidence.run_repeatable_checks(run, checks)
        if runs_programs:
            self._guard.undo_forbidden_after_checks()
        if found is None:
            return []
        notes = [Note("begun", f"{timestamp()} {self._guard.short_head()}".rstrip())]
        for text, ended in found.items():
            if not ended.why_failed or ended.cannot_run:
                notes.append(Note("cannot run" if ended.cannot_run else "held", text))
        if held_before := [one.value for one in notes if one.name == "held"]:
            count = f"{len(held_before)} of {plural(len(found), 'check')}"
            message = f"{task.id}: {count} hold before it is begun: {join_names(held_before)}"
            run.screen.say(f"ralph: {message}")
            run.write_journal("checks", success=False, message=message, requirement_id=task.id)
        return notes

    def accept_or_refuse_result(self, iteration: Iteration) -> Iteration:
        """Checks what the agent proposes, then ticks and commits the task, or records why not."""
        run, turn = self._run, iteration.turn
        goes_on = turn.outcome is Outcome.CONTEXT_FULL and not iteration.failed and run.settings.on_failure == "keep"
        if iteration.is_repeated or iteration.run_stop or turn.outcome is Outcome.FAILED or goes_on:
            iteration = self._unmark_and_maybe_discard(iteration)
        else:
            iteration = self._settle_attempt(iteration)
        if (mode := requested_mode(turn.final_words, self._token)) in run.settings.then:
            self._edit_and_vouch(progress.with_mode, mode)
        elif mode:
            why = f"{run.settings.template} does not name it in RALPH_THEN"
            run.console.complain(f"the request for the mode {mode} is ignored: {why}")
        if iteration.run_stop is None and (why := self._guard.blocked):
            iteration = replace(iteration, run_stop=Stop(Reason.TAMPERED, why))
        run.changes.disturbed = False  # the guard compares by itself, and faster
        if iteration.passed and not run.is_attempt and not run.read_progress().open:
            iteration = replace(iteration, refused=accept_or_refuse_plan_done(run, is_verified=True))
        elif (
            not iteration.run_stop
            and (one := tasks.find_task(self._file.last.tasks, run.settings.task))
            and one.is_done
        ):
            iteration = replace(iteration, run_stop=Stop(Reason.ONCE))  # even if a limit is reached with it
        return replace(iteration, commits=self._guard.committed)

    def _settle_attempt(self, iteration: Iteration) -> Iteration:
        """Checks the attempt, then ticks and commits the task, hands it to the next role, or records why not."""
        run, task, guard = self._run, self._task, self._guard
        found = self._check_work(iteration)
        guard.undo_forbidden_after_checks()
        if found.is_pass and not guard.blocked:
            if locked := guard.wait_for_index():
                return self._unmark_and_maybe_discard(replace(iteration, failed=locked))
            if role := self._roles.next_role_or_empty(self._role):
                if role == self._roles.last_writer:
                    update_diff_base(run, task.id)
                self._mark_task(" ", "role", role)
            elif why := self._try_to_tick_and_commit(iteration, found.note):
                found = JudgedAttempt(why_failed=why, red=True)
        stop = run.stop_if_interrupted()
        if guard.blocked or (found.why_failed and stop):
            return self._unmark_and_maybe_discard(replace(iteration, run_stop=stop))
        if found.is_pass:
            return replace(iteration, moved=True, passed=True)
        # the first time this does not count as a failure: another agent has to confirm the work
        if found.why_unproved and not self._task_last_read.note_values("claimed"):
            changed = join_names(run.state.uncommitted_files(task.id), 10) or "nothing"
            first = without_signals(iteration.turn.final_words).partition("\n")[0]
            self._mark_task(" ", "claimed", f"{timestamp()} changed {changed}; said: {first}")
            run.screen.say(f"ralph: {task.id}: {found.why_unproved}; another agent looks at it")
            return iteration
        return self._record_failure(self._unmark_and_maybe_discard(iteration), found)

    def _record_failure(self, iteration: Iteration, found: JudgedAttempt) -> Iteration:
        """Records why the attempt failed, as a failure of the task or of the role that is to blame."""
        task, role, roles = self._task, self._role, self._roles
        if found.why_blocked:
            self._mark_task("!", "blocked", edits.BY_AGENT + found.why_blocked)
            return replace(iteration, failed=f"{task.id} is blocked: {found.why_blocked}", may_retry=True)
        most, why = self._run.settings.max_tries, found.why_failed or found.why_unproved
        if found.rejected and sum(": rejected: " in one for one in task.note_values("failed")) >= _REJECTIONS - 1:
            most = task.failed_tries + 1  # builder and reviewer do not agree, so the user decides
        if found.rejected:
            role = roles.last_writer
        elif found.red:
            role = roles.fix or roles.last_writer
        elif role not in (roles.last_writer, roles.fix):  # the role failed, which is not an attempt at the task
            self._mark_task(" ", "role", f"{role}: {why}")
            return replace(iteration, failed=f"{task.id}, {role}: {why}")
        if role:
            self._mark_task(" ", "role", role)
        self._edit_and_vouch(edits.with_failure, task.id, why, most, keep_claimed_note=bool(found.why_unproved))
        message = f"{task.id}, attempt {task.failed_tries + 1}: {why}"
        return replace(iteration, failed=message, may_retry=not task.is_last_try(most))

    def _check_work(self, iteration: Iteration) -> JudgedAttempt:
        """Judges the attempt: what the agent did and said, then the task's checks and verify, then the proof."""
        run, task, turn, roles = self._run, self._task, iteration.turn, self._roles
        outside = join_names(iteration.findings.outside)
        failed = iteration.failed or (outside and f"{outside} changed, which is not allowed here: put back")
        if failed or turn.outcome is not Outcome.OK:
            return JudgedAttempt(why_failed=failed or turn.why)
        claim = read_agents_claim(turn.final_words, turn.proposal or {}, token=self._token, task_id=task.id)
        claim = JudgedAttempt() if claim.rejected and self._is_dismissed_by_user(claim.why_failed) else claim
        if not claim.is_pass or self._role not in (roles.last_writer, roles.fix):
            return claim
        checks = acceptance.parse_checks_of_tasks(task.self_and_completed_parents)
        # no fake agent can meet them
        asked = [] if run.prepared_mode.rehearsal else acceptance.join_browser_actions(checks)
        for check in [*asked, None] if run.settings.verify else asked:
            ended = evidence.run_check(run, check) if check else run_verify_command(run)
            if ended and check and (ended.why_failed or not check.fields):
                run.screen.say_unless_quiet(f"ralph: {ended.failure_with_output or ended.how_ended}")
            if ended is None:
                return JudgedAttempt(why_failed="a signal came while it was checked")
            if ended.why_failed:
                return JudgedAttempt(why_failed=ended.failure_with_output, red=True)
        return self._require_proof(iteration, checks)

    def _is_dismissed_by_user(self, rejection: str) -> bool:
        """Whether the user dismissed all that a reviewer names, with a reason for each below the task."""
        named = re.findall(rf"\b{re.escape(self._role)}:[^\s:]+:[\w-]+", rejection)
        notes = self._task_last_read.note_values("dismissed")
        if settled := bool(named) and all(any(one.startswith(f"{name}: ") for one in notes) for name in named):
            self._run.console.complain(f"{self._task.id}: ignored, since it was dismissed: {join_names(named)}")
        return settled

    def _require_proof(self, iteration: Iteration, green_checks: Sequence[Check]) -> JudgedAttempt:
        """Requires evidence for the tick, now that all is green, or two agents' word if nothing can prove it.

        Evidence is a check that was red when the task began; if there are none, or one could not run, changed files.
        """
        now = self._task_last_read
        texts = {check.text for check in green_checks if check.fields}
        unknown = texts.intersection(now.note_values("cannot run"))
        was_red = texts.difference(unknown, now.note_values("held"))
        changed = self._run.state.uncommitted_files(now.id) or iteration.before.size != iteration.after.size
        if was_red or (changed and (unknown or not texts)) or (texts and not self._demands_proof):
            return JudgedAttempt()
        if not texts:
            return JudgedAttempt(why_unproved="it changed nothing, and nothing checks it: give it a `verify:` line")
        if now.note_values("claimed"):
            return JudgedAttempt(note=_HELD)
        return JudgedAttempt(why_unproved=f"{_HELD}, so they prove nothing")

    def _try_to_tick_and_commit(self, iteration: Iteration, tick_note: str) -> str:
        """Ticks the task, then commits it, so that the commit has the tick. Returns why it could not, or nothing."""
        task, before = self._task, self._file.text
        self._edit_and_vouch(
            edits.with_ticks_reopening_blocked,
            *(one.id for one in task.self_and_completed_parents),
            note="note" if tick_note else "",
            why=tick_note,
        )
        if self._run.prepared_mode.asked.in_place:
            self._run.write_statuses_to_plan()
            self._guard.remember_tree()  # with that plan, which is the one to put back from now on
        message = commit_message(task.id, task.text, iteration.turn.final_words, self._role)
        failed = self._guard.try_to_commit_task(task.id, message)
        self._guard.undo_forbidden_after_checks()
        if failed:
            self._edit_and_vouch(lambda text: edits.restore_ralphs_sections(before, text).text)
        else:
            update_diff_base(self._run, task.id)  # forgets them
        return failed

    def end_work_and_unmark_tasks(self) -> None:
        """Leaves no task in progress, unless an error ended its iteration: the next run has to judge that."""
        if not self._run.state.unfinished_iteration():
            with contextlib.suppress(RalphError):
                self._file.edit(edits.with_ids_and_tidy_marks)

    def find_and_reopen_broken_tasks(self) -> Mapping[str, str] | None:
        """Unticks tasks that a later change broke. Returns why, by id; None if that could not be found out."""
        if not self._demands_proof:
            return {}
        self._edit_and_vouch(edits.with_ids_and_tidy_marks)
        self._guard.remember_tree()
        broken = evidence.find_broken_tasks(self._run)
        self._guard.undo_forbidden_after_checks()
        self._edit_and_vouch(edits.with_tasks_reopened, broken or {})
        return broken

    def _unmark_and_maybe_discard(self, iteration: Iteration) -> Iteration:
        """Leaves the task for later; if --on-failure says restore, discards its changes, unless the run ends."""
        if iteration.run_stop is None and self._run.settings.on_failure == "restore":
            self._guard.put_whole_tree_back()
        self._edit_and_vouch(edits.with_ids_and_tidy_marks)
        return iteration

    def _mark_task(self, mark: str, note_name: str, value: str) -> None:
        self._edit_and_vouch(edits.with_mark, mark, self._task.id, note=note_name, why=value)

    def _edit_and_vouch(self, change: Callable[..., bytes], *more: object, **named: object) -> None:
        """Edits the list, and records that first: recovery takes unrecorded edits for the agent's."""
        self._run.state.update_vouched_text(change(self._file.text, *more, **named))
        self._file.edit(change, *more, **named)
        self._guard.own_progress = self._file.text
