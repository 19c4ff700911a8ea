"""The coordinator: begins tries of independent tasks at the same time, and lands what they come to, one by one.

It is a run as any other, the only one with the lock, the progress file, the journal and the notices. Its agents work in
clones: the progress file is never in their reach, and the branch is as the gates have seen it at each commit.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from typing import NamedTuple

from ralph import journal, progress, tasklist, tasks
from ralph.agent.turn import Commits, Outcome, Turn
from ralph.channels import notices
from ralph.claims import accept
from ralph.crew.attempt import Attempt, Job, as_bytes, as_text, bundle
from ralph.crew.executors import Dask, Local
from ralph.crew.landing import Branch
from ralph.errors import RalphError
from ralph.judge import Iteration
from ralph.run import Run
from ralph.settings import Source
from ralph.strict.repository import Repository
from ralph.tasks import Task, edits
from ralph.tasks.mending import mend
from ralph.verdict import Reason, Stop, left_usd, verdict
from ralph.words import duration, named

_MOST = 20
"""Tries at the same time on one machine."""
_LANDINGS = 3
"""So often a landing is begun that does not get to its agent: a registry may be down that the setup needs."""
_GLANCE_S = 0.2
_LOOK_S = 2.0
"""Seconds between looks at the progress file while agents work: somebody may have written [!] at a task."""
_OF_THE_COORDINATOR = {
    *("jobs", "task", "setup", "setup_copy", "keep_clones", "runner", "executor"),
    *("max_iterations", "max_time", "max_cost", "max_total_cost", "max_tries", "max_failures", "max_stalls"),
    *("progress_file", "history", "heartbeat_url", "delay", "wait", "notify_frequency"),
}
"""Settings that no attempt is given."""


class Trial(NamedTuple):
    """A task that is being tried."""

    job: Job
    task: Task
    """As it was when that began."""
    began: float
    """By the run's clock."""
    share_usd: float | None
    """What it may cost."""


class Crew:
    """The tasks that are tried at the same time, in place of one after the other."""

    def __init__(self, run: Run) -> None:
        self._run, self._file, self._settings = run, run.file, run.settings
        if not (repository := Repository.around(run.top)):
            raise RalphError(f"--jobs needs a git repository, and {run.top} is in none", fix="git init, and commit")
        self._repository, self._tree = repository, repository.root
        self._branch = Branch(repository, run.start.name)
        self._check()
        self._executor = Dask(run, run.settings.executor) if run.settings.executor else Local(run)
        self.running: dict[Future[Attempt], Trial] = {}
        self.began = 0.0
        """When that began, by the run's clock, which ended last."""
        self._finished: tuple[Trial, Attempt] | None = None
        """From `iterate` to `dispose`: what was tried, and what came of it."""
        self._stop: Stop | None = None
        """Why nothing begins any more, while others still work."""
        self._land_left_over()

    def _check(self) -> None:
        """Raises RalphError where clones would not do, and says what they lack."""
        settings, start = self._settings, self._run.start
        if settings.jobs > _MOST and not (settings.runner or settings.executor):
            raise RalphError(f"{settings.said['jobs'].where}: at most {_MOST} on one machine", fix="see --executor")
        if not self._repository.head()[1]:
            raise RalphError(f"--jobs needs a commit to begin with, and {self._tree} has none", fix="commit")
        if not self._branch.name:
            raise RalphError(f"--jobs lands work on a branch, and HEAD of {self._tree} is on none", fix="git switch")
        if (self._tree / ".gitmodules").exists():
            raise RalphError("--jobs works in clones, which lack the submodules", fix="leave --jobs out")
        if not settings.auto_commit:
            where = settings.said["auto_commit"].where
            raise RalphError(f"--jobs brings work together by commits, and {where} forbids them", fix="leave one out")
        own = [os.path.relpath(path.resolve(), self._tree) for path in (*start.own, start.plan)]
        found = self._repository.names("status", "--porcelain", "-z", "--no-renames")
        if mine := [entry[3:] for entry in found if entry[3:] not in own]:
            self._run.complain(f"the clones lack what you have not committed: {named(mine)}")

    def lets_finish(self, stop: Stop | None) -> Stop | None:
        """Why to stop now; where others are at work, they finish first, unless a signal came."""
        if stop is None or stop.reason is Reason.INTERRUPTED or not self.running:
            return stop
        self._stop = stop
        return None

    @property
    def doing(self) -> list[str]:
        """A line for each agent at work."""
        now = self._run.pace.running()
        trials, doing = list(self.running.values()), self._executor.doing  # another thread asks
        return [f"{one.task.id} · {duration(now - one.began)} · {doing[one.task.id]}" for one in trials]

    def tidy(self) -> None:
        """Gives each task an id, and marks as in progress those that are being tried, and no others."""

        def tidied(text: bytes) -> bytes:
            tried = [trial.task.id for trial in self.running.values()]
            kept = [one.id for one in tasks.read(text) if one.mark == "~" and one.id in tried]
            return edits.marked(edits.tidied(text), "~", *kept)

        self._run.read()
        self._file.edit(tidied)

    def choose(self) -> Stop | None:
        """Begins as many tasks as may be tried at once; a Stop when none is being tried and none can be begun."""
        run = self._run
        tasklist.check(self._file.text, self._file.path.name, self._settings)
        while len(self.running) < self._settings.jobs and not self._stop:
            begun = run.tally.iterations + len(self.running)
            stop = verdict(self._file.last, replace(run.tally, iterations=begun), self._settings, run.elapsed_s())
            listed = tasks.read(self._file.text)
            share_usd = self._share_usd()
            if stop or share_usd == 0 or (task := tasks.select(listed)) is None:
                break
            self._begin(task, share_usd)
        if self.running:
            return None
        return self._stop or tasklist.nothing_to_begin(tasks.read(self._file.text))

    def _share_usd(self) -> float | None:
        """What the next one may cost: an equal part of what is left and not given to those at work."""
        left_usd_now = left_usd(self._file.last, self._run.tally, self._settings)
        if left_usd_now is None:
            return None
        given = sum(trial.share_usd or 0.0 for trial in self.running.values())
        return max(0.0, round(left_usd_now - given, 4)) / (self._settings.jobs - len(self.running))

    def _begin(self, task: Task, share_usd: float | None) -> None:
        run = self._run
        run.state.make_room()
        job = self._job(task, share_usd)
        if not (run.transcript or self.running):
            run.outbox.send(notices.started(run))
        self._mark("~", task)
        run.screen.remark(f"ralph: {task.id} begins: {task.text}")
        self.running[self._executor.submit(job)] = Trial(job, task, run.pace.running(), share_usd)

    def _job(self, task: Task, share_usd: float | None) -> Job:
        run, settings, plan, top = self._run, self._settings, self._run.start.plan, self._tree
        brought = [top / name for name in settings.setup_copy]
        brought += [path for path in (plan, run.start.template.resolve()) if path.is_relative_to(top)]
        try:
            files = {os.path.relpath(path, top): as_text(path.read_bytes()) for path in brought}
        except OSError as error:
            raise RalphError(f"{error.filename}: cannot be brought to a clone: {error.strerror}", 1) from error
        text = self._file.text
        if any(_lines(as_bytes(trial.job.progress), "Messages") for trial in self.running.values()):
            start, end = progress.section(text, "Messages")
            text = text[:start] + b"\n" + text[end:]  # which another agent has got already
        asked = os.path.relpath(plan, run.top.resolve()) if plan.is_relative_to(top) else str(plan)
        words = [asked, "build", "--strict", "--task", task.id, "--jobs", "1", "--max-tries", str(task.tries + 1)]
        words += ["--max-failures", "1", "--delay", "0", "--no-wait"]
        if share_usd is not None:
            words += ["--max-cost", f"{share_usd:.4f}"]
        if settings.max_time is not None:
            words += ["--max-time", f"{max(1.0, settings.max_time - run.elapsed_s()):.3f}s"]
        if settings.max_iterations is not None:
            words += ["--max-iterations", str(settings.max_iterations - run.tally.iterations)]
        is_elsewhere = bool(settings.runner or settings.executor)
        return Job(
            name=f"{run.state.folder.name}/{task.id}",
            task=task.id,
            commit=self._branch.tip(),
            source="" if is_elsewhere else str(top),
            bundle=bundle("--branches", top, "HEAD") if is_elsewhere else "",
            here=os.path.relpath(run.top.resolve(), top),
            files=files,
            progress=as_text(text),
            env=self._env(),
            words=words,
            setup=settings.setup or "",
            keep=settings.keep_clones,
        )

    def _env(self) -> Mapping[str, str]:
        """The environment of an attempt: what was said of the settings; committer and hooks, which a clone lacks."""
        env = dict[str, str]()
        for field, one in self._settings.said.items():
            if field not in _OF_THE_COORDINATOR and one.source not in (Source.MODE, Source.TEMPLATE):
                env[one.variable] = one.text
        said = {key: self._repository.ask("config", key) for key in ("user.name", "user.email")}
        said["core.hooksPath"] = self._repository.hooks
        for number, (key, value) in enumerate(said.items()):
            env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return env | {"GIT_CONFIG_COUNT": str(len(said))}

    def iterate(self) -> Iteration:
        """Waits until the next try is over; what is known of it then."""
        run = self._run
        run.does(f"{len(self.running)} at work")
        looked = run.pace.running()
        while not (done := wait(self.running, _GLANCE_S, FIRST_COMPLETED).done):
            if run.interrupted():
                self._cancel(self.running.values())
            elif run.pace.running() - looked >= _LOOK_S:
                looked = run.pace.running()
                run.read()
                self._cancel(filter(self._is_taken_back, self.running.values()))
        future = done.pop()
        trial = self.running.pop(future)
        self.began = trial.began
        try:
            result = future.result()
        except Exception as error:  # noqa: BLE001 - a cluster has errors of its own
            result = Attempt(why=str(error) or type(error).__name__)
        self._finished = trial, result
        before, turn = run.file.last, _turn(result)
        if run.interrupted():
            turn.outcome = Outcome.INTERRUPTED
        elif self._is_taken_back(trial):
            turn.outcome = Outcome.OK
        run.number, run.task = run.earlier + run.tally.iterations + 1, trial.task.id
        run.transcript = run.state.transcript(run.id, run.number, result.prompt)
        with contextlib.suppress(OSError):  # a full disk costs the record, and not the work
            run.transcript.write_bytes(as_bytes(result.transcript))
        return Iteration(
            number=run.number, task=run.task, before=before, after=run.read(), turn=turn, commits=Commits()
        )

    def _is_taken_back(self, trial: Trial) -> bool:
        """Whether a person marked the task otherwise, or took it out, while it was tried."""
        task = tasks.find(tasks.read(self._file.text), trial.task.id)
        return task is None or task.mark != "~"

    def dispose(self, iteration: Iteration) -> Iteration:
        """Lands what was tried last and ticks it, or writes down why not."""
        assert self._finished
        trial, result = self._finished
        task, job = trial.task, trial.job
        self._take_over_notes(job, result)
        if self._is_taken_back(trial):
            return replace(iteration, failed=f"{task.id} was taken back while it was tried", tried=True, moved=True)
        if iteration.again or iteration.ended or iteration.turn.outcome is Outcome.FAILED:
            self._mark(" ", task)
            return iteration
        tip, meanwhile = self._branch.tip(), ""
        if _is_done(result, task) and result.commit and tip != job.commit:
            result, meanwhile = self._on_top(tip, job, result), "on top of what landed meanwhile: "
            if stop := self._run.interrupted():
                self._mark(" ", task)
                return replace(iteration, ended=stop)
        if _is_done(result, task):
            return self._land(iteration, task, result)
        blocked = _blocked(result, task)
        if blocked is not None:
            self._file.edit(lambda text: edits.marked(text, "!", task.id, note="blocked", why=blocked))
            return replace(iteration, failed=f"{task.id} is blocked: {blocked}", tried=True)
        most, tries, why = self._settings.max_tries, task.tries + 1, meanwhile + _why(result, task)
        self._file.edit(lambda text: edits.with_failure(text, task.id, why, most))
        return replace(iteration, failed=f"{task.id}, try {tries}: {why}", tried=task.has_more_tries(most))

    def _mark(self, mark: str, *listed: Task) -> None:
        self._file.edit(lambda text: edits.marked(text, mark, *[task.id for task in listed]))

    def _land(self, iteration: Iteration, task: Task, result: Attempt) -> Iteration:
        """The branch gets the commit, if there is one, and the task its tick."""
        run, commits = self._run, Commits()
        if result.commit:
            run.state.note("landing", json.dumps([task.id, result.commit]))
            run.todo = ""
            if not self._branch.moves(result.commit, result.bundle):
                run.todo = f"git merge {self._branch.own} brings the work in: your own changes were in the way"
                run.complain(run.todo, once="branch")
            commits = self._repository.describe(result.commit)[0]
        self._mark("x", *task.chain)
        run.state.note("landing", "")
        if not run.read().open:
            accept(run)
        return replace(iteration, moved=True, passed=True, after=run.read(), commits=commits)

    def _on_top(self, tip: str, job: Job, result: Attempt) -> Attempt:
        """The same commit applied to this one, and all checked once more."""
        self._run.does(f"landing {job.task}")
        again = replace(job, name=f"{job.name}-landing", commit=tip, source=str(self._tree), bundle="")
        landed = Attempt()
        for _ in range(_LANDINGS):
            try:
                landed = self._executor.now(replace(again, applies=result.bundle))
            except (OSError, RalphError) as error:
                landed = Attempt(why=str(error))
            if landed.records or self._run.interrupted():
                break
        return landed

    def _land_left_over(self) -> None:
        """What a run that was killed had landed and not ticked yet."""
        if noted := self._run.state.noted("landing"):
            task_id, commit = json.loads(noted)
            if self._branch.has(commit, self._branch.tip()):
                self._file.edit(lambda text: edits.marked(text, "x", task_id))
            self._run.state.note("landing", "")

    def _take_over_notes(self, job: Job, result: Attempt) -> None:
        """What the agent wrote into its sections is in ours, too; a message that it took out is answered."""
        was, now = as_bytes(job.progress), as_bytes(result.progress)
        answered = {line for line in _lines(was, "Messages") if now and line not in _lines(now, "Messages")}

        def taken_over(text: bytes) -> bytes:
            start, end = progress.section(text, "Messages")
            left = [line for line in text[start:end].splitlines(keepends=True) if line.strip() not in answered]
            new = text[:start] + b"".join(left) + text[end:]
            for title in ("Notes", "Proposed"):
                known = _lines(was, title)
                new = progress.with_lines(new, title, [line for line in _lines(now, title) if line not in known])
            return mend(text, new).text

        self._file.edit(taken_over)

    def close(self) -> None:
        """Nobody works any more, and no task is in progress, also after an error."""
        self._cancel(self.running.values())
        self._executor.close()
        with contextlib.suppress(RalphError):
            self._file.edit(edits.put_down)

    def _cancel(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self._executor.cancel(trial.task.id)


def _turn(result: Attempt) -> Turn:
    """What the iterations of an attempt came to, as one turn."""
    found = journal.records(result.records)
    if not found:
        return Turn(outcome=Outcome.FAILED, why=result.why)
    last, total = found[-1], journal.sums(found)
    outcome = Outcome[last.ended.upper()]
    return Turn(
        outcome=outcome,
        why="" if outcome is Outcome.OK else last.message,
        said=last.message if last.success else "",
        cost_usd=total.cost_usd,
        at_least=total.cost_at_least,
        tokens={kind: getattr(total, kind) for kind in journal.TOKENS},
        resets_at=int(last.until) or None,
        took_s=total.duration_s,
    )


def _left(result: Attempt, task: Task) -> Task | None:
    """The task as the attempt left it."""
    return tasks.find(tasks.read(as_bytes(result.progress)), task.id)


def _is_done(result: Attempt, task: Task) -> bool:
    left = _left(result, task)
    return left is not None and left.done


def _blocked(result: Attempt, task: Task) -> str | None:
    """Why the agent says that a person is needed; None where it does not."""
    left, said = _left(result, task), progress.parse(as_bytes(result.progress))
    if left and left.mark == "!" and left.tries == task.tries:
        return "".join(left.said("blocked"))
    return None if said.blocked_by_ralph else said.blocked


def _why(result: Attempt, task: Task) -> str:
    """Why a try failed, by what its progress file says of the task."""
    left = _left(result, task)
    said = left.said("failed")[-1] if left and left.tries > task.tries else ""
    return re.sub(r"^.*?\btry \d+: ", "", said) or result.why or _turn(result).why or "it came to nothing"


def _lines(text: bytes, title: str) -> list[bytes]:
    """The lines below that heading which are not blank."""
    start, end = progress.section(text, title)
    return [line.strip() for line in text[start:end].splitlines() if line.strip()]
