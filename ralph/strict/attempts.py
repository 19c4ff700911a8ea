"""Strict: the agent proposes, ralph disposes. One task an iteration, which ralph picks, checks, ticks and commits."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ralph import criteria, progress, tasklist, tasks
from ralph.agent.turn import Outcome
from ralph.claim import message
from ralph.claims import accept, project_command, project_program, verify
from ralph.criteria import Kind
from ralph.errors import RalphError
from ralph.judge import Iteration
from ralph.process import Finished, Job
from ralph.prompt import Value
from ralph.run import Run
from ralph.strict.gates import Finding, Gates
from ralph.strict.guard import Guard
from ralph.strict.repository import HOOKS_S
from ralph.tasks import Task
from ralph.tasks.mending import Mended, mend
from ralph.verdict import Reason, Stop
from ralph.words import counted

_TAIL = 200
"""Characters of an output in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A task that is being tried."""

    task: Task
    chain: tuple[Task, ...]
    """The task, and those above it that are done once it is."""
    text: bytes
    """The progress file as the agent found it."""


class Strict:
    """What ralph does around the agent's turns, whose word counts for nothing that can be checked."""

    def __init__(self, run: Run, guard: Guard) -> None:
        self._run, self._guard = run, guard
        self._settings, self._file, self._state = run.settings, run.file, run.state
        self._gates = Gates(
            token=tasklist.token(),
            project=run.top,
            base_url=run.settings.base_url,
            run=lambda command: project_command(run, "check", command),
            verify=(lambda: verify(run)) if run.settings.verify else None,
            over=lambda: run.interrupted() is not None,
            say=lambda line: run.screen.remark(f"ralph: {line}"),
            rehearsal=run.start.rehearsal,
        )
        self._attempt: Attempt | None = None
        self._unfinished = 0
        """Tries in a row that were cut short."""

    @property
    def attempt(self) -> Attempt:
        """What is being tried."""
        assert self._attempt is not None
        return self._attempt

    def tidy(self) -> None:
        """The file has an id for each task; what is done in all its parts is ticked, and none is in progress."""
        self._run.read()
        self._file.edit(tasklist.tidied)

    def choose(self) -> Stop | None:
        """The task of the next iteration is chosen and marked; a Stop when none can be begun."""
        self._commit_left_over()
        name = self._file.path.name
        listed = tasklist.check(self._file.text, name, self._settings)
        if (task := tasks.select(listed)) is None:
            all_ticked = "every task is ticked, and yet done does not hold; untick what is not, or add a task"
            return tasklist.stuck(listed, name) or Stop(Reason.STUCK, all_ticked)
        self._file.edit(lambda text: tasks.taken_up(text, task.id))
        self._attempt = Attempt(task=task, chain=tasks.chain(listed, task.id), text=self._file.text)
        self._run.task = task.id
        self._state.note("task", task.id)
        return None

    def values(self) -> dict[str, Value]:
        """What the prompt may say of the task."""
        return tasklist.values(self.attempt.task, tasks.read(self._file.text), self._gates.token)

    def put_right(self, when: str) -> list[str]:
        """Puts back what is ralph's; what was done to it, in words."""
        run = self._run
        run.read()
        left = self._file.text
        undone = self._undo()
        if undone.proposed:
            run.complain(f"{counted(undone.proposed, 'new task')} moved under ## Proposed")
        if self._file.text != left:
            kept = self._state.keep(self._file.path.name, left)
            for one in undone.what:
                run.complain(f"undone, since the tasks are ralph's {when}: {one}")
            run.complain(f"{self._file.path.name} as it was left is {kept}")
            if undone.what:
                run.write_down("tamper", success=False, message="; ".join(undone.what), kept=kept.name)
        return list(undone.what)

    def _undo(self) -> Mended:
        """Puts back what is ralph's in the progress file; what was done to it."""
        mended = Mended(text=self._file.text)

        def restored(text: bytes) -> bytes:
            nonlocal mended
            mended = mend(self.attempt.text, text)
            return mended.text

        self._file.edit(restored)
        return mended

    def dispose(self, iteration: Iteration) -> Iteration:
        """Checks what the agent proposes, and ticks and commits it or writes down why not."""
        run = self._run
        iteration = self._disposed(iteration)
        if iteration.ended is None and (why := self._guard.strayed()):
            iteration = replace(iteration, ended=Stop(Reason.TAMPERED, why))
        run.changes.disturbed &= not self._guard.looks  # which it does anew, and faster
        commits = self._guard.committed
        if iteration.passed and not run.read().open:
            accept(run, checked=self._is_checked())
        commits = commits if commits.count else iteration.commits
        return replace(iteration, after=run.read(), commits=commits)

    def declare_done(self) -> None:
        """All tasks are done, and it is ralph who says so."""
        self._commit_left_over()
        self._file.edit(progress.declared_done)
        self._run.changes.look()

    def _is_checked(self) -> bool:
        """Whether anything but the agent's word says that all is done."""
        lines = (line for task in tasks.flat(tasks.read(self._file.text)) for line in task.criteria)
        return bool(self._settings.verify) or any(criteria.parse(line).kind is not Kind.UNCHECKED for line in lines)

    def _commit_left_over(self) -> None:
        done = {task.id for task in tasks.flat(tasks.read(self._file.text)) if task.done}
        self._guard.commit_left_over(done.__contains__, self._run_git)

    def _run_git(self, argv: Sequence[str], stdin: bytes) -> Finished:
        """Runs git as a check is run, so that nothing which a hook starts stays."""
        run = self._run
        files = run.state.verification(run.id, run.number)
        given = files.output.with_suffix(".names")
        given.write_bytes(stdin)
        files = files._replace(prompt=given)
        env = {**run.env, "GIT_EDITOR": "true", "GIT_TERMINAL_PROMPT": "0"}
        both = ["sh", "-c", 'exec "$@" 2>&1', "sh", *argv]
        run.status.does("committing")
        ended = project_program(run, "the commit", Job(argv=both, env=env, files=files), HOOKS_S)
        for path in (given, files.output, files.errors):
            path.unlink(missing_ok=True)  # what it printed stands in the reason where it failed
        code = 1 if ended is None or ended.code is None else ended.code
        output = ended.output.encode() if ended else b"it was interrupted"
        return Finished(code=code, stdout=output, stderr=b"", timed_out=ended is not None and ended.code is None)

    def close(self) -> None:
        """No task is in progress any more, also after an error."""
        with contextlib.suppress(RalphError):
            self._file.edit(tasks.put_down)

    def _disposed(self, iteration: Iteration) -> Iteration:
        """Checks the try, then ticks and commits the task, or writes down why not."""
        if iteration.again or iteration.ended or iteration.turn.outcome is Outcome.FAILED:
            return self._put_down(iteration)
        found = self._gates.finding(iteration, iteration.failed, self.attempt.chain)
        self.put_right("while a task is checked")
        self._guard.settle_checks()
        if stop := self._stop(found is None, "checked"):
            return self._put_down(replace(iteration, ended=stop))
        assert found is not None
        self._unfinished = self._unfinished + 1 if found.unfinished else 0
        if found.unfinished and not self._is_too_often():
            return self._put_down(iteration)
        if found.blocked:
            return self._block(iteration, found)
        why = found.why.strip() or found.unfinished or self._pass(iteration)
        if stop := self._stop(bool(why) and self._gates.over(), "committed"):
            return self._put_down(replace(iteration, ended=stop))
        if why:
            return self._fail(iteration, why)
        return replace(iteration, moved=True, passed=True)

    def _stop(self, over: bool, doing: str) -> Stop | None:
        """Why nothing more may be done: by a program that ran, or since it is `over`."""
        if strayed := self._guard.strayed():
            return Stop(Reason.TAMPERED, strayed)
        return Stop(Reason.INTERRUPTED, f"while the task was {doing}") if over else None

    def _write(self, change: Callable[[bytes], bytes]) -> None:
        """An edit of ralph's own, noted first: what was not, a start after a death takes for the agent's."""
        self._state.now_says(change(self._file.text))
        self._file.edit(change)
        self._attempt = replace(self.attempt, text=self._file.text)

    def _is_too_often(self) -> bool:
        """Whether cut short so many times in a row is a failed try; each starts anew where nothing is kept."""
        most = self._settings.max_stalls
        return self._settings.on_failure == "restore" or (most is not None and self._unfinished >= most)

    def _put_down(self, iteration: Iteration) -> Iteration:
        if iteration.ended is None:
            self._let_go()
        self._write(tasks.put_down)
        return iteration

    def _block(self, iteration: Iteration, found: Finding) -> Iteration:
        task = self.attempt.task
        self._let_go()
        self._write(lambda text: tasks.with_block(text, task.id, found.blocked))
        return replace(iteration, failed=f"{task.id} is blocked: {found.blocked}", tried=True)

    def _fail(self, iteration: Iteration, why: str) -> Iteration:
        task, most = self.attempt.task, self._settings.max_tries
        self._let_go()
        when, tries = time.strftime("%Y-%m-%d %H:%M:%S"), task.tries + 1
        given_up = most is not None and tries >= most
        reason, *output = why.split("\n")

        def written(text: bytes) -> bytes:
            text = tasks.with_failure(text, task.id, when, why)
            said = f"{counted(tries, 'failed try').replace('trys', 'tries')}, the last: {reason}"
            return tasks.with_block(text, task.id, said) if given_up else text

        self._write(written)
        said = f"{task.id}, try {tries}: {reason}" + (f": {' / '.join(output)[-_TAIL:]}" if output else "")
        return replace(iteration, failed=said, tried=True, given_up=given_up)

    def _let_go(self) -> None:
        """What the try left in the repository is there for the next one, or thrown away."""
        if self._settings.on_failure == "restore":
            self._guard.restore(self.attempt.task.id)

    def _pass(self, iteration: Iteration) -> str:
        """The task is ticked, then committed, so that the commit has the tick; why it could not be, or nothing."""
        task, done = self.attempt.task, [one.id for one in self.attempt.chain]
        before = self._file.text
        self._write(lambda text: tasks.with_done(text, done))
        ticked = self._file.text
        failed = self._guard.commit(task.id, message(task.id, task.text, iteration.turn.said), self._run_git)
        self.put_right("while a task is committed")
        self._guard.settle_hooks()
        if failed:
            self._write(lambda text: before if text == ticked else tasks.unticked(text, done))
        return failed
