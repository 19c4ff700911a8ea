"""The loop's world for real: the progress file, the agent, git, the screen and the channels."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import journal, progress
from ralph.agent import command as agent
from ralph.agent.stream import Event, Stream, drop_parts
from ralph.agent.turn import Commits, Outcome, Turn
from ralph.changes import Changes
from ralph.channels import Heartbeat, Outbox, notices
from ralph.clock import Pace
from ralph.errors import RalphError
from ralph.journal import Journal
from ralph.judge import Iteration, Judgement, Trespass, Verification, over_budget
from ralph.process import Files, Job, Keeper, signals
from ralph.progress import Progress
from ralph.progress.file import ProgressFile
from ralph.prompt import Prompt, Value
from ralph.screen.screen import Screen
from ralph.screen.statusline import Status
from ralph.screen.view import View, ending
from ralph.start import Start
from ralph.state import TRANSCRIPTS_BYTES, State
from ralph.tries import Tries
from ralph.verdict import Reason, Stop
from ralph.verify import CommandRun, run_command, shell, verification
from ralph.waiting import Wait
from ralph.words import counted, duration, moment

if TYPE_CHECKING:
    from ralph.guard import Guard

_LOOK_UP_S = 2.0
"""Seconds between looks at the progress file during a wait: somebody may have written RALPH_STOP."""
_BEAT_S = 300.0
_VERIFYING = "the verify command"
_LATER_S = 3600.0
"""A limit that ends so much later than somebody was told deserves a second notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a run has to do; nothing of it changes on the way."""

    start: Start
    prompt: Prompt
    env: Mapping[str, str]
    run_id: str
    pace: Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Who hears of a run: the person at the screen, those who are away, a monitor, and the journal."""

    screen: Screen
    outbox: Outbox
    heartbeat: Heartbeat
    journal: Journal


class RealWorld:
    """Does what the loop needs done, and keeps the sums of the run."""

    def __init__(self, job: Work, file: ProgressFile, state: State, told: Told, keeper: Keeper) -> None:
        self._job, self._file, self._state, self._keeper = job, file, state, keeper
        self._clock = job.pace.clock
        self._screen, self._outbox, self._journal = told.screen, told.outbox, told.journal
        self._heartbeat = told.heartbeat
        self._settings = job.start.settings
        self._view = View(
            told.screen.agent,
            lambda: told.screen.width,
            pays=agent.is_claude(self._settings.agent) and not job.start.rehearsal,
            detail=told.screen.detail,
            breaks_silence=told.screen.width is not None and not told.screen.is_live,
        )
        self._view.aloud = told.screen.say
        self._status = Status(self._view, self._clock)
        told.screen.status = self._status.line
        self._windows: dict[str, int] = {}
        self._top = Path.cwd()
        self._changes = Changes(self._top, job.start.own)
        self._guard = self._guarded()
        self._tries = Tries(self._settings.history, state)
        self._began = job.pace.clock.running()
        self._said: set[str] = set()
        self._text_before = b""
        self._verified = False
        self._unrotated = 0
        self._waited_s = 0.0
        self._files: Files | None = None
        self._waited_until: float | None = None
        self.run = notices.Run(
            plan=job.start.name,
            mode=job.start.mode,
            repo=self._top.name,
            progress_file=file.path.name,
            once=self._settings.once,
            max_iterations=self._settings.max_iterations,
            earlier=journal.count(state),
        )

    def interrupted(self) -> Stop | None:
        """Whether a signal came."""
        number = signals.interrupted()
        return None if number is None else Stop(Reason.INTERRUPTED, signals.name(number))

    def now(self) -> float:
        """The time since 1970, in seconds."""
        return self._clock.now()

    def elapsed_s(self) -> float:
        """How long this start has been going on."""
        return self._clock.running() - self._began

    def read(self) -> Progress:
        """The progress file, with a word about what in it deserves one."""
        now = self._file.read()
        for what, line in notices.oddities(self._file.path.name, now).items():
            self._say_once(what, line)
        return now

    def _say_once(self, what: str, line: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._complain(line)

    def _complain(self, line: str) -> None:
        self._screen.complain(f"ralph: {line}")

    def iterate(self, number: int, before: Progress, budget_usd: float | None) -> Iteration:
        """One turn of the agent, with everything it started ended again, and what it changed."""
        self._check_place()
        self._rotate()
        values: dict[str, Value] = {**self._job.start.values, **self._of_task()}
        if self.run.earlier:  # who is told "17 of at most 5" would think that it is over
            number, values["MAX_ITERATIONS"] = self.run.earlier + number, ""
        prompt = self._job.prompt.render({**values, "ITERATION": number})
        self._files = self._state.transcripts(self._job.run_id, number, prompt)
        self._begin(number, before, self._files.output)
        self._view.told(prompt)
        if self._guard:
            self._guard.begin()
        self._tries.begin()
        before = self._file.last  # a strict one was edited since
        turn = self._turn(self._files, budget_usd)
        strayed = self._guard.strayed() if self._guard else ""
        if not strayed:
            self._remove_orphaned_locks("the agent")
        undone = self._undo()
        if strayed:  # no git may run any more
            since_s = self.elapsed_s()
            return Iteration(
                number=number,
                before=before,
                after=self.read(),
                turn=turn,
                commits=Commits(),
                ended_s=since_s,
                task=self.run.task,
                tampered=undone,
                strayed=strayed,
            )
        trespass = self._guard.settle(f"{self._job.run_id}-{number}", self.run.task) if self._guard else Trespass()
        after = self.read()
        if after.verified:  # that word is ralph's alone, also where nothing is verified today
            after = self._file.edit(progress.without_verified)
        self._status.knows(self.run, after)
        commits, changed = self._changes.look()
        return Iteration(
            number=number,
            before=before,
            after=after,
            turn=turn,
            commits=commits,
            changed=changed,
            ended_s=self.elapsed_s(),
            task=self.run.task,
            tampered=(*undone, *trespass.tampered),
            outside=trespass.outside,
        )

    def tidy(self) -> Progress:
        """The progress file as it is: the agent's list is its own."""
        return self.read()

    def choose(self) -> Stop | None:
        """Nothing: the agent chooses."""
        return None

    def dispose(self, iteration: Iteration, judged: Judgement) -> tuple[Iteration, Judgement]:
        """Nothing: the agent ticks and commits."""
        return iteration, judged

    def planned_badly(self) -> str:
        """What is wrong with the list of tasks, where it was planned for --strict; ids are given now."""
        if not self._settings.strict:
            return ""
        from ralph import strict  # noqa: PLC0415 - only --strict gets here

        ticked = self._file.last.ticked
        now = self._file.edit(lambda text: strict.planned(self._text_before, text))
        if ticked > now.ticked:
            self._complain(f"planning ticks nothing: {counted(ticked - now.ticked, 'task')} unticked")
        try:
            strict.check(self._file.text, self._file.path.name, self._settings)
        except RalphError as error:
            return error.message
        return ""

    def _of_task(self) -> dict[str, Value]:
        """What the prompt says of the task that was chosen."""
        return {}

    def _show(self, event: Event) -> None:
        """An event of the agent's stream."""
        self._view.show(event)

    def _quiet(self) -> None:
        """Nothing came for a moment."""
        self._view.quiet()

    def _undo(self) -> tuple[str, ...]:
        """What the agent did to the progress file that is undone."""
        return ()

    def _guarded(self) -> "Guard | None":
        """Who watches over the working tree, where somebody shall."""
        if not (self._job.start.strict or self._settings.only):
            return None
        from ralph.guard import Guard, Rules  # noqa: PLC0415 - 10 ms that only --strict and --only pay

        rules = Rules(
            only=self._settings.only,
            strict=self._job.start.strict,
            commits=self._settings.auto_commit,
            run=self._job.run_id,
        )
        return Guard(self._top, self._state, self._job.start.own, rules, self._complain)

    def _rotate(self) -> None:
        """Now and then: looking through the transcripts takes longer the more there are."""
        self._unrotated += self._files.size() if self._files else 0
        if self._unrotated > TRANSCRIPTS_BYTES // 10:
            self._unrotated = 0
            self._state.rotate()

    def _remove_orphaned_locks(self, of: str) -> None:
        for lock in self._changes.remove_orphaned_locks():
            self._complain(f"removed {lock}, left behind by {of}")

    def _begin(self, number: int, before: Progress, record: Path) -> None:
        self._text_before = self._file.text
        self._state.begin(self._job.run_id, self._job.start.mode, number, record, self._text_before)
        self._changes.begin(anew=self._settings.once or self._verified)
        self._verified = False
        if self.run.began:
            self._screen.remark("")
        else:
            self._outbox.send(notices.started(self.run))
        self.run = replace(self.run, began=True, iterations=number - self.run.earlier)
        self._screen.remark(f"ralph: {notices.heading(self.run, before)}")
        self._stream = Stream(
            self._show, self._view.tell, windows=self._windows, max_context=self._settings.max_context
        )
        self._view.begin(self._stream)
        self._status.iterates(self.run, before)

    def _check_place(self) -> None:
        """Raises RalphError before money is spent on an iteration that cannot come to anything."""
        plan = self._job.start.plan
        if not self._top.is_dir() or not self._top.samefile("."):
            raise RalphError(f"{self._top}: the working directory is gone", 1)
        if not plan.is_file():
            raise RalphError(f"{plan}: the plan is gone", 1)
        self._state.check_room()
        self._file.check_writable()

    def _turn(self, files: Files, budget_usd: float | None) -> Turn:
        settings, most_s = self._settings, self._settings.max_time
        argv = agent.argv(settings, self._job.start.agent_arguments, budget_usd)
        bounds = agent.Bounds(
            silence_s=agent.silence_s(settings, self._job.env),
            whole_s=settings.iteration_timeout,
            output_bytes=self._job.pace.transcript_bytes,
            out_of_time=lambda: most_s is not None and self.elapsed_s() >= most_s,
        )
        try:
            job = Job(argv=argv, env=self._job.env, files=files)
            return agent.turn(
                job, self._keeper, self._stream, bounds, now=self.now, quiet=self._quiet, ending=self._view.ending
            )
        finally:
            if settings.max_context is not None:
                drop_parts(files.output)

    def verify(self) -> Verification | None:
        """Runs the verify command."""
        command = self._settings.verify or ""
        self._changes.begin(anew=False)
        self._verified = True
        self._screen.remark(f"ralph: verifying: {command}")
        files = self._state.verification(self._job.run_id, self.run.number)
        self._status.does(f"verifying: {command}")
        job = Job(argv=shell(command), env=self._job.env, files=files)
        run = self._run(_VERIFYING, job, self._settings.verify_timeout)
        if run is None:
            return None
        verified = verification(command, run)
        self._write_down(journal.of_verification(self._identity, command, verified, files))
        if not verified.failed:
            self._screen.remark(f"ralph: verified in {duration(verified.took_s)}")
        return verified

    def _run(self, what: str, job: Job, timeout_s: float | None) -> CommandRun | None:
        """How a program of the project ended; None when a signal ended it. What it left is ended, removed and said."""

        def tell() -> None:
            self._status.does(f"ending {what}")
            self._screen.say(ending(what))

        try:
            run = run_command(what, job, self._keeper, timeout_s, ending=tell)
        finally:
            self._remove_orphaned_locks(what)
        for line in run.remarks:
            self._complain(line)
        return None if run.interrupted else run

    def accept_done(self, verified: Verification | None) -> Progress:
        """RALPH_DONE holds: what an earlier refusal left in the file is no longer true."""
        if verified is None:
            return self._file.edit(progress.without_refusal)
        note = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {self._changes.commit()}".rstrip()
        return self._file.edit(lambda text: progress.with_verified(progress.without_refusal(text), note))

    def refuse_done(self, judged: Judgement) -> Progress:
        """Takes RALPH_DONE back, with the reasons and the missing tasks for the next iteration to read."""
        for reason in judged.refused:
            self._complain(f"RALPH_DONE refused: {reason}")
        output = judged.verified.output if judged.verified else ""

        def take_back(text: bytes) -> bytes:
            text = progress.with_tasks(progress.without_done(text), [task.raw for task in judged.missing])
            return progress.with_refusal(text, judged.refused, output)

        return self._file.edit(take_back)

    def stay_in_progress(self) -> Progress:
        """IN_PROGRESS, whatever the agent left as the status."""
        if self._file.last.done:
            self._complain("RALPH_DONE put back to IN_PROGRESS, since work begins now")
        return self._file.edit(progress.in_progress)

    def record(self, iteration: Iteration, judged: Judgement) -> None:
        """The summary line, what deserves a line of its own, the journal; a monitor hears that ralph is alive."""
        waited_s, self._waited_s = self.run.waited_s - self._waited_s, self.run.waited_s
        record = journal.of_iteration(self._identity, iteration, judged, waited_s=waited_s, files=self._files)
        if not judged.again:
            self._state.note("iterations", str(iteration.number))
        self._write_down(record)
        if not judged.again:
            self._add_to_history(journal.of_try(record))
        self.run = notices.with_iteration(self.run, iteration, judged)
        self._status.knows(self.run, iteration.after)
        for line in self._remarks(iteration, judged):
            self._complain(line)
        if not judged.again:
            self._screen.say(self.run.summaries[-1])
            self._waited_until = None
        spent = (iteration.before.spent_usd or 0.0) + (iteration.turn.cost_usd or 0.0)
        if self._settings.max_total_cost is not None and spent:  # also without a cost: the agent may have changed it
            self._file.edit(lambda text: progress.with_spent(text, spent))
        self._state.end()
        self._heartbeat.beat()

    @property
    def _identity(self) -> journal.Identity:
        return journal.Identity(
            run=self._job.run_id,
            mode=self.run.mode,
            iteration=self.run.number,
            now=self.now(),
            agent=Path(self._settings.agent[0]).name,
        )

    def _write_down(self, record: Mapping[str, object]) -> None:
        try:
            self._journal.append(record)
        except OSError as error:
            self._say_once("journal", f"{self._state.journal}: cannot be written: {error.strerror}")

    def _add_to_history(self, record: Mapping[str, object]) -> None:
        try:
            self._tries.add(record)
        except OSError as error:
            self._say_once("history", f"{self._tries.path}: cannot be written: {error.strerror}")

    def _remarks(self, iteration: Iteration, judged: Judgement) -> Iterator[str]:
        turn = iteration.turn
        for command in turn.left_over:
            yield f"ended what the agent left running: {command}"
        if judged.missing and not judged.refused:
            kept = self._state.keep(self._file.path.name, self._text_before)
            count = counted(len(judged.missing), "open task")
            yield f"{count} gone from the list without being ticked; the file before that is {kept}"
        if self._settings.once and turn.outcome is Outcome.OK and not iteration.after.tasks:
            yield f"there is no task in {self._file.path.name}; see what the agent wrote there"
        if expensive := over_budget(iteration, self._job.start.limits):
            yield expensive
        if (judged.failed or turn.outcome is Outcome.HOPELESS) and self._files and not self._job.start.rehearsal:
            yield f"the record of this iteration is {self._files.output}"

    def notice_progress(self) -> None:
        """Tells whoever is away."""
        self._outbox.send(notices.progressed(self.run))

    def wait(self, wait: Wait, over: Callable[[], bool]) -> None:
        """A long pause, with one line, and for a limit one notice, unless it lasts longer than the last one said."""
        self._screen.say(f"ralph: {wait}: {wait.turn.outcome.value}: {wait.turn.why}")
        self._write_down(
            journal.of_wait(replace(self._identity, iteration=self.run.earlier + self.run.iterations + 1), wait)
        )
        known = self._waited_until
        if wait.is_for_limit and (known is None or (wait.turn.resets_at and wait.until > known + _LATER_S)):
            self._waited_until = wait.until
            self._outbox.send(notices.waiting(self.run, wait))
        began = self._clock.running()
        self._status.does(f"until {moment(wait.until, self.now())}: {wait.turn.outcome.value}", wait.seconds)
        self._pause(wait.seconds, over)
        waited_s = self.run.waited_s + self._clock.running() - began
        self.run = replace(self.run, waits=self.run.waits + 1, waited_s=waited_s)

    def pause(self, seconds: float, over: Callable[[], bool]) -> None:
        """The time between two iterations."""
        self._status.does("next iteration", seconds)
        self._pause(seconds, over)

    def _pause(self, seconds: float, over: Callable[[], bool]) -> None:
        """Waits by two clocks: one may be set by somebody, the other may not know what the first one does."""
        began = beat = running = self._clock.running()
        until = self._clock.now() + seconds
        while not signals.interrupted() and self._clock.now() < until and running - began < seconds:
            if running > began and over():
                return
            if running - beat >= _BEAT_S:
                beat = running
                self._heartbeat.beat()
            self._clock.sleep(min(_LOOK_UP_S, seconds - (running - began), until - self._clock.now()))
            running = self._clock.running()

    def block(self, stop: Stop) -> None:
        """Leaves the breaker open in the file."""
        self._file.edit(lambda text: progress.blocked(text, stop.why))
        self._state.open_breaker(stop.reason)

    def unblock(self) -> None:
        """Closes the breaker for good."""
        self._state.close_breaker()

    def close(self, stop: Stop) -> None:
        """The last line of the journal."""
        if self._guard:
            self._guard.close()
        self._status.does("sending the last notice")
        self.run = replace(self.run, took_s=self.elapsed_s())
        if self.run.began:
            self._write_down(journal.of_run(self._identity, self.run, stop, self._file.last))
