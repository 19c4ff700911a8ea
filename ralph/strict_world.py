"""The loop's world under --strict: what the agent proposes is undone, checked, ticked and committed by ralph."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ralph import journal, progress, strict, tasks, worktree
from ralph.agent.stream import Event
from ralph.criteria import Kind, parse
from ralph.errors import RalphError
from ralph.gates import Gates
from ralph.governing import Governing
from ralph.judge import Iteration, Judgement, Verification
from ralph.neighbours import Neighbours
from ralph.onlooker import Onlooker
from ralph.process import Finished, Job, Keeper
from ralph.progress import Progress
from ralph.progress.file import ProgressFile
from ralph.prompt import Value
from ralph.state import State
from ralph.verdict import Stop
from ralph.verify import CommandRun, shell
from ralph.words import counted
from ralph.world import RealWorld, Told, Work


class StrictWorld(RealWorld):
    """The same, where the agent's word counts for nothing that can be checked."""

    def __init__(self, job: Work, file: ProgressFile, state: State, told: Told, keeper: Keeper) -> None:
        super().__init__(job, file, state, told, keeper)
        gates = Gates(
            token=strict.token(),
            project=self._top,
            base_url=self._settings.base_url,
            run=self._run_check,
            verify=self.verify if self._settings.verify else None,
            over=lambda: self.interrupted() is not None,
            say=lambda line: self._screen.remark(f"ralph: {line}"),
            rehearsal=job.start.rehearsal,
        )
        self._onlooker: Onlooker | None = None
        self._governing = Governing(job.start.plan, self._settings.prompts)
        self._neighbours = Neighbours(file.path)
        assert self._guard is not None
        self._strict = strict.Strict(self._settings, file, state, guard=self._guard, gates=gates, hands=self)

    def tidy(self) -> Progress:
        """The progress file with an id for each task, and none in progress."""
        self.read()
        self._file.edit(strict.tidied)
        return self.read()

    def choose(self) -> Stop | None:
        """The task of the next iteration, or why there is none."""
        self._commit_left_over()
        stop = self._strict.choose()
        if stop is None:
            self.run = replace(self.run, task=self._strict.attempt.task.id)
            self._state.note("task", self.run.task)
        return stop

    def dispose(self, iteration: Iteration, judged: Judgement) -> tuple[Iteration, Judgement]:
        """Checks what the agent proposes, and ticks and commits it or writes down why not."""
        judged = self._strict.dispose(iteration, judged)
        commits, _ = self._changes.look()
        self._verified = False  # what checks changed was just looked at
        after = self.read()
        if judged.passed and not after.open:
            after = self.accept_done(Verification() if self._is_checked() else None)
        return replace(iteration, after=after, commits=commits if commits.count else iteration.commits), judged

    def accept_done(self, verified: Verification | None) -> Progress:
        """All tasks are done, and it is ralph who says so."""
        self._commit_left_over()
        self._file.edit(progress.declared_done)
        self._changes.begin(anew=True)
        return super().accept_done(verified)

    def _is_checked(self) -> bool:
        """Whether anything but the agent's word says that all is done."""
        lines = (line for task in tasks.flat(tasks.read(self._file.text)) for line in task.criteria)
        return bool(self._settings.verify) or any(parse(line).kind is not Kind.UNCHECKED for line in lines)

    def _commit_left_over(self) -> None:
        done = {task.id for task in tasks.flat(tasks.read(self._file.text)) if task.done}
        assert self._guard is not None
        self._guard.commit_left_over(done.__contains__, self.run_git)

    def _of_task(self) -> dict[str, Value]:
        return self._strict.values()

    def _begin(self, number: int, before: Progress, record: Path) -> None:
        super()._begin(number, before, record)
        self._governing.begin()
        self._governing.save(self._state.governing)
        self._neighbours.begin()
        self._onlooker = Onlooker(self._stream, self._file.path)

    def _show(self, event: Event) -> None:
        if self._onlooker:
            self._onlooker.hears()
        super()._show(event)

    def _quiet(self) -> None:
        if self._onlooker:
            self._onlooker.hears_nothing()
        super()._quiet()

    def _undo(self) -> tuple[str, ...]:
        """What is ralph's is put back; what the agent did to it."""
        person = self._onlooker is not None and self._onlooker.perhaps_a_person
        who = " (perhaps yours: no tool of the agent ran just then)" if person else ""
        return self._put_right(f"while an agent works{who}")

    def mend_after_checks(self) -> None:
        """The same after its checks."""
        assert self._guard is not None
        self._put_right("while a task is checked")
        self._guard.settle_checks()

    def mend_after_hooks(self) -> None:
        """The same after hooks of git."""
        assert self._guard is not None
        self._put_right("while a task is committed")
        self._guard.settle_hooks()

    def run_git(self, argv: Sequence[str], stdin: bytes) -> Finished:
        """Runs git as a check is run, so that nothing which a hook starts stays."""
        files = self._state.verification(self._job.run_id, self.run.number)
        given = files.output.with_suffix(".names")
        given.write_bytes(stdin)
        files = replace(files, prompt=given)
        env = {**self._job.env, "GIT_EDITOR": "true", "GIT_TERMINAL_PROMPT": "0"}
        both = ["sh", "-c", 'exec "$@" 2>&1', "sh", *argv]
        self._status.does("committing")
        run = self._run("the commit", Job(argv=both, env=env, files=files), worktree.HOOKS_S)
        for path in (given, files.output, files.errors):
            path.unlink(missing_ok=True)  # what it printed stands in the reason where it failed
        code = 1 if run is None or run.code is None else run.code
        output = run.output.encode() if run else b"it was interrupted"
        return Finished(code=code, stdout=output, stderr=b"", timed_out=run is not None and run.code is None)

    def _put_right(self, when: str) -> tuple[str, ...]:
        self.read()
        left = self._file.text
        undone = self._strict.undo()
        if undone.proposed:
            self._complain(f"{counted(undone.proposed, 'new task')} moved under ## Proposed")
        if self._file.text != left:
            kept = self._state.keep(self._file.path.name, left)
            for one in undone.what:
                self._complain(f"undone, since the tasks are ralph's {when}: {one}")
            self._complain(f"{self._file.path.name} as it was left is {kept}")
            if undone.diff:
                self._write_down(journal.of_tampering(self._identity, undone.what, undone.diff, kept))
        return (*undone.what, *self._files_put_back())

    def _files_put_back(self) -> list[str]:
        changed = [(str(path), kept) for path, kept in self._governing.settle(self._state.keep)]
        if rewritten := self._tries.settle():
            changed.append((str(self._tries.path), rewritten))
        for path, left in self._neighbours.settle():
            changed.append((path.name, self._state.keep(path.name, left)))
        for name, kept in changed:
            self._complain(f"{name} was changed: put back" + (f"; as it was left it is {kept}" if kept else ""))
        return [f"{name} was changed" for name, _ in changed]

    def close(self, stop: Stop) -> None:
        """No task is in progress any more, also after an error."""
        with contextlib.suppress(RalphError):
            self._file.edit(tasks.put_down)
        self._state.governing.unlink(missing_ok=True)
        super().close(stop)

    def _run_check(self, command: str) -> CommandRun | None:
        """Runs a command that a criterion asks for, as the verify command is run."""
        self._changes.begin(anew=False)
        self._verified = True
        self._screen.remark(f"ralph: checking: {command}")
        self._status.does(f"checking: {command}")
        files = self._state.verification(self._job.run_id, self.run.number)
        job = Job(argv=shell(command), env=self._job.env, files=files)
        return self._run("the check", job, self._settings.verify_timeout)
