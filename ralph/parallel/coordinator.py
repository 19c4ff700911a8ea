"""The coordinator: begins attempts at independent tasks at the same time, and merges those that passed, one by one.

It is a run like any other, and the only one with the lock, the progress file, the journal and the notices. Its agents
work in clones: the progress file is out of their reach, and at each commit the branch is exactly what the gates saw.
"""

import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path

from ralph import files
from ralph.agent.turn import Commits, Outcome, Turn
from ralph.errors import RalphError
from ralph.git.changes import IN_NO_OTHER
from ralph.git.repository import Repository, text_of
from ralph.loop.iteration import wait_watching_file
from ralph.parallel.attempt import AttemptResult, TaskJob, pack_bundle
from ralph.parallel.executors import DaskExecutor, LocalExecutor
from ralph.parallel.merge_queue import MergeQueue, QueuedTask
from ralph.parallel.target_branch import TargetBranch
from ralph.parallel.task_attempt import TaskAttempt, result_of_future, turn_of_attempt, why_failed
from ralph.plan import progress, prompt, tasks
from ralph.plan.progress import encode_text
from ralph.plan.tasks import Task, edits
from ralph.run import acceptance, evidence, notices
from ralph.run.context import CurrentIteration, Run, merge_window
from ralph.run.evidence import check_done
from ralph.run.judge import Controller, Iteration, TurnFindings
from ralph.run.notices import HANDOVER, last_handover
from ralph.run.stop_rules import Reason, Stop, remaining_usd, stop_reason
from ralph.settings.sources import OF_AGENTS
from ralph.settings.table import Source
from ralph.store.journal import parse_records
from ralph.store.notes import MergedTask
from ralph.words import format_duration, join_names, plural

_MOST = 20
"""Attempts at the same time on one machine."""
_PLACE_KEYS = re.compile(
    r"(?:remote|branch|submodule|extensions|include|includeif|clone|protocol|credential|maintenance|gc)\."
    r"|core\.(?:bare|worktree|hookspath|repositoryformatversion|fsmonitor|sharedrepository)$|safe\."
)
"""Matches git's settings that say where a repository lies, what it is connected to, or who may log in."""
_NOT_PASSED_ON = ("history", "heartbeat_url", "prompts", "task")
_ON_TOP = "+before-landing"
"""Suffix of the folder in which a commit is checked on top of others; no task's folder can end with it."""
_TRANSCRIPT_BYTES = 10_000_000
"""How much of the end of a transcript a cluster passes on; the cluster keeps it all in memory."""
_POLL_S = 0.5
"""Seconds between looks at the progress file while agents work: the user may have marked a task with [!]."""


class ParallelController(Controller):
    """Has several tasks tried at the same time, instead of one after the other."""

    picks_tasks = True
    last: TaskAttempt
    """The task that the iteration is about."""

    def __init__(self, run: Run, wait_for_index: Callable[[], str]) -> None:
        self._run, self._wait_for_index = run, wait_for_index
        self._file = run.file
        self._settings = run.settings
        repository = Repository.find_around(run.top)
        if not repository:
            raise RalphError(f"--jobs needs a git repository, and {run.top} is in none", fix="git init, and commit")
        self._repository = repository
        self._tree = repository.root
        self._branch = TargetBranch(repository, run.state.folder.name)
        self._is_elsewhere = bool(run.settings.runner or run.settings.executor)
        self._check()
        self._executor = LocalExecutor(run)
        if run.settings.executor:
            self._executor = DaskExecutor(run, run.settings.executor)
        self.running: dict[Future[AttemptResult], TaskAttempt] = {}
        window = merge_window(run.settings)
        self.queue = MergeQueue(self._branch, window, self._begin_check, self._executor.cancel)
        self._merging: QueuedTask | None = None
        """The queue entry that the iteration is about; None if it is about an attempt that ended."""
        self._no_agent_before = 0.0
        """No agent begins before this time, in seconds since 1970: all are at their limit."""
        self._stop: Stop | None = None
        """Why no more tasks begin, while other agents still work."""
        self._merge_obstacle = ""
        """What keeps finished tasks from being merged."""
        self._tick_merged_before_death()

    def _check(self) -> None:
        """Raises RalphError if work in clones is not possible; warns about what the clones would lack."""
        settings = self._settings
        if settings.jobs > _MOST and not (settings.runner or settings.executor):
            raise RalphError(f"{settings.given['jobs'].where}: at most {_MOST} on one machine", fix="see --executor")
        if not self._branch.name or not self._branch.tip():
            what = f"--jobs needs a branch that has a commit, and HEAD of {self._tree} is on none"
            raise RalphError(what, fix="git switch, or git commit")
        if settings.runner and not shutil.which(settings.runner[0]):
            raise RalphError(f"{settings.given['runner'].where}: there is no {settings.runner[0]}", fix="see --runner")
        if (self._tree / ".gitmodules").exists():
            raise RalphError("--jobs works in clones, which lack the submodules", fix="leave --jobs out")
        if not settings.auto_commit:
            where = settings.given["auto_commit"].where
            raise RalphError(f"--jobs brings work together by commits, and {where} forbids them", fix="leave one out")
        start = self._run.start
        own = [os.path.relpath(path.resolve(), self._tree) for path in (*start.own_files, start.plan)]
        found = self._repository.list_names("status", "--porcelain", "-z", "--no-renames", IN_NO_OTHER)
        mine = [entry[3:] for entry in found if entry[3:] not in own]
        changed = [entry[3:] for entry in found if entry[3:] in mine and not entry.startswith("??")]
        if changed and not settings.allow_dirty:
            what = f"your changes to {join_names(changed, 5)} may be in the way of finished tasks"
            raise RalphError(what, fix="commit or stash them, or continue with --allow-dirty")
        if mine:
            self._run.console.complain(f"the clones lack what you have not committed: {join_names(mine)}")
        earlier = f"ralph/{start.name}"
        if self._repository.output_of("branch", "--list", "--no-merged", "HEAD", earlier):
            self._run.console.complain(f"{earlier} has work of an earlier run: git merge {earlier}")

    def wait_for_running_work(self, stop: Stop | None) -> Stop | None:
        """Returns why to stop now; None while agents are at work, which finish first (or are ended by a signal)."""
        if stop is None or not self.is_busy:
            return stop
        self._stop = stop
        return None

    @property
    def is_busy(self) -> bool:
        """Whether agents are at work between two iterations, or commits that can be merged are waiting."""
        can_merge = self.queue.entries and not (self._merge_obstacle or self._run.stop_if_interrupted())
        return bool(self.running or can_merge)

    def pause_new_work_until(self, until: float) -> bool:
        """Begins no agent before that moment; agents at work continue, and what passed is merged."""
        self._no_agent_before = until
        self._run.tally.last_wait_ended_at = self._run.pace.uptime_s() + until - self._run.pace.now()
        return True

    @property
    def activity(self) -> list[str]:
        """A line for each agent at work."""
        now = self._run.pace.uptime_s()
        lines = []
        for attempt in list(self.running.values()):  # a copy, since another thread asks
            doing = self._executor.doing.get(attempt.task.id) or "at work"
            lines.append(f"{attempt.task.id} · {format_duration(now - attempt.began)} · {doing}")
        for entry in list(self.queue.entries):
            doing = "checked on top of what was merged" if entry.check else "waits to be merged"
            lines.append(f"{entry.attempt.task.id} · {doing}")
        return lines

    def tidy_task_list(self) -> None:
        """Gives each task an id, ticks those whose parts are all done, and marks only our tasks as in progress."""
        self._file.edit(edits.with_tidy_list, *[attempt.task.id for attempt in self._in_progress()])

    def _in_progress(self) -> list[TaskAttempt]:
        return [*self.running.values(), *(entry.attempt for entry in self.queue.entries)]

    def choose_next(self) -> Stop | None:
        """Begins as many tasks as may be tried at once. Returns a Stop if none is in progress and none can begin."""
        run = self._run
        try:
            acceptance.validate_list(self._file.text, self._file.path.name, self._settings)
        except RalphError as error:  # the user may be in the middle of an edit
            if not self.is_busy:
                raise
            self._stop = Stop(Reason.STUCK, error.message)
        self._begin_tasks()
        if not self.is_busy and not self._stop and (rest_s := self._no_agent_before - run.pace.now()) > 0:
            wait_watching_file(run, rest_s)
            self._no_agent_before = 0.0  # the wait is over, or the user wrote what ends it, and the run
            if stop := run.stop_reason():
                return stop
            self._begin_tasks()
        if self.is_busy:
            return None
        if self._merge_obstacle:
            count = plural(len(self.queue.entries), "finished task")
            return Stop(Reason.QUEUED, f"{self._merge_obstacle} in the way of {count}")
        alone, listed = self._settings.task, tasks.read_tasks(self._file.text)
        if (task := tasks.find_task(listed, alone or "")) and task.done:
            return Stop(Reason.ONCE)
        return self._stop or acceptance.nothing_to_begin(listed, alone)

    def _begin_tasks(self) -> None:
        """Begins the tasks that can begin now."""
        run = self._run
        if not self._executor.places:
            self._stop = self._stop or Stop(Reason.HOPELESS, "the processes below which attempts run were killed")
        most = 0 if self._stop or self._merge_obstacle else min(self._settings.jobs, self._executor.places)
        while len(self.running) < most:
            tally = replace(run.tally, iterations=run.tally.iterations + len(self.running))
            is_over = stop_reason(self._file.last, tally, self._settings, run.elapsed_s())
            if is_over or run.stop_if_interrupted() or run.pace.now() < self._no_agent_before:
                break
            listed, alone = tasks.read_tasks(self._file.text), self._settings.task
            task = tasks.select_next(listed, alone, run.tally.crashes)
            share_usd = self._task_budget_usd(1 if alone else tasks.count_startable_tasks(listed))
            if task is None or share_usd == 0:
                break
            self._begin_task(task, share_usd)

    def _task_budget_usd(self, ready: int) -> float | None:
        """What the next task may cost: what is left and not assigned to running ones, divided by what can begin now.

        None if there is no limit. `ready` is the number of tasks that can begin.
        """
        left = remaining_usd(self._file.last, self._run.tally, self._settings)
        if left is None:
            return None
        for attempt in self.running.values():
            left -= attempt.share_usd or 0.0
        return max(0.0, round(left, 4)) / max(1, min(ready, self._settings.jobs - len(self.running)))

    def _begin_task(self, task: Task, share_usd: float | None) -> None:
        run = self._run
        run.state.make_room()
        job = self._task_job(task, share_usd)
        if not (run.current.number or self._in_progress()):
            run.outbox.send(notices.started_notice(run))
        self._file.edit(edits.with_mark, "~", task.id)
        attempt = TaskAttempt(job=job, task=task, began=run.pace.uptime_s(), share_usd=share_usd)
        if commit := self._branch.queued_commit(task):  # no agent has to work on it again
            run.screen.remark(f"ralph: {task.id} passed in an earlier run and waits to be merged")
            self.queue.entries.append(QueuedTask(attempt=attempt, commit=commit))
        else:
            run.screen.remark(f"ralph: {task.id} begins: {task.text}")
            self.running[self._executor.submit(job)] = attempt

    def _task_job(self, task: Task, share_usd: float | None) -> TaskJob:
        run = self._run
        settings = self._settings
        text = self._file.text
        if any(attempt.has_messages for attempt in self.running.values()):
            start, end = progress.section_range(text, "Messages")
            text = text[:start] + b"\n" + text[end:]  # another agent already has them
        job = TaskJob(
            name=f"{run.state.folder.name}/{task.id}",
            task=task.id,
            commit=self._branch.tip(),
            source=str(self._tree),
            here=os.path.relpath(run.top, self._tree),
            files=self._files_to_bring(),
            progress=text.decode(errors="surrogateescape"),
            config=self._git_config(),
            env=self._env() | {HANDOVER: last_handover(run.state, task.id)},
            templates=prompt.user_templates(settings.prompts),
            words=self._attempt_arguments(task, share_usd),
            agent_words=run.start.asked.agent_arguments,
            setup=settings.setup or "",
            keep=settings.keep_clones,
            transcript_bytes=_TRANSCRIPT_BYTES if settings.executor else None,
        )
        if self._is_elsewhere:
            shallow = text_of(self._repository.common / "shallow")
            return replace(job, source="", bundle=pack_bundle(self._repository, "HEAD", "--branches"), shallow=shallow)
        return job

    def _files_to_bring(self) -> dict[str, tuple[int, str]]:
        """Mode and text of the files that a clone needs and no commit contains, by path."""
        repository, plan = self._repository, self._run.start.plan
        own = self._run.top / ".ralph.env"
        brought = {os.path.relpath(own, self._tree): own} if own.is_file() else {}
        brought |= {os.path.relpath(plan, self._tree): plan} if plan.is_relative_to(self._tree) else {}
        brought |= {name: self._tree / name for name in self._settings.setup_copy}
        for name in ("info/exclude", "info/attributes"):
            brought |= {f".git/{name}": repository.common / name} if (repository.common / name).is_file() else {}
        hooks = [path for path in repository.hooks.rglob("*") if path.is_file() and path.suffix != ".sample"]
        to = self._hooks_folder_of_clone()
        brought |= {f"{to}/{path.relative_to(repository.hooks)}": path for path in hooks}
        texts = {}
        for name, path in brought.items():
            with files.os_errors_as_ralph_errors(path, "brought to a clone"):
                texts[name] = path.stat().st_mode & 0o777, path.read_bytes().decode(errors="surrogateescape")
        return texts

    def _git_config(self) -> list[tuple[str, str]]:
        """The git settings for a clone: on this machine the repository's, elsewhere the user's as well."""
        entries = self._repository.output_of(
            "config", "-z", *([] if self._is_elsewhere else ["--local"]), "--list"
        ).split("\0")
        found = [entry.partition("\n")[::2] for entry in entries if entry]
        config = [(key, value) for key, value in found if not _PLACE_KEYS.match(key)]
        return [*config, ("core.hookspath", self._hooks_folder_of_clone())]

    def _hooks_folder_of_clone(self) -> str:
        """From its top: where the repository has its hooks if that is in the tree, else git's usual place."""
        hooks = self._repository.hooks
        is_in_tree = hooks.is_relative_to(self._tree) and not hooks.is_relative_to(self._repository.common)
        return os.path.relpath(hooks, self._tree) if is_in_tree else ".git/hooks"

    def _env(self) -> dict[str, str]:
        """The settings given here, as an attempt's environment; its plan, `.ralph.env` and templates hold the rest."""
        env = {}
        files_of_its_own = (Source.PLAN, Source.PROJECT_FILE, Source.TEMPLATE)
        for field, one in self._settings.given.items():
            if field not in _NOT_PASSED_ON and one.source not in files_of_its_own:
                env[one.variable] = one.text
        for one in reversed(self._run.start.given):  # the strongest last
            if one.variable.startswith(OF_AGENTS) and one.source not in files_of_its_own and one.text.strip():
                env[one.variable] = one.text
        for name in () if self._is_elsewhere else [name for name in env if name.startswith("RALPH_AGENT")]:
            program, *more = shlex.split(env[name])
            if "/" in program:
                env[name] = shlex.join([str(Path(program).absolute()), *more])
        if self._settings.history and not self._is_elsewhere:
            env["RALPH_HISTORY"] = str(self._settings.history.resolve())
        return env

    def _attempt_arguments(self, task: Task, share_usd: float | None) -> list[str]:
        """The arguments for the ralph of an attempt: one attempt at this task, within what is left of the limits."""
        run = self._run
        settings = self._settings
        plan = str(run.start.plan)
        if run.start.plan.is_relative_to(self._tree):
            plan = f"./{os.path.relpath(plan, run.top)}"  # so that any name works
        one_try = f"build --strict --jobs 1 --task {task.id} --max-tries {task.tries + 1} --max-failures 1"
        words = [plan, *one_try.split(), "--delay", "0", "--no-wait"]
        if share_usd is not None:
            words += ["--max-cost", f"{share_usd:.4f}"]
        if settings.max_time is not None:
            left_s = max(1.0, settings.max_time - run.elapsed_s())
            words += ["--max-time", f"{left_s:.3f}s"]
        return words

    def run_iteration(self) -> Iteration:
        """Waits for the next event. Returns what is known of the attempt that ended, or of the commit to merge."""
        run = self._run
        while True:
            stop = run.stop_if_interrupted() or run.stop_if_git_tampered()
            if not (stop or self._merge_obstacle):
                self.queue.begin_checks()
            ready = self._ready_to_conclude(is_over=bool(stop))
            if ready and not self.running and stop:
                return self._merge_iteration(ready, Turn(outcome=Outcome.INTERRUPTED, why=stop.why))
            if ready and not (stop or self._merge_obstacle):
                return self._merge_iteration(ready, turn_of_attempt(ready.checked))
            self._announce_wait()
            future = self._wait_for_event()
            if future in self.running:
                return self._attempt_iteration(future)
            if future:
                self.queue.end_check(future)

    def _ready_to_conclude(self, *, is_over: bool) -> QueuedTask | None:
        """Returns the queue entry that need not wait any longer, or None.

        The user took it back, or it was checked on top of the branch, or the run is ending and it is the first.
        """
        taken_back = (entry for entry in self.queue.entries if entry.attempt.is_taken_back(self._file.text))
        return next(taken_back, self.queue.entries[0] if is_over and self.queue.entries else self.queue.judged_head())

    def _announce_wait(self) -> None:
        """Shows in the status line what ralph waits for."""
        waiting, rest_s = len(self.queue.entries), self._no_agent_before - self._run.pace.now()
        parts = [f"{len(self.running)} at work", f"{waiting} to be merged" if waiting else ""]
        parts.append(f"none begins for {format_duration(rest_s)}" if rest_s > 0 else "")
        self._run.console.set_activity(", ".join(filter(None, parts)))

    def _wait_for_event(self) -> Future[AttemptResult] | None:
        """Returns the next attempt or check that ended; heeds signals and what the user writes into the progress file.

        None if something else happened, or after a moment.
        """
        run = self._run
        is_interrupted = bool(run.stop_if_interrupted())
        checks = [] if is_interrupted else self.queue.running_checks  # the next run begins them again
        done = wait([*self.running, *checks], _POLL_S, FIRST_COMPLETED).done
        run.git_settings.compare()  # before any git runs
        run.read_progress()
        for attempt in self._in_progress():
            if run.stop_if_interrupted() or attempt.is_taken_back(self._file.text):
                self._executor.cancel(attempt.task.id)
        if not done and not is_interrupted and self._no_agent_before and run.pace.now() >= self._no_agent_before:
            self._no_agent_before = 0.0
            self._begin_tasks()
        return next(iter(done), None)

    def _attempt_iteration(self, future: Future[AttemptResult]) -> Iteration:
        """Returns what is known of an attempt that ended."""
        run = self._run
        attempt = self.last = self.running.pop(future)
        self._merging = None
        attempt.result = result_of_future(future)
        turn = turn_of_attempt(attempt.result)
        if run.stop_if_interrupted():
            turn.outcome = Outcome.INTERRUPTED
        elif attempt.is_taken_back(self._file.text):
            turn.outcome = Outcome.OK
        self._begin_record(attempt, attempt.result)
        return self._iteration(turn)

    def _merge_iteration(self, entry: QueuedTask, turn: Turn) -> Iteration:
        """Returns what is known of a queue entry that no longer waits."""
        self.last, self._merging = entry.attempt, entry
        self._begin_record(entry.attempt, entry.checked)
        return replace(self._iteration(turn), is_merge=True)

    def _begin_record(self, attempt: TaskAttempt, result: AttemptResult) -> None:
        """Makes the attempt's iteration the current one; the first time, gives it a number and a transcript."""
        run = self._run
        if not attempt.number:
            attempt.number = run.earlier + run.tally.iterations + 1
            attempt.transcript = run.state.new_transcript(run.id, attempt.number, result.prompt)
            with contextlib.suppress(OSError):  # a full disk costs the transcript, not the work
                if result.transcript_file:
                    shutil.move(result.transcript_file, attempt.transcript)
                else:
                    attempt.transcript.write_bytes(encode_text(result.transcript))
        task, number = attempt.task.id, attempt.number
        transcript, began = attempt.transcript, attempt.began
        run.live.iteration = CurrentIteration(number=number, task=task, began=began, transcript=transcript)

    def _iteration(self, turn: Turn) -> Iteration:
        before, findings = self._file.last, TurnFindings(blocked=self._run.git_settings.block_reason)
        after = self._run.read_progress()
        return Iteration(before=before, after=after, turn=turn, commits=Commits(), findings=findings)

    def conclude(self, iteration: Iteration) -> Iteration:
        """Merges what passed and ticks its task, or queues it to be merged; or writes down why the attempt failed."""
        if entry := self._merging:
            return self._conclude_merge(iteration, entry)
        attempt = self.last
        task, result = attempt.task, attempt.result
        self._file.edit(attempt.with_agents_edits)
        if result.tampered and self._settings.on_tamper == "abort":
            iteration = replace(iteration, ended=Stop(Reason.TAMPERED, f"{task.id}: {result.tampered}"))
        if result.passed and result.commit:
            self._branch.fetch(result.bundle)
            self._branch.put_into_queue(task, result.commit)
        if iteration.is_repeated or iteration.ended or iteration.turn.outcome is Outcome.FAILED:
            self.tidy_task_list()
            return iteration
        if attempt.is_taken_back(self._file.text):
            return self._taken_back(iteration)
        if result.passed and not result.commit:
            return self._tick(iteration, Commits())
        if result.passed:
            entry = QueuedTask(attempt=attempt, commit=result.commit, base=attempt.job.commit, checked=result)
            self.queue.entries.append(entry)
            is_first = self.queue.judged_head() is entry and not self._merge_obstacle
            return self._merge(iteration, entry) if is_first else replace(iteration, moved=True, is_queued=True)
        blocked = attempt.why_blocked
        if blocked is not None:
            self._file.edit(edits.with_mark, "!", task.id, note="blocked", why=blocked)
            return replace(iteration, failed=f"{task.id} is blocked: {blocked}", may_retry=True)
        return self._fail(iteration, why_failed(result))

    def _conclude_merge(self, iteration: Iteration, entry: QueuedTask) -> Iteration:
        """Merges a queue entry, or writes down why not."""
        if iteration.ended:
            return iteration
        if entry.attempt.is_taken_back(self._file.text):
            self._leave_queue(entry)
            self._repository.keep_commit(entry.commit)
            return self._taken_back(iteration)
        if entry.checked.passed or not self._branch.tip():
            return self._merge(iteration, entry)
        self._leave_queue(entry)
        kept = self._repository.keep_commit(entry.commit)
        why = f"on top of what was merged meanwhile: {why_failed(entry.checked)}; the work is in {kept}"
        return self._fail(iteration, why)

    def _taken_back(self, iteration: Iteration) -> Iteration:
        """Returns the iteration of a task that the user marked differently, or deleted, meanwhile."""
        why = f"{self.last.task.id} was taken back while it was tried"
        return replace(iteration, failed=why, may_retry=True, moved=True)

    def _fail(self, iteration: Iteration, why: str) -> Iteration:
        """Writes down that the task has failed once more."""
        task, most = self.last.task, self._settings.max_tries
        self._file.edit(edits.with_failure, task.id, why, most)
        failed = f"{task.id}, attempt {task.tries + 1}: {why}"
        return replace(iteration, failed=failed, may_retry=task.has_attempts_left(most))

    def _merge(self, iteration: Iteration, entry: QueuedTask) -> Iteration:
        """Moves the branch to the commit and ticks the task; otherwise it stays queued, maybe until the next run."""
        run, tip, commit = self._run, entry.tip, entry.checked.commit
        if commit and tip:
            if commit != entry.commit:
                self._branch.fetch(entry.checked.bundle)
            commit = self._branch.with_parent(commit, tip)
            if not commit:
                entry.base = ""  # it is signed, so it has to be made again on top of the branch
        if not commit and entry.checked.commit:
            return replace(iteration, is_queued=True)
        if commit:
            run.state.save_note(MergedTask(task=entry.attempt.task.id, commit=commit))
            self._wait_for_index()
            failed = self._branch.advance(commit, tip)
            if failed:
                run.state.remove_note(MergedTask)
                if self._branch.tip() in (tip, ""):  # else the user just committed: it is checked on top of that
                    self._merge_obstacle = failed
                    what = f"{entry.attempt.task.id} is finished and waits to be merged"
                    run.console.complain(f"{what}: {failed} in the way")
                return replace(iteration, moved=True, is_queued=True)
        self._leave_queue(entry)
        made = parse_records(entry.checked.records)[-1]
        commits = Commits(count=made.commits, added=made.added, removed=made.removed, head=commit, base=tip)
        return self._tick(iteration, commits)

    def _leave_queue(self, entry: QueuedTask) -> None:
        self.queue.entries.remove(entry)
        self._branch.take_from_queue(entry.attempt.task)

    def _tick(self, iteration: Iteration, commits: Commits) -> Iteration:
        """Ticks the task; its commit, if there is one, is on the branch by now."""
        run = self._run
        self._file.edit(edits.with_task_done, self.last.task.id)
        self.tidy_task_list()
        run.state.remove_note(MergedTask)
        done = not run.read_progress().open
        wrong = tuple(check_done(run, is_verified=True)) if done else ()
        return replace(iteration, moved=True, passed=True, refused=wrong, after=run.read_progress(), commits=commits)

    def recheck(self) -> Mapping[str, str] | None:
        """Unticks the tasks that a later change broke. Returns why, by task id; None if that could not be checked."""
        if not self._settings.evidence:
            return {}
        broken = evidence.recheck(self._run, self._file.text, lambda *_: "")
        self._file.edit(edits.with_tasks_reopened, broken or {})
        return broken

    def _begin_check(self, entry: QueuedTask, base: str) -> Future[AttemptResult]:
        """Has the entry's commit applied on top of the base, instead of an agent's work, and checked there."""
        job = entry.attempt.job
        bundle = self._branch.pack_base(base) if self._is_elsewhere else ""
        applies = self._branch.pack_queued(entry.attempt.task)
        alone = ["--roles", "build"] if self._settings.roles else []  # the other roles have already run
        on_top = replace(job, name=job.name + _ON_TOP, commit=base, bundle=bundle, applies=applies)
        return self._executor.submit(replace(on_top, words=[*job.words, *alone]))

    def _tick_merged_before_death(self) -> None:
        """Ticks the task that a killed run had merged but not yet ticked."""
        if noted := self._run.state.load_note(MergedTask):
            if self._branch.contains_commit(noted.commit, self._branch.tip()):
                self._file.edit(edits.with_task_done, noted.task)
            self._run.state.remove_note(MergedTask)

    def close(self) -> None:
        """Ends all work, also after an error, and marks no task as in progress any more."""
        self._executor.close()
        with contextlib.suppress(RalphError):
            self._file.edit(edits.with_tidy_list)
