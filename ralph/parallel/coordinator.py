"""The coordinator: begins attempts at independent tasks at the same time, and merges those that passed, one by one.

It is a run like any other, and the only one with the lock, the progress file, the journal and the notices. Its agents
work in clones: the progress file is out of their reach, and at each commit the branch is exactly what the gates saw.
"""

import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import replace
from pathlib import Path

from ralph.agent.turn import Commits, Outcome
from ralph.errors import RalphError
from ralph.git.repository import Repository
from ralph.loop.iteration import wait_at_most
from ralph.loop.modes import request_validation_if_due
from ralph.parallel.executors import DaskExecutor, SupervisedExecutor
from ralph.parallel.jobs import CloneJobMaker
from ralph.parallel.merge_queue import MergeQueue
from ralph.parallel.task_attempt import TaskAttempt
from ralph.plan import progress, tasks
from ralph.plan.tasks import Task, edits
from ralph.run import acceptance, evidence, notices
from ralph.run.context import CurrentIteration, Run, merges_checked_at_once
from ralph.run.judge import BaseController, Iteration, TurnFindings
from ralph.run.stop_rules import Reason, Stop, remaining_usd, stop_reason
from ralph.words import format_duration, plural

# Seconds between looks at the progress file while agents work: the user may have marked a task with [!].
_POLL_S = 0.5
# How often a check that could not begin is begun again: a registry that the setup needs may be down.
_RESTARTS = 2


class ParallelController(BaseController):
    """Has several tasks tried at the same time, instead of one after the other."""

    picks_tasks = True
    last: TaskAttempt
    """The attempt that the iteration is about."""

    def __init__(self, run: Run, wait_for_index: Callable[[], str]):
        self._run, self._wait_for_index = run, wait_for_index
        self._file, self._settings = run.file, run.settings
        repository = Repository.find_around(run.top)
        if not repository:
            raise RalphError(f"--jobs needs a git repository, and {run.top} is in none", fix="git init, and commit")
        self._jobs = CloneJobMaker(run, repository)
        self._jobs.check_clones_can_work()
        self._executor = DaskExecutor(run) if run.settings.executor else SupervisedExecutor(run)
        self.running: list[TaskAttempt] = []
        """The attempts whose agents work."""
        self.queue = MergeQueue(repository, run.state.folder.name, merges_checked_at_once(run.settings))
        # No agent begins before this time, in seconds since 1970: all are at their limit.
        self._no_agent_before = 0.0
        # Why no more tasks begin, while other agents still work.
        self._stop: Stop | None = None
        # What keeps finished tasks from being merged.
        self._merge_obstacle = ""

    def defer_stop_to_finish_work(self, stop: Stop | None) -> Stop | None:
        """Returns why to stop now; None while agents are at work, which finish first (or are ended by a signal)."""
        self._stop = stop or self._stop
        return None if self.has_work_to_finish else stop

    @property
    def has_work_to_finish(self) -> bool:
        """Whether agents are at work between two iterations, or commits that can be merged are waiting."""
        can_merge = self.queue.entries and not (self._merge_obstacle or self._run.stop_if_interrupted())
        return bool(self.running or can_merge)

    def delay_new_agents(self, until: float) -> bool:
        """Begins no agent before that moment; agents at work continue, and what passed is merged."""
        self._no_agent_before = until
        self._run.tally.last_wait_ended_at = self._run.clock.boot_clock_s() + until - self._run.clock.unix_time_s()
        return True

    @property
    def parallel_activity(self) -> list[str]:
        """A line for each task in progress."""
        now, lines = self._run.clock.boot_clock_s(), []
        for attempt in self._running_or_queued:
            doing = attempt.doing or "at work"
            if attempt.commit:
                doing = "checked on top of what was merged" if attempt.work else "waits to be merged"
            lines.append(f"{attempt.task.id} · {format_duration(now - attempt.iteration.began)} · {doing}")
        return lines

    def add_ids_and_tidy_marks(self) -> None:
        """Gives each task an id, ticks those whose parts are all done, and marks only our tasks as in progress."""
        self._file.edit(edits.with_ids_and_tidy_marks, *[attempt.task.id for attempt in self._running_or_queued])

    @property
    def _running_or_queued(self) -> list[TaskAttempt]:
        return [*self.running, *self.queue.entries]

    def begin_next_tasks(self) -> Stop | None:
        """Begins as many tasks as may be tried at once. Returns a Stop if none is in progress and none can begin."""
        run = self._run
        if self.has_work_to_finish and request_validation_if_due(run):
            return None  # no other task begins before it
        rest_s = self._no_agent_before - run.clock.unix_time_s()
        if rest_s > 0 and not (self.has_work_to_finish or self._stop):
            wait_at_most(run, rest_s)
            self._no_agent_before = 0.0  # the wait is over, or the user wrote what ends it, and the run
            if stop := run.stop_reason():
                return stop
        self._begin_tasks()
        if self.has_work_to_finish:
            return None
        if self._merge_obstacle:
            count = plural(len(self.queue.entries), "finished task")
            return Stop(Reason.QUEUED, f"{self._merge_obstacle} in the way of {count}")
        return self._stop or acceptance.nothing_to_begin(self._file.last.tasks, self._settings.task)

    def _begin_tasks(self) -> None:
        """Begins the tasks that can begin now, each with its share of the money that is left.

        Begins none as long as the list is wrong; raises RalphError if it is, and nothing is in progress.
        """
        run, settings, running = self._run, self._settings, self.running
        try:
            run.prepared_mode.read_valid_tasks(self._file.text)
        except RalphError:  # the user may be in the middle of an edit
            if self.has_work_to_finish:
                return
            raise
        if not self._executor.places:
            raise RalphError("the processes below which attempts run were killed", 1, fix="start ralph again")
        most = 0 if self._stop or self._merge_obstacle else self._executor.places
        while len(running) < most and run.clock.unix_time_s() >= self._no_agent_before:
            tally = replace(run.tally, iterations=run.tally.iterations + len(running))
            is_over = stop_reason(self._file.last, tally, settings, run.elapsed_s())
            listed = self._file.last.tasks
            task = tasks.select_next(listed, settings.task, run.tally.crashes)
            if is_over or run.stop_if_interrupted() or not task:
                return
            left_usd = remaining_usd(self._file.last, run.tally, settings)
            if left_usd is not None:
                left_usd = round(left_usd - sum(attempt.share_usd or 0.0 for attempt in running), 4)
                ready = 1 if settings.task else sum(not waits_for for _, waits_for in tasks.tasks_to_begin(listed))
                left_usd /= min(ready, settings.jobs - len(running))
                if left_usd <= 0:
                    return
            self._begin_task(task, left_usd)

    def _begin_task(self, task: Task, share_usd: float | None) -> None:
        run, text = self._run, self._file.text
        run.state.ensure_room_for_transcripts()
        if any(progress.section_lines(attempt.given, "Messages") for attempt in self.running):
            start, end = progress.section_range(text, "Messages")
            text = text[:start] + b"\n" + text[end:]  # another agent already has them
        commit = self.queue.queued_commit(task)
        attempt = TaskAttempt(
            task=task,
            base="" if commit else self.queue.branch_tip(),  # a commit is checked first
            given=text,
            iteration=CurrentIteration(task=task.id, began=run.clock.boot_clock_s()),
            share_usd=share_usd,
            commit=commit,
        )
        self._file.edit(edits.with_mark, "~", task.id)
        if commit:  # no agent has to work on it again
            run.screen.say_unless_quiet(f"ralph: {task.id} passed in an earlier run and waits to be merged")
            self.queue.add(attempt)
        else:
            self._executor.begin(attempt, self._jobs.make_job(attempt))
            run.screen.say_unless_quiet(f"ralph: {task.id} begins: {task.text}")
            self.running.append(attempt)
        if not run.iteration.number and len(self._running_or_queued) == 1:
            notices.notify_started(run)

    def run_or_await_iteration(self) -> Iteration:
        """Waits for the next event. Returns what is known of the attempt that ended, or of the commit to merge."""
        run, queue = self._run, self.queue
        while True:
            if run.stop_if_interrupted() or run.stop_if_git_tampered():
                ready = None if self.running else next(iter(queue.entries), None)
            elif self._merge_obstacle:
                ready = None
            else:
                for entry in queue.pick_due_checks():
                    self._executor.begin(entry, self._jobs.make_check_before_merge(entry))
                ready = next(filter(self._is_taken_back, queue.entries), queue.entry_checked_on_tip())
            if ready:
                return self._iteration(ready)
            ended = self._wait_for_event()
            if ended in self.running:
                self.running.remove(ended)
                return self._iteration(ended)
            if ended and ended.is_canceled:
                ended.base = ""

    def _wait_for_event(self) -> TaskAttempt | None:
        """Returns the next attempt whose work ended; heeds signals and what the user writes into the progress file.

        None if something else happened, or after a moment.
        """
        run = self._run
        run.console.set_activity(f"{len(self.running)} at work, {len(self.queue.entries)} to be merged")
        wait([attempt.work for attempt in self._running_or_queued if attempt.work], _POLL_S, FIRST_COMPLETED)
        run.git_settings.collect_new_changes()  # before any git runs
        run.read_progress()
        for attempt in self._running_or_queued:
            attempt.is_canceled |= bool(run.stop_if_interrupted()) or self._is_taken_back(attempt)
        if 0 < self._no_agent_before <= run.clock.unix_time_s():
            self._no_agent_before = 0.0
            self._begin_tasks()
        for attempt in self._running_or_queued:
            if attempt.work and attempt.work.done():
                attempt.result, attempt.work = attempt.work.result(), None
                return attempt
        return None

    def _is_taken_back(self, attempt: TaskAttempt) -> bool:
        """Whether the user marked its task differently in the progress file, or deleted it."""
        task = tasks.find_task(self._file.last.tasks, attempt.task.id)
        return task is None or task.mark != "~"

    def _iteration(self, attempt: TaskAttempt) -> Iteration:
        """Returns what is known of an attempt or a check; gives the first one of a task a number and a transcript."""
        run, result = self._run, attempt.result
        self.last = attempt
        turn = result.to_turn()
        if stop := run.stop_if_interrupted():
            turn.outcome, turn.why = Outcome.INTERRUPTED, stop.why
        elif self._is_taken_back(attempt):
            turn.outcome = Outcome.OK
        if not attempt.iteration.number:
            attempt.iteration = attempt.iteration._replace(
                number=run.earlier + run.tally.iterations + 1,
                # if nothing was printed, the journal says what is known
                transcript=Path(result.transcript or run.state.journal),
            )
        run.live.iteration, now = attempt.iteration, self._file.last
        return Iteration(
            before=now,
            after=now,
            turn=turn,
            commits=Commits(),
            findings=TurnFindings(why_run_ends=run.git_settings.why_settings_block_git),
            is_merge=bool(attempt.commit),
        )

    def accept_or_refuse_result(self, iteration: Iteration) -> Iteration:
        """Merges what passed and ticks its task, or queues it to be merged; or writes down why the attempt failed."""
        attempt, queue = self.last, self.queue
        task, result = attempt.task, attempt.result
        if not iteration.is_merge:
            self._file.edit(attempt.with_agents_edits)
        if result.tampered and self._settings.on_tamper == "abort":
            iteration = replace(iteration, run_stop=Stop(Reason.TAMPERED, f"{task.id}: {result.tampered}"))
        queue.fetch_commit(attempt)
        has_crashed = iteration.turn.outcome is Outcome.FAILED and not (iteration.is_merge and result.records)
        if iteration.is_repeated or iteration.run_stop or has_crashed:
            attempt.base = ""  # a check that could not begin is begun again
            if iteration.is_merge and self._run.tally.crashes[task.id] >= _RESTARTS:
                self._merge_obstacle = f"{iteration.turn.why}, which is"
            return iteration
        if self._is_taken_back(attempt):
            queue.keep_and_unqueue(attempt)
            return replace(iteration, failed=f"{task.id} was taken back while it was tried", may_retry=True, moved=True)
        if not result.passed:
            return self._fail_task(iteration)
        if not result.commit:
            return self._tick_and_unqueue(iteration, Commits())
        if not iteration.is_merge:
            queue.add(attempt)
        if not self._merge_obstacle and queue.entry_checked_on_tip() is attempt:
            return self._move_branch_and_tick(iteration)
        return replace(iteration, moved=True, is_queued=True)

    def _fail_task(self, iteration: Iteration) -> Iteration:
        """Writes down why the attempt failed, or why it is blocked."""
        attempt, task, most = self.last, self.last.task, self._settings.max_tries
        why, blocked = iteration.turn.why or attempt.conflict or "it came to nothing", attempt.why_blocked
        if iteration.is_merge:
            why = f"on top of what was merged meanwhile: {why}; the work is in {self.queue.keep_and_unqueue(attempt)}"
        elif blocked is not None:
            self._file.edit(edits.with_mark, "!", task.id, note="blocked", why=blocked)
            return replace(iteration, failed=f"{task.id} is blocked: {blocked}", may_retry=True)
        self._file.edit(edits.with_failure, task.id, why, most)
        return replace(
            iteration,
            failed=f"{task.id}, attempt {task.failed_tries + 1}: {why}",
            may_retry=not task.is_last_try(most),
        )

    def _move_branch_and_tick(self, iteration: Iteration) -> Iteration:
        """Moves the branch to the commit and ticks the task; otherwise it stays queued, maybe until the next run."""
        attempt, queue = self.last, self.queue
        self._wait_for_index()
        if failed := queue.move_branch(attempt):
            if queue.branch_tip() in (attempt.base, ""):  # else the user just committed: it is checked on top of that
                self._merge_obstacle = failed
                self._run.console.complain(f"{attempt.task.id} is finished and waits to be merged: {failed} in the way")
            return replace(iteration, moved=True, is_queued=True)
        return self._tick_and_unqueue(iteration, queue.repository.size_and_files_of_commit(attempt.commit))

    def _tick_and_unqueue(self, iteration: Iteration, commits: Commits) -> Iteration:
        """Ticks the task; its commit, if there is one, is on the branch by now."""
        run = self._run
        self._file.edit(edits.with_ticks_reopening_blocked, self.last.task.id)
        self.queue.remove_entry(self.last.task)
        self.add_ids_and_tidy_marks()
        wrong = () if run.read_progress().open else evidence.accept_or_refuse_plan_done(run, is_verified=True)
        return replace(iteration, moved=True, passed=True, refused=wrong, commits=commits)

    def find_and_reopen_broken_tasks(self) -> Mapping[str, str] | None:
        """Unticks the tasks that a later change broke. Returns why, by task id; None if that could not be checked."""
        if not self._settings.evidence:
            return {}
        broken = evidence.find_broken_tasks(self._run)
        self._file.edit(edits.with_tasks_reopened, broken or {})
        return broken

    def end_work_and_unmark_tasks(self) -> None:
        """Ends all work, also after an error, and marks no task as in progress any more."""
        for attempt in self._running_or_queued:
            attempt.is_canceled = True
        self._executor.close_and_wait_for_threads()
        with contextlib.suppress(RalphError):
            self._file.edit(edits.with_ids_and_tidy_marks)
