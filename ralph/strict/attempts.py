"""Strict: the agent proposes, ralph disposes. One task an iteration, which ralph picks, checks, ticks and commits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ralph import criteria, progress, tasklist, tasks
from ralph.agent.turn import Outcome
from ralph.claims import accept, verify
from ralph.criteria import Criterion
from ralph.judge import Iteration
from ralph.run import Run
from ralph.strict.guard import Guard
from ralph.strict.handover import changed_since, note_left
from ralph.strict.roles import roles_of
from ralph.strict.signal import Finding, heard, message, wished
from ralph.tasks import Task, edits
from ralph.tasks.mending import mend
from ralph.verdict import Reason, Stop
from ralph.verify import CommandRun, run_shell
from ralph.words import named


class Strict:
    """What ralph does around the agent's turns, whose word counts for nothing that can be checked."""

    _task: Task
    """The one that is being tried."""

    def __init__(self, run: Run, guard: Guard) -> None:
        self._run = run
        self._guard = guard
        self._file = run.file
        self._roles = roles_of(run.start)
        self._role = ""
        """The one that works on the task, where there are several."""
        self._token = tasklist.token()

    def tidy(self) -> None:
        """The file has an id for each task; what is done in all its parts is ticked, and none is in progress."""
        if self._role:
            self._run.enter("build")
            self._role = ""
        self._file.edit(edits.tidied)

    def choose(self) -> Stop | None:
        """The task of the next iteration is chosen and marked; a Stop when none can be begun."""
        run = self._run
        alone = run.settings.task
        listed = tasklist.check(self._file.text, self._file.path.name, run.settings)
        if (task := tasks.select(listed, alone)) is None:
            return Stop(Reason.ONCE) if self._is_done(alone) else tasklist.nothing_to_begin(listed, alone)
        self._task = task
        run.task = task.id
        if self._roles:
            self._role = self._roles.of(task)
            run.enter(self._role, as_role=True)
        self._mark("~")
        run.values = tasklist.values(task, self._token, run.state)
        if self._roles:
            run.values["TEST_CHANGES"] = changed_since(run, task.id)
        return None

    def _is_done(self, task: str | None) -> bool:
        there = tasks.find(tasks.read(self._file.text), task)
        return there is not None and there.done

    def dispose(self, iteration: Iteration) -> Iteration:
        """Checks what the agent proposes, and ticks and commits it or writes down why not."""
        run = self._run
        outcome = iteration.turn.outcome
        goes_on = outcome is Outcome.CONTEXT_FULL and not iteration.failed and run.settings.on_failure == "keep"
        if iteration.again or iteration.ended or outcome is Outcome.FAILED or goes_on:
            iteration = self._put_down(iteration)
        else:
            iteration = self._judged(iteration)
        if (mode := wished(iteration.turn.said, self._token)) in run.settings.then:
            self._write(lambda text: progress.with_mode(text, mode))
        elif mode:
            run.complain(f"the wish for the mode {mode} is ignored: {run.start.template} names it not in RALPH_THEN")
        if iteration.ended is None and (why := self._guard.blocked):
            iteration = replace(iteration, ended=Stop(Reason.TAMPERED, why))
        run.changes.disturbed = False  # the guard looks anew, and faster
        if iteration.passed and not run.read().open:
            accept(run)
        elif iteration.ended is None and self._is_done(run.settings.task):
            iteration = replace(iteration, ended=Stop(Reason.ONCE))  # whatever limit is reached with it
        return replace(iteration, after=run.read(), commits=self._guard.committed)

    def _judged(self, iteration: Iteration) -> Iteration:
        """Checks the try, then ticks and commits the task, hands it to the next role, or writes down why not."""
        run = self._run
        task = self._task
        roles = self._roles
        found = self._finding(iteration)
        self._guard.settle_programs("while a task is checked")
        if found == Finding() and not self._guard.blocked and (locked := self._guard.wait_for_index()):
            return self._put_down(replace(iteration, failed=locked))
        if found == Finding() and not self._guard.blocked:
            if roles and (role := roles.after(self._role)):
                if role == roles.checked:
                    note_left(run, task.id, tasklist.touched(run.state, task.id))
                self._mark(" ", "role", role)
            elif why := self._pass(iteration):
                found = Finding(failed=why, red=True)
        stop = run.interrupted()
        if self._guard.blocked or (found.failed and stop):
            return self._put_down(replace(iteration, ended=stop))
        if found == Finding():
            return replace(iteration, moved=True, passed=True)
        self._let_go()
        if found.blocked:
            self._mark("!", "blocked", found.blocked)
            return replace(iteration, failed=f"{task.id} is blocked: {found.blocked}", tried=True)
        most = run.settings.max_tries
        why = found.failed
        if roles and roles.is_to_blame(self._role, found):
            self._mark(" ", "role", f"{self._role}: {why}")
            return replace(iteration, failed=f"{task.id}, {self._role}: {why}")
        if roles:
            self._mark(" ", "role", roles.after_failure(self._role, found))
        self._write(lambda text: edits.with_failure(text, task.id, why, most))
        said = f"{task.id}, try {task.tries + 1}: {why}"
        return replace(iteration, failed=said, tried=task.has_more_tries(most))

    def _finding(self, iteration: Iteration) -> Finding:
        """What came of the try: what the agent did, then the task's criteria and verify."""
        run = self._run
        task = self._task
        roles = self._roles
        turn = iteration.turn
        if iteration.failed:
            return Finding(failed=iteration.failed)
        if outside := iteration.watched.outside:
            return Finding(failed=f"{named(outside)} changed, which is not allowed here: put back")
        if turn.outcome is not Outcome.OK:
            return Finding(failed=turn.why)
        claim = heard(turn.said, turn.proposal or {}, token=self._token, task_id=task.id)
        if claim != Finding() or (roles and self._role not in (roles.checked, roles.fix)):
            return claim
        wanted = tasklist.wanted(task.chain)
        if not self._guard.has_changes(task.id) and not any(one.said for one in wanted):
            if not run.settings.verify and iteration.before.size == iteration.after.size:
                return Finding(failed="it changed nothing, and nothing checks it: give it a `verify:` line")
            run.screen.remark(f"ralph: {task.id} changed no file, and no criterion of its own says that it is done")
        for ended in self._checks(wanted):
            if ended is None or run.interrupted():
                return Finding(failed="a signal came while it was checked")
            if ended.failed:
                return Finding(failed=ended.why, red=True)
        return Finding()

    def _checks(self, wanted: Sequence[Criterion]) -> Iterator[CommandRun | None]:
        """Checks it by these criteria and then by verify: what came of each, None when a signal came."""
        run = self._run
        for one in () if run.start.rehearsal else criteria.in_one_browser(wanted):  # no stand-in can meet them
            ended = criteria.check(
                one,
                base_url=run.settings.base_url or "",
                run=lambda command: run_shell(run, "checking", "the check", command),
                lacks=lambda path, holds: self._guard.lacked_by_commit(self._task.id, path, holds),
            )
            if ended and (ended.failed or not one.said):
                run.screen.remark(f"ralph: {ended.why or ended.what}")
            yield ended
        if run.settings.verify:
            yield verify(run)

    def _pass(self, iteration: Iteration) -> str:
        """The task is ticked, then committed, so that the commit has the tick; why it could not be, or nothing."""
        task = self._task
        before = self._file.text
        self._mark("x")
        said = message(task.id, task.text, iteration.turn.said, self._role)
        failed = self._guard.commit(task.id, said)
        self._guard.settle_programs("while a task is committed")
        if failed:
            self._write(lambda text: mend(before, text).text)
        else:
            note_left(self._run, task.id, ())
        return failed

    def _put_down(self, iteration: Iteration) -> Iteration:
        if iteration.ended is None:
            self._let_go()
        self._write(edits.put_down)
        return iteration

    def _let_go(self) -> None:
        """What the try left in the repository is there for the next one, or thrown away."""
        if self._run.settings.on_failure == "restore":
            self._guard.restore(self._task.id)

    def _mark(self, mark: str, note: str = "", why: str = "") -> None:
        """Marks the task; where it is done, also those that it completes."""
        ids = [one.id for one in self._task.chain] if mark == "x" else [self._task.id]
        self._write(lambda text: edits.marked(text, mark, *ids, note=note, why=why))

    def _write(self, change: Callable[[bytes], bytes]) -> None:
        """An edit of ralph's own, noted first: what was not, a start after a death takes for the agent's."""
        self._run.state.now_says(change(self._file.text))
        self._file.edit(change)
        self._guard.text = self._file.text
