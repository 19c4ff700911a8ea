"""Strict: the agent proposes, ralph disposes. One task an iteration, which ralph picks, checks, ticks and commits."""

import contextlib
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

from ralph import progress, tasklist, tasks
from ralph.agent.turn import Outcome
from ralph.claims import accept, may_enter
from ralph.errors import RalphError
from ralph.judge import Iteration
from ralph.process import Job
from ralph.run import Run
from ralph.strict.gates import finding
from ralph.strict.guard import Guard
from ralph.strict.roles import roles_of
from ralph.strict.signal import Finding, message, wished
from ralph.tasks import Task, edits
from ralph.tasks.mending import mend
from ralph.verdict import Reason, Stop
from ralph.verify import run_program
from ralph.words import counted

_HOOKS_S = 900.0
"""Seconds that a commit may take: some projects' hooks run all their tests."""
_TAIL = 200
"""Characters of an output in the journal."""


class Strict:
    """What ralph does around the agent's turns, whose word counts for nothing that can be checked."""

    def __init__(self, run: Run, guard: Guard) -> None:
        self._run, self._guard, self._file = run, guard, run.file
        guard.run_git, guard.put_right = self._run_git, self.put_right
        self._roles = roles_of(run.start)
        self._role = ""
        """The one that works on the task, where there are several."""
        self._token = tasklist.token()
        self._chain: Sequence[Task] = ()
        """The task that is being tried, and those above it that are done once it is."""
        self._text = b""
        """The progress file by ralph's own word."""

    def tidy(self) -> None:
        """The file has an id for each task; what is done in all its parts is ticked, and none is in progress."""
        if self._role:
            self._run.enter("build")
            self._role = ""
        self._run.read()
        self._file.edit(tasklist.tidied)

    def choose(self) -> Stop | None:
        """The task of the next iteration is chosen and marked; a Stop when none can be begun."""
        self._commit_left_over()
        name = self._file.path.name
        settings = self._run.settings
        listed = tasklist.check(self._file.text, name, settings)
        if (task := tasks.select(listed, settings.task)) is None:
            if (alone := tasks.find(listed, settings.task or "")) and alone.done:
                return Stop(Reason.ONCE)
            return tasklist.nothing_to_begin(listed, name)
        self._chain = tasks.chain(listed, task.id)
        if self._roles:
            self._role = self._roles.of(task)
            self._run.enter(self._role)
            self._run.settings = copy(self._run.settings)
            self._run.settings.once = False  # it is over once its task is, or when it is another role's turn
        self._file.edit(lambda text: edits.taken_up(text, task.id))
        self._text = self._file.text
        self._run.task = task.id
        self._run.values = tasklist.values(task, tasks.read(self._text), self._token)
        self._run.state.note("task", task.id)
        return None

    def put_right(self, when: str) -> list[str]:
        """Puts back what is ralph's in the progress file; what was done to it, in words."""
        run = self._run
        run.read()
        left = self._file.text
        mended = mend(self._text, left)
        self._file.edit(lambda text: mend(self._text, text).text)
        if mended.proposed:
            run.complain(f"{counted(mended.proposed, 'new task')} moved under ## Proposed")
        if self._file.text != left:
            kept = run.state.keep(self._file.path.name, left)
            for one in mended.what:
                run.complain(f"undone, since the tasks are ralph's {when}: {one}")
            run.complain(f"{self._file.path.name} as it was left is {kept}")
            if mended.what:
                run.write_down("tamper", success=False, message="; ".join(mended.what), kept=kept.name)
        return list(mended.what)

    def dispose(self, iteration: Iteration) -> Iteration:
        """Checks what the agent proposes, and ticks and commits it or writes down why not."""
        run, outcome = self._run, iteration.turn.outcome
        goes_on = outcome is Outcome.CONTEXT_FULL and not iteration.failed and run.settings.on_failure == "keep"
        if iteration.again or iteration.ended or outcome is Outcome.FAILED or goes_on:
            iteration = self._put_down(iteration)
        else:
            iteration = self._checked(iteration)
        if (mode := wished(iteration.turn.said, self._token)) and may_enter(run, mode):
            self._write(lambda text: progress.with_mode(text, mode))
        if iteration.ended is None and (why := self._guard.blocked):
            iteration = replace(iteration, ended=Stop(Reason.TAMPERED, why))
        run.changes.disturbed = False  # the guard looks anew, and faster
        commits = self._guard.committed
        if iteration.passed and not run.read().open:
            accept(run, checked=tasklist.is_checked(self._file.text, run.settings))
        commits = commits if commits.count else iteration.commits
        return replace(iteration, after=run.read(), commits=commits)

    def declare_done(self) -> None:
        """All tasks are done, and it is ralph who says so."""
        self._commit_left_over()
        self._file.edit(lambda text: progress.with_status(text, "RALPH_DONE"))
        self._run.changes.look()

    def close(self) -> None:
        """No task is in progress any more, also after an error."""
        self._run.task = ""
        self._run.state.note("task", "")
        self._guard.put_right = None  # of a mode that works on no task the list is not held
        with contextlib.suppress(RalphError):
            self._file.edit(edits.put_down)

    def _checked(self, iteration: Iteration) -> Iteration:
        """Checks the try, then ticks and commits the task, hands it to the next role, or writes down why not."""
        run, task, roles = self._run, self._chain[0], self._roles
        is_checked = roles is None or self._role in (roles.checked, roles.fix)
        found = finding(run, iteration, self._chain, self._token, is_checked=is_checked)
        self.put_right("while a task is checked")
        self._guard.settle_programs()
        if stop := self._stop(found is None, "checked"):
            return self._put_down(replace(iteration, ended=stop))
        assert found is not None
        if why := found.blocked:
            self._let_go()
            self._write(lambda text: edits.with_block(text, task.id, why))
            return replace(iteration, failed=f"{task.id} is blocked: {why}", tried=True)
        if not found.failed and roles and (role := roles.after(self._role)):
            self._write(lambda text: edits.with_role(text, task.id, role))
            return replace(iteration, moved=True, passed=True)
        if not found.failed:
            found = replace(found, failed=self._pass(iteration), red=True)
        if stop := self._stop(bool(found.failed) and run.interrupted() is not None, "committed"):
            return self._put_down(replace(iteration, ended=stop))
        return self._fail(iteration, found) if found.failed else replace(iteration, moved=True, passed=True)

    def _stop(self, over: bool, doing: str) -> Stop | None:
        """Why nothing more may be done: by a program that ran, or since it is `over`."""
        if blocked := self._guard.blocked:
            return Stop(Reason.TAMPERED, blocked)
        return Stop(Reason.INTERRUPTED, f"while the task was {doing}") if over else None

    def _pass(self, iteration: Iteration) -> str:
        """The task is ticked, then committed, so that the commit has the tick; why it could not be, or nothing."""
        task, done = self._chain[0], [one.id for one in self._chain]
        before = self._file.text
        self._write(lambda text: edits.with_done(text, done))
        ticked = self._text
        failed = self._guard.commit(task.id, message(task.id, task.text, iteration.turn.said, self._role))
        self.put_right("while a task is committed")
        self._guard.settle_programs()
        if failed:
            self._write(lambda text: before if text == ticked else edits.unticked(text, done))
        return failed

    def _fail(self, iteration: Iteration, found: Finding) -> Iteration:
        task, most, roles = self._chain[0], self._run.settings.max_tries, self._roles
        when, tries = time.strftime("%Y-%m-%d %H:%M:%S"), task.tries + 1
        reason, *output = found.failed.split("\n")
        given_up = most is not None and tries >= most
        self._let_go()

        def written(text: bytes) -> bytes:
            text = edits.with_failure(text, task.id, when, found.failed)
            if roles:
                text = edits.with_role(text, task.id, roles.after_failure(self._role, found))
            return edits.with_block(text, task.id, f"given up after try {tries}: {reason}") if given_up else text

        self._write(written)
        said = f"{task.id}, try {tries}: {reason}" + (f": {' / '.join(output)[-_TAIL:]}" if output else "")
        return replace(iteration, failed=said, tried=not given_up)

    def _put_down(self, iteration: Iteration) -> Iteration:
        if iteration.ended is None:
            self._let_go()
        self._write(edits.put_down)
        return iteration

    def _let_go(self) -> None:
        """What the try left in the repository is there for the next one, or thrown away."""
        if self._run.settings.on_failure == "restore":
            self._guard.restore(self._chain[0].id)

    def _write(self, change: Callable[[bytes], bytes]) -> None:
        """An edit of ralph's own, noted first: what was not, a start after a death takes for the agent's."""
        self._run.state.now_says(change(self._file.text))
        self._file.edit(change)
        self._text = self._file.text

    def _listed(self) -> Sequence[Task]:
        return tasks.flat(tasks.read(self._file.text))

    def _commit_left_over(self) -> None:
        done = {task.id for task in self._listed() if task.done}
        self._guard.commit_left_over(done)

    def _run_git(self, argv: Sequence[str], stdin: bytes) -> str:
        """Runs git as a check is run, so that nothing which a hook starts stays; why it failed, or nothing."""
        run = self._run
        output = run.state.record(run.id, run.number)
        given = output.with_suffix(".names")
        given.write_bytes(stdin)
        env = {**run.env, "GIT_EDITOR": "true", "GIT_TERMINAL_PROMPT": "0"}
        both = ["sh", "-c", 'exec "$@" 2>&1', "sh", *argv]
        run.does("committing")
        job = Job(both, env, output, prompt=given)
        ended = run_program(run, "the commit", job, _HOOKS_S)
        for path in (given, output, job.errors):
            path.unlink(missing_ok=True)  # what it printed stands in the reason where it failed
        if ended is None:
            return "git was interrupted"
        return f"git {ended.failed}\n{progress.harmless_output(ended.output)}".rstrip() if ended.failed else ""
