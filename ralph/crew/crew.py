"""The coordinator: begins tries of independent tasks at the same time, and lands what they come to, one by one.

It is a run as any other, the only one with the lock, the progress file, the journal and the notices. Its agents work in
clones: the progress file is never in their reach, and the branch is as the gates have seen it at each commit.
"""

import json
import os
import re
import shlex
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph import changes, progress, tasklist, tasks
from ralph.agent.turn import Commits, Outcome, Tokens, Turn
from ralph.channels import notices
from ralph.claims import accept
from ralph.crew.attempt import Attempt, Job, as_bytes, as_text, bundle, git
from ralph.crew.executors import Dask, Local
from ralph.errors import RalphError
from ralph.judge import Iteration
from ralph.lock import working_tree
from ralph.run import Run
from ralph.settings import BY_VARIABLE, Source
from ralph.tasks import Task, edits
from ralph.tasks.mending import mend
from ralph.verdict import Reason, Stop, left_usd, verdict
from ralph.words import named

_MOST = 20
_GLANCE_S = 0.2
_LOOK_S = 2.0
"""Seconds between looks at the progress file while agents work: somebody may have written [!] at a task."""
_NOT_OF_AN_ATTEMPT = {
    *("jobs", "task", "setup", "setup_copy", "keep_clones", "runner", "executor", "history", "heartbeat_url"),
    *("progress_file", "max_iterations", "max_time", "max_cost", "max_total_cost", "max_tries", "max_failures"),
    *("max_stalls", "delay", "wait", "notify_frequency"),
}
"""Settings that are the coordinator's."""


class Trial(NamedTuple):
    """A task that is being tried."""

    job: Job
    chain: tuple[Task, ...]
    """The task, and those above it that are done once it is."""
    number: int
    """Its iteration."""


class Crew:
    """What is tried at the same time, in place of one task after the other."""

    def __init__(self, run: Run) -> None:
        self._run, self._file, self._settings = run, run.file, run.settings
        self._tree = working_tree(run.top)
        self._check()
        self._executor = Dask(run, run.settings.executor) if run.settings.executor else Local(run)
        self._running: dict[Future[Attempt], Trial] = {}
        self._ended: tuple[Trial, Attempt] | None = None
        """The attempt that ended last."""
        self._branch = f"refs/heads/ralph/{run.start.name}"
        """Where the work goes while the person's own changes are in the way."""
        self._land_left_over()

    def _check(self) -> None:
        """Raises RalphError where clones would not do; says what they lack."""
        settings = self._settings
        if settings.jobs > _MOST and not (settings.runner or settings.executor):
            raise RalphError(f"{settings.said['jobs'].where}: on this machine at most {_MOST}", fix="see --executor")
        if not (self._tree / ".git").exists():
            raise RalphError(f"--jobs needs a git repository, and {self._tree} is none", fix="git init, and commit")
        if changes.git("rev-parse", "--verify", "--quiet", "HEAD", cwd=self._tree).code:
            raise RalphError(f"--jobs needs a commit to begin with, and {self._tree} has none", fix="commit")
        if not self._settings.auto_commit:
            where = self._settings.said["auto_commit"].where
            raise RalphError(f"--jobs brings work together by commits, and {where} forbids them", fix="leave one out")
        if (self._tree / ".gitmodules").exists():
            raise RalphError("--jobs works in clones, and a clone lacks the submodules", fix="leave --jobs out")
        own = {
            os.path.relpath(path.resolve(), self._tree.resolve())
            for path in (*self._run.start.own, self._run.start.plan)
        }
        status = git("status", "--porcelain", "-z", "--no-renames", cwd=self._tree)
        if mine := [entry[3:] for entry in changes.names_in(status) if entry[3:] not in own]:
            self._run.complain(f"the clones lack what you have not committed: {named(mine)}")

    @property
    def works(self) -> bool:
        """Whether somebody is at work."""
        return bool(self._running)

    def tidy(self) -> None:
        """The file has an id for each task; in progress is what is being tried, and nothing else."""
        self._run.read()
        self._file.edit(self._tidied)

    def _tidied(self, text: bytes) -> bytes:
        tried = [one.id for one in tasks.flat(tasks.read(text)) if one.mark == "~" and one.id in self._tried()]
        text = tasklist.tidied(text)
        for task_id in tried:
            text = edits.taken_up(text, task_id)
        return text

    def _tried(self) -> list[str]:
        return [trial.job.task for trial in self._running.values()]

    def choose(self) -> Stop | None:
        """Begins what can be tried now, as many as may be at once; a Stop when nothing is tried and nothing can be."""
        tasklist.check(self._file.text, self._file.path.name, self._settings)
        while len(self._running) < self._settings.jobs and self._may_begin():
            listed = tasks.read(self._file.text)
            if (task := tasks.select(listed)) is None:
                break
            self._begin(task, tasks.chain(listed, task.id))
        if self._running:
            return None
        return tasklist.stuck(tasks.read(self._file.text), self._file.path.name) or Stop(
            Reason.STUCK, "nothing is left"
        )

    def _may_begin(self) -> bool:
        run = self._run
        most, begun = self._settings.max_iterations, run.tally.iterations + len(self._running)
        allowed = most is None or begun < most
        return allowed and not verdict(run.file.last, run.tally, self._settings, run.elapsed_s())

    def _begin(self, task: Task, chain: tuple[Task, ...]) -> None:
        run = self._run
        if run.files is None:
            run.outbox.send(notices.started(run))
        number = run.earlier + run.tally.iterations + len(self._running) + 1
        job = self._job(task)
        run.files = run.state.transcripts(run.id, number, "")
        self._file.edit(lambda text: edits.taken_up(text, task.id))
        run.screen.remark(f"ralph: {task.id} begins: {task.text}")
        self._running[self._executor.submit(job)] = Trial(job, chain, number)

    def _job(self, task: Task) -> Job:
        run, settings, top = self._run, self._settings, self._tree.resolve()
        plan, brought = run.start.plan, [self._tree / name for name in settings.setup_copy]
        brought += [path for path in (plan, run.start.template.resolve()) if path.is_relative_to(top)]
        text = self._file.text
        if any(_lines(as_bytes(trial.job.progress), "Messages") for trial in self._running.values()):
            start, end = progress.section(text, "Messages")
            text = text[:start] + b"\n" + text[end:]  # a message is for one agent
        tip, elsewhere = self._tip(), settings.runner or settings.executor
        budget_usd, words = left_usd(run.file.last, run.tally, settings), list[str]()
        if budget_usd is not None:
            words = ["--max-iteration-cost", f"{max(0.0001, budget_usd / settings.jobs):.4f}"]
        return Job(
            name=f"{run.state.folder.name}/{task.id}",
            task=task.id,
            tries=task.tries,
            commit=tip,
            source="" if elsewhere else str(top),
            bundle=bundle("HEAD", top) if elsewhere else "",
            here=os.path.relpath(run.top.resolve(), top),
            plan=os.path.relpath(plan, run.top.resolve()) if plan.is_relative_to(top) else str(plan),
            files={os.path.relpath(path, top): as_text(path.read_bytes()) for path in brought},
            progress=as_text(text),
            env=self._env(),
            arguments=words,
            setup=settings.setup or "",
            keep=settings.keep_clones,
        )

    def _env(self) -> Mapping[str, str]:
        """What was said of the settings; who commits and which hooks run, as a clone has no settings of its own."""
        env = dict[str, str]()
        for field, one in self._settings.said.items():
            if field not in _NOT_OF_AN_ATTEMPT and one.source not in (Source.MODE, Source.TEMPLATE):
                is_pattern = BY_VARIABLE[one.variable].metavar == "GLOB" and one.source is Source.COMMAND_LINE
                env[one.variable] = shlex.quote(one.text) if is_pattern else one.text
        said = {key: _asked("config", key, cwd=self._tree) for key in ("user.name", "user.email", "core.hooksPath")}
        said["core.hooksPath"] = said["core.hooksPath"] or str(changes.git_folder(self._tree) / "hooks")
        for number, (key, value) in enumerate(said.items()):
            env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return env | {"GIT_CONFIG_COUNT": str(len(said))}

    def iterate(self) -> Iteration:
        """Waits until the next attempt has ended; what is known of it then."""
        run = self._run
        looked = began = run.pace.clock.running()
        while not (done := wait(self._running, _GLANCE_S, FIRST_COMPLETED).done):
            doing = [f"{task} {self._executor.doing[task]}".strip() for task in self._tried()]
            run.phase = " | ".join(doing), began, None
            if run.pace.clock.running() - looked >= _LOOK_S:
                looked = run.pace.clock.running()
                self._look()
        ended = done.pop()
        trial = self._running.pop(ended)
        try:
            result = ended.result()
        except RalphError as error:
            result = Attempt(why=error.message)
        self._ended = trial, result
        run.number, run.task = trial.number, trial.job.task
        turn, before = _turn(result), run.file.last
        if run.interrupted():
            turn.outcome = Outcome.INTERRUPTED
        elif self._is_taken_back(trial):
            turn.outcome = Outcome.OK
        return Iteration(
            number=run.number, task=run.task, before=before, after=run.read(), turn=turn, commits=Commits()
        )

    def _look(self) -> None:
        """Ends what a person has taken back."""
        self._run.read()
        for trial in self._running.values():
            if self._is_taken_back(trial):
                self._executor.cancel(trial.job.task)

    def _is_taken_back(self, trial: Trial) -> bool:
        """Whether somebody marked the task otherwise, or took it out, while it was tried."""
        task = tasks.find(tasks.read(self._file.text), trial.job.task)
        return task is None or task.mark != "~"

    def dispose(self, iteration: Iteration) -> Iteration:
        """Lands what the attempt came to, ticked, or writes down why not."""
        assert self._ended
        run, (trial, result) = self._run, self._ended
        task_id, tries = trial.job.task, trial.job.tries
        self._take_over(trial.job, result)
        if self._is_taken_back(trial):
            return replace(iteration, failed=f"{task_id} was taken back while it was tried", tried=True, moved=True)
        if iteration.again or iteration.ended or iteration.turn.outcome is Outcome.FAILED:
            self._file.edit(lambda text: edits.unticked(text, [task_id]))
            return iteration
        left, said = (
            tasks.find(tasks.read(as_bytes(result.progress)), task_id),
            progress.parse(as_bytes(result.progress)),
        )
        blocked = left.blocked if left and left.mark == "!" and left.tries == tries else said.blocked
        if blocked is not None:
            self._file.edit(lambda text: edits.with_block(text, task_id, blocked))
            return replace(iteration, failed=f"{task_id} is blocked: {blocked}", tried=True)
        tip = self._tip()
        commit, why = self._landed(trial.job, result, tip) if left and left.done else ("", _why(result, trial.job))
        if why:
            return self._fail(iteration, trial.chain[0], why)
        self._file.edit(lambda text: edits.with_done(text, [one.id for one in trial.chain]))
        run.state.note("landing", "")
        commits = changes.commits(tip, commit) if commit else Commits()
        if not run.read().open:
            accept(run, checked=True)
        return replace(iteration, moved=True, passed=True, after=run.read(), commits=commits)

    def _fail(self, iteration: Iteration, task: Task, why: str) -> Iteration:
        most, tries = self._settings.max_tries, task.tries + 1
        given_up = most is not None and tries >= most

        when = time.strftime("%Y-%m-%d %H:%M:%S")
        self._file.edit(lambda text: edits.with_failure(text, task.id, when, why, most))
        return replace(iteration, failed=f"{task.id}, try {tries}: {why}", tried=True, given_up=given_up)

    def _landed(self, job: Job, result: Attempt, tip: str) -> tuple[str, str]:
        """The commit with which the branch has the work, checked on what it had by then; and why it has not."""
        if result.commit and tip != job.commit:
            name = f"{self._run.state.folder.name}/{job.task}-integration"
            source = str(self._tree.resolve())
            again = replace(job, name=name, commit=tip, source=source, bundle="", applies=result.bundle)
            result = self._executor.now(again)
            if not result.commit:
                return "", f"on top of what the others did meanwhile: {_why(result, job)}"
        if result.commit:
            self._run.state.note("landing", json.dumps([job.task, result.commit]))
            self._move(result.commit, b64decode(result.bundle))
        return result.commit, ""

    def _move(self, commit: str, packed: bytes) -> None:
        """The person's branch moves on, or where their own changes are in the way, one of ralph's."""
        git("bundle", "unbundle", "/dev/stdin", cwd=self._tree, stdin=packed)
        merge = ("-c", "core.hooksPath=/dev/null", "merge", "--ff-only", "--quiet", commit)
        aside = _asked("rev-parse", "--verify", "--quiet", self._branch, cwd=self._tree)
        if changes.git(*merge, cwd=self._tree).code:
            git("update-ref", self._branch, commit, cwd=self._tree)
            name = self._branch.removeprefix("refs/heads/")
            what = f"your own changes are in the way, so the work is on branch {name}; git merge {name} brings it in"
            self._run.complain(what, once="branch")
        elif aside:
            git("update-ref", "-d", self._branch, aside, cwd=self._tree)

    def _tip(self) -> str:
        """The commit that everything builds on which begins now."""
        head = _asked("rev-parse", "HEAD", cwd=self._tree)
        aside = _asked("rev-parse", "--verify", "--quiet", self._branch, cwd=self._tree)
        is_ahead = aside and changes.git("merge-base", "--is-ancestor", head, aside, cwd=self._tree).code == 0
        return aside if is_ahead else head

    def _take_over(self, job: Job, result: Attempt) -> None:
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

    def _land_left_over(self) -> None:
        """What a run that was killed had landed and not ticked yet."""
        noted = self._run.state.noted("landing")
        task_id, commit = json.loads(noted) if noted else ("", "")
        if commit and changes.git("merge-base", "--is-ancestor", commit, self._tip(), cwd=self._tree).code == 0:
            self._file.edit(lambda text: edits.with_done(text, [task_id]))
        self._run.state.note("landing", "")

    def declare_done(self) -> None:
        """All tasks are done, and it is ralph who says so."""
        self._file.edit(lambda text: progress.with_status(text, "RALPH_DONE"))
        self._run.changes.look()

    def close(self) -> None:
        """Nobody works any more, and no task is in progress, also after an error."""
        for task in self._tried():
            self._executor.cancel(task)
        self._executor.close()
        self._file.edit(edits.put_down)


def _turn(result: Attempt) -> Turn:
    """What the iterations of an attempt came to, as one turn."""
    records = result.records
    if not records:
        return Turn(outcome=Outcome.FAILED, why=result.why)
    last, tokens = records[-1], Counter[str]()
    for one in records:
        tokens.update(one["tokens"] or {})
    outcome, said = Outcome[str(last["ended"]).upper()], str(last["message"])
    costs = [one["cost_usd"] for one in records if one["cost_usd"] is not None]
    return Turn(
        outcome=outcome,
        why="" if outcome is Outcome.OK else said,
        said=said if last["success"] else "",
        cost_usd=sum(costs) if costs else None,
        at_least=any(one["cost_at_least"] for one in records),
        tokens=Tokens(**tokens) if tokens else None,
        resets_at=int(last["until"]) or None,
        took_s=sum(one["duration_s"] for one in records),
    )


def _why(result: Attempt, job: Job) -> str:
    """Why a try failed, by what its progress file says of the task."""
    left = tasks.find(tasks.read(as_bytes(result.progress)), job.task)
    said = left.failed[-1] if left and left.tries > job.tries else ""
    return re.sub(r"^.*?\btry \d+: ", "", said) or result.why or _turn(result).why or "it came to nothing"


def _lines(text: bytes, title: str) -> list[bytes]:
    """The lines below that heading which are not blank."""
    start, end = progress.section(text, title)
    return [line.strip() for line in text[start:end].splitlines() if line.strip()]


def _asked(*arguments: str, cwd: Path) -> str:
    """What git says, or nothing."""
    done = changes.git(*arguments, cwd=cwd)
    return "" if done.code else os.fsdecode(done.stdout).strip()
