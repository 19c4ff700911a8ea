"""The coordinator: begins tries of independent tasks at the same time, and lands what they come to, one by one.

It is a run as any other, the only one with the lock, the progress file, the journal and the notices. Its agents work in
clones: the progress file is never in their reach, and the branch is as the gates have seen it at each commit.
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
from ralph.agent.turn import Commits, Outcome
from ralph.errors import RalphError
from ralph.git.changes import IN_NO_OTHER
from ralph.git.repository import Repository, text_of
from ralph.parallel.attempt import Attempt, TaskJob, pack_bundle
from ralph.parallel.executors import DaskExecutor, LocalExecutor
from ralph.parallel.landing import TargetBranch
from ralph.parallel.running_task import RunningTask
from ralph.plan import progress, prompt, tasks
from ralph.plan.progress import encode_text
from ralph.plan.tasks import Task, edits
from ralph.run import evidence, notices, tasklist
from ralph.run.claims import check_done_claim
from ralph.run.context import CurrentIteration, Run
from ralph.run.controllers import Controller
from ralph.run.judge import Iteration, TurnFindings
from ralph.run.memory import HANDOVER, last_handover
from ralph.run.verdict import Reason, Stop, left_usd, stop_reason
from ralph.settings.table import Source
from ralph.store.notes import MergedTask
from ralph.words import format_duration, join_names, plural

_MOST = 20
"""Tries at the same time on one machine."""
_ABOUT_THE_PLACE = re.compile(
    r"(?:remote|branch|submodule|extensions|include|includeif|clone|protocol|credential|maintenance|gc)\."
    r"|core\.(?:bare|worktree|hookspath|repositoryformatversion|fsmonitor|sharedrepository)$|safe\."
)
"""git's settings that say where a repository lies, what it is connected with, or who may log in."""
_NOT_HANDED_ON = ("history", "heartbeat_url", "prompts", "task")
_ON_TOP = "/before-landing"
"""Of the folder in which a commit is checked on top of others."""
_LOOK_S = 0.5
"""Seconds between looks at the progress file while agents work: somebody may have written [!] at a task."""


class ParallelController(Controller):
    """The tasks that are tried at the same time, in place of one after the other."""

    picks_tasks = is_parallel = True
    last: RunningTask
    """The one that was over last."""

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
        self._check()
        self._executor = LocalExecutor(run)
        if run.settings.executor:
            self._executor = DaskExecutor(run, run.settings.executor)
        self.running: dict[Future[Attempt], RunningTask] = {}
        self._stop: Stop | None = None
        """Why nothing begins any more, while others still work."""
        self._in_the_way = ""
        """What keeps finished tasks from being merged."""
        self._land_left_over()

    def _check(self) -> None:
        """Raises RalphError where clones would not do, and says what they lack."""
        settings = self._settings
        if settings.jobs > _MOST and not (settings.runner or settings.executor):
            raise RalphError(f"{settings.given['jobs'].where}: at most {_MOST} on one machine", fix="see --executor")
        if not self._branch.name or not self._branch.tip():
            what = f"--jobs lands work on a branch that has a commit, and HEAD of {self._tree} is on none"
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
            raise RalphError(what, fix="commit or stash them, or go on with --allow-dirty")
        if mine:
            self._run.console.complain(f"the clones lack what you have not committed: {join_names(mine)}")
        earlier = f"ralph/{start.name}"
        if self._repository.ask("branch", "--list", "--no-merged", "HEAD", earlier):
            self._run.console.complain(f"{earlier} has work of an earlier run: git merge {earlier}")

    def lets_finish(self, stop: Stop | None) -> Stop | None:
        """Why to stop now; where others are at work, they finish first, unless a signal came."""
        if stop is None or stop.reason is Reason.INTERRUPTED or not self.running:
            return stop
        self._stop = stop
        return None

    @property
    def is_busy(self) -> bool:
        """Whether agents are at work between two iterations."""
        return bool(self.running)

    @property
    def last_began_at(self) -> float:
        """When the attempt began that was over last."""
        return self.last.began

    @property
    def activity(self) -> list[str]:
        """A line for each agent at work."""
        now = self._run.pace.running()
        lines = []
        for trial in list(self.running.values()):  # another thread asks
            doing = self._executor.doing.get(trial.task.id) or "at work"
            lines.append(f"{trial.task.id} · {format_duration(now - trial.began)} · {doing}")
        return lines

    def prepare_task_list(self) -> None:
        """The file has an id for each task, what is done in all its parts is ticked, and only these are in progress."""
        self._file.edit(edits.with_tidy_list, *[trial.task.id for trial in self.running.values()])

    def choose_next(self) -> Stop | None:
        """Begins as many tasks as may be tried at once; a Stop when none is being tried and none can be begun."""
        run = self._run
        try:
            tasklist.validate_list(self._file.text, self._file.path.name, self._settings)
        except RalphError as error:  # a person's edit, it may be half of one
            if not self.running:
                raise
            self._stop = Stop(Reason.STUCK, error.message)
        while len(self.running) < self._settings.jobs and not (self._stop or self._in_the_way):
            tally = replace(run.tally, iterations=run.tally.iterations + len(self.running))
            if stop_reason(self._file.last, tally, self._settings, run.elapsed_s()):
                break
            listed, alone = tasks.read_tasks(self._file.text), self._settings.task
            task = tasks.select_next(listed, alone, run.tally.crashes)
            share_usd = self._share_usd(1 if alone else tasks.count_ready(listed))
            if task is None or share_usd == 0:
                break
            self._begin_task(task, share_usd)
        if self.running:
            return None
        if self._in_the_way:
            count = plural(len(self._branch.queued()), "finished task")
            return Stop(Reason.QUEUED, f"{self._in_the_way} in the way of {count}")
        alone, listed = self._settings.task, tasks.read_tasks(self._file.text)
        if (task := tasks.find_task(listed, alone or "")) and task.done:
            return Stop(Reason.ONCE)
        return self._stop or tasklist.nothing_to_begin(listed, alone)

    def _share_usd(self, ready: int) -> float | None:
        """What the next one may cost: what is left and not given to those at work, divided by what can begin now."""
        left = left_usd(self._file.last, self._run.tally, self._settings)
        if left is None:
            return None
        for trial in self.running.values():
            left -= trial.share_usd or 0.0
        return max(0.0, round(left, 4)) / max(1, min(ready, self._settings.jobs - len(self.running)))

    def _begin_task(self, task: Task, share_usd: float | None) -> None:
        run = self._run
        run.state.make_room()
        job = self._task_job(task, share_usd)
        if not (run.current.transcript or self.running):
            run.outbox.send(notices.started_notice(run))
        self._file.edit(edits.with_mark, "~", task.id)
        run.screen.remark(f"ralph: {task.id} begins: {task.text}")
        trial = RunningTask(job=job, task=task, began=run.pace.running(), share_usd=share_usd)
        if task.id in self._branch.queued():  # checked on an older tip; no agent is asked again
            trial.job = self._on_top(job, self._branch.pack_queued(task.id))
            self.running[LocalExecutor.submit(self._executor, trial.job)] = trial
        else:
            self.running[self._executor.submit(job)] = trial

    def _task_job(self, task: Task, share_usd: float | None) -> TaskJob:
        run = self._run
        settings = self._settings
        text = self._file.text
        if any(trial.has_messages for trial in self.running.values()):
            start, end = progress.section_range(text, "Messages")
            text = text[:start] + b"\n" + text[end:]  # which another agent has got already
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
            templates=prompt.own_templates(settings.prompts),
            words=self._attempt_arguments(task, share_usd),
            agent_words=run.start.asked.agent_arguments,
            setup=settings.setup or "",
            keep=settings.keep_clones,
        )
        if settings.runner or settings.executor:
            shallow = text_of(self._repository.common / "shallow")
            return replace(job, source="", bundle=pack_bundle(self._repository, "HEAD", "--branches"), shallow=shallow)
        return job

    def _files_to_bring(self) -> dict[str, tuple[int, str]]:
        """Mode and text of what a clone needs and no commit has, by path."""
        repository, plan = self._repository, self._run.start.plan
        own = self._run.top / ".ralph.env"
        brought = {os.path.relpath(own, self._tree): own} if own.is_file() else {}
        brought |= {os.path.relpath(plan, self._tree): plan} if plan.is_relative_to(self._tree) else {}
        brought |= {name: self._tree / name for name in self._settings.setup_copy}
        for name in ("info/exclude", "info/attributes"):
            brought |= {f".git/{name}": repository.common / name} if (repository.common / name).is_file() else {}
        hooks = [path for path in repository.hooks.rglob("*") if path.is_file() and path.suffix != ".sample"]
        inside = not repository.hooks.is_relative_to(repository.common) and repository.hooks.is_relative_to(self._tree)
        to = os.path.relpath(repository.hooks, self._tree) if inside else ".git/hooks"
        brought |= {f"{to}/{path.relative_to(repository.hooks)}": path for path in hooks}
        texts = {}
        for name, path in brought.items():
            with files.os_errors_as_ralph_errors(path, "brought to a clone"):
                texts[name] = path.stat().st_mode & 0o777, path.read_bytes().decode(errors="surrogateescape")
        return texts

    def _git_config(self) -> list[tuple[str, str]]:
        """Git's settings for a clone: on this machine those of the repository, elsewhere the person's as well."""
        is_elsewhere = self._settings.runner or self._settings.executor
        entries = self._repository.ask("config", "-z", *([] if is_elsewhere else ["--local"]), "--list").split("\0")
        found = [entry.partition("\n")[::2] for entry in entries if entry]
        config = [(key, value) for key, value in found if not _ABOUT_THE_PLACE.match(key)]
        hooks = self._repository.hooks
        inside = not hooks.is_relative_to(self._repository.common) and hooks.is_relative_to(self._tree)
        return [*config, ("core.hookspath", os.path.relpath(hooks, self._tree) if inside else ".git/hooks")]

    def _env(self) -> dict[str, str]:
        """The settings of an attempt, as they were said here; its plan, `.ralph.env` and templates say the others."""
        env = {}
        files_of_its_own = (Source.PLAN, Source.PROJECT_FILE, Source.TEMPLATE)
        is_elsewhere = self._settings.runner or self._settings.executor
        for field, one in self._settings.given.items():
            if field not in _NOT_HANDED_ON and one.source not in files_of_its_own:
                env[one.variable] = one.text
        program, *more = self._settings.agent
        if "/" in program and not is_elsewhere:
            env["RALPH_AGENT"] = shlex.join([str(Path(program).absolute()), *more])
        if self._settings.history and not is_elsewhere:
            env["RALPH_HISTORY"] = str(self._settings.history.resolve())
        return env

    def _attempt_arguments(self, task: Task, share_usd: float | None) -> list[str]:
        """What the ralph of an attempt is asked: one try of this task, within the bounds that are left."""
        run = self._run
        settings = self._settings
        plan = str(run.start.plan)
        if run.start.plan.is_relative_to(self._tree):
            plan = f"./{os.path.relpath(plan, run.top)}"  # whatever its name
        one_try = f"build --strict --jobs 1 --task {task.id} --max-tries {task.tries + 1} --max-failures 1"
        words = [plan, *one_try.split(), "--delay", "0", "--no-wait"]
        if share_usd is not None:
            words += ["--max-cost", f"{share_usd:.4f}"]
        if settings.max_time is not None:
            left_s = max(1.0, settings.max_time - run.elapsed_s())
            words += ["--max-time", f"{left_s:.3f}s"]
        return words

    def run_iteration(self) -> Iteration:
        """Waits until the next try is over; what is known of it then."""
        run = self._run
        run.console.set_activity(f"{len(self.running)} at work")
        while not (done := wait(self.running, _LOOK_S, FIRST_COMPLETED).done):
            run.read_progress()
            for trial in self.running.values():
                if run.stop_if_interrupted() or trial.is_taken_back(self._file.text):
                    self._executor.cancel(trial.task.id)
        future = done.pop()
        trial = self.last = self.running.pop(future)
        trial.ends(future)
        run.git_settings.compare()
        turn = trial.turn()
        before = run.file.last
        if run.stop_if_interrupted():
            turn.outcome = Outcome.INTERRUPTED
        elif trial.is_taken_back(self._file.text):
            turn.outcome = Outcome.OK
        number = run.earlier + run.tally.iterations + 1
        transcript = run.state.new_transcript(run.id, number, trial.result.prompt)
        run.live.iteration = CurrentIteration(number=number, task=trial.task.id, transcript=transcript)
        with contextlib.suppress(OSError):  # a full disk costs the record, and not the work
            transcript.write_bytes(encode_text(trial.result.transcript))
        watched = TurnFindings(blocked=run.git_settings.block_reason)
        return Iteration(before=before, after=run.read_progress(), turn=turn, commits=Commits(), watched=watched)

    def conclude(self, iteration: Iteration) -> Iteration:
        """Lands what was tried last and ticks it, or writes down why not."""
        trial = self.last
        task = trial.task
        most = self._settings.max_tries
        meanwhile = ""
        self._file.edit(trial.taken_over)
        if trial.result.tampered and self._settings.on_tamper == "abort":
            iteration = replace(iteration, ended=Stop(Reason.TAMPERED, f"{task.id}: {trial.result.tampered}"))
        was_applied = bool(trial.job.applies and trial.result.records)
        if iteration.again or iteration.ended or (iteration.turn.outcome is Outcome.FAILED and not was_applied):
            self.prepare_task_list()
            return iteration
        passed = self._branch.queued().get(task.id, "")
        self._branch.take_from_queue(task.id)
        if trial.result.passed and trial.result.commit:
            passed = trial.result.commit
            self._branch.fetch(trial.result.bundle)
        base = trial.job.commit
        while trial.result.passed and trial.result.commit and (tip := self._branch.tip()) not in (base, ""):
            base = tip  # and the person may commit while that is checked
            meanwhile = "on top of what was merged meanwhile: "
            self._apply(trial, tip)
            if stop := self._run.stop_if_interrupted():
                self._branch.put_into_queue(task.id, passed)
                return replace(iteration, ended=stop)
        self._file.read()  # that may have taken minutes
        if trial.is_taken_back(self._file.text):
            return replace(iteration, failed=f"{task.id} was taken back while it was tried", may_retry=True, moved=True)
        if trial.result.passed:
            return self._land(iteration, trial, base)
        blocked = trial.blocked
        if blocked is not None:
            self._file.edit(edits.with_mark, "!", task.id, note="blocked", why=blocked)
            return replace(iteration, failed=f"{task.id} is blocked: {blocked}", may_retry=True)
        why = meanwhile + (re.sub(r"^.*?, try \d+: ", "", trial.turn().why) or "it came to nothing")
        why += f"; the work is in {self._repository.keep_commit(passed)}" if passed else ""
        self._file.edit(edits.with_failure, task.id, why, most)
        return replace(iteration, failed=f"{task.id}, try {task.tries + 1}: {why}", may_retry=task.has_more_tries(most))

    def _land(self, iteration: Iteration, trial: RunningTask, tip: str) -> Iteration:
        """The branch gets the commit, if there is one, and the task its tick; else it is queued for the next run."""
        run = self._run
        commit, commits = trial.result.commit, Commits()
        if commit:
            run.state.save_note(MergedTask(task=trial.task.id, commit=commit))
            self._wait_for_index()
            self._branch.fetch(trial.result.bundle)
            failed = self._branch.advance(commit, tip)
            if failed:
                self._branch.put_into_queue(trial.task.id, commit)
                run.state.remove_note(MergedTask)
                self.prepare_task_list()
                if self._branch.tip() in (tip, ""):  # else a person committed at that moment, and it is checked on that
                    self._in_the_way = failed
                    run.console.complain(f"{trial.task.id} is finished and waits to be merged: {failed} in the way")
                return replace(iteration, moved=True)
            commits = self._repository.commit_stats(commit)[0]
        self._file.edit(edits.with_task_done, trial.task.id)
        self.prepare_task_list()
        run.state.remove_note(MergedTask)
        done = not run.read_progress().open
        wrong = tuple(check_done_claim(run, is_verified=True)) if done else ()
        return replace(iteration, moved=True, passed=True, refused=wrong, after=run.read_progress(), commits=commits)

    def recheck(self) -> Mapping[str, str] | None:
        """Unticks what a later change broke: why, by the id of each; None where nobody could say."""
        if not self._settings.evidence:
            return {}
        broken = evidence.recheck(self._run, self._file.text, lambda *_: "")
        self._file.edit(edits.with_broken_tasks, broken or {})
        return broken

    def _apply(self, trial: RunningTask, tip: str) -> None:
        """The trial's result is from now on that of its commit on top of this one, where all is checked once more."""
        self._run.console.set_activity(f"merging {trial.task.id}")
        here = replace(self._on_top(trial.job, trial.result.bundle), commit=tip)
        for _ in range(3):  # a registry may be down that the setup needs
            trial.ends(LocalExecutor.submit(self._executor, here))  # on this machine, as it is small
            if trial.result.records or self._run.stop_if_interrupted():
                break

    def _on_top(self, job: TaskJob, packed: str) -> TaskJob:
        """A job that applies a commit, in place of an agent's work; on this machine, as it is small."""
        name = job.name.removesuffix(_ON_TOP) + _ON_TOP  # no task can have that folder
        return replace(job, name=name, source=str(self._tree), bundle="", applies=packed)

    def _land_left_over(self) -> None:
        """What a run that was killed had landed and not ticked yet."""
        if noted := self._run.state.load_note(MergedTask):
            if self._branch.contains_commit(noted.commit, self._branch.tip()):
                self._file.edit(edits.with_task_done, noted.task)
            self._run.state.remove_note(MergedTask)

    def close(self) -> None:
        """Nobody works any more, also after an error; no task is in progress."""
        self._executor.close()
        with contextlib.suppress(RalphError):
            self._file.edit(edits.put_down)
